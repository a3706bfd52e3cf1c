"""How tables of a TOML file are read: which keys they may have, and which values are accepted.

The keys of a table are the fields of a dataclass whose types say how their values are read::

    @dataclass(frozen=True)
    class ApiLimits:
        max_streams: Count = 16
        hosts: Hosts = ()

There are three kinds of types. Plain data is converted by msgspec within constraints, and described
in words; other values have a converter, which gets the name of the value for its errors; and lists
have items of either kind::

    Count = Annotated[int, Meta(ge=1, description="a whole number, at least 1")]
    Hosts = Annotated[tuple[str, ...], read_hosts]
    Ids = Annotated[tuple[Name, ...], Meta(description="a list of ids")]

Every value is converted on its own, since msgspec stops at the first error of a whole table and
says little about it. So all problems of a file are reported at once, each in a sentence with table,
key, value, and what is accepted: ``[api_limits] max_streams is 0; it must be a whole number, at
least 1``.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from ipaddress import IPv6Address
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.fleet.address import SERVICE, UNIX, Address, parse_address
from coopbandits.fleet.identity.names import ID_RULE, LABEL, NODE_ID
from coopbandits.fleet.identity.operators import parse_key


class Table(NamedTuple):
    """The keys that a table may have: their types, and those that are required."""

    types: Mapping[str, Any]
    required: Collection[str]


def table_of(kind: type) -> Table:
    """Return the table whose keys are the fields of a dataclass that say how they are read."""
    types = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        for each in (hint, *get_args(hint)):  # of `Type | None` the first part
            if get_origin(each) is Annotated:
                types[name] = each
                break
    return Table(types, [f.name for f in fields(kind) if f.name in types and f.default is MISSING])


def read_value(what: str, value: object, kind: Any) -> Any:
    """Convert a value to a type as in the module's documentation; `what` names it in the error."""
    plain, *metadata = get_args(kind)
    for each in metadata:
        if not isinstance(each, Meta):
            return each(what, value)
    if isinstance(value, list) and (many := get_origin(plain)) in (tuple, frozenset):
        limit, item = metadata[-1].max_length, get_args(plain)[0]
        if limit is None or len(value) <= limit:
            return many(read_value(f"{what}[{at}]", each, item) for at, each in enumerate(value))
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        pass
    hint = ""
    if plain is int and isinstance(value, float) and value.is_integer():
        with suppress(msgspec.ValidationError):
            hint = f": write {msgspec.convert(int(value), kind)}"
    raise InputError(f"{what} is {value!r}; it must be {metadata[-1].description}{hint}")


class TableReader:
    """Reads the tables of a file key by key; collects all problems.

    Parameters
    ----------
    data : mapping
        The tables by name, as parsed.
    known : collection of str
        Names of the tables that a file may have.
    folder : Path
        Where relative paths start.
    """

    def __init__(
        self, data: Mapping[str, Any], known: Collection[str], folder: Path = Path()
    ) -> None:
        self.data, self.folder = data, folder
        self.problems = [str(unknown_name("table", key, known)) for key in data if key not in known]

    def read(
        self, where: str, given: Any, table: Table, moved: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the valid values of a table, by key; `moved` has sentences about other keys."""
        if not isinstance(given, dict):
            self.problems.append(f"{where} is {given!r}; it must be a table")
            return {}
        for key in given:
            if key not in table.types:
                unknown = str(unknown_name(f"key of {where}", key, table.types))
                self.problems.append((moved or {}).get(key, unknown))
        found = {}
        for key, kind in table.types.items():
            if key not in given:
                if key in table.required:
                    self.problems.append(f"{where} has no {key}; add it")
                continue
            try:
                value = read_value(f"{where} {key}", given[key], kind)
            except InputError as error:
                self.problems.append(str(error))
            else:
                found[key] = self.folder / value if isinstance(value, Path) else value
        return found

    def table(
        self, name: str, table: Table, moved: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the valid values of the table ``[name]``, by key; none if it is missing."""
        return self.read(f"[{name}]", self.data.get(name, {}), table, moved)

    def sections(self, name: str) -> dict[str, Any]:
        """Return the tables ``[name.KEY]``, unread, by KEY."""
        given = self.data.get(name, {})
        if isinstance(given, dict):
            return given
        self.problems.append(f"{name} is {given!r}; write [{name}.NAME] above each of them")
        return {}

    def addresses(self, name: str, noun: str) -> dict[str, Address]:
        """Return the addresses in tables ``[[name]]``, by id."""
        given = self.data.get(name, [])
        if not isinstance(given, list):
            self.problems.append(f"{name} is {given!r}; write [[{name}]] above each of them")
            return {}
        found: dict[str, Address] = {}
        for entry in given:
            values = self.read(f"[[{name}]]", entry, ADDRESS)
            if values.get("id") in found:
                self.problems.append(f"{noun} {values['id']} is listed twice; list it once")
            elif len(values) == len(ADDRESS.types):
                found[values["id"]] = values["address"]
        return found


# Numbers and flags

MIN_RATE = 1e-9
"""The lowest rate, once in some thirty years; of much lower ones the period overflows."""

Flag = Annotated[bool, Meta(description="true or false")]

Count = Annotated[int, Meta(ge=1, description="a whole number, at least 1")]

CountFromZero = Annotated[int, Meta(ge=0, description="a whole number, at least 0")]

# The largest float as upper bound rejects inf: msgspec has no strict bound at infinity.
Positive = Annotated[
    float, Meta(gt=0, le=sys.float_info.max, description="a positive finite number")
]

NotNegative = Annotated[
    float, Meta(ge=0, le=sys.float_info.max, description="a finite number from 0")
]

Rate = Annotated[
    float,
    Meta(
        ge=MIN_RATE,
        le=sys.float_info.max,
        description=f"a positive finite number, at least {MIN_RATE:g}",
    ),
]

Share = Annotated[
    float, Meta(ge=0, lt=1, description="a share of all choices from 0 to below 1, such as 0.05")
]


def is_number(value: object) -> bool:
    """Whether a value is a number; true and false are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


# Times

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

LONGEST = 100 * 365 * UNITS["d"]

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)", re.ASCII)

LAST_SECOND = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
"""The last second that is a date in UTC; other time zones have later ones."""


def read_duration(what: str, value: object) -> float:
    """Read a number and a unit, to seconds."""
    found = DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds = float(found[1]) * UNITS[found[2]] if found else math.nan
    if not 0.0 < seconds <= LONGEST:
        raise InputError(
            f"{what} is {value!r}; it must be a number and a unit in quotes, such as '90s', "
            "'30min', '2h' or '7d', up to 100 years"
        )
    return seconds


def show_duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it is at least one.

    Examples
    --------
    >>> show_duration(5400.0)
    '1.5 h'
    """
    fitting = [unit for unit, size in UNITS.items() if seconds >= size]
    unit = fitting[-1] if fitting else "s"
    return f"{seconds / UNITS[unit]:.3g} {unit}"


def read_epoch(what: str, value: object) -> int:
    """Read a date and time with an offset, to seconds since 1970."""
    if (
        not isinstance(value, datetime)
        or value.utcoffset() is None
        or value.microsecond
        or not 0 <= value.timestamp() <= LAST_SECOND
    ):
        shown = value.isoformat() if isinstance(value, datetime) else repr(value)
        raise InputError(
            f"{what} is {shown}; it must be a date and time with an offset, in whole seconds "
            "since 1970, such as 2026-01-31T12:00:00Z"
        )
    return int(value.timestamp())


Duration = Annotated[float, read_duration]

Epoch = Annotated[int, read_epoch]

# Names

NodeId = Annotated[str, Meta(pattern=rf"^{NODE_ID.pattern}\Z", description=ID_RULE)]

_BANDIT_RULE = "1 to 63 characters a-z, 0-9 and '-', the first and the last not '-'"

BanditName = Annotated[
    str,
    Meta(
        pattern=rf"^{LABEL.pattern}\Z",
        description=f"a name such as 'checkout-button': {_BANDIT_RULE}",
    ),
]


def read_name(what: str, value: object) -> str:
    """Read a free-form name."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"{what} is {value!r}; it must be a name in quotes, on one line")
    if len(value) > 100:
        raise InputError(f"{what} has {len(value)} characters; it may have 100 at most")
    return value


Name = Annotated[str, read_name]


def one_of(*words: str) -> Callable[[str, object], str]:
    """Return a converter that accepts some words."""

    def read(what: str, value: object) -> str:
        if value not in words:
            raise unknown_name(what, str(value), words)
        return str(value)

    return read


LogLevel = Annotated[str, one_of("debug", "info", "warning", "error")]

LogFormat = Annotated[str, one_of("text", "json")]

Durability = Annotated[str, one_of("process", "power")]

# Places

MAX_SEEDS = 32

MAX_DNS_NAME = 253

HOST = re.compile(r"[A-Za-z0-9._-]+")

ORIGIN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s]+")


def read_path(what: str, value: object) -> Path:
    """Read a path; the caller resolves a relative one against the folder of the file."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise InputError(f"{what} is {value!r}; it must be a path in quotes")
    return Path(value)


def read_listen_address(what: str, value: object) -> Address:
    """Read an address to listen on; port 0 lets the system choose."""
    try:
        return parse_address(value if isinstance(value, str) else "")
    except InputError:
        raise InputError(
            f"{what} is {value!r}; it must be host:port, such as '10.0.0.1:7400' or '[::1]:7400', "
            "with a port up to 65535"
        ) from None


def read_address(what: str, value: object) -> Address:
    """Read an address to dial."""
    found = read_listen_address(what, value)
    if found.port == 0:
        raise InputError(f"{what} is {value!r}; it must have a port from 1 to 65535")
    return found


def read_api_address(what: str, value: object) -> Address | Path:
    """Read the address of the API: host:port, or unix:path."""
    if isinstance(value, str) and value.startswith(UNIX):
        return read_path(what, value.removeprefix(UNIX))
    return read_listen_address(what, value)


def read_seed(what: str, value: object) -> Address:
    """Read the address of another agent, or the name of a service with SRV records."""
    if not isinstance(value, str) or not value.startswith("_"):
        return read_address(what, value)
    if SERVICE.fullmatch(value) is None or len(value) > MAX_DNS_NAME:
        raise InputError(
            f"{what} is {value!r}; it must be the name of a service with SRV records, such as "
            "'_coopbandits._tcp.example.org', without a port"
        )
    return Address(value, 0)


def read_hosts(what: str, value: object) -> tuple[str, ...]:
    """Read names or addresses of hosts, without ports."""
    wanted = "names or addresses without a port: ['shop-1.example.net']"
    return _read_texts(what, value, lambda text: HOST.fullmatch(text) or _is_ipv6(text), wanted)


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def read_origins(what: str, value: object) -> tuple[str, ...]:
    """Read origins of web pages."""
    wanted = "origins of web pages: ['https://shop.example.net']"
    return _read_texts(what, value, ORIGIN.fullmatch, wanted)


def _read_texts(
    what: str, value: object, fits: Callable[[str], object], wanted: str
) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and fits(one) for one in value):
        raise InputError(f"{what} is {value!r}; it must be a list of {wanted}")
    return tuple(text.lower() for text in value)


FilePath = Annotated[Path, read_path]

ListenAddress = Annotated[Address, read_listen_address]

DialAddress = Annotated[Address, read_address]

ApiAddress = Annotated[Address | Path, read_api_address]

Seeds = Annotated[
    tuple[Annotated[Address, read_seed], ...],
    Meta(
        max_length=MAX_SEEDS,
        description=f"a list of up to {MAX_SEEDS} addresses, such as ['shop-1.example.net:7400']",
    ),
]

Hosts = Annotated[tuple[str, ...], read_hosts]

Origins = Annotated[tuple[str, ...], read_origins]

Auto = Annotated[
    Literal["auto"],
    Meta(description="'auto'; to list neighbours, leave it out and write [[neighbors]] above each"),
]

ADDRESS = Table({"id": NodeId, "address": DialAddress}, ("id", "address"))
"""The keys of [[neighbors]] and [[members]]."""

# Keys

MAX_OPERATORS = 8


def read_operators(what: str, value: object) -> tuple[bytes, ...]:
    """Read public keys of operators."""
    if not isinstance(value, list) or len(value) > MAX_OPERATORS:
        raise InputError(f"{what} is {value!r}; it must be a list of up to {MAX_OPERATORS} keys")
    found = tuple(parse_key(f"{what}[{at}]", key) for at, key in enumerate(value))
    if len(set(found)) < len(found):
        raise InputError(f"{what} has a key twice; list each once")
    return found


Operators = Annotated[tuple[bytes, ...], read_operators]

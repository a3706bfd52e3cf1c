"""Readers of single values: each checks and converts one, or says what is accepted.

A reader takes the name of what it reads (``[node] id``) and the value from the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv6Address
from numbers import Real
from pathlib import Path
from typing import Any

from coopbandits.core.checks import (
    require_count,
    require_flag,
    require_lambda,
    require_number,
    require_positive,
)
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.registry import REGISTRY, parse_policy
from coopbandits.fleet.address import SERVICE, UNIX, Address, parse_address
from coopbandits.fleet.config.eligibility import eligible_names, require_eligible
from coopbandits.fleet.identity.names import NODE_ID
from coopbandits.fleet.identity.operators import parse_key

Reader = Callable[[str, Any], Any]

HOST = re.compile(r"[A-Za-z0-9._-]+")

ORIGIN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s]+")

MAX_OPERATORS = 8

DURABILITIES = ("process", "power")

LOG_LEVELS = ("debug", "info", "warning", "error")

LOG_FORMATS = ("text", "json")

AUTO = "auto"

DEGREES = range(3, 51)

MOST_SEEDS = 32

LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
"""The last second that is a date in UTC; other time zones have later ones."""

SLOWEST = 1e-9
"""The lowest rate, once in some thirty years; of much lower ones the period is no number."""

MOST_CONNECTIONS = 1_000_000
"""About as many files as Linux lets a process open."""


def node_id(what: str, value: Any) -> str:
    """Read an agent's id, which is also the name in its certificate."""
    if not isinstance(value, str) or not NODE_ID.fullmatch(value):
        raise InputError(
            f"{what} is {value!r}; it must be a name such as 'shop-1': 1 to 63 characters a-z, "
            "0-9 and '-', the first and the last no '-'"
        )
    return value


def name(what: str, value: Any) -> str:
    """Read a free-form name."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"{what} is {value!r}; it must be a name in quotes, on one line")
    if len(value) > 100:
        raise InputError(f"{what} has {len(value)} characters; it may have 100 at most")
    return value


def arms(what: str, value: Any) -> tuple[str, ...]:
    """Read the names of the arms."""
    if not isinstance(value, list) or not 2 <= len(value) <= 1000:
        found = f"a list of {len(value)}" if isinstance(value, list) else repr(value)
        raise InputError(f'{what} is {found}; it must be a list of 2 to 1000 names: ["a", "b"]')
    names = [name(f"{what}[{at}]", arm) for at, arm in enumerate(value)]
    for at, arm in enumerate(names):
        if arm in names[:at]:
            raise InputError(f"{what} has {arm!r} twice; give every arm a name of its own")
    return tuple(names)


def epoch(what: str, value: Any) -> int:
    """Read a date and time with an offset, to seconds since 1970."""
    if (
        not isinstance(value, datetime)
        or value.utcoffset() is None
        or value.microsecond
        or not 0 <= value.timestamp() <= LAST
    ):
        shown = value.isoformat() if isinstance(value, datetime) else repr(value)
        raise InputError(
            f"{what} is {shown}; it must be a date and time with an offset, in whole seconds "
            "since 1970, such as 2026-01-31T12:00:00Z"
        )
    return int(value.timestamp())


def policy(what: str, value: Any) -> str:
    """Read the spelling of a policy that can run in a fleet."""
    if not isinstance(value, str):
        raise InputError(f"{what} is {value!r}; it must be a policy in quotes, such as 'flood-ts'")
    if value.strip() not in REGISTRY.names() and not set(value) & set(":*"):
        raise unknown_name("policy of a fleet", value.strip(), eligible_names())
    found = parse_policy(value)
    require_eligible(what, found)
    return found.spelling


def positive(what: str, value: Any) -> float:
    """Read a positive number."""
    require_positive(what, value)
    return float(value)


def rate(what: str, value: Any) -> float:
    """Read how often something happens, per second."""
    accepted = f"a positive finite number, at least {SLOWEST:g}"
    require_number(what, value, accepted, math.nextafter(SLOWEST, 0.0), math.inf)
    return float(value)


def reward_range(what: str, value: Any) -> tuple[float, float]:
    """Read the lowest and the highest reward."""
    if isinstance(value, list) and len(value) == 2 and all(map(is_number, value)):
        low, high = map(float, value)
        if 0.0 < high - low < math.inf:
            return low, high
    raise InputError(
        f"{what} is {value!r}; it must be two finite numbers, the lower one first: [0.0, 1.0]"
    )


def hosts(what: str, value: Any) -> tuple[str, ...]:
    """Read names or addresses of hosts, without ports."""
    wanted = "names or addresses without a port: ['shop-1.example.net']"
    return _texts(what, value, lambda text: HOST.fullmatch(text) or _is_ipv6(text), wanted)


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def origins(what: str, value: Any) -> tuple[str, ...]:
    """Read origins of web pages."""
    wanted = "origins of web pages: ['https://shop.example.net']"
    return _texts(what, value, ORIGIN.fullmatch, wanted)


def _texts(what: str, value: Any, fits: Callable[[str], object], wanted: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and fits(one) for one in value):
        raise InputError(f"{what} is {value!r}; it must be a list of {wanted}")
    return tuple(text.lower() for text in value)


def operators(what: str, value: Any) -> tuple[bytes, ...]:
    """Read public keys of operators."""
    if not isinstance(value, list) or len(value) > MAX_OPERATORS:
        raise InputError(f"{what} is {value!r}; it must be a list of up to {MAX_OPERATORS} keys")
    found = tuple(parse_key(f"{what}[{at}]", key) for at, key in enumerate(value))
    if len(set(found)) < len(found):
        raise InputError(f"{what} has a key twice; list each once")
    return found


def is_number(value: Any) -> bool:
    """Return whether a value is a number; true and false are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def count(what: str, value: Any) -> int:
    """Read a whole number from 1."""
    require_count(what, value)
    return int(value)


def connections(what: str, value: Any) -> int:
    """Read how many connections there may be."""
    found = count(what, value)
    if found > MOST_CONNECTIONS:
        raise InputError(
            f"{what} is {value!r}; it must be a whole number from 1 to {MOST_CONNECTIONS}"
        )
    return found


def count_from_zero(what: str, value: Any) -> int:
    """Read a whole number from 0."""
    require_count(what, value, 0)
    return int(value)


def not_negative(what: str, value: Any) -> float:
    """Read a number from 0."""
    require_number(what, value, "a finite number from 0", -math.ulp(0.0), math.inf)
    return float(value)


def num_agents(what: str, value: Any) -> int | str:
    """Read N, or "estimate"."""
    if value == "estimate":
        return "estimate"
    if isinstance(value, str):
        raise InputError(f"{what} is {value!r}; it must be a whole number or 'estimate'")
    return count(what, value)


def lambda_bound(what: str, value: Any) -> float | str:
    """Read a bound on λ, or "estimate"."""
    if value == "estimate":
        return "estimate"
    if isinstance(value, str):
        raise InputError(f"{what} is {value!r}; it must be a number in [0, 1) or 'estimate'")
    require_lambda(what, value)
    return float(value)


def flag(what: str, value: Any) -> bool:
    """Read true or false."""
    require_flag(what, value)
    return bool(value)


def auto(what: str, value: Any) -> str:
    """Read that an agent finds its neighbours itself."""
    if value != AUTO:
        raise InputError(
            f"{what} is {value!r}; it must be {AUTO!r}; to list neighbours, leave it out and write "
            "[[neighbors]] above each of them"
        )
    return AUTO


def degree(what: str, value: Any) -> int:
    """Read how many neighbours an agent looks for."""
    if not isinstance(value, int) or isinstance(value, bool) or value not in DEGREES:
        raise InputError(
            f"{what} is {value!r}; it must be a whole number from {DEGREES[0]} to {DEGREES[-1]}"
        )
    return value


LONGEST_NAME = 253
"""Characters of the longest name in DNS."""


def seeds(what: str, value: Any) -> tuple[Address, ...]:
    """Read where other agents may be."""
    if not isinstance(value, list) or len(value) > MOST_SEEDS:
        raise InputError(
            f"{what} is {value!r}; it must be a list of up to {MOST_SEEDS} addresses, such as "
            "['shop-1.example.net:7400']"
        )
    return tuple(_seed(f"{what}[{at}]", each) for at, each in enumerate(value))


def _seed(what: str, value: Any) -> Address:
    if not isinstance(value, str) or not value.startswith("_"):
        return address(what, value)
    if SERVICE.fullmatch(value) is None or len(value) > LONGEST_NAME:
        raise InputError(
            f"{what} is {value!r}; the name of a service with SRV records is written "
            "'_coopbandits._tcp.example.org', without a port"
        )
    return Address(value, 0)


def durability(what: str, value: Any) -> str:
    """Read which failures rewards must survive."""
    return _one_of(what, value, DURABILITIES)


def log_level(what: str, value: Any) -> str:
    """Read the least that is logged."""
    return _one_of(what, value, LOG_LEVELS)


def log_format(what: str, value: Any) -> str:
    """Read what a line of the log looks like."""
    return _one_of(what, value, LOG_FORMATS)


def _one_of(what: str, value: Any, words: tuple[str, ...]) -> str:
    if value not in words:
        raise unknown_name(what, str(value), words)
    return str(value)


def path(what: str, value: Any) -> Path:
    """Read a path; the caller resolves a relative one against the file's folder."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise InputError(f"{what} is {value!r}; it must be a path in quotes")
    return Path(value)


def address(what: str, value: Any) -> Address:
    """Read an address to dial."""
    found = listen_address(what, value)
    if found.port == 0:
        raise InputError(f"{what} is {value!r}; it must name the port, from 1 to 65535")
    return found


def listen_address(what: str, value: Any) -> Address:
    """Read an address to listen on; port 0 lets the system choose."""
    try:
        return parse_address(value if isinstance(value, str) else "")
    except InputError:
        raise InputError(
            f"{what} is {value!r}; it must be host:port, such as '10.0.0.1:7400' or '[::1]:7400', "
            "with a port up to 65535"
        ) from None


def api_address(what: str, value: Any) -> Address | Path:
    """Read the address of the API: host:port, or unix:path."""
    if isinstance(value, str) and value.startswith(UNIX):
        return path(what, value.removeprefix(UNIX))
    return listen_address(what, value)


UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

LONGEST = 100 * 365 * UNITS["d"]

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)", re.ASCII)


def duration(what: str, value: Any) -> float:
    """Read a duration, to seconds."""
    found = DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds = float(found[1]) * UNITS[found[2]] if found else math.nan
    if not 0.0 < seconds <= LONGEST:
        raise InputError(
            f"{what} is {value!r}; it must be a number and a unit in quotes, such as '90s', "
            "'30min', '2h' or '7d', up to 100 years"
        )
    return seconds


def shown(seconds: float) -> str:
    """Return a duration in the largest unit of which it is at least one.

    Examples
    --------
    >>> shown(5400.0)
    '1.5 h'
    """
    fitting = [unit for unit, size in UNITS.items() if seconds >= size]
    unit = fitting[-1] if fitting else "s"
    return f"{seconds / UNITS[unit]:.3g} {unit}"

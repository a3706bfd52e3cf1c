"""From a TOML file to an agent's configuration, with strict keys, and back.

::

    [cluster]                          # the same on all nodes
    name = "shop"
    epoch = 2026-01-31T12:00:00Z       # start of learning; a new epoch starts from scratch

    [bandits.button]                   # as many as you like
    arms = ["red", "green", "blue"]
    reward_range = [0.0, 1.0]

    [node]
    id = "shop-1"
    listen = "10.0.0.1:7400"
    journal = "/var/lib/coopbandits/shop-1"

    [tls]
    ca = "ca.pem"                      # relative to this file
    certificate = "shop-1.pem"
    key = "shop-1-key.pem"

    [[neighbors]]
    id = "shop-2"
    address = "10.0.0.2:7400"

`ClusterConfig`, `BanditConfig`, `NodeConfig`, `ApiTokens`, `ApiLimits` and `DocumentConfig` list
all keys. All problems are reported at once, a sentence each: first missing environment variables,
then wrong keys and values, then contradictions between valid ones, then problems of the files that
are named.

One file can serve many agents: in the keys of `EXPANDED`, ``${NAME}`` stands for an environment
variable. `[cluster]`, `[bandits.NAME]` and `[document]` are the same on all agents and have none,
and neither have files with secrets.

`write_config` writes TOML, which the standard library can only read.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.config.bandits import (
    BANDIT,
    CLUSTER,
    BanditConfig,
    ClusterConfig,
    make_bandit,
)
from coopbandits.fleet.config.consistency import find_contradictions, find_oversize
from coopbandits.fleet.config.model import (
    API_LIMITS,
    API_TOKENS,
    DOCUMENT,
    NODE,
    TLS,
    ApiLimits,
    ApiTokens,
    DocumentConfig,
    NodeConfig,
)
from coopbandits.fleet.config.values import BanditName, TableReader, read_value
from coopbandits.fleet.identity.files import read_token
from coopbandits.fleet.identity.names import read_revoked
from coopbandits.fleet.identity.tls import (
    Credentials,
    ThrowawayCredentials,
    TlsFiles,
    api_context,
    read_credentials,
)

TABLES = (
    "cluster", "bandits", "node", "tls", "api", "api_tls", "api_limits", "document", "neighbors",
)  # fmt: skip

EXPANDED = {
    "node": ("id", "listen", "advertise", "journal", "api"),
    "tls": TlsFiles._fields,
    "api_tls": TlsFiles._fields,
    "api_limits": ("hosts",),
}
"""The keys, by table, in which environment variables are expanded."""

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

MOVED = {
    key: f"[cluster] has {key}, which is a setting of a bandit; move it to a section [bandits.NAME]"
    for key in BANDIT.types.keys() - CLUSTER.types.keys()
}


class ConfigError(InputError):
    """A configuration that cannot be used: one sentence per problem, one per line.

    Attributes
    ----------
    problems : tuple of str
        The sentences.
    """

    def __init__(self, source: str, problems: Iterable[str]) -> None:
        self.problems = tuple(f"{source}: {problem}" for problem in problems)
        super().__init__("\n".join(self.problems))


def read_config(path: str | Path, *, now: float, insecure: bool = False) -> NodeConfig:
    """Read a file and check the files that it names, as an agent does when it starts.

    Parameters
    ----------
    path : path
        A TOML file.
    now : float
        The time, in seconds since 1970.
    insecure : bool
        Accept a file without [tls], if all addresses are on this machine.
    """
    config = parse_config(load(path), path, now=now, insecure=insecure)
    problems = list(find_bad_files(config))
    if problems:
        raise ConfigError(str(path), problems)
    return config


def load(path: str | Path) -> dict[str, Any]:
    """Parse a TOML file."""
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; give an agent's configuration file"
        ) from error
    except (ValueError, RecursionError) as error:  # also unbounded numbers and nesting
        raise InputError(
            f"{path} is not a TOML file: {error}; give an agent's configuration file"
        ) from error
    if _has_long_number(found):
        raise InputError(f"{path} has a whole number of more than 64 bits; write a smaller one")
    return found


def _has_long_number(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_long_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and value.bit_length() > 64


def expand(
    data: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """Return parsed TOML with environment variables expanded, and a sentence per problem."""
    problems: list[str] = []

    def expanded(what: str, value: Any, accepted: bool) -> Any:
        if isinstance(value, list):
            return [expanded(what, each, accepted) for each in value]
        if not isinstance(value, str) or not (names := VARIABLE.findall(value)):
            return value
        if not accepted:
            listed = "; ".join(f"[{name}] {', '.join(keys)}" for name, keys in EXPANDED.items())
            problems.append(
                f"{what} is {value!r}; environment variables are expanded only in {listed}: write "
                "the value itself"
            )
        missing = [name for name in names if not environment.get(name)]
        if accepted and missing:
            problems.append(
                f"{what} is {value!r}, but the environment variable {missing[0]} is not set or is "
                "empty; set it, or write the value itself"
            )
        if not accepted or missing:
            return value
        return VARIABLE.sub(lambda found: environment[found[1]], value)

    found = dict(data)
    for name, keys in EXPANDED.items():
        if isinstance(table := data.get(name), dict):
            found[name] = {
                key: expanded(f"[{name}] {key}", value, key in keys) for key, value in table.items()
            }
    return found, problems


def parse_config(
    data: Mapping[str, Any],
    path: str | Path,
    *,
    now: float,
    insecure: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> NodeConfig:
    """Return the configuration in parsed TOML; relative paths start at the folder of `path`."""
    data, problems = expand(data, environment)
    if problems:
        raise ConfigError(str(path), problems)
    tables = TableReader(data, TABLES, Path(path).absolute().parent)
    declared = _read_bandits(tables)
    cluster = tables.table("cluster", CLUSTER, MOVED)
    node = tables.table("node", NODE)
    tls = {name: tables.table(name, TLS) for name in ("tls", "api_tls") if name in data}
    neighbors = tables.addresses("neighbors", "neighbour")
    tokens = tables.table("api", API_TOKENS)
    limits, document = tables.table("api_limits", API_LIMITS), tables.table("document", DOCUMENT)
    if tables.problems:
        raise ConfigError(str(path), tables.problems)
    shared = ClusterConfig(**cluster)
    files: dict[str, Any] = {name: TlsFiles(**values) for name, values in tls.items()}
    config = NodeConfig(
        shared,
        auto=node.pop("neighbors", None) is not None,
        neighbors=neighbors,
        **files,
        api_tokens=ApiTokens(**tokens),
        api_limits=ApiLimits(**limits),
        document=DocumentConfig(**document),
        bandits={name: make_bandit(name, shared, values) for name, values in declared.items()},
        **node,
    )
    problems = list(find_contradictions(config, now, insecure=insecure))
    # Sizes of messages make sense only for bandits without contradictions.
    for bandit in () if problems else config.bandits.values():
        problems += find_oversize(bandit)
    if problems:
        raise ConfigError(str(path), problems)
    return config


def parse_bandits(given: Mapping[str, Any], cluster: ClusterConfig) -> dict[str, BanditConfig]:
    """Return the bandits that tables declare, for agents of a cluster.

    Raises
    ------
    InputError
        A sentence for each problem, one per line.
    """
    tables = TableReader({"bandits": given}, TABLES)
    declared = _read_bandits(tables)
    if tables.problems:
        raise InputError("\n".join(tables.problems))
    return {name: make_bandit(name, cluster, values) for name, values in declared.items()}


def _read_bandits(tables: TableReader) -> dict[str, dict[str, Any]]:
    given = tables.sections("bandits")
    for name in given:
        try:
            read_value("the name of a bandit", name, BanditName)
        except InputError as error:
            tables.problems.append(str(error))
    found = {name: tables.read(f"[bandits.{name}]", each, BANDIT) for name, each in given.items()}
    for name, values in found.items():
        if "era" in values and "policy" not in given[name]:
            tables.problems.append(
                f"[bandits.{name}] era is {values['era']}, but there is no policy; state the "
                "policy of that era"
            )
    return found


# The files that a configuration names


def find_bad_files(config: NodeConfig) -> Iterator[str]:
    """Yield a sentence for every problem of the files that a configuration names."""
    checks: list[Callable[[], object]] = [partial(require_uvloop, config)]
    tokens = [config.token_file, *config.api_tokens.by_scope().values()]
    tokens += [*(bandit.token_file for bandit in config.bandits.values())]
    checks += [partial(read_token, path) for path in tokens if path is not None]
    if config.revoked is not None:
        checks.append(partial(read_revoked, config.revoked))
    if config.tls is not None:
        checks.append(partial(read_credentials, config.id, config.tls))
    if config.api_tls is not None:
        checks.append(partial(api_context, config.api_tls))
    for check in checks:
        try:
            check()
        except InputError as error:
            yield str(error)


def require_uvloop(config: NodeConfig) -> None:
    """Raise InputError if a configuration sets uvloop and it is not installed."""
    if config.uvloop and find_spec("uvloop") is None:
        raise InputError(
            "[node] uvloop is true, but uvloop is not installed; install it or set it to false"
        )


def credentials_of(config: NodeConfig) -> Credentials:
    """Return a node's credentials: from its files, or throw-away ones without [tls]."""
    if config.tls is None:
        return ThrowawayCredentials(config.id, config.cluster.name)
    return read_credentials(config.id, config.tls)


# Writing

BARE = re.compile(r"[A-Za-z0-9_-]+")

_quoted = json.JSONEncoder(ensure_ascii=False).encode  # made once: documents have many texts


def write_config(tables: Mapping[str, Any]) -> str:
    """Return TOML for tables, and lists of tables, of plain values.

    ``{"node": {"id": "a"}, "neighbors": [{"id": "b"}]}`` becomes ``[node]`` and ``[[neighbors]]``,
    and a table of tables ``{"bandits": {"a": {…}}}`` becomes ``[bandits.a]``. Lists of other values
    come first, above all tables.
    """
    plain = {name: each for name, each in tables.items() if _is_plain_list(each)}
    parts = [f"{_key(name)} = {_value(each)}\n" for name, each in plain.items()]
    flat: dict[str, Any] = {}
    for name, table in tables.items():
        if name in plain:
            continue
        if isinstance(table, Mapping) and table and all(map(_is_table, table.values())):
            flat |= {f"{name}.{_key(key)}": each for key, each in table.items()}
        else:
            flat[name] = table
    for name, table in flat.items():
        head = f"[{name}]" if isinstance(table, Mapping) else f"[[{name}]]"
        for part in [table] if isinstance(table, Mapping) else table:
            lines = [f"{key} = {_value(value)}" for key, value in part.items()]
            parts.append("\n".join([head, *lines]) + "\n")
    return "\n".join(parts)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_plain_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and not any(map(_is_table, value))


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, str | Path):
        # TOML's escapes are those of JSON, but it also requires one for DEL.
        return _quoted(str(value)).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        pairs = [f"{_value(str(key))} = {_value(each)}" for key, each in value.items()]
        return f"{{{', '.join(pairs)}}}"
    raise InputError(
        f"{value!r} cannot be written as TOML; give strings, numbers, dates, lists and tables"
    )

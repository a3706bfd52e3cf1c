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

`ClusterConfig`, `BanditConfig`, `NodeConfig`, `ApiLimits` and `DocumentConfig` list all keys. All
problems are reported at once, a sentence each.

`write_config` writes TOML, which the standard library can only read.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.fleet.config import bandits
from coopbandits.fleet.config import fields as read
from coopbandits.fleet.config.consistency import find_contradictions
from coopbandits.fleet.config.model import (
    ApiLimits,
    ClusterConfig,
    DocumentConfig,
    NodeConfig,
)
from coopbandits.fleet.config.sizes import find_oversize
from coopbandits.fleet.identity.files import read_token
from coopbandits.fleet.identity.names import read_revoked
from coopbandits.fleet.identity.tls import (
    Credentials,
    ThrowawayCredentials,
    TlsFiles,
    api_context,
    read_credentials,
)

CLUSTER: dict[str, read.Reader] = {
    "name": read.name,
    "epoch": read.epoch,
    "rounds_per_second": read.rate,
    "max_pulls_per_second": read.rate,
    "max_agents": read.count,
    "signatures_per_second": read.rate,
}

NODE: dict[str, read.Reader] = {
    "id": read.node_id,
    "listen": read.listen_address,
    "neighbors": read.auto,
    "degree": read.degree,
    "seeds": read.seeds,
    "advertise": read.address,
    "journal": read.path,
    "durability": read.durability,
    "api": read.api_address,
    "token_file": read.path,
    "ticket_lifetime": read.positive,
    "max_open_tickets": read.count,
    "silence": read.positive,
    "uvloop": read.flag,
    "revoked": read.path,
    "log_level": read.log_level,
    "log_format": read.log_format,
    "drain_seconds": read.not_negative,
    "ready_neighbors": read.count_from_zero,
}

API_LIMITS: dict[str, read.Reader] = {
    "max_connections": read.connections,
    "max_streams": read.count,
    "max_header_bytes": read.count,
    "max_body_bytes": read.count,
    "header_timeout": read.positive,
    "body_timeout": read.positive,
    "idle_timeout": read.positive,
    "hosts": read.hosts,
    "origins": read.origins,
}

TLS: dict[str, read.Reader] = dict.fromkeys(TlsFiles._fields, read.path)

NEIGHBOR: dict[str, read.Reader] = {"id": read.node_id, "address": read.address}

DOCUMENT: dict[str, read.Reader] = {"operators": read.operators, "file": read.path}

TABLES = (
    "cluster", "bandits", "node", "tls", "api_tls", "api_limits", "document", "neighbors",
)  # fmt: skip

OF_BANDITS = bandits.BANDIT.keys() - CLUSTER.keys()
"""Keys that belong into sections of bandits."""

OPTIONAL = (
    {
        field.name
        for kind in (ClusterConfig, NodeConfig, ApiLimits, DocumentConfig)
        for field in fields(kind)
        if field.default is not MISSING
    }
    | bandits.OPTIONAL
    | {"neighbors"}
)  # in [node]: instead of a list of them


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


def find_bad_files(config: NodeConfig) -> Iterator[str]:
    """Yield a sentence for every problem of the files that a configuration names."""
    checks: list[Callable[[], object]] = [partial(require_uvloop, config)]
    tokens = [config.token_file, *(bandit.token_file for bandit in config.bandits.values())]
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


def load(path: str | Path) -> dict[str, Any]:
    """Parse a TOML file."""
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; give an agent's configuration file"
        ) from error
    except (ValueError, RecursionError) as error:  # also numbers and nesting without end
        raise InputError(f"{path} is no TOML file: {error}") from error
    if _has_long_number(found):
        raise InputError(f"{path} has a whole number of more than 64 bits; TOML has shorter ones")
    return found


def _has_long_number(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_long_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and value.bit_length() > 64


def parse_config(
    data: Mapping[str, Any], path: str | Path, *, now: float, insecure: bool = False
) -> NodeConfig:
    """Return the configuration in parsed TOML; relative paths start at the folder of `path`."""
    found = _Tables(data, Path(path).absolute().parent)
    declared = found.bandits()
    cluster = found.table("cluster", CLUSTER)
    node = found.table("node", NODE)
    tls, api_tls, neighbors = found.tls("tls"), found.tls("api_tls"), found.neighbors()
    limits, document = found.table("api_limits", API_LIMITS), found.table("document", DOCUMENT)
    node["auto"] = node.pop("neighbors", None) is not None
    if found.problems:
        raise ConfigError(str(path), found.problems)
    made = ClusterConfig(**cluster)
    config = NodeConfig(
        made,
        neighbors=neighbors,
        tls=tls,
        api_tls=api_tls,
        api_limits=ApiLimits(**limits),
        document=DocumentConfig(**document),
        bandits={name: bandits.make_bandit(name, made, told) for name, told in declared.items()},
        **node,
    )
    problems = list(find_contradictions(config, now, insecure=insecure))
    for bandit in () if problems else config.bandits.values():
        problems += find_oversize(bandit)
    if problems:
        raise ConfigError(str(path), problems)
    return config


def parse_bandits(
    given: Mapping[str, Any], cluster: ClusterConfig
) -> dict[str, bandits.BanditConfig]:
    """Return the bandits that tables declare, for agents of a cluster.

    Raises
    ------
    InputError
        A sentence for each problem, one per line.
    """
    found = _Tables({"bandits": given}, Path())
    told = found.bandits()
    if found.problems:
        raise InputError("\n".join(found.problems))
    return {name: bandits.make_bandit(name, cluster, values) for name, values in told.items()}


class _Tables:
    """The tables of a file, read key by key; problems are collected."""

    def __init__(self, data: Mapping[str, Any], folder: Path) -> None:
        self.data, self.folder = data, folder
        self.problems = [
            str(unknown_name("table", key, TABLES)) for key in data if key not in TABLES
        ]

    def table(self, name: str, readers: Mapping[str, read.Reader]) -> dict[str, Any]:
        """Return the values given in one table, by key."""
        return self._values(f"[{name}]", self.data.get(name, {}), readers)

    def tls(self, name: str) -> TlsFiles | None:
        """Return the files that a table names; None if there is no such table."""
        values = self.table(name, TLS) if name in self.data else {}
        return TlsFiles(**values) if len(values) == len(TLS) else None

    def bandits(self) -> dict[str, dict[str, Any]]:
        """Return what the sections of bandits say, by name."""
        given = self.data.get("bandits", {})
        if not isinstance(given, dict):
            self.problems.append("bandits is no table; write [bandits.NAME] above each of them")
            return {}
        for name in given:
            try:
                read.node_id("the name of a bandit", name)
            except InputError as error:
                self.problems.append(str(error).replace("'shop-1'", "'checkout-button'"))
        return {
            name: self._values(f"[bandits.{name}]", values, bandits.BANDIT)
            for name, values in given.items()
        }

    def neighbors(self) -> dict[str, Any]:
        """Return the addresses of the neighbours by their ids."""
        given = self.data.get("neighbors", [])
        if not isinstance(given, list):
            self.problems.append("neighbors is no list; write [[neighbors]] above each of them")
            return {}
        found: dict[str, Any] = {}
        for values in (self._values("[[neighbors]]", entry, NEIGHBOR) for entry in given):
            if values.get("id") in found:
                self.problems.append(f"neighbour {values['id']} is listed twice; list it once")
            elif len(values) == len(NEIGHBOR):
                found[values["id"]] = values["address"]
        return found

    def _values(
        self,
        where: str,
        given: Any,
        readers: Mapping[str, read.Reader],
    ) -> dict[str, Any]:
        if not isinstance(given, dict):
            self.problems.append(f"{where} is {given!r}; it must be a table")
            return {}
        for key in given:
            if readers is CLUSTER and key in OF_BANDITS:
                self.problems.append(
                    f"[cluster] has {key}, which is of one bandit; move it into a section "
                    "[bandits.NAME]"
                )
            elif key not in readers:
                self.problems.append(str(unknown_name(f"key of {where}", key, readers)))
        for key in readers:
            if key not in given and key not in OPTIONAL:
                self.problems.append(f"{where} has no {key}; give it")
        found = {}
        for key, reader in readers.items():
            if key in given:
                try:
                    value = reader(f"{where} {key}", given[key])
                except InputError as error:
                    self.problems.append(str(error))
                else:
                    found[key] = self.folder / value if isinstance(value, Path) else value
        return found


BARE = re.compile(r"[A-Za-z0-9_-]+")

_quoted = json.JSONEncoder(ensure_ascii=False).encode  # made once: documents have many texts


def write_config(tables: Mapping[str, Any]) -> str:
    """Return TOML for tables, and lists of tables, of plain values.

    ``{"node": {"id": "a"}, "neighbors": [{"id": "b"}]}`` becomes ``[node]`` and ``[[neighbors]]``,
    and a table of tables ``{"bandits": {"a": {…}}}`` becomes ``[bandits.a]``.
    """
    parts = []
    flat: dict[str, Any] = {}
    for name, table in tables.items():
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
        f"{value!r} cannot be written as TOML; give texts, numbers, dates, lists and tables"
    )

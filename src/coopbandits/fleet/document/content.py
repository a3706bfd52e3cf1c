"""What stands in a cluster's document, as TOML.

::

    [cluster]
    name = "shop"                      # as in [cluster] of every node
    version = 2                        # the highest one holds
    operators = ["ed25519:3b6a…"]      # keys trusted from this version on; without it, as before
    revoked = ["shop-9"]               # agents that are no longer believed

    [settings]
    rounds_per_second = 10.0

    [[members]]                        # who may have links, and where it is; without any, everybody
    id = "shop-1"
    address = "10.0.0.1:7400"

What is signed and spread is this text in one canonical form: sorted keys, no comments. So equal
contents have equal bytes, whoever wrote them down.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import fields as read
from coopbandits.fleet.config.read import ConfigError, write_config
from coopbandits.fleet.document.seal import MAX_CONTENT, MAX_VERSION
from coopbandits.fleet.identity.names import agent_number

BANDIT_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}")

MOST_ROUNDS = 200.0
"""Rounds per second that agents believe in whatever is declared."""


@dataclass(frozen=True)
class Document:
    """A document after reading and checking.

    Attributes
    ----------
    name, version : str and int
        The cluster's name, and which document of it this is.
    operators : tuple of bytes
        Public keys that are trusted from here on; none for those of before.
    revoked : frozenset of str
        Agents that are no longer believed.
    settings : mapping of str to float
        What changes without a restart, by name.
    members : mapping of str to Address
        Who may have links, and where; empty for everybody.
    bandits : mapping of str to table
        Declarations of bandits, as they were written.
    content : bytes
        The canonical text.
    """

    name: str
    version: int
    operators: tuple[bytes, ...] = ()
    revoked: frozenset[str] = frozenset()
    settings: Mapping[str, float] = field(default_factory=dict)
    members: Mapping[str, Address] = field(default_factory=dict)
    bandits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    content: bytes = b""


def version(what: str, value: Any) -> int:
    """Read a version."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_VERSION:
        raise InputError(
            f"{what} is {value!r}; it must be a whole number from 1 to {MAX_VERSION}, one more "
            "than that of the document before"
        )
    return value


def ids(what: str, value: Any) -> frozenset[str]:
    """Read ids of agents."""
    if not isinstance(value, list):
        raise InputError(f"{what} is {value!r}; it must be a list of agents' ids, such as ['a']")
    return frozenset(read.node_id(f"{what}[{at}]", name) for at, name in enumerate(value))


def pace(what: str, value: Any) -> float:
    """Read rounds per second."""
    found = read.rate(what, value)
    if found > MOST_ROUNDS:
        raise InputError(
            f"{what} is {found:g}; agents believe in up to {MOST_ROUNDS:g} rounds a second, unless "
            "[cluster] of all nodes says otherwise"
        )
    return found


CLUSTER: dict[str, read.Reader] = {
    "name": read.name,
    "version": version,
    "operators": read.operators,
    "revoked": ids,
}
SETTINGS: dict[str, read.Reader] = {
    "rounds_per_second": pace,
    "max_pulls_per_second": read.rate,
    "signatures_per_second": read.rate,
}
MEMBER: dict[str, read.Reader] = {"id": read.node_id, "address": read.address}

TABLES = ("cluster", "settings", "members", "bandits")
REQUIRED = ("name", "version", "id", "address")


def read_document(content: bytes) -> Document:
    """Return the document in a TOML text.

    Raises
    ------
    InputError
        It is no such document; a sentence for each problem, one per line.
    """
    if len(content) > MAX_CONTENT:
        raise InputError(f"a document of {len(content)} bytes; it may have {MAX_CONTENT} at most")
    try:
        tables = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"the document is no TOML: {error}") from None
    reader = _Reader(tables)
    cluster = reader.values("[cluster]", tables.get("cluster", {}), CLUSTER)
    settings = reader.values("[settings]", tables.get("settings", {}), SETTINGS)
    members, bandits = reader.members(), reader.bandits()
    reader.problems += _contradictions(cluster.get("revoked", frozenset()), members)
    if reader.problems:
        raise ConfigError("document", reader.problems)
    return Document(
        **cluster, settings=settings, members=members, bandits=bandits, content=_canonical(tables)
    )


def _canonical(tables: Mapping[str, Any]) -> bytes:
    try:
        found = write_config(_sorted({key: tables[key] for key in TABLES if key in tables}))
    except RecursionError:
        raise InputError("the document is nested too deeply; write plain tables") from None
    content = found.encode()
    if len(content) > MAX_CONTENT:
        raise InputError(f"a document of {len(content)} bytes; it may have {MAX_CONTENT} at most")
    return content


def _sorted(value: Any) -> Any:
    """Return a value with the keys of all tables in order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _contradictions(revoked: frozenset[str], members: Mapping[str, Address]) -> Iterator[str]:
    for name in sorted(revoked & members.keys()):
        yield f"{name} is a member and revoked; remove it from one of the two"
    owners: dict[int, str] = {}
    for name in members:
        other = owners.setdefault(agent_number(name), name)
        if other != name:
            yield f"the members {other} and {name} have the same number; rename one of the two"


class _Reader:
    """Reads tables key by key, and collects problems."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self.tables = tables
        self.problems = [
            str(unknown_name("table", key, TABLES)) for key in tables if key not in TABLES
        ]

    def values(self, where: str, given: Any, readers: Mapping[str, read.Reader]) -> dict[str, Any]:
        """Return what a table says, by key."""
        if not isinstance(given, dict):
            self.problems.append(f"{where} is {given!r}; it must be a table")
            return {}
        for key in given:
            if key not in readers:
                self.problems.append(str(unknown_name(f"key of {where}", key, readers)))
        found = {}
        for key, reader in readers.items():
            if key not in given:
                if key in REQUIRED:
                    self.problems.append(f"{where} has no {key}; give it")
                continue
            try:
                found[key] = reader(f"{where} {key}", given[key])
            except InputError as error:
                self.problems.append(str(error))
        return found

    def members(self) -> dict[str, Address]:
        """Return the members' addresses, by id."""
        given = self.tables.get("members", [])
        if not isinstance(given, list):
            self.problems.append("members is no list; write [[members]] above each of them")
            return {}
        found: dict[str, Address] = {}
        for values in (self.values("[[members]]", each, MEMBER) for each in given):
            if values.get("id") in found:
                self.problems.append(f"member {values['id']} is listed twice; list it once")
            elif len(values) == len(MEMBER):
                found[values["id"]] = values["address"]
        return found

    def bandits(self) -> dict[str, dict[str, Any]]:
        """Return declarations of bandits; who takes them knows what may stand in each."""
        given = self.tables.get("bandits", {})
        if not isinstance(given, dict):
            self.problems.append("bandits is no table; write [bandits.NAME] above each of them")
            return {}
        for name, table in given.items():
            if not BANDIT_NAME.fullmatch(name):
                self.problems.append(
                    f"a bandit is called {name!r}; use 1 to 63 letters, digits, - and _"
                )
            elif not isinstance(table, dict):
                self.problems.append(f"[bandits] {name} is {table!r}; it must be a table")
        return {name: table for name, table in given.items() if isinstance(table, dict)}

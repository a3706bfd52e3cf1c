"""The content of a cluster's document, as TOML, and what agents reject in it.

::

    retired = ["banner"]               # bandits that stop

    [cluster]
    name = "shop"                      # as in [cluster] of every node
    version = 2                        # the highest one is in force
    operators = ["ed25519:3b6a…"]      # trusted from this version on; by default the previous ones
    revoked = ["shop-9"]               # agents that are no longer trusted

    [settings]
    rounds_per_second = 10.0

    [[members]]                        # agents that may have links; by default all
    id = "shop-1"
    address = "10.0.0.1:7400"

    [bandits.button]                   # as in a node's file
    arms = ["red", "green"]
    reward_range = [0.0, 1.0]

A bandit that a document does not mention stays as it is: declared by an earlier document, retired
by one, or as in the node's file. So a document is in force together with what earlier ones say of
other bandits (`Document.after`).

What is signed and spread is this text in one canonical form: sorted keys, no comments. So equal
contents have equal bytes, whoever wrote them.

A document is checked before it is signed (`check_document`), and again by every agent. Some checks
depend on the files of the nodes: their cluster, the bandits that they declare, their pace. Checks
against what was learned need a running agent.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import ClusterConfig, NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.config.changes import compare_facts
from coopbandits.fleet.config.consistency import declaration_problems, era_problems
from coopbandits.fleet.config.read import ConfigError, parse_bandits, write_config
from coopbandits.fleet.config.values import (
    MIN_RATE,
    BanditName,
    Name,
    NodeId,
    Operators,
    Rate,
    Table,
    TableReader,
    read_value,
    table_of,
)
from coopbandits.fleet.identity.names import agent_number
from coopbandits.fleet.identity.operators import key_text

MAX_CONTENT = 1 << 18
"""The longest content of a document, in bytes."""

MAX_VERSION = 2**53 - 1
"""The highest version: whole numbers up to it are exact in JSON everywhere."""

MAX_ROUNDS = 200.0
"""Rounds per second that agents accept of each other, whatever is declared."""

BANDIT_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}")

TABLES = ("retired", "cluster", "settings", "members", "bandits")

Version = Annotated[
    int,
    Meta(
        ge=1,
        le=MAX_VERSION,
        description=f"a whole number from 1 to {MAX_VERSION}, one more than the previous version",
    ),
]

Pace = Annotated[
    float,
    Meta(
        ge=MIN_RATE,
        le=MAX_ROUNDS,
        description=f"a number from {MIN_RATE:g} to {MAX_ROUNDS:g}: agents accept no more of each "
        "other, unless [cluster] of all nodes says so",
    ),
]


NodeIds = Annotated[
    frozenset[NodeId], Meta(description="a list of agents' ids, such as ['shop-1']")
]

BanditNames = Annotated[
    frozenset[BanditName], Meta(description="a list of bandits' names, such as ['banner']")
]

RETIRED_ELSEWHERE = "[cluster] has the key retired; write it at the top, above all tables"


class Section(NamedTuple):
    """A bandit's section, and the version of the document that has it."""

    version: int
    table: Mapping[str, Any]


@dataclass(frozen=True)
class Document:
    """A valid document.

    Attributes
    ----------
    name, version : str and int
        The cluster's name, and the version of the document.
    operators : tuple of bytes
        Public keys that are trusted from this version on; none to keep the previous ones.
    revoked : frozenset of str
        Agents that are no longer trusted.
    settings : mapping of str to float
        Settings that change without a restart, by name.
    members : mapping of str to Address
        Agents that may have links, and their addresses; empty for all agents.
    bandits : mapping of str to table
        Declarations of bandits, as written.
    retired : frozenset of str
        Names of the bandits that it retires.
    content : bytes
        The canonical text.
    sections : mapping of str to Section
        What is declared in this document, and in earlier ones if this one does not mention it.
    stopped : mapping of str to int
        Retired bandits that no document has declared since, with the version that retired them.
    """

    name: Name
    version: Version
    operators: Operators = ()
    revoked: NodeIds = frozenset()
    settings: Mapping[str, float] = field(default_factory=dict)
    members: Mapping[str, Address] = field(default_factory=dict)
    bandits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()
    content: bytes = b""
    sections: Mapping[str, Section] = field(default_factory=dict)
    stopped: Mapping[str, int] = field(default_factory=dict)

    def after(self, previous: Document | None) -> Document:
        """Return the document together with what earlier ones say of bandits not mentioned here."""
        if previous is None:
            return self
        sections = {n: s for n, s in previous.sections.items() if n not in self.retired}
        stopped = {n: v for n, v in previous.stopped.items() if n not in self.bandits}
        # Documents list a name again for agents that were away; the first of them retired it here.
        return replace(
            self, sections={**sections, **self.sections}, stopped={**self.stopped, **stopped}
        )


CLUSTER = table_of(Document)

SETTINGS = Table(
    {"rounds_per_second": Pace, "max_pulls_per_second": Rate, "signatures_per_second": Rate}, ()
)


def read_document(content: bytes) -> Document:
    """Return the document in a TOML text.

    Raises
    ------
    InputError
        It is not a valid document; a sentence for each problem, one per line.
    """
    _require_size(content)
    try:
        given = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"the document is not TOML: {error}; correct its syntax") from None
    tables = TableReader(given, TABLES)
    cluster = tables.table("cluster", CLUSTER, {"retired": RETIRED_ELSEWHERE})
    settings = tables.table("settings", SETTINGS)
    members, bandits = tables.addresses("members", "member"), tables.sections("bandits")
    problems, retired = tables.problems, frozenset[str]()
    try:
        retired = read_value("retired", given.get("retired", []), BanditNames)
    except InputError as error:
        problems.append(str(error))
    for name in sorted(retired & bandits.keys()):
        problems.append(
            f"bandit {name} is retired and declared in [bandits.{name}]; remove it from one of "
            "the two"
        )
    for name, table in bandits.items():
        if not BANDIT_NAME.fullmatch(name):
            problems.append(
                f"the name of a bandit is {name!r}; it must be 1 to 63 letters, digits, - and _"
            )
        elif not isinstance(table, dict):
            problems.append(f"[bandits] {name} is {table!r}; it must be a table")
    for name in sorted(cluster.get("revoked", frozenset()) & members.keys()):
        problems.append(f"{name} is a member and revoked; remove it from one of the two")
    owners: dict[int, str] = {}
    for name in members:
        other = owners.setdefault(agent_number(name), name)
        if other != name:
            problems.append(
                f"the members {other} and {name} have the same number; rename one of the two"
            )
    if problems:
        raise ConfigError("document", problems)
    try:
        text = write_config(_sorted({key: given[key] for key in TABLES if key in given}))
    except RecursionError:
        raise InputError("the document is nested too deeply; write plain tables") from None
    canonical = text.encode()
    _require_size(canonical)
    document = Document(**cluster, settings=settings, members=members, bandits=bandits)
    return replace(
        document,
        retired=retired,
        content=canonical,
        sections={name: Section(document.version, table) for name, table in bandits.items()},
        stopped=dict.fromkeys(retired, document.version),
    )


def _require_size(content: bytes) -> None:
    if len(content) > MAX_CONTENT:
        raise InputError(
            f"a document of {len(content)} bytes; it may have {MAX_CONTENT} at most: declare less"
        )


def _sorted(value: Any) -> Any:
    """Return a value with the keys of all tables sorted."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


# Checks


def check_document(content: bytes, nodes: Iterable[NodeConfig] = ()) -> Document:
    """Return the document in a TOML text if agents would accept it.

    Parameters
    ----------
    content : bytes
        The text.
    nodes : iterable of NodeConfig
        Configurations of some nodes; without any, checks that depend on these are skipped.

    Raises
    ------
    InputError
        A sentence for everything that an agent would reject, one per line.
    """
    problems: list[str] = []
    try:
        document = read_document(content)
    except ConfigError as error:
        # All problems together: the declarations of bandits are checked as far as they are tables.
        problems += str(error).splitlines()
        bandits = tomllib.loads(content.decode()).get("bandits", {})
        tables = bandits.values() if isinstance(bandits, dict) else [None]
        if all(isinstance(table, dict) for table in tables):
            problems += bandit_problems(bandits, ClusterConfig("", 0))
        raise InputError("\n".join(problems)) from None
    known = list(nodes)
    if not known:
        problems += bandit_problems(document.bandits, ClusterConfig("", 0))
    for node in known:
        problems += declared_problems(document, node)
        if node.cluster.name != document.name:
            problems.append(
                f"the document is of cluster {document.name!r}, and {node.id} of "
                f"{node.cluster.name!r}; give it the name of the cluster to change"
            )
        problems += member_problems(document, node)
        problems += _file_problems(document, node)
    if problems:
        raise InputError("\n".join(dict.fromkeys(problems)))
    return document


def _file_problems(document: Document, node: NodeConfig) -> Iterator[str]:
    """Yield a sentence for every bandit whose policy cannot carry over what a file's has learned.

    What a document says of policies counts for the bandits of a file, too; only in another era.
    """
    with suppress(InputError):  # already reported
        for name, bandit in declared_by(document, node).items():
            known = node.bandits.get(name)
            if known is not None and not known.is_implied and bandit.era > known.era:
                yield from era_problems(known, bandit)


def _cluster_of(node: NodeConfig, document: Document) -> ClusterConfig:
    """Return a node's cluster, at the pace that the document sets."""
    rounds = document.settings.get("rounds_per_second")
    return node.cluster if rounds is None else replace(node.cluster, rounds_per_second=rounds)


def declared_by(document: Document, node: NodeConfig) -> dict[str, BanditConfig]:
    """Return the bandits of a node under a document: declared there, before, or in its own file.

    The token of a bandit is a file on each machine, and remains the one in the node's own file.
    """
    tables = {name: section.table for name, section in document.sections.items()}
    found = _undocumented(document, node) | parse_bandits(tables, _cluster_of(node, document))
    tokens = {name: bandit.token_file for name, bandit in node.bandits.items()}
    order = dict.fromkeys([*node.bandits, *found])  # the first bandit is shown first on the page
    return {
        name: replace(found[name], token_file=tokens.get(name)) for name in order if name in found
    }


def _undocumented(document: Document, node: NodeConfig) -> dict[str, BanditConfig]:
    """Return the bandits of a node's file that no document has mentioned."""
    cluster = _cluster_of(node, document)
    return {
        name: replace(bandit, cluster=cluster)
        for name, bandit in node.bandits.items()
        if name not in document.sections and name not in document.stopped
    }


def bandit_problems(
    bandits: Mapping[str, Mapping[str, Any]],
    cluster: ClusterConfig,
    others: Mapping[str, BanditConfig] | None = None,
) -> Iterator[str]:
    """Yield a sentence for everything in declarations that no agent of a cluster accepts.

    `others` are declared elsewhere, and valid by themselves.
    """
    readable = dict(others or {})
    for name, table in bandits.items():
        if "token_file" in table:
            yield f"[bandits.{name}] token_file is a file of each node; name it there instead"
        try:
            readable |= parse_bandits({name: table}, cluster)
        except InputError as error:
            yield from str(error).splitlines()
    yield from declaration_problems(readable)


def declared_problems(document: Document, node: NodeConfig) -> Iterator[str]:
    """Yield a sentence for every problem of the bandits in `declared_by`."""
    tables = {name: section.table for name, section in document.sections.items()}
    others = _undocumented(document, node)
    yield from bandit_problems(tables, _cluster_of(node, document), others)


def member_problems(document: Document, node: NodeConfig) -> Iterator[str]:
    """Yield a sentence for every member that the agent of a file cannot have a link to.

    The settings of the file that this depends on do not change while the agent runs.
    """
    if node.tls is None:
        for name, place in document.members.items():
            if name in node.neighbors and not place.is_loopback:
                yield (
                    f"member {name} is at {place}, which others can reach, and there is no [tls] "
                    f"on {node.id}; give addresses of this machine"
                )


def differences(old: Document | None, new: Document) -> list[str]:
    """Return a line for everything that a new document adds, removes or changes.

    Bandits that it does not mention are left out, since nothing changes for them.
    """
    after = _facts(new)
    before = _facts(_as_mentioned(old, new)) if old else {}
    return [str(change) for change in compare_facts(before, after)]


def carry_problems(old: Document, new: Document) -> Iterator[str]:
    """Yield a sentence for every bandit that cannot go on as a new document declares it."""
    stated = [
        {name: table for name, table in each.bandits.items() if "policy" in table}
        for each in (old, new)
    ]
    for name in sorted(stated[0].keys() & stated[1].keys()):
        before, after = (
            parse_bandits({name: tables[name]}, ClusterConfig("", 0))[name] for tables in stated
        )
        yield from era_problems(before, after)


def unmentioned(old: Document, new: Document) -> list[str]:
    """Return a line for every bandit that a new document leaves as an old one has it."""
    mentioned = new.bandits.keys() | new.retired
    states = dict.fromkeys(old.retired, "stays retired") | dict.fromkeys(old.bandits, "continues")
    return [
        f"= bandit {name} is not mentioned and {states[name]}"
        for name in sorted(states.keys() - mentioned)
    ]


def _as_mentioned(old: Document, new: Document) -> Document:
    """Return an old document without the bandits that a new one does not mention."""
    return replace(
        old,
        bandits={name: table for name, table in old.bandits.items() if name in new.bandits},
        retired=old.retired & (new.retired | new.bandits.keys()),
    )


def _facts(document: Document) -> dict[str, str]:
    """Return all settings of a document as text, by place."""
    found = {"[cluster] name": document.name, "[cluster] version": str(document.version)}
    found |= {f"operator {key_text(key)}": "" for key in document.operators}
    found |= {f"revoked {name}": "" for name in document.revoked}
    found |= {f"retired {name}": "" for name in document.retired}
    found |= {f"[settings] {key}": f"{value:g}" for key, value in document.settings.items()}
    found |= {f"member {name}": str(place) for name, place in document.members.items()}
    for name, table in document.bandits.items():
        found[f"[bandits.{name}]"] = ""
        for key, value in table.items():
            shown = json.dumps(value, default=str, ensure_ascii=False)
            found[f"[bandits.{name}] {key}"] = shown
    return found

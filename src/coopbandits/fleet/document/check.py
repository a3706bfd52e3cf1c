"""What agents refuse in a document, told before it is signed, and by an agent before it is taken.

Some of it depends on the files of the nodes: which cluster they are of, which bandits they declare
themselves, and how fast they gossip. What was learned, only a running agent knows.

`differences` lists what changes between two documents.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import ClusterConfig, NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.config.consistency import declaration_problems
from coopbandits.fleet.config.read import ConfigError, parse_bandits
from coopbandits.fleet.document.content import Document, read_document
from coopbandits.fleet.identity.operators import key_text

Tables = Mapping[str, Mapping[str, Any]]


def checked(content: bytes, nodes: Iterable[NodeConfig] = ()) -> Document:
    """Return the document in a TOML text, if agents can take it.

    Parameters
    ----------
    content : bytes
        The text.
    nodes : iterable of NodeConfig
        The files of some nodes; without any, what depends on these is not looked at.

    Raises
    ------
    InputError
        A sentence for everything that an agent would refuse, one per line.
    """
    problems: list[str] = []
    try:
        document = read_document(content)
    except ConfigError as error:
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
                f"{node.cluster.name!r}; give it the name of the cluster that it shall change"
            )
        problems += node_problems(document, node)
    if problems:
        raise InputError("\n".join(dict.fromkeys(problems)))
    return document


def of_node(node: NodeConfig, document: Document) -> ClusterConfig:
    """Return a node's cluster, at the pace that the document sets."""
    rounds = document.settings.get("rounds_per_second")
    return node.cluster if rounds is None else replace(node.cluster, rounds_per_second=rounds)


def declared_by(document: Document, node: NodeConfig) -> dict[str, BanditConfig]:
    """Return the bandits of a node by a document; those of its own file where that has none.

    The token of a bandit is a file on each machine, and stays the one in the node's own file.
    """
    cluster = of_node(node, document)
    if not document.bandits:
        return {name: replace(bandit, cluster=cluster) for name, bandit in node.bandits.items()}
    found = parse_bandits(document.bandits, cluster)
    tokens = {name: bandit.token_file for name, bandit in node.bandits.items()}
    return {name: replace(each, token_file=tokens.get(name)) for name, each in found.items()}


def bandit_problems(bandits: Tables, cluster: ClusterConfig) -> Iterator[str]:
    """Yield a sentence for everything in declarations that no agent of a cluster takes."""
    readable: dict[str, BanditConfig] = {}
    for name, table in bandits.items():
        if "token_file" in table:
            yield f"[bandits.{name}] token_file is a file of each node; name it there instead"
        try:
            readable |= parse_bandits({name: table}, cluster)
        except InputError as error:
            yield from str(error).splitlines()
    yield from declaration_problems(readable)


def declared_problems(document: Document, node: NodeConfig) -> Iterator[str]:
    """Yield a sentence for everything in the bandits of a node by a document; see `declared_by`."""
    if document.bandits:
        yield from bandit_problems(document.bandits, of_node(node, document))
    else:
        yield from declaration_problems(declared_by(document, node))


def node_problems(document: Document, node: NodeConfig) -> Iterator[str]:
    """Yield a sentence for what the agent of a file cannot do, whichever its sections are.

    All that is asked of the file here stays while the agent runs.
    """
    if node.tls is None:
        for name, place in document.members.items():
            if name in node.neighbors and not place.is_loopback:
                yield (
                    f"member {name} is at {place}, which others can reach, and there is no [tls] "
                    f"on {node.id}; give addresses of this machine"
                )


def differences(old: Document | None, new: Document) -> list[str]:
    """Return a line for everything that a new document adds, removes or changes."""
    before, after = _facts(old) if old else {}, _facts(new)
    return list(_lines(before, after))


def _facts(document: Document) -> dict[str, str]:
    """Return all that a document says, as values by place."""
    found = {"[cluster] name": document.name, "[cluster] version": str(document.version)}
    found |= {f"operator {key_text(key)}": "" for key in document.operators}
    found |= {f"revoked {name}": "" for name in document.revoked}
    found |= {f"[settings] {key}": f"{value:g}" for key, value in document.settings.items()}
    found |= {f"member {name}": str(place) for name, place in document.members.items()}
    for name, table in document.bandits.items():
        found |= dict(_bandit(name, table))
    return found


def _bandit(name: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield f"bandit {name}", ""
    for key, value in table.items():
        yield f"[bandits.{name}] {key}", json.dumps(value, default=str, ensure_ascii=False)


def _lines(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for place in sorted(before.keys() | after.keys()):
        old, new = before.get(place), after.get(place)
        if old is None:
            yield f"+ {place}{' = ' if new else ''}{new}"
        elif new is None:
            yield f"- {place}{' = ' if old else ''}{old}"
        elif old != new:
            yield f"~ {place}: {old} -> {new}"

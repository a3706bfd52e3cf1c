"""Compares configurations: settings of cluster and bandits, and both ends of every link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.config.bandits import SHARED, BanditConfig
from coopbandits.fleet.config.fields import shown
from coopbandits.fleet.config.model import ClusterConfig, NodeConfig
from coopbandits.fleet.config.read import load, parse_config


def compare_files(
    paths: Sequence[Path], *, now: float, insecure: bool = False
) -> tuple[str, list[str]]:
    """Return a summary of several files, and a sentence for each problem.

    Certificates and tokens are not checked, since they are on the agents' machines.
    """
    nodes: dict[str, NodeConfig] = {}
    problems: list[str] = []
    for path in paths:
        try:
            nodes[str(path)] = parse_config(load(path), path, now=now, insecure=insecure)
        except InputError as error:
            problems += str(error).splitlines()
    problems += compare(nodes)
    return _summary(nodes) if nodes else "", problems


def _summary(nodes: Mapping[str, NodeConfig]) -> str:
    known = {node.id for node in nodes.values()}
    missing = {name for node in nodes.values() for name in node.neighbors} - known
    cluster = next(iter(nodes.values())).cluster
    lines = [f"nodes {', '.join(sorted(known))} of cluster {cluster.name}"]
    if missing:
        lines.append(f"not compared, since no file tells of them: {', '.join(sorted(missing))}")
    lines.append("certificates and tokens: check each file alone, on its own machine")
    return "\n".join(lines)


def compare(nodes: Mapping[str, NodeConfig]) -> Iterator[str]:
    """Yield a sentence for every disagreement between configurations, given by file."""
    owners: dict[str, str] = {}
    for path, node in nodes.items():
        first = next(iter(nodes))
        yield from _clusters(path, node.cluster, first, nodes[first].cluster)
        yield from _bandits(path, node, first, nodes[first])
        other = owners.setdefault(node.id, path)
        if other != path:
            yield f"{path}: [node] id is {node.id}, as in {other}; give every node a name"
    for path, node in nodes.items():
        for name in sorted(node.neighbors.keys() & owners.keys()):
            yield from _link(path, node, owners[name], nodes[owners[name]])


def _clusters(path: str, cluster: ClusterConfig, first: str, other: ClusterConfig) -> Iterator[str]:
    for key in (field.name for field in fields(ClusterConfig)):
        mine, theirs = getattr(cluster, key), getattr(other, key)
        if mine != theirs:
            yield (
                f"{path}: [cluster] {key} is {_shown(key, mine)}, but {first} has "
                f"{_shown(key, theirs)}; it must be the same on all nodes"
            )


def _bandits(path: str, node: NodeConfig, first: str, other: NodeConfig) -> Iterator[str]:
    """Yield what keeps two agents from talking about a bandit; most policies let arms differ."""
    for name in sorted(node.bandits.keys() & other.bandits.keys()):
        mine, theirs = node.bandits[name], other.bandits[name]
        keys = ["number", *SHARED]
        if not mine.can_widen and not theirs.can_widen:
            keys.append("arms")
        for key in keys:
            here, there = _told(key, mine), _told(key, theirs)
            if here != there:
                yield (
                    f"{path}: {mine.where} {key} is {here}, but {first} has {there}; it must be "
                    "the same on all nodes"
                )
    for name in sorted(node.bandits.keys() ^ other.bandits.keys()):
        where = path if name in node.bandits else first
        yield f"{path}: bandit {name} is declared in {where} alone; declare it on all nodes"


def _told(key: str, bandit: BanditConfig) -> str:
    """Return a setting of a bandit, as a file has it."""
    if key == "arms":
        return repr([arm.id for arm in bandit.arms])
    if key == "half_life" and bandit.half_life is not None:
        return shown(bandit.half_life)
    value = bandit.number if key == "number" else bandit.shared.get(key)
    return "none" if value is None else repr(value)


def _shown(key: str, value: Any) -> str:
    if key == "epoch":
        return datetime.fromtimestamp(value, UTC).isoformat()
    return repr(value)


def _link(path: str, node: NodeConfig, other_path: str, other: NodeConfig) -> Iterator[str]:
    place = node.neighbors[other.id]
    if node.id not in other.neighbors:
        yield f"{other_path}: [[neighbors]] has no {node.id}, whose neighbour {other.id} is; add it"
    if place.port != other.listen.port:
        yield (
            f"{path}: neighbour {other.id} is at {place}, but {other_path} listens on "
            f"{other.listen}; the ports must be the same"
        )

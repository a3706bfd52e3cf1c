"""`coopbandits agent --check`: explains one configuration, or compares those of several nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coopbandits.core.aggregate.forgetting import SKEW
from coopbandits.core.errors import InputError
from coopbandits.fleet.address import show_place
from coopbandits.fleet.config.bandits import SHARED, BanditConfig, ClusterConfig
from coopbandits.fleet.config.model import NodeConfig
from coopbandits.fleet.config.read import load, parse_config
from coopbandits.fleet.config.values import show_duration
from coopbandits.fleet.identity.certs import RENEW
from coopbandits.fleet.identity.tls import DAY, SOON_DAYS, read_credentials, validity

OVERHEAD = 110
"""Bytes of a message besides its values: frame header, TLS record, TCP and IP headers."""

PROCESS_MB = 50.0
"""Resident memory of an agent without neighbours, as measured."""

LINK_MB = 0.05
"""Memory of one TLS connection, as measured."""

TICKET_MB = 0.0005
"""Memory of one open ticket."""

MODES_IN_WORDS = {
    "robust": "rounds continue whatever neighbours do",
    "synchronous": "every round waits for all neighbours",
}

DURABILITIES_IN_WORDS = {
    "process": "survives the death of the process",
    "power": "survives the death of the machine",
}


def explain(config: NodeConfig, now: float) -> str:
    """Return a table of an agent's settings and their consequences, with warnings."""
    rows = list(_rows(config, now))
    width = max(len(head) for head, _ in rows)
    lines = [f"{head:<{width}}  {text}" for head, text in rows]
    return "\n".join([*lines, *(f"warning: {text}" for text in find_warnings(config, now))])


def _rows(config: NodeConfig, now: float) -> Iterator[tuple[str, str]]:
    cluster = config.cluster
    yield "node", f"{config.id} of cluster {cluster.name}, configuration {cluster.hash[:12]}"
    start = f"since {datetime.fromtimestamp(cluster.epoch, UTC):%Y-%m-%d %H:%M:%S} UTC"
    yield "learning", f"{start}, bandits: {len(config.bandits)}"
    for bandit in config.bandits.values():
        yield from _bandit_rows(bandit)
    yield "pace", f"{cluster.rounds_per_second:g} rounds per second"
    yield "memory", f"about {memory_mb(config):.0f} MB"
    made_up = "" if config.tls else " with throw-away certificates"
    yield "listens", f"{config.listen}, mutual TLS{made_up}"
    listed = [f"{name} at {place}" for name, place in config.neighbors.items()]
    if config.auto:
        seeds = ", ".join(map(str, config.seeds)) or "nowhere"
        yield "neighbours", f"discovers {config.degree}, starting at {seeds}"
    else:
        yield "neighbours", f"{len(listed)}: {', '.join(listed)}" if listed else "none"
    yield "journal", f"{config.journal}, {DURABILITIES_IN_WORDS[config.durability]}"
    protected = ("with a token" * config.needs_token, "mutual TLS" * bool(config.api_tls))
    yield "API", ", ".join(filter(None, (show_place(config.api), *protected)))
    if config.default_bandit is not None:
        yield "default", f"bandit {config.default_bandit}, for calls that name none"
    if config.document.operators:
        count, file = len(config.document.operators), config.document.file
        also = f", also from {file}" if file else ""
        yield "operators", f"{count}, whose documents are accepted{also}"
    if config.tls:
        end = read_credentials(config.id, config.tls).expires
        day = datetime.fromtimestamp(end, UTC)
        yield "certificate", f"valid until {day:%Y-%m-%d} ({(end - now) // DAY:.0f} days)"


def _bandit_rows(bandit: BanditConfig) -> Iterator[tuple[str, str]]:
    scale = bandit.scale
    rewards = f"{scale.low:g} to {scale.high:g}" if scale.bounded else ""
    sigma = "" if bandit.sigma is None else f"sigma {bandit.sigma:g}"
    listed = ", ".join(filter(None, (rewards, sigma)))
    yield f"  {bandit.name}", f"{len(bandit.arms)} arms, rewards {listed}"
    yield "", f"{bandit.policy}, {bandit.mode}: {MODES_IN_WORDS[bandit.mode]}"
    yield "", f"number {bandit.number}"
    if bandit.features:
        listed = "; ".join(f"{each.name}, {each.wanted}" for each in bandit.features)
        yield "", f"features: {listed}: {bandit.encoder.width} columns with that of ones"
    if bandit.half_life is not None:
        skew = show_duration(SKEW * bandit.tick)
        yield "", f"forgets half in {show_duration(bandit.half_life)}; clocks may differ by {skew}"
    size = bandit.message_size()
    if size is None:
        yield "", "messages of a size that the policy does not declare"
        return
    usual, most = (_rate(bytes_per_second(bandit, values)) for values in size[:2])
    if size.usual == size.most:
        yield "", f"{size.usual} values to each neighbour, {usual}"
    else:
        least = "nothing without news" if bandit.traits.grows else usual
        yield "", f"sends each neighbour {least}, {size.when} up to {size.most} values, {most}"


def _rate(number: float) -> str:
    return f"{number / 1e6:.1f} MB/s" if number >= 1e6 else f"{number / 1e3:.1f} kB/s"


def bytes_per_second(bandit: BanditConfig, values: int) -> float:
    """Return the traffic of messages with this many values, per neighbour and direction."""
    return bandit.cluster.rounds_per_second * (OVERHEAD + 8 * values)


def memory_mb(config: NodeConfig) -> float:
    """Return the approximate memory of the process, in megabytes."""
    largest = 0.0
    for bandit in config.bandits.values():
        size = bandit.message_size()
        largest += 8 * (size.most if size else bandit.max_message_values()) / 1e6
    # A message is held both as values and as bytes, when sent and when received.
    links = (LINK_MB + 4 * largest) * config.most_links
    return PROCESS_MB + links + TICKET_MB * config.max_open_tickets * len(config.bandits)


def find_warnings(config: NodeConfig, now: float) -> Iterator[str]:
    """Yield a sentence for everything that works but may not be intended."""
    pace = config.cluster.rounds_per_second
    if config.auto and not config.seeds:
        yield f"{config.id} has no seeds, and waits until others discover it; list some seeds"
    if not config.neighbors and not config.auto:
        yield f"{config.id} has no neighbours and learns alone; list some under [[neighbors]]"
    if not config.tls:
        yield "without [tls] every process on this machine can join; add it for production"
    if not config.bandits:
        yield "no bandit is declared: nothing is chosen until the cluster's document declares one"
    default = config.default_bandit
    if default is not None and default not in config.bandits:
        yield (
            f"default_bandit is {default}, which the file does not declare; calls that name no "
            "bandit are errors unless the cluster's document declares it"
        )
    for bandit in config.bandits.values():
        if bandit.traits.grows and config.cluster.most_agents > 1000:
            yield (
                f"messages of policy {bandit.policy} grow with the agents, up to "
                f"{config.cluster.most_agents} agents; those of a ledger-…, tree-… or gossip-ts "
                "policy do not"
            )
        if bandit.half_life is not None and config.ticket_lifetime > bandit.half_life / 2:
            yield (
                f"rewards may come {show_duration(config.ticket_lifetime)} after their choice and "
                "then count as new, although half is forgotten in "
                f"{show_duration(bandit.half_life)}; shorten ticket_lifetime"
            )
    if pace > 200:
        yield (
            f"{pace:g} rounds per second leave each under 5 ms; slower links or busy machines will "
            "not keep up"
        )
    robust = any(not bandit.is_synchronous for bandit in config.bandits.values())
    if robust and config.silence * pace < 10:
        yield (
            f"a neighbour counts as gone after {config.silence:g} s, which is "
            f"{config.silence * pace:.1f} rounds; a busy one may be mistaken for gone"
        )
    if config.tls:
        left = (read_credentials(config.id, config.tls).expires - now) // DAY
        if left < SOON_DAYS:
            yield f"the certificate expires in {left:.0f} days; renew it: {RENEW}"
    if config.api_tls:
        begins, ends = validity(config.api_tls.certificate)
        first, last = (f"{datetime.fromtimestamp(each, UTC):%Y-%m-%d}" for each in (begins, ends))
        if now < begins:
            yield f"the certificate of the API is valid from {first}; set the clock, or renew it"
        elif now > ends:
            yield f"the certificate of the API expired on {last}, and clients reject it; renew it"
        elif ends - now < SOON_DAYS * DAY:
            days = (ends - now) // DAY
            yield f"the certificate of the API expires in {days:.0f} days; renew it"


# Several nodes


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
    if not nodes:
        return "", problems
    known = {node.id for node in nodes.values()}
    missing = {name for node in nodes.values() for name in node.neighbors} - known
    cluster = next(iter(nodes.values())).cluster
    lines = [f"nodes {', '.join(sorted(known))} of cluster {cluster.name}"]
    if missing:
        lines.append(f"not compared, since their files are missing: {', '.join(sorted(missing))}")
    lines.append("certificates and tokens: check each file alone, on its own machine")
    return "\n".join(lines), problems


def compare(nodes: Mapping[str, NodeConfig]) -> Iterator[str]:
    """Yield a sentence for every disagreement between configurations, given by file."""
    owners: dict[str, str] = {}
    first = next(iter(nodes), "")
    for path, node in nodes.items():
        yield from _compare_clusters(path, node.cluster, first, nodes[first].cluster)
        yield from _compare_bandits(path, node, first, nodes[first])
        other = owners.setdefault(node.id, path)
        if other != path:
            yield f"{path}: [node] id is {node.id}, as in {other}; give every node its own name"
    for path, node in nodes.items():
        for name in sorted(node.neighbors.keys() & owners.keys()):
            place, there = node.neighbors[name], nodes[owners[name]]
            if node.id not in there.neighbors:
                yield (
                    f"{owners[name]}: [[neighbors]] has no {node.id}, whose neighbour {name} is; "
                    "add it"
                )
            if place.port != there.listen.port:
                yield (
                    f"{path}: neighbour {name} is at {place}, but {owners[name]} listens on "
                    f"{there.listen}; the ports must be equal"
                )


def _compare_clusters(
    path: str, cluster: ClusterConfig, first: str, other: ClusterConfig
) -> Iterator[str]:
    for key in (field.name for field in fields(ClusterConfig)):
        mine, theirs = getattr(cluster, key), getattr(other, key)
        if mine != theirs:
            here, there = (_shown(key, value) for value in (mine, theirs))
            yield (
                f"{path}: [cluster] {key} is {here}, but {first} has {there}; it must be the same "
                "on all nodes"
            )


def _compare_bandits(path: str, node: NodeConfig, first: str, other: NodeConfig) -> Iterator[str]:
    """Yield what prevents two agents from gossiping about a bandit; arms may mostly differ."""
    for name in sorted(node.bandits.keys() & other.bandits.keys()):
        mine, theirs = node.bandits[name], other.bandits[name]
        keys = ["number", *SHARED]
        if not mine.can_widen and not theirs.can_widen:
            keys.append("arms")
        for key in keys:
            here, there = (_shown(key, _setting(key, each)) for each in (mine, theirs))
            if here != there:
                yield (
                    f"{path}: {mine.where} {key} is {here}, but {first} has {there}; it must be "
                    "the same on all nodes"
                )
    for name in sorted(node.bandits.keys() ^ other.bandits.keys()):
        where = path if name in node.bandits else first
        yield f"{path}: bandit {name} is declared in {where} alone; declare it on all nodes"


def _setting(key: str, bandit: BanditConfig) -> Any:
    if key == "arms":
        return [arm.id for arm in bandit.arms]
    return bandit.number if key == "number" else bandit.shared.get(key)


def _shown(key: str, value: Any) -> str:
    """Return a setting as in a file."""
    if value is None:
        return "none"
    if key == "epoch":
        return datetime.fromtimestamp(value, UTC).isoformat()
    return show_duration(value) if key == "half_life" else repr(value)

"""What an agent shows to a page that watches it, and its metrics per link and arm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coopbandits.core.aggregate.pooling import Scatter
from coopbandits.fleet.address import Address
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.service import ArmEstimate, Metric
from coopbandits.fleet.service.catalogue import measured
from coopbandits.page.state import AgentState, ArmState, NeighborState

if TYPE_CHECKING:
    from coopbandits.fleet.protocol.node import Node
    from coopbandits.fleet.service.bandit import ServedBandit
    from coopbandits.fleet.storage.journal import Journal

MOST_LABELS = 50
"""Metrics have labels for so many arms; the rest are added up as `others`."""

OTHERS = "others"
LONGEST_LABEL = 100


def agent_state(service: ServedBandit, since: int, bandits: Sequence[str]) -> AgentState:
    """Return an agent's state, with what happened after an event.

    `bandits` are the names of all that there are, the one told of first.
    """
    node, replica, bandit = service.node, service.replica, service.declared
    now, estimates = service.agent.clock(), service.arms()
    choices, rewards = replica.tickets.next_number - 1, int(replica.own_counts.sum())
    waiting = len(replica.tickets.open)
    by_context, keeper = bool(service.encoder.features), node.settings.keeper
    known = [arm for arm in estimates if arm.mean is not None and not by_context]
    own_choices = replica.own_choices[service.menu.places]
    return AgentState(
        id=service.agent.config.id,
        cluster=bandit.cluster.name,
        policy=bandit.policy,
        started=node.events.started,
        now=now,
        round=replica.rounds,
        incarnation=replica.incarnation,
        ready=service.agent.ready(),
        arms=[_arm(arm, int(n)) for arm, n in zip(estimates, own_choices, strict=True)],
        prefers=max(known, key=lambda arm: arm.mean or 0.0).arm if known else None,
        agents_known=replica.agent.estimate().num_agents,
        choices=choices,
        rewards=rewards,
        open_tickets=waiting,
        expired_tickets=choices - rewards - waiting,
        neighbors=[
            _neighbor(peer, service.agent.config.neighbors.get(name) or node.place_of(name), now)
            for name, peer in node.peers.items()
        ],
        events=node.events.since(since),
        bandits=list(bandits),
        document=keeper.version if keeper.takes_part else None,
        by_context=by_context,
    )


def _arm(arm: ArmEstimate, choices: int) -> ArmState:
    low, high = arm.confidence or (None, None)
    return ArmState(
        arm.arm, arm.mean, low, high, arm.pulls, choices, arm.own_pulls, arm.own_reward, arm.open
    )


def _neighbor(peer: Peer, place: Address | None, now: float) -> NeighborState:
    return NeighborState(
        name=peer.name,
        up=peer.met,
        why="" if peer.met else peer.reason or "no HELLO yet",
        frames=peer.frames["received"] + peer.frames["sent"],
        heard=round(max(0.0, now - peer.last_heard), 3),
        api=_api(peer, place),
    )


def _api(peer: Peer, place: Address | None) -> str | None:
    """Return where a neighbour's API is: at its own port, on the host where it is known to be.

    A neighbour tells no host, so it cannot send whoever watches to somebody else.
    """
    port, secure = peer.endpoint
    if not port or place is None:
        return None
    return f"{'https' if secure else 'http'}://{Address(place.host, port)}"


def link_metrics(node: Node) -> list[Metric]:
    """Return what is measured of links."""
    peers = [({"neighbor": name}, peer) for name, peer in node.peers.items()]
    now = node.now
    frames = [
        (label | {"kind": kind}, float(count))
        for label, peer in peers
        for kind, count in peer.frames.items()
    ]
    refusals = [({"reason": reason}, float(n)) for reason, n in sorted(node.refusals.items())]
    return [
        measured("round", ({}, node.bandits.rounds)),
        measured("link_up", *((label, float(peer.met)) for label, peer in peers)),
        measured("wait_seconds", *((label, now - peer.last_heard) for label, peer in peers)),
        measured("round_wait_seconds", *((label, _waited(node, peer)) for label, peer in peers)),
        measured(
            "reconnects_total", *((label, float(max(0, peer.links - 1))) for label, peer in peers)
        ),
        measured("frames_total", *frames),
        measured("refused_frames_total", *refusals),
        measured("refused_strangers_total", ({}, node.strangers)),
    ]


def _waited(node: Node, peer: Peer) -> float:
    """Return the seconds that the last round of any bandit waited for a neighbour."""
    sessions = node.sessions.by_number.values()
    return max((each.peers[peer.number].waited for each in sessions), default=0.0)


def journal_metrics(journal: Journal) -> list[Metric]:
    """Return what is measured of the journal."""
    return [
        measured("journal_bytes", ({}, journal.size)),
        measured("journal_seconds_total", ({}, journal.disk.seconds)),
    ]


def arm_metrics(services: Sequence[ServedBandit]) -> list[Metric]:
    """Return what is measured per arm, under a bounded number of labels.

    Of several bandits, an arm's label begins with that of its bandit.
    """
    found: list[tuple[str, float | None]] = []
    counts: list[tuple[float, ...]] = []
    for service in services:
        replica, places = service.replica, service.menu.places
        known = service.arms() if len(found) < MOST_LABELS else []
        prefix = f"{service.declared.name}/" if len(services) > 1 else ""
        found += [(prefix + arm.arm, arm.mean) for arm in known]
        own = replica.own_choices[places], replica.own_counts[places], replica.own_sums[places]
        counts += zip(*(each.tolist() for each in own), strict=True)
    names = labels([name for name, _ in found])
    metrics = []
    for at, metric in enumerate(("arm_choices_total", "arm_rewards_total", "arm_reward_sum")):
        shown = [float(each[at]) for each in counts[: len(names)]]
        if len(counts) > len(names):
            shown.append(float(sum(each[at] for each in counts[len(names) :])))
        listed = [*names, OTHERS][: len(shown)]
        samples = zip(listed, shown, strict=True)
        metrics.append(measured(metric, *(({"arm": arm}, value) for arm, value in samples)))
    means = zip(names, (mean for _, mean in found), strict=False)
    shown_means = [({"arm": name}, mean) for name, mean in means if mean is not None]
    return [*metrics, measured("arm_mean", *shown_means)]


def labels(names: list[str]) -> list[str]:
    """Return a label for each of the first arms: its name, cut, and told apart from all others.

    Examples
    --------
    >>> labels(["blue", "others"])
    ['blue', 'others (2)']
    """
    found: list[str] = []
    for at, name in enumerate(names[:MOST_LABELS], 1):
        label, number = name[:LONGEST_LABEL], at
        while label == OTHERS or label in found:
            label, number = f"{name[: LONGEST_LABEL - 10]} ({number})", number + 1
        found.append(label)
    return found


def scatter(service: ServedBandit) -> Scatter | None:
    """Return how much sites differ, with the spread in the application's rewards; None: unknown."""
    ask, scale = getattr(service.replica.agent, "scatter", None), service.scale
    found: Scatter | None = ask(scale.bounded) if ask is not None else None
    if found is None or math.isnan(found.ratio):
        return None
    return found._replace(spread=found.spread * (scale.high - scale.low))


def site_metrics(service: ServedBandit | None) -> list[Metric]:
    """Return how much sites differ, without a value where nobody knows, or there is no one."""
    found = scatter(service) if service is not None else None
    if found is None:
        return [measured("site_ratio"), measured("site_spread")]
    return [measured("site_ratio", ({}, found.ratio)), measured("site_spread", ({}, found.spread))]


def warning(service: ServedBandit) -> str:
    """Return a sentence where everything is pooled although sites differ, else nothing."""
    found, parts = scatter(service), service.declared.policy_object.parts
    pools = parts is not None and getattr(parts.aggregation, "spread", None) is None
    if found is None or not pools or not found.differs:
        return ""
    return (
        f"sites differ: their means scatter {found.ratio:.3g} times as much as by chance, with a "
        f"spread of {found.spread:.2g}, so pooling them may hurt; compare a policy with "
        "spread=estimate"
    )

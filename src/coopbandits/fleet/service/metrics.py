"""Every metric of an agent: one catalogue for code, docs and alerts, and how each is measured.

Every metric of a bandit has the label `bandit`, also where there is one only, so another bandit
renames nothing. Labels are bounded: `MOST_LABELS` bandits, and as many arms of each; the rest is
added up as `OTHERS`.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from coopbandits.core.aggregate.aggregation import OWN
from coopbandits.core.aggregate.pooling import Scatter
from coopbandits.fleet.service import Metric
from coopbandits.version import __version__

if TYPE_CHECKING:
    from coopbandits.fleet.protocol.node import Node
    from coopbandits.fleet.service.bandit import ServedBandit

MOST_LABELS = 50
OTHERS = "(others)"
LONGEST_LABEL = 100

PYTHON = platform.python_version()


class Entry(NamedTuple):
    """One metric of the catalogue, without its name."""

    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()


NEIGHBOR = ("neighbor",)
ARM = ("bandit", "arm")
BANDIT = ("bandit",)

CATALOGUE = {
    "build_info": Entry(
        "gauge", "1, with the version of coopbandits and of Python", ("version", "python")
    ),
    "round": Entry("gauge", "Round of gossip that the agent is in"),
    "link_up": Entry("gauge", "Whether the link to a neighbor is up (1) or down (0)", NEIGHBOR),
    "wait_seconds": Entry("gauge", "Time since a neighbor was last heard", NEIGHBOR),
    "round_wait_seconds": Entry(
        "gauge",
        "How long the last round waited for a neighbor; 0 where rounds wait for nobody",
        NEIGHBOR,
    ),
    "reconnects_total": Entry("counter", "Times that a link came up again", NEIGHBOR),
    "frames_total": Entry(
        "counter",
        "Frames per neighbor: received, sent, resent, duplicate, stale, refused or skipped",
        ("neighbor", "kind"),
    ),
    "refused_frames_total": Entry("counter", "Frames refused, by reason", ("reason",)),
    "refused_strangers_total": Entry("counter", "Connections of others than neighbors refused"),
    "choices_total": Entry("counter", "Choices handed out"),
    "rewards_total": Entry("counter", "Rewards taken in, duplicates not counted"),
    "open_tickets": Entry("gauge", "Tickets handed out that wait for a reward"),
    "max_open_tickets": Entry("gauge", "Limit of open tickets of each bandit"),
    "expired_tickets_total": Entry("counter", "Tickets that expired unused"),
    "abandoned_tickets_total": Entry(
        "counter", "Tickets abandoned for newer ones at the limit of open tickets"
    ),
    "abandoned_rewards_total": Entry(
        "counter", "Rewards refused because their tickets had been abandoned"
    ),
    "refused_pulls_total": Entry(
        "counter", "Choices and rewards refused as faster than max_pulls_per_second", ("call",)
    ),
    "journal_bytes": Entry("gauge", "Size of the journal on disk"),
    "journal_seconds_total": Entry("counter", "Time spent writing the journal"),
    "conservation_residual": Entry(
        "gauge", "Relative difference between what was handed in and what the totals hold"
    ),
    "document_version": Entry("gauge", "Version of the cluster's document; 0 without one"),
    "document_alarm": Entry(
        "gauge", "Whether there are two documents of one version with different contents (1)"
    ),
    "certificate_expiry_seconds": Entry(
        "gauge", "Seconds until neighbors reject the certificate, since it or an issuer has expired"
    ),
    "site_ratio": Entry(
        "gauge", "Scatter of sites about the network's means, over what chance makes of it", BANDIT
    ),
    "site_spread": Entry(
        "gauge", "How far the means of sites are apart, in units of reward", BANDIT
    ),
    "bandits": Entry("gauge", "Bandits that choose"),
    "bandit_choices_total": Entry("counter", "Choices of a bandit handed out", BANDIT),
    "bandit_rewards_total": Entry("counter", "Rewards of a bandit taken in", BANDIT),
    "bandit_open_tickets": Entry("gauge", "Tickets of a bandit that wait for a reward", BANDIT),
    "arm_choices_total": Entry("counter", "Choices of an arm handed out by this agent", ARM),
    "arm_rewards_total": Entry("counter", "Rewards of an arm taken in by this agent", ARM),
    "arm_own_reward": Entry("gauge", "Sum of these rewards", ARM),
    "arm_mean": Entry(
        "gauge", "Mean reward of an arm over the whole network, as this agent sees it", ARM
    ),
    "forwarded_calls_total": Entry(
        "counter",
        "Calls of other agents: answered, rejected there, away (no answer in time) or busy",
        ("call", "result"),
    ),
    "forwarded_seconds_total": Entry(
        "counter", "Time that applications waited for calls of other agents", ("call",)
    ),
    "forwarded_calls_waiting": Entry("gauge", "Calls of other agents that wait for an answer"),
    "served_calls_total": Entry("counter", "Calls served for other agents"),
    "relayed_frames_total": Entry(
        "counter", "Calls and answers between other agents: passed on or dropped", ("result",)
    ),
    "members": Entry("gauge", "Agents that are known to be there, while any agent needs routes"),
    "remembered_units": Entry("gauge", "Users and sessions whose arm is remembered here"),
}


def measured(name: str, *samples: tuple[dict[str, str], float]) -> Metric:
    """Return a metric of the catalogue with these values.

    Examples
    --------
    >>> measured("link_up", ({"neighbor": "shop-2"}, 1.0)).samples
    [({'neighbor': 'shop-2'}, 1.0)]
    """
    entry = CATALOGUE[name]
    for labels, _ in samples:
        if tuple(labels) != entry.labels:
            raise ValueError(f"{name} has the labels {entry.labels}, got {tuple(labels)}")
    return Metric(name, entry.kind, entry.help, list(samples))


def agent_metrics(
    node: Node, services: Sequence[ServedBandit], certificate_left: float | None = None
) -> list[Metric]:
    """Return the metrics of an agent, of its bandits together and one by one."""
    peers = [({"neighbor": name}, peer) for name, peer in node.peers.items()]
    sessions, now = node.sessions.by_number.values(), node.now
    tickets = [service.replica.tickets for service in services]
    rewards = [int(service.replica.own_counts.sum()) for service in services]
    choices = [each.next_number - 1 for each in tickets]
    waiting = [len(each.open) for each in tickets]
    expired = sum(service.replica.expired_tickets for service in services)
    names = [service.declared.name for service in services]
    journal, documents = node.bandits.journal, node.settings.documents
    found = {service.declared.name: scatter(service) for service in services[:MOST_LABELS]}
    sites = [({"bandit": name}, each) for name, each in found.items() if each is not None]
    return [
        measured("build_info", ({"version": __version__, "python": PYTHON}, 1)),
        measured("round", ({}, node.bandits.rounds)),
        measured("link_up", *((label, float(peer.met)) for label, peer in peers)),
        measured("wait_seconds", *((label, now - peer.last_heard) for label, peer in peers)),
        measured(
            "round_wait_seconds",  # of any bandit
            *(
                (label, max((each.peers[peer.number].waited for each in sessions), default=0.0))
                for label, peer in peers
            ),
        ),
        measured(
            "reconnects_total", *((label, float(max(0, peer.links - 1))) for label, peer in peers)
        ),
        measured(
            "frames_total",
            *(
                (label | {"kind": kind}, float(number))
                for label, peer in peers
                for kind, number in peer.frames.items()
            ),
        ),
        measured(
            "refused_frames_total",
            *(({"reason": reason}, float(n)) for reason, n in sorted(node.refusals.items())),
        ),
        measured("refused_strangers_total", ({}, node.strangers)),
        measured("choices_total", ({}, sum(choices))),
        measured("rewards_total", ({}, sum(rewards))),
        measured("open_tickets", ({}, sum(waiting))),
        measured("max_open_tickets", *(({}, each.limit) for each in tickets[:1])),
        measured("expired_tickets_total", ({}, expired)),
        measured("abandoned_tickets_total", ({}, sum(each.num_abandoned for each in tickets))),
        measured("abandoned_rewards_total", ({}, sum(each.late_rewards for each in services))),
        measured(
            "refused_pulls_total",
            ({"call": "choose"}, sum(service.choosing.refused for service in services)),
            ({"call": "observe"}, sum(service.observing.refused for service in services)),
        ),
        measured("journal_bytes", ({}, journal.size)),
        measured("journal_seconds_total", ({}, journal.disk.seconds)),
        measured("conservation_residual", ({}, max(map(residual, services), default=0.0))),
        measured("document_version", ({}, documents.version)),
        measured("document_alarm", ({}, float(bool(documents.alarm)))),
        measured(
            "certificate_expiry_seconds",
            *([] if certificate_left is None else [({}, certificate_left)]),
        ),
        measured("site_ratio", *((label, each.ratio) for label, each in sites)),
        measured("site_spread", *((label, each.spread) for label, each in sites)),
        measured("bandits", ({}, sum(bool(service.declared.arms) for service in services))),
        measured("bandit_choices_total", *_per_bandit(names, choices)),
        measured("bandit_rewards_total", *_per_bandit(names, rewards)),
        measured("bandit_open_tickets", *_per_bandit(names, waiting)),
        *_arm_metrics(services),
    ]


def residual(service: ServedBandit) -> float:
    """Return the relative difference between pulls submitted here and the agent's own share.

    0 for policies that mix shares between agents, so that none has a share of its own, and where
    agents forget.
    """
    traits, replica = service.declared.traits, service.replica
    if traits.shares != OWN or traits.forgets:
        return 0.0
    counts = replica.agent.share().counts
    return float(abs(counts - replica.own_counts).sum() / max(1.0, float(replica.own_counts.sum())))


def scatter(service: ServedBandit) -> Scatter | None:
    """Return how much sites differ, its spread in units of reward; None where it is unknown."""
    ask, scale = getattr(service.replica.agent, "scatter", None), service.scale
    found: Scatter | None = ask(scale.bounded) if ask is not None else None
    if found is None or math.isnan(found.ratio):
        return None
    return found._replace(spread=found.spread * (scale.high - scale.low))


def _per_bandit(names: Sequence[str], values: Sequence[int]) -> list[tuple[dict[str, str], float]]:
    pairs = list(zip(names, map(float, values), strict=True))
    samples = [({"bandit": name}, value) for name, value in pairs[:MOST_LABELS]]
    if len(pairs) > MOST_LABELS:
        rest = sum(value for _, value in pairs[MOST_LABELS:])
        samples.append(({"bandit": OTHERS}, rest))
    return samples


OF_ARMS = ("arm_choices_total", "arm_rewards_total", "arm_own_reward")


def _arm_metrics(services: Sequence[ServedBandit]) -> list[Metric]:
    """Return the metrics per arm; arms of further bandits are all `OTHERS`."""
    samples: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name in OF_ARMS}
    means: list[tuple[dict[str, str], float]] = []
    rest = [0.0] * len(OF_ARMS)  # of further bandits
    for at, service in enumerate(services):
        replica, places = service.replica, service.selection.places
        own = replica.own_choices[places], replica.own_counts[places], replica.own_sums[places]
        if at >= MOST_LABELS:
            rest = [total + float(each.sum()) for total, each in zip(rest, own, strict=True)]
            continue
        arms, bandit = service.arms(), service.declared.name
        names = labels([arm.arm for arm in arms])
        for name, values in zip(OF_ARMS, own, strict=True):
            shown = [*names, OTHERS] if len(values) > len(names) else names
            bounded = [*map(float, values[: len(names)]), float(values[len(names) :].sum())]
            samples[name] += [
                ({"bandit": bandit, "arm": arm}, value)
                for arm, value in zip(shown, bounded, strict=False)
            ]
        means += [
            ({"bandit": bandit, "arm": name}, arm.mean)
            for name, arm in zip(names, arms, strict=False)
            if arm.mean is not None
        ]
    if len(services) > MOST_LABELS:
        for name, value in zip(OF_ARMS, rest, strict=True):
            samples[name].append(({"bandit": OTHERS, "arm": OTHERS}, value))
    return [*(measured(name, *samples[name]) for name in OF_ARMS), measured("arm_mean", *means)]


def labels(names: list[str]) -> list[str]:
    """Return a distinct label for each of the first arms: its name, shortened.

    Examples
    --------
    >>> labels(["blue", "(others)"])
    ['blue', '(others) (2)']
    """
    found: list[str] = []
    for at, name in enumerate(names[:MOST_LABELS], 1):
        label, number = name[:LONGEST_LABEL], at
        while label == OTHERS or label in found:
            label, number = f"{name[: LONGEST_LABEL - 10]} ({number})", number + 1
        found.append(label)
    return found

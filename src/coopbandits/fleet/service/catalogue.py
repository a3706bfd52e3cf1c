"""Every metric of an agent with its kind and labels, in one table for code, docs and alerts."""

from __future__ import annotations

from typing import Literal, NamedTuple

from coopbandits.fleet.service import Metric


class Entry(NamedTuple):
    """One metric of the catalogue, without its name."""

    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()


NEIGHBOR = ("neighbor",)
ARM = ("arm",)
BANDIT = ("bandit",)

CATALOGUE = {
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
    "open_tickets": Entry("gauge", "Tickets handed out and neither used nor expired"),
    "expired_tickets_total": Entry("counter", "Tickets that expired unused"),
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
    "site_ratio": Entry(
        "gauge", "Scatter of sites about the network's means, over what chance makes of it"
    ),
    "site_spread": Entry("gauge", "How far the means of sites are apart, in units of reward"),
    "bandits": Entry("gauge", "Bandits that choose"),
    "bandit_choices_total": Entry("counter", "Choices of a bandit handed out", BANDIT),
    "bandit_rewards_total": Entry("counter", "Rewards of a bandit taken in", BANDIT),
    "bandit_open_tickets": Entry("gauge", "Tickets of a bandit that wait for a reward", BANDIT),
    "arm_choices_total": Entry("counter", "Choices of an arm handed out by this agent", ARM),
    "arm_rewards_total": Entry("counter", "Rewards of an arm taken in by this agent", ARM),
    "arm_reward_sum": Entry("gauge", "Sum of these rewards", ARM),
    "arm_mean": Entry(
        "gauge", "Mean reward of an arm over the whole network, as this agent sees it", ARM
    ),
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

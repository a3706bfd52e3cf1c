"""The service of one agent: maps arm names and tickets to numbers, answers, and measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from coopbandits.core.aggregate.aggregation import OWN
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.contract import Estimate, Share, Vector
from coopbandits.core.errors import unknown_name
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.features import ONES
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import (
    CONFIDENCE,
    ArmEstimate,
    Choice,
    Context,
    Metric,
    Receipt,
    Recommendation,
    Stored,
    UnavailableError,
    require_allowed,
    require_reward,
    require_ticket,
)
from coopbandits.fleet.service.catalogue import measured
from coopbandits.fleet.service.pace import Pace
from coopbandits.fleet.service.recommending import recommendation
from coopbandits.fleet.service.sites import site_metrics, warning
from coopbandits.fleet.service.watching import agent_state, arm_metrics
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.page.state import AgentState

DRAINING = "the agent is about to stop and makes no more choices"

QUANTILE = 1.959964
"""Of the normal distribution, for a two-sided 95 % interval."""


class Waiting(Protocol):
    """What stores events while others are gathered."""

    def wait(self, then: Stored) -> None:
        """Call `then` once all events so far are on disk, or with the reason why not."""


class ApplicationService:
    """Implements `Service` for one agent.

    Parameters
    ----------
    config : NodeConfig
        The agent's configuration, with the names of the arms.
    node : Node
        The agent's protocol.
    words : callable
        Returns 64 random bits.
    """

    def __init__(self, config: NodeConfig, node: Node, words: Callable[[], int]) -> None:
        self.config, self.node, self.words = config, node, words
        self.committer: Waiting | None = None
        self.names = config.cluster.arms
        self.numbers = {name: k for k, name in enumerate(self.names)}
        self.replica, self.scale = node.replica, config.cluster.scale
        self.encoder = config.cluster.encoder
        self.failure = ""  # why the agent serves no more
        self.draining = False
        self.ready_neighbors = config.ready_neighbors
        choices, rewards = self.replica.tickets.next_number - 1, int(self.replica.own_counts.sum())
        self.choosing, self.observing = self._pace(choices), self._pace(rewards)

    def _pace(self, made: int) -> Pace:
        cluster, now = self.config.cluster, self.node.clock()
        return Pace(cluster.max_pulls_per_second, now - cluster.epoch, made, now)

    def choose(
        self, allowed: Sequence[str] | None = None, context: Context | None = None
    ) -> Choice:
        """Return an arm, one of `allowed` if given, for a request like this, and a ticket.

        An agent that was started on a full disk answers by what it knows, without a ticket.
        """
        names = None if allowed is None else require_allowed(allowed)
        numbers = None if names is None else [self._number(name) for name in names]
        features = self.encoder.encode(context)
        if self.draining and not self.failure:
            raise UnavailableError(f"{DRAINING}; ask another agent")
        if self.replica.journal.read_only and not self.failure:
            return Choice("", self.names[self.replica.advise(self.words(), numbers, features)])
        now = self._ready_for(self.choosing)
        try:
            number, arm = self.replica.choose(self.words(), numbers, now, features)
        except DiskError as error:
            raise UnavailableError(f"{error}; nothing was chosen") from error
        self.choosing.spend()
        return Choice(self.replica.tickets.name(number), self.names[arm])

    def _ready_for(self, pace: Pace) -> float:
        """Return the time; refuse a call that comes too early, or after a failure."""
        if self.failure:
            raise UnavailableError(self.failure)
        now = self.node.clock()
        pace.check(now)
        return now

    def _number(self, name: str) -> int:
        if name not in self.numbers:
            raise unknown_name("arm", name, self.names)
        return self.numbers[name]

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Count the reward of a ticket; repeating the same one is harmless."""
        number, reward = self.replica.tickets.number(require_ticket(ticket)), require_reward(reward)
        self._ready_for(self.observing)
        try:
            if self.replica.journal.trouble:
                raise DiskError(self.replica.journal.trouble)
            arm, duplicate = self.replica.observe(number, reward)
        except DiskError as error:
            raise UnavailableError(f"{error}; the reward is not counted") from error
        if not duplicate:
            self.observing.spend()
        return Receipt(ticket, self.names[arm], reward, duplicate)

    def stored(self, then: Stored) -> None:
        """Call `then` once all that was chosen and observed so far is on disk."""
        if self.committer is None:
            then(None)
        else:
            self.committer.wait(then)

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every arm, for requests like this where a context is given."""
        estimate = self.totals()
        believed = self._means(estimate) if context is None else self._outlook(context)
        least = NO_INFORMATION * estimate.num_agents
        return [
            self._arm(k, float(estimate.counts[k]), least, *each) for k, each in enumerate(believed)
        ]

    def totals(self) -> Estimate:
        """Return reward sums and pulls of arms over the network, whatever the requests were."""
        estimate = self.replica.agent.estimate()
        if not self.encoder.features:
            return estimate
        return estimate._replace(sums=estimate.sums[:, ONES], extra=())

    def _means(self, estimate: Estimate) -> Iterator[tuple[float, float]]:
        """Yield the mean of every arm, and half the width of its interval."""
        for total, pulls in zip(estimate.sums, estimate.counts, strict=True):
            known = float(pulls) if pulls > 0.0 else math.nan
            yield float(total) / known, QUANTILE * self.scale.sigma / math.sqrt(known)

    def _outlook(self, context: Context) -> Iterator[tuple[float, float]]:
        """Yield the same for requests like this, as the model expects."""
        outlook = self.replica.seeing.outlook(self.encoder.columns(context))
        for mean, deviation in zip(*outlook, strict=True):
            # A line leaves the range of rewards somewhere, and they never do.
            inside = min(max(float(mean), 0.0), 1.0) if self.scale.bounded else float(mean)
            yield inside, QUANTILE * float(deviation)

    def context_schema(self) -> dict[str, Any] | None:
        """Return what a context must be, as a JSON schema; None where there is none."""
        return self.encoder.schema()

    def _arm(self, k: int, pulls: float, least: float, mean: float, half: float) -> ArmEstimate:
        own, rewards = int(self.replica.own_counts[k]), float(self.replica.own_sums[k])
        waiting = int(self.replica.agent.open_pulls[k])
        if pulls <= least:
            return ArmEstimate(self.names[k], None, 0.0, None, own, rewards, waiting)
        interval, mean = self.scale.interval(mean, half), self.scale.reward(mean)
        return ArmEstimate(self.names[k], mean, pulls, interval, own, rewards, waiting)

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far, and how sure that is."""
        return recommendation(self, confidence)

    def health(self) -> dict[str, Any]:
        """Return the agent's state as plain data.

        `shares` are the agent's shares of all rewards and pulls, K and K numbers on the agent's
        own scale, after each of the last rounds. Summed over all agents after the same round, they
        equal what was handed in.
        """
        node, cluster = self.node, self.config.cluster
        return {
            "id": self.config.id,
            "cluster": cluster.name,
            "policy": cluster.policy,
            "mode": cluster.mode,
            "round": self.replica.rounds,
            "incarnation": self.replica.incarnation,
            "agents_known": self.replica.agent.estimate().num_agents,
            "links": {
                name: "up" if peer.met else f"down: {peer.reason or 'no HELLO yet'}"
                for name, peer in node.peers.items()
            },
            "open_tickets": len(self.replica.tickets.open),
            "rewards": int(self.replica.own_counts.sum()),
            "refused_frames": dict(node.refusals),
            "refused_strangers": node.strangers,
            "journal_bytes": self.replica.journal.size,
            "trouble": node.trouble,
            "warning": warning(self),
            "shares": {
                str(r): [*self._reward_sums(share).tolist(), *share.counts.tolist()]
                for r, share in self.replica.shares().items()
            },
        }

    def _reward_sums(self, share: Share) -> Vector:
        """Return the rewards of every arm in a share, whatever the requests were."""
        return share.sums[ONES :: self.encoder.width] if self.encoder.features else share.sums

    def state(self, since: int = 0) -> AgentState:
        """Return what a page shows, with what happened after an event."""
        return agent_state(self, since)

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason in one sentence."""
        if self.replica.journal.read_only and not self.failure:
            return f"{self.node.trouble}; until it can, choices come without tickets"
        return self.failure or self.node.trouble or self._unready()

    def _unready(self) -> str | None:
        if self.draining:
            return DRAINING
        linked = sum(peer.met for peer in self.node.peers.values())
        if linked < self.ready_neighbors:
            return (
                f"{linked} of {len(self.node.peers)} neighbours are linked, and ready_neighbors "
                f"is {self.ready_neighbors}"
            )
        return None

    def metrics(self) -> list[Metric]:
        """Return the agent's metrics."""
        node, replica, tickets = self.node, self.replica, self.replica.tickets
        peers = [({"neighbor": name}, peer) for name, peer in node.peers.items()]
        now = node.clock()
        rewards = int(replica.own_counts.sum())
        choices = tickets.next_number - 1
        frames = [
            (label | {"kind": kind}, float(count))
            for label, peer in peers
            for kind, count in peer.frames.items()
        ]
        refusals = [({"reason": reason}, float(n)) for reason, n in sorted(node.refusals.items())]
        return [
            measured("round", ({}, replica.rounds)),
            measured("link_up", *((label, float(peer.met)) for label, peer in peers)),
            measured("wait_seconds", *((label, now - peer.last_heard) for label, peer in peers)),
            measured("round_wait_seconds", *((label, peer.waited) for label, peer in peers)),
            measured(
                "reconnects_total",
                *((label, float(max(0, peer.links - 1))) for label, peer in peers),
            ),
            measured("frames_total", *frames),
            measured("refused_frames_total", *refusals),
            measured("refused_strangers_total", ({}, node.strangers)),
            measured("choices_total", ({}, choices)),
            measured("rewards_total", ({}, rewards)),
            measured("open_tickets", ({}, len(tickets.open))),
            measured("expired_tickets_total", ({}, choices - rewards - len(tickets.open))),
            measured(
                "refused_pulls_total",
                ({"call": "choose"}, self.choosing.refused),
                ({"call": "observe"}, self.observing.refused),
            ),
            measured("journal_bytes", ({}, replica.journal.size)),
            measured("journal_seconds_total", ({}, replica.journal.disk.seconds)),
            measured("conservation_residual", ({}, residual(self))),
            *site_metrics(self),
            *arm_metrics(self),
        ]


def residual(service: ApplicationService) -> float:
    """Return the relative difference between pulls handed in here and the agent's own share.

    0 for policies that mix shares between agents, so that none has a share of its own, and where
    agents forget.
    """
    cluster, replica = service.config.cluster, service.replica
    if cluster.traits.shares != OWN or cluster.traits.forgets:
        return 0.0
    counts = replica.agent.share().counts
    return float(abs(counts - replica.own_counts).sum() / max(1.0, float(replica.own_counts.sum())))

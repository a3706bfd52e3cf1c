"""Plausibility checks: a neighbour's claim is believed only if it could have happened.

A neighbour has proved who it is, but what it says may still be wrong, by a fault or by intent.
Claims are checked before the agent sees them, against what the cluster's configuration declares:

- counts are at least 0 and at most what `max_pulls_per_second` allows since the epoch began, for
  every agent they include, and they include at most `max_agents`;
- reward sums lie within the declared range times the counts;
- with flooding, where each agent's entry can be tracked, its counts grow no faster than that, and
  nobody claims more pulls of this agent than it has made.

Clocks may differ and news may be late, so `SLACK` seconds are granted; growth beyond the rate uses
them up. Tree sums and flooding carry totals, which are checked as such; pull mixing carries
averages. A synchronous policy mixes values that may legitimately be negative in transit, so they
are only required to be finite.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coopbandits.core.aggregate import Aggregation
from coopbandits.core.aggregate.flooded_totals import HEADER, FloodedTotals
from coopbandits.core.aggregate.pull_mixing import PullMixing
from coopbandits.core.aggregate.tree_sums import TreeSums
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError

SLACK = 60.0
ROUNDING = 1e-9


@dataclass
class PlausibilityCheck:
    """Checks neighbours' claims.

    Parameters
    ----------
    bounded : bool
        Whether rewards on the agent's scale lie in [0, 1].
    rate : float
        Pulls per second that one agent may make.
    epoch : float
        When learning began.
    max_agents : int
        The most agents there may be.
    """

    bounded: bool
    rate: float
    epoch: float
    max_agents: int
    _seen: dict[float, tuple[float, float, float]] = field(default_factory=dict)
    """By agent: the pulls last accepted, when, and how many more were allowed."""

    def check(self, aggregation: Aggregation, message: Vector, now: float) -> None:
        """Refuse a message with impossible claims; the agent itself checks its form."""
        if isinstance(aggregation, FloodedTotals):
            self._check_flood(aggregation, message, now)
        elif isinstance(aggregation, TreeSums):
            self._check_tree(aggregation, message, now)
        elif isinstance(aggregation, PullMixing):
            self._check_mixing(aggregation.num_arms, message, now)

    def most_pulls(self, seconds: float) -> float:
        """Return the most pulls one agent can make in some seconds."""
        return self.rate * (max(0.0, seconds) + SLACK)

    def _check_totals(
        self, sums: Vector, counts: Vector, pulls: float, agents: float, now: float
    ) -> None:
        most = agents * self.most_pulls(now - self.epoch)
        if not pulls <= most or counts.min() < 0.0:
            raise InputError(
                f"a claim of {pulls:g} pulls by {agents:g} agents; it is at most {most:g} since "
                "the epoch began, and never negative"
            )
        room = -ROUNDING * (1.0 + pulls)
        if self.bounded and np.minimum(sums, counts - sums).min() < room:
            raise InputError(
                f"a claim of rewards {sums.tolist()} for {counts.tolist()} pulls; each reward, "
                "scaled by its range, lies in 0 to 1"
            )

    def _check_mixing(self, arms: int, message: Vector, now: float) -> None:
        if message.size >= 2 * arms:
            counts = message[arms : 2 * arms]
            self._check_totals(message[:arms], counts, float(counts.sum()), 1.0, now)

    def _check_tree(self, tree: TreeSums, message: Vector, now: float) -> None:
        arms, size = tree.num_arms, tree.own.size
        if message.size < size:
            return
        agents, counts = float(message[size - 2]), message[arms : 2 * arms]
        if not 1.0 <= agents <= self.max_agents:
            raise InputError(
                f"a claim of {agents:g} agents; there is at least 1, and at most {self.max_agents}"
            )
        self._check_totals(message[:arms], counts, float(counts.sum()), agents, now)

    def _check_flood(self, flood: FloodedTotals, message: Vector, now: float) -> None:
        width, arms = flood.entries.shape[1], flood.num_arms
        if message.size <= HEADER or message.size % width != HEADER % width:
            return
        entries = message[HEADER:].reshape(-1, width)
        sums = entries[:, HEADER : HEADER + arms]
        counts = entries[:, HEADER + arms : HEADER + 2 * arms]
        agents, pulls = entries[:, 0].tolist(), counts.sum(axis=1).tolist()
        self._check_agents(flood, agents, pulls, now)
        self._check_totals(sums, counts, sum(pulls), float(len(agents)), now)
        for agent, total in zip(agents, pulls, strict=True):
            if total >= self._seen.get(agent, (0.0,))[0]:
                spare = min(self.rate * SLACK, self._most_of(agent, now) - total)
                self._seen[agent] = total, now, spare

    def _most_of(self, agent: float, now: float) -> float:
        """Return the most pulls an agent can have made, given what was accepted before."""
        pulls, when, spare = self._seen.get(agent, (0.0, self.epoch, self.rate * SLACK))
        return pulls + spare + self.rate * max(0.0, now - when)

    def _check_agents(
        self, flood: FloodedTotals, agents: list[float], pulls: list[float], now: float
    ) -> None:
        known = len(self._seen)
        for agent, total in zip(agents, pulls, strict=True):
            if agent == flood.agent_id and total > flood.share()[flood.num_arms :].sum():
                raise InputError(f"a claim of {total:g} own pulls, more than this agent has made")
            if not total <= self._most_of(agent, now):
                known_pulls = self._seen.get(agent, (0.0,))[0]
                raise InputError(
                    f"a claim of {total:g} pulls by agent {agent:g}, {known_pulls:g} known; it "
                    f"makes at most {self.rate:g} a second"
                )
            known += agent not in self._seen
        if known > self.max_agents:
            raise InputError(
                f"a claim that there are {known} agents; there are at most {self.max_agents}"
            )

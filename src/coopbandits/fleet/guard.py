"""How much of a neighbour's word is believed: no more than could have happened.

A neighbour has proved who it is; what it says may still be wrong, by a fault or by intent. Its
claims are checked before the agent sees them, against what was declared for the whole cluster:

- counts are at least 0 and no larger than `max_pulls_per_second` allows since the epoch began, for
  every agent that they are made of, and of these there are at most `max_agents`;
- reward sums lie within the declared range times the counts;
- with flooding, where an agent's entry can be followed, its counts grow no faster than that either;
  and nobody knows of more own pulls than the agent itself.

Clocks may differ, and news may be late: `SLACK` seconds are granted. What tree sums and flooding
carry is checked; with pull mixing averages are. A synchronous policy mixes values that may well be
negative on the way, so nothing but finiteness can be asked of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coopbandits.core.agent import Aggregation, Vector
from coopbandits.core.aggregate.flooded_totals import HEADER, FloodedTotals
from coopbandits.core.aggregate.pull_mixing import PullMixing
from coopbandits.core.aggregate.tree_sums import TreeSums
from coopbandits.core.errors import InputError

SLACK = 60.0
ROUNDING = 1e-9


@dataclass
class Guard:
    """Checks what neighbours claim.

    Parameters
    ----------
    bounded : bool
        Whether rewards, as the agent sees them, lie in [0, 1].
    rate : float
        Pulls per second that one agent may make.
    epoch : float
        When learning began.
    max_agents : int
        How many agents there may be.
    """

    bounded: bool
    rate: float
    epoch: float
    max_agents: int
    _seen: dict[float, tuple[float, float]] = field(default_factory=dict)
    """By agent: the pulls last accepted, and when."""

    def check(self, aggregation: Aggregation, message: Vector, now: float) -> None:
        """Refuse a message whose claims are impossible; its form is the agent's business."""
        if isinstance(aggregation, FloodedTotals):
            self._check_flood(aggregation, message, now)
        elif isinstance(aggregation, TreeSums):
            self._check_tree(aggregation, message, now)
        elif isinstance(aggregation, PullMixing):
            arms = aggregation.num_arms
            self._check_totals(message[:arms], message[arms : 2 * arms], 1.0, now)

    def most_pulls(self, seconds: float) -> float:
        """Return how many pulls one agent can have made in some seconds."""
        return self.rate * (max(0.0, seconds) + SLACK)

    def _check_totals(self, sums: Vector, counts: Vector, agents: float, now: float) -> None:
        pulls, most = float(counts.sum()), agents * self.most_pulls(now - self.epoch)
        if not pulls <= most or counts.min(initial=0.0) < 0.0:
            raise InputError(
                f"a claim of {pulls:g} pulls by {agents:g} agents; it is at most {most:g} since "
                "the epoch began, and never negative"
            )
        if self.bounded and not self._within(sums, counts):
            raise InputError(
                f"a claim of rewards {sums.tolist()} for {counts.tolist()} pulls; each reward, "
                "scaled by its range, lies in 0 to 1"
            )

    def _within(self, sums: Vector, counts: Vector) -> bool:
        room = ROUNDING * (1.0 + counts)
        return bool((sums >= -room).all() and (sums <= counts + room).all())

    def _check_tree(self, tree: TreeSums, message: Vector, now: float) -> None:
        agents = float(message[tree.own.size - 2]) if message.size >= tree.own.size else 1.0
        if not 1.0 <= agents <= self.max_agents:
            raise InputError(
                f"a claim of {agents:g} agents; there is at least 1, and at most {self.max_agents}"
            )
        arms = tree.num_arms
        self._check_totals(message[:arms], message[arms : 2 * arms], agents, now)

    def _check_flood(self, flood: FloodedTotals, message: Vector, now: float) -> None:
        width, arms = flood.entries.shape[1], flood.num_arms
        if message.size <= HEADER or message.size % width != HEADER % width:
            return
        entries = message[HEADER:].reshape(-1, width)
        counts = entries[:, HEADER + arms : HEADER + 2 * arms]
        pulls = counts.sum(axis=1)
        self._check_agents(flood, entries[:, 0], pulls, now)
        self._check_totals(
            entries[:, HEADER : HEADER + arms].ravel(), counts.ravel(), float(len(entries)), now
        )
        for agent, total in zip(entries[:, 0].tolist(), pulls.tolist(), strict=True):
            self._seen[agent] = max((total, now), self._seen.get(agent, (0.0, now)))

    def _check_agents(
        self, flood: FloodedTotals, agents: Vector, pulls: Vector, now: float
    ) -> None:
        own = float(flood.held()[flood.num_arms :].sum())
        for agent, total in zip(agents.tolist(), pulls.tolist(), strict=True):
            if agent == flood.agent_id and total > own:
                raise InputError(
                    f"a claim of {total:g} own pulls; this agent has made {own:g} of them"
                )
            before, when = self._seen.get(agent, (0.0, self.epoch))
            if not total <= before + self.most_pulls(now - when):
                raise InputError(
                    f"a claim of {total:g} pulls by agent {agent:g}, {before:g} of them known; it "
                    f"makes at most {self.rate:g} a second"
                )
        strangers = len(self._seen.keys() | set(agents.tolist()))
        if strangers > self.max_agents:
            raise InputError(
                f"a claim that there are {strangers} agents; there are at most {self.max_agents}"
            )

"""Contexts of a run: features of every agent and round, what arms pay in them, and what pulls cost.

Features are drawn from a tape of their own, by the place of agent and round alone: all policies see
the same.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Context
from coopbandits.problems.linear import LinearBandit
from coopbandits.problems.tables import BEST, NETWORK_GAP, OWN_GAP
from coopbandits.sim.record import Record, Task
from coopbandits.sim.tapes import CONTEXTS, agent_keys

CHUNK_FLOATS = 2**18
"""How many features are drawn in one go."""


class Contexts:
    """Features and means of the rounds of one run, for arms in the order of the run."""

    def __init__(self, task: Task, run: int) -> None:
        self.problem = cast("LinearBandit", task.problem)  # `Tables.in_context` says so
        self.order = task.arm_order(run)
        self.keys = agent_keys(task.seed, CONTEXTS, run, task.network.num_agents)
        per_round = self.keys.size * self.problem.features.rows * self.problem.num_features
        self.chunk = max(1, CHUNK_FLOATS // per_round)
        self.first, self.drawn = 0, np.empty((0, 0, 0, 0))
        self.means = np.empty((0, 0, 0))

    def begin(self, rounds: int) -> int:
        """Have the contexts of the next round drawn; return its place in the chunk."""
        at = rounds - self.first
        if at >= self.drawn.shape[1]:
            drawn = self.problem.features.draw(self.keys, rounds, self.chunk)
            means = self.problem.expected(drawn)[..., self.order]
            shape = (*drawn.shape[:2], self.problem.num_arms, drawn.shape[3])
            self.drawn = np.broadcast_to(drawn, shape)[:, :, self.order]
            self.means, self.first, at = means, rounds, 0
        return at


class ContextAccount:
    """What the pulls of one run pay and cost, where that depends on features."""

    def __init__(self, task: Task, run: int) -> None:
        self.contexts, self.sigma = Contexts(task, run), task.sigma
        self.regret = np.zeros(task.network.num_agents)
        self.costs = np.zeros(3)
        self.at = 0

    def begin(self, rounds: int) -> None:
        """Turn to the contexts that hold after so many rounds."""
        self.at = self.contexts.begin(rounds)

    def features(self, agent: int) -> Context:
        """Return the features of every arm as one agent sees them now."""
        drawn: Context = self.contexts.drawn[agent, self.at]
        return drawn

    def pay(self, agent: int, arm: int, variate: float) -> float:
        """Return the reward of a pull."""
        return float(self.contexts.means[agent, self.at, arm] + self.sigma * variate)

    def book(self, agents: NDArray[np.int64], arms: NDArray[np.int64]) -> None:
        """Enter one pull of each of some agents."""
        means = self.contexts.means[agents, self.at]
        best = means.max(axis=1)
        gaps = best - means[np.arange(agents.size), arms]
        self.regret[agents] += gaps
        self.costs[OWN_GAP] += gaps.sum()
        self.costs[NETWORK_GAP] = self.costs[OWN_GAP]  # no two agents are in the same context
        self.costs[BEST] += best.sum()

    def write(self, record: Record, row: int, kept: int) -> None:
        """Record all costs so far."""
        record.costs[row, kept] = self.costs
        record.worst[row, kept] = self.regret.max()
        if record.agent_regret.shape[1]:
            record.agent_regret[row, :, kept] = self.regret

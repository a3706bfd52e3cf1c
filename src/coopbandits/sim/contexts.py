"""Contexts of a run: features of every agent and round, what arms pay in them, and what pulls cost.

Features are drawn from a tape of their own, by the place of agent and round alone: all policies see
the same. Where agents have clocks of their own, it is agent and pull: every request has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Context
from coopbandits.problems import Problem
from coopbandits.problems.linear import LinearBandit, expected
from coopbandits.problems.tables import BEST, NETWORK_GAP, OWN_GAP, Tables
from coopbandits.sim.tapes import CONTEXTS, agent_keys

if TYPE_CHECKING:
    from coopbandits.sim.record import Record, Task

Floats = NDArray[np.float64]

CHUNK_FLOATS = 2**18
"""How many features are drawn in one go."""
OWN_CHUNK = 64
"""How many contexts of one agent are drawn in one go, where agents have clocks of their own."""


class Contexts:
    """Features and means of the rounds of one run, for arms in the order of the run.

    `means` (agent, round, arm) are those of every agent; `common` are by the network's average of
    θ, and the same array where all agents have one.
    """

    def __init__(
        self, problem: Problem, tables: Tables, seed: int, run: int, order: NDArray[np.int64]
    ) -> None:
        linear = cast("LinearBandit", getattr(problem, "base", problem))
        self.features, self.num_arms = linear.features, linear.num_arms
        self.tables, self.order = tables, order
        self.keys = agent_keys(seed, CONTEXTS, run, tables.group.size)
        per_round = self.keys.size * self.features.rows * self.features.size
        self.chunk = max(1, CHUNK_FLOATS // per_round)
        self.first, self.drawn = 0, np.empty((0, 0, 0, 0))
        self.means = self.common = np.empty((0, 0, 0))

    def begin(self, rounds: int, agent: int = 0) -> int:
        """Have the contexts of the next round drawn, for all; return its place in the chunk."""
        del agent
        at = rounds - self.first
        if at >= self.drawn.shape[1]:
            drawn = self.features.draw(self.keys, rounds, self.chunk)
            self._expect(drawn, self.tables.segments(np.arange(rounds, rounds + self.chunk)))
            shape = (*drawn.shape[:2], self.num_arms, drawn.shape[3])
            self.drawn = np.broadcast_to(drawn, shape)[:, :, self.order]
            self.first, at = rounds, 0
        return at

    def read(self, start: int, stop: int) -> Floats:
        """Return the means (agent, round, arm) of some rounds."""
        found = np.empty((self.keys.size, stop - start, self.num_arms))
        for rounds in range(start, stop):
            at = self.begin(rounds)
            found[:, rounds - start] = self.means[:, at]
        return found

    def _expect(self, drawn: Floats, segments: NDArray[np.int64]) -> None:
        """Compute what arms pay in these contexts, in rounds of these segments."""
        theta = cast("Floats", self.tables.theta)  # there is one in context
        if theta.shape[:2] == (1, 1):
            self.means = self.common = expected(theta[0, 0], drawn)[..., self.order]
            return
        self.means = np.empty((*drawn.shape[:2], self.num_arms))
        self.common = np.empty_like(self.means) if len(theta) > 1 else self.means
        averages = self.tables.averaged(theta)
        for segment in np.unique(segments).tolist():
            rounds = np.flatnonzero(segments == segment)
            for group in range(len(theta)):
                at = np.ix_(np.flatnonzero(self.tables.group == group), rounds)
                self.means[at] = expected(theta[group, segment], drawn[at])[..., self.order]
            if len(theta) > 1:
                shared = expected(averages[segment], drawn[:, rounds])
                self.common[:, rounds] = shared[..., self.order]


class OwnContexts:
    """The context of every agent's next pull, by the number of the pull: `Contexts` without rounds.

    Its arrays are as those of `Contexts`, with a single round, in which agents come one by one.
    """

    def __init__(
        self, problem: Problem, tables: Tables, seed: int, run: int, order: NDArray[np.int64]
    ) -> None:
        self.tape = Contexts(problem, tables, seed, run, order)
        agents, arms = self.tape.keys.size, self.tape.num_arms
        self.coming: list[Floats] = [np.empty((0, 0, 0))] * agents
        self.pulls = [0] * agents
        self.drawn = np.empty((agents, 1, arms, self.tape.features.size))
        self.means = self.common = np.empty((agents, 1, arms))
        theta = cast("Floats", tables.theta)
        if len(theta) > 1:
            self.common = np.empty_like(self.means)
        self.theta, self.averages = theta, tables.averaged(theta)

    def begin(self, rounds: int, agent: int) -> int:
        """Have the context of an agent's next pull drawn, after so many units of time."""
        tape, number = self.tape, self.pulls[agent]
        if number % OWN_CHUNK == 0:
            self.coming[agent] = tape.features.draw(tape.keys[[agent]], number, OWN_CHUNK)[0]
        self.pulls[agent] = number + 1
        drawn, segment = self.coming[agent][number % OWN_CHUNK], tape.tables.segment(rounds)
        self.drawn[agent, 0] = np.broadcast_to(drawn, self.drawn.shape[2:])[tape.order]
        own = self.theta[tape.tables.group[agent], segment]
        self.means[agent, 0] = expected(own, drawn)[tape.order]
        if self.common is not self.means:
            self.common[agent, 0] = expected(self.averages[segment], drawn)[tape.order]
        return 0


def barred_arms(tables: Tables, order: NDArray[np.int64]) -> Floats | None:
    """Return −∞ where an agent may not play an arm, else 0 (N, K); None where all may play all."""
    masks = tables.masks(order)
    return None if masks is None else np.where(masks > 0.0, 0.0, -np.inf)


class ContextAccount:
    """What the pulls of one run pay and cost, where that depends on features."""

    def __init__(self, task: Task, run: int) -> None:
        order, kind = task.arm_order(run), OwnContexts if task.clocks else Contexts
        self.contexts: Contexts | OwnContexts = kind(
            task.problem, task.tables, task.seed, run, order
        )
        self.sigma, self.barred = task.sigma, barred_arms(task.tables, order)
        self.regret = np.zeros(task.network.num_agents)
        self.costs = np.zeros(3)
        self.at = 0

    def begin(self, rounds: int, agent: int = 0) -> None:
        """Turn to the contexts that hold after so many rounds, or to the next of one agent."""
        self.at = self.contexts.begin(rounds, agent)

    def features(self, agent: int) -> Context:
        """Return the features of every arm as one agent sees them now."""
        drawn: Context = self.contexts.drawn[agent, self.at]
        return drawn

    def pay(self, agent: int, arm: int, variate: float) -> float:
        return float(self.contexts.means[agent, self.at, arm] + self.sigma * variate)

    def book(self, agents: NDArray[np.int64], arms: NDArray[np.int64]) -> None:
        """Enter one pull of each of some agents."""
        best, gaps = self._gaps(self.contexts.means, agents, arms)
        self.regret[agents] += gaps
        self.costs[OWN_GAP] += gaps.sum()
        self.costs[BEST] += best.sum()
        if self.contexts.common is self.contexts.means:
            self.costs[NETWORK_GAP] = self.costs[OWN_GAP]
        else:
            self.costs[NETWORK_GAP] += self._gaps(self.contexts.common, agents, arms)[1].sum()

    def _gaps(
        self, means: Floats, agents: NDArray[np.int64], arms: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Return the best mean that every agent could have had, and what it missed."""
        now = means[agents, self.at]
        best = (now if self.barred is None else now + self.barred[agents]).max(axis=1)
        return best, best - now[np.arange(agents.size), arms]

    def write(self, record: Record, row: int, kept: int) -> None:
        record.costs[row, kept] = self.costs
        record.worst[row, kept] = self.regret.max()
        if record.agent_regret.shape[1]:
            record.agent_regret[row, :, kept] = self.regret

"""Tracked means: every agent follows the average of all agents' own means (gradient tracking).

With x_i the own means of the arms, z_i ← Σ_j P_ij z_j + x_i(new) − x_i(old) in every round, so that
Σ_i z_i = Σ_i x_i always. Beside z, agents tell the largest number of pulls of every arm that they
have heard of; an arm on which an agent lags too far behind that counts as unknown, and so comes
first. A message is [z | largest counts], as they were when the last round ended. An agent is silent
until it has pulled every arm once. A neighbour that was not heard counts as if it had sent the own
z; where agents meet in pairs, the one that was heard counts half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import (
    Aggregation,
    Machine,
    means_alone,
    told_agents,
)
from coopbandits.core.aggregate.exchange import check_means
from coopbandits.core.aggregate.means_rows import TrackedMeansRows
from coopbandits.core.checks import require_count, require_epsilon, require_flag, require_positive
from coopbandits.core.contract import Estimate, LocalView, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.mixing import weighted_sum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coopbandits.core.statistic import Registers, Statistic


@dataclass(frozen=True)
class TrackedMeans(Aggregation):
    r"""The network's average of means, with the confidence of the own pulls.

    Parameters
    ----------
    credit : float
        What a pull counts: an arm that the agent pulled n times, which has d neighbours, counts as
        `credit` · (d + 1) · n pulls, and in pairs as `credit` · n/N.
    pairs : bool
        Whether agents meet in pairs (the fault ``pairs=1``), as Gossip_UCB has it: who was heard
        alone counts half.
    epsilon : float
        ε of the source `private` that rewards have passed; counts shrink to
        :math:`n/(1 + 128 N \ln^2 T \ln t \ln n/(n ε^2))` then.
    horizon : int
        T of that.

    Notes
    -----
    Knows its row of P, and in pairs N. Sends 2K values to each neighbour in every round, once it
    has pulled every arm. All agents count alike in z, however often each has pulled an arm; hence
    the rule against lagging behind: by K pulls or more, in pairs by more than N.
    """

    credit: float = 1.0
    pairs: bool = False
    epsilon: float = math.inf
    horizon: int = 1
    name: ClassVar[str] = "tracked-means"
    totals: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse settings outside what it is defined for."""
        require_positive("credit", self.credit)
        require_flag("pairs", self.pairs)
        require_epsilon(self.epsilon)
        require_count("horizon", self.horizon)

    @property
    def needs(self) -> frozenset[str]:
        """N, where pairs are averaged or noise is allowed for."""
        asks = self.pairs or self.epsilon != math.inf
        return frozenset({"num_agents"} if asks else ())

    def carried(self, asked: Statistic) -> Statistic:
        """Return sums per arm; refuse anything else, since only means travel."""
        return means_alone(self.name, asked)

    def make(self, view: LocalView, registers: Registers) -> TrackedMeansMachine:
        """Return the machine of one agent."""
        return TrackedMeansMachine(view, registers, self)

    def make_rows(
        self, views: Sequence[LocalView], matrix: Any, registers: Registers
    ) -> TrackedMeansRows:
        """Return all agents in array form."""
        machines = [self.make(view, registers) for view in views]
        return TrackedMeansRows(machines, views, matrix, registers)


class TrackedMeansMachine(Machine):
    """Own registers, the own means at the end of the last round, z, and the largest counts.

    Notes
    -----
    The time is the number of own pulls.
    """

    fields = ("own", "means", "tracked", "heard", "num_pulls", "ready")

    def __init__(self, view: LocalView, registers: Registers, settings: TrackedMeans) -> None:
        self.view, self.registers, self.settings = view, registers, settings
        self.credit = settings.credit * (1.0 + len(view.neighbor_weights))
        self.least_lag = registers.num_arms  # so far behind is too far
        self.num_agents = told_agents(view, settings.spelling) if settings.needs else 1
        if settings.pairs:
            self.credit, self.least_lag = settings.credit / self.num_agents, self.num_agents + 1
        self.own = registers.zeros()
        arms = registers.num_arms
        self.means, self.tracked, self.heard = np.zeros(arms), np.zeros(arms), np.zeros(arms)
        self.num_pulls = 0
        self.ready = False  # whether every arm was pulled before this round

    def estimate(self) -> Estimate:
        """Return own counts times the credit, none where the agent lags behind, and z as means."""
        time = max(2.0, float(self.num_pulls))
        read = self.registers.read(self.own, time=time, num_agents=1.0)
        lags = read.counts <= self.heard - self.least_lag
        counts = np.where(lags, 0.0, self.credit * self.trusted(read.counts, time))
        z = self.tracked + self._means(read) - self.means  # as if this round had ended
        return read._replace(sums=z * counts, counts=counts)

    def trusted(self, counts: Vector, time: float) -> Vector:
        """Return what counts are worth where sums are noisy."""
        if self.settings.epsilon == math.inf:
            return counts
        known = np.maximum(1.0, counts)
        scale = math.log(self.settings.horizon) / self.settings.epsilon
        noise = 128.0 * self.num_agents * scale**2 * math.log(time) * np.log(known) / known
        found: Vector = counts / (1.0 + noise)
        return found

    def _means(self, read: Estimate) -> Vector:
        found: Vector = read.sums / np.maximum(1.0, read.counts)
        return found

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull."""
        self.registers.add(self.own, arm, reward)
        self.num_pulls += 1

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return [z | largest counts], or None before every arm was pulled."""
        del neighbor  # all get the same
        return np.concatenate([self.tracked, self.heard]) if self.ready else None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Average z with what was heard, and add what the own means have changed by."""
        arms = self.registers.num_arms
        check_means(messages, self.registers)
        own, weights = self._weights(messages)
        heard = {j: message[:arms] for j, message in messages.items()}
        read = self.registers.read(self.own, time=1.0, num_agents=1.0)
        means = self._means(read)
        self.tracked = weighted_sum(own, self.tracked, weights, heard) + means - self.means
        self.means = means
        self.heard = np.maximum(self.heard, read.counts)
        for message in messages.values():
            self.heard = np.maximum(self.heard, message[arms:])
        self.ready = self.ready or bool(read.counts.min() > 0.0)

    def _weights(self, messages: Mapping[int, Vector]) -> tuple[float, Mapping[int, float]]:
        """Return the weight of the own z, and those of who was heard."""
        weights, own = self.view.neighbor_weights, self.view.own_weight
        if self.settings.pairs and len(messages) == 1:
            return 0.5, dict.fromkeys(messages, 0.5)
        if len(messages) < len(weights):
            own += sum(weight for j, weight in weights.items() if j not in messages)
        return own, weights

    def check_state(self, values: State) -> None:
        """Refuse counts that cannot be."""
        require_count("state field num_pulls", values["num_pulls"], least=0)
        if (values["heard"] < 0.0).any():
            raise InputError("state field heard has counts below 0; counts are never negative")

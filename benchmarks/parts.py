"""Parts as a user would write them, mostly without the cheaper forms that ours declare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coopbandits.core.aggregate import (
    AgentRows,
    Aggregation,
    Machine,
    RowEstimates,
    RunningConsensus,
)
from coopbandits.core.contract import Estimate, LocalView, Vector
from coopbandits.core.index import KLUCB, Index
from coopbandits.core.statistic import Registers


@dataclass(frozen=True)
class OwnUCB(Index):
    """UCB from its formula alone."""

    name: ClassVar[str] = "own-ucb"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """2σ²."""
        return (2.0 * view.sigma**2,)

    def scratch_size(self, num_arms: int) -> int:
        """2σ² ln t."""
        del num_arms
        return 1

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        """2σ² ln t."""
        scratch[0] = numbers[0] * math.log(estimate.time)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        """Return the mean and its bonus."""
        count = estimate.counts[arm]
        if count <= 1e-12 * estimate.num_agents:
            return math.inf
        return float(estimate.sums[arm] / count + math.sqrt(scratch[0] / count))


@dataclass(frozen=True)
class OwnBonus(OwnUCB):
    """UCB that says how its bonus comes about, and so is spared most looks at all arms."""

    name: ClassVar[str] = "own-bonus"

    @staticmethod
    def bonus(estimate: Estimate, numbers: Any, scratch: Any) -> tuple[float, float]:
        """2σ² ln t, and nothing."""
        return scratch[0], 0.0


@dataclass(frozen=True)
class OwnKLUCB(KLUCB):
    """KL-UCB without the bound that spares most arms."""

    name: ClassVar[str] = "own-kl-ucb"
    bound = None


@dataclass(frozen=True)
class OwnConsensus(Aggregation):
    """Running consensus by another name, in array form."""

    name: ClassVar[str] = "own-consensus"
    needs: ClassVar[frozenset[str]] = frozenset({"num_agents"})

    def make(self, view: LocalView, registers: Registers) -> Machine:
        """Return one agent's machine."""
        return RunningConsensus().make(view, registers)

    def make_rows(
        self, views: Sequence[LocalView], matrix: Any, registers: Registers
    ) -> AgentRows | None:
        """Return all agents of a run."""
        return ConsensusRows(len(views), matrix, registers)


class ConsensusRows(AgentRows):
    """All agents at once."""

    def __init__(self, num_agents: int, matrix: Any, registers: Registers) -> None:
        self.num_agents, self.matrix, self.registers = num_agents, matrix, registers
        self.mixed = np.zeros((num_agents, registers.size))

    def estimate(self) -> RowEstimates:
        """N times the averages."""
        totals = self.num_agents * self.mixed
        time = np.maximum(1.0, self.registers.version(totals))
        return RowEstimates(totals, time, self.num_agents)

    def exchange(self, pulls: Vector) -> None:
        """Add the pulls, and mix."""
        self.mixed = self.matrix @ (self.mixed + pulls)

"""Aggregations in both forms: what somebody else might write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from benchmarks.parts import OwnConsensus
from coopbandits.core import (
    AgentRows,
    Aggregation,
    Estimate,
    LocalView,
    Machine,
    MessageSize,
    Registers,
    RowEstimates,
)
from coopbandits.core.aggregate.local import LocalSums, LocalSumsMachine
from coopbandits.core.registry import register_aggregation

Views = Sequence[LocalView]


@dataclass(frozen=True)
class Moody(Aggregation):
    """Own pulls alone; time, anticipation and agents depend on what each agent is told."""

    name: ClassVar[str] = "moody"
    needs = frozenset({"random_word", "lambda_bound"})

    def make(self, view: LocalView, registers: Registers) -> Machine:
        return MoodyMachine(view, registers)

    def make_rows(self, views: Views, matrix: Any, registers: Registers) -> AgentRows | None:
        return MoodyRows(views, registers)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        return MessageSize(0, 0)


class MoodyMachine(LocalSumsMachine):
    def __init__(self, view: LocalView, registers: Registers) -> None:
        super().__init__(LocalSums(), view, registers)
        self.mood = 1.0 + view.random_word % 5 + (view.lambda_bound or 0.0)

    def estimate(self) -> Estimate:
        seen = super().estimate()
        return seen._replace(
            time=self.mood * seen.time, num_agents=self.mood, anticipation=self.mood
        )


class MoodyRows(AgentRows):
    def __init__(self, views: Views, registers: Registers) -> None:
        self.registers = registers
        self.moods = np.array([1.0 + v.random_word % 5 + (v.lambda_bound or 0.0) for v in views])
        self.totals = np.zeros((len(views), registers.size))

    def estimate(self) -> RowEstimates:
        time = self.moods * np.maximum(2.0, self.registers.version(self.totals))
        # Not in C order, as the transpose of what somebody keeps arm by arm.
        return RowEstimates(np.asfortranarray(self.totals), time, self.moods, self.moods)

    def exchange(self, pulls: Any) -> None:
        self.totals += pulls


@dataclass(frozen=True)
class Fivefold(Aggregation):
    """Own pulls, played on as if there were five times as many, and certified as they are."""

    name: ClassVar[str] = "fivefold"
    uncertified = ""

    def make(self, view: LocalView, registers: Registers) -> Machine:
        return FivefoldMachine(LocalSums(), view, registers)

    def make_rows(self, views: Views, matrix: Any, registers: Registers) -> AgentRows | None:
        return FivefoldRows(views, registers)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        return MessageSize(0, 0)


class FivefoldMachine(LocalSumsMachine):
    def estimate(self) -> Estimate:
        totals = 5.0 * self.state.totals
        time = max(2.0, float(self.registers.version(totals)))
        return self.registers.read(totals, time=time, num_agents=1.0)._replace(certain=self.share())


class FivefoldRows(AgentRows):
    def __init__(self, views: Views, registers: Registers) -> None:
        self.registers, self.totals = registers, np.zeros((len(views), registers.size))

    def estimate(self) -> RowEstimates:
        totals = 5.0 * self.totals
        return RowEstimates(totals, np.maximum(2.0, self.registers.version(totals)), 1.0)

    def exchange(self, pulls: Any) -> None:
        self.totals = self.totals + pulls


@dataclass(frozen=True)
class Formless(OwnConsensus):
    """Has no array form."""

    name: ClassVar[str] = "formless"

    def make_rows(self, views: Views, matrix: Any, registers: Registers) -> AgentRows | None:
        return None


@dataclass(frozen=True)
class Growing(OwnConsensus):
    """Says that messages differ in size."""

    name: ClassVar[str] = "growing"

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        return MessageSize(2, 5, "later")


for kind in (Moody, Fivefold, Formless, Growing):
    register_aggregation(kind.name, kind)

"""An aggregation with an array form that keeps the contract, and forms that break it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from benchmarks.parts import ConsensusRows as HonestRows
from coopbandits.core import (
    UCB,
    Aggregation,
    CentredDraw,
    LocalView,
    Machine,
    MessageSize,
    Policy,
    Registers,
    RowEstimates,
    Vector,
    combine,
)
from coopbandits.core.aggregate.consensus import RunningConsensus, RunningConsensusMachine


@dataclass(frozen=True)
class Mixed(Aggregation):
    """Running consensus, with one of the array forms below."""

    form: str = "HonestRows"
    name: ClassVar[str] = "mixed"
    needs = frozenset({"num_agents"})

    def make(self, view: LocalView, registers: Registers) -> Machine:
        return RunningConsensus().make(view, registers)

    def make_rows(self, views: Sequence[LocalView], matrix: Any, registers: Registers) -> Any:
        make: Callable[..., Any] = globals()[self.form]
        return make(len(views), matrix, registers)


class MixesTooLate(HonestRows):
    def exchange(self, pulls: Any) -> None:
        self.mixed = self.matrix @ self.mixed + pulls


class LeaksSlowly(HonestRows):
    def exchange(self, pulls: Any) -> None:
        super().exchange(pulls)
        self.mixed *= 1.0 - 1e-7


class CountsRounds(HonestRows):
    """The time is that of an agent which does not know N."""

    def estimate(self) -> RowEstimates:
        told = super().estimate()
        return told._replace(time=np.maximum(1.0, np.asarray(told.time) / self.num_agents))


class ForgetsAgents(HonestRows):
    def estimate(self) -> RowEstimates:
        return super().estimate()._replace(num_agents=1.0)


class Anticipates(HonestRows):
    """Only the last agent does, and only in array form."""

    def estimate(self) -> RowEstimates:
        ahead = np.ones(self.num_agents)
        ahead[-1] = 1.5
        return super().estimate()._replace(anticipation=ahead)


class StartsWithSomething(HonestRows):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.mixed[0, 0] = 1.0


class SkipsSquares(HonestRows):
    def exchange(self, pulls: Any) -> None:
        super().exchange(np.where(np.arange(pulls.shape[1]) < 6, pulls, 0.0))


class Transposes(HonestRows):
    def estimate(self) -> RowEstimates:
        told = super().estimate()
        return told._replace(totals=told.totals.T)


class NoRows:
    def __init__(self, *arguments: Any) -> None:
        pass


@dataclass(frozen=True)
class Chatty(Mixed):
    """Machines send one value more than is counted."""

    def make(self, view: LocalView, registers: Registers) -> Machine:
        return ChattyMachine(RunningConsensus(), view, registers)


class ChattyMachine(RunningConsensusMachine):
    def outgoing(self, neighbor: int) -> Vector | None:
        return np.append(self.state.mixed, 0.0)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive({j: values[:-1] for j, values in messages.items()})


@dataclass(frozen=True)
class Silent(Mixed):
    """Is counted as if nothing was sent."""

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        return MessageSize(0, 0)


SAID: dict[Policy, str] = {
    combine(Mixed("MixesTooLate"), UCB()): r"sums \[.*\].*\(agent 0, cycle",
    combine(Mixed("LeaksSlowly"), UCB()): "(sums|counts).*both forms",
    combine(Mixed("CountsRounds"), UCB()): r"time 1\.0.* 4\.0.* round 1\)",
    combine(Mixed("ForgetsAgents"), UCB()): r"num_agents 1\.0.* 4.* round 0\)",
    combine(Mixed("Anticipates"), UCB()): r"anticipation 1\.5.* 1\.0.*\(agent 3, cycle",
    combine(Mixed("StartsWithSomething"), UCB()): r"sums \[4\.0, 0\.0, 0\.0\].* round 0\)",
    combine(Mixed("SkipsSquares"), CentredDraw("estimate")): r"squares \[0\.0\]",
    combine(Mixed("Transposes"), UCB()): r"\(6, 4\).*\(4, 6\)",
    combine(Mixed("NoRows"), UCB()): "make_rows.*AgentRows",
    combine(Chatty(), UCB()): r"7 values.*\(0, 1\).* 6\b",
    combine(Silent(), UCB()): r"6 values.*\(0, 1\).* 0\b",
}
"""Policies whose two forms differ, and what is said of it."""

"""A small policy that keeps the contract, and how to make others out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core import (
    UCB,
    Agent,
    AnyAggregation,
    CooperativeAgent,
    Estimate,
    LocalView,
    Machine,
    Policy,
    Registers,
    Vector,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Pool(Machine):
    """Own totals, and the sum of the neighbours' as of last round."""

    fields: tuple[str, ...] = ("own", "heard")

    def __init__(self, view: LocalView) -> None:
        self.neighbors = list(view.neighbor_weights)
        self.own, self.heard = np.zeros((2, 2 * view.num_arms))

    def estimate(self) -> Estimate:
        sums, counts = (self.own + self.heard).reshape(2, -1)
        return Estimate(sums, counts, max(2.0, counts.sum()), 1.0)

    def observe(self, arm: int, reward: float) -> None:
        self.own.reshape(2, -1)[:, arm] += reward, 1.0

    def outgoing(self, neighbor: int) -> Vector | None:
        return self.own.copy() if neighbor in self.neighbors else None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        self.heard = sum(messages.values(), np.zeros(self.own.size))


@dataclass(frozen=True)
class Pooled(AnyAggregation):
    """An aggregation of one's own."""

    name: ClassVar[str] = "pooled"

    def make(self, view: LocalView, registers: Registers) -> Machine:
        del registers
        return Pool(view)


class Honest(CooperativeAgent):
    """Keeps the contract."""

    machine: Pool

    def __init__(self, view: LocalView) -> None:
        super().__init__(view, Pool(view), UCB(), "test")


class Using(Policy):
    """Makes agents of a given class."""

    name = "test"

    def __init__(self, make: Callable[[LocalView], Agent]) -> None:
        self.make = make

    def make_agent(self, view: LocalView) -> Agent:
        return self.make(view)

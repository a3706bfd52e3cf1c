"""Parts as a user writes them, in a file of their own; tests put the folder on PYTHONPATH."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import coopbandits as cb
from coopbandits.core import AnyAggregation, Machine
from coopbandits.core.aggregate import Claims
from coopbandits.core.contract import Share


@dataclass(frozen=True)
class Optimist(cb.Index):
    """The mean, and more for arms that were pulled less."""

    width: float = 1.0
    name: ClassVar[str] = "optimist"
    random: ClassVar[bool] = False

    def numbers(self, view: cb.LocalView) -> tuple[float, ...]:
        return (self.width * view.sigma,)

    @staticmethod
    def value(arm: int, estimate: cb.Estimate, word: int, numbers: Any, scratch: Any) -> float:
        count = estimate.counts[arm]
        if count <= 0.0:
            return math.inf
        return float(estimate.sums[arm] / count + numbers[0] / math.sqrt(count))


@dataclass(frozen=True)
class Neighbors(AnyAggregation):
    """Everybody's own totals, told to the neighbours."""

    name: ClassVar[str] = "neighbors"
    mode: ClassVar[str] = "robust"
    shares: ClassVar[str] = "own"
    checks_claims: ClassVar[bool] = True

    def make(self, view: cb.LocalView, registers: cb.Registers) -> NeighborsMachine:
        return NeighborsMachine(view, registers)


class NeighborsMachine(Machine):
    """Own totals, and what each neighbour told last."""

    fields = ("own", "heard")
    links = ("heard",)

    def __init__(self, view: cb.LocalView, registers: cb.Registers) -> None:
        self.registers = registers
        self.places = {j: at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.own = registers.zeros()
        self.heard = np.zeros((len(self.places), registers.size))

    def estimate(self) -> cb.Estimate:
        totals = self.own + self.heard.sum(axis=0)
        time = max(2.0, float(self.registers.version(totals)))
        return self.registers.read(totals, time=time, num_agents=1.0 + len(self.places))

    def observe(self, arm: int, reward: float) -> None:
        self.registers.add(self.own, arm, reward)

    def outgoing(self, neighbor: int) -> cb.Vector | None:
        return self.own.copy()

    def receive(self, messages: Mapping[int, cb.Vector]) -> None:
        for j, message in messages.items():
            self.heard[self.places[j]] = message  # numpy refuses another size

    def share(self) -> Share:
        return self.registers.share(self.own)

    def check_claims(self, message: cb.Vector, claims: Claims, now: float) -> None:
        claims.check_totals(self.registers, message, 1.0, now)


@dataclass(frozen=True)
class Waiting(Neighbors):
    """The same, round by round."""

    mode: ClassVar[str] = "synchronous"


@dataclass(frozen=True)
class Careless(Neighbors):
    """Believes everything."""

    checks_claims: ClassVar[bool] = False


class CredulousMachine(NeighborsMachine):
    """Has no check of its own."""

    check_claims = Machine.check_claims


@dataclass(frozen=True)
class Boastful(Neighbors):
    """Declares a check that its machines do not have."""

    def make(self, view: cb.LocalView, registers: cb.Registers) -> NeighborsMachine:
        return CredulousMachine(view, registers)


@dataclass(frozen=True)
class Own(cb.Policy):
    """Both of the above."""

    width: float = 1.0
    name: ClassVar[str] = "own"

    @property
    def parts(self) -> cb.Parts:
        return cb.Parts(Neighbors(), Optimist(self.width))


@dataclass(frozen=True)
class Whole(cb.Policy):
    """A policy that is not made of parts, but whose agents have all that a fleet asks for."""

    name: ClassVar[str] = "whole"
    mode: ClassVar[str] = "robust"
    checks_claims: ClassVar[bool] = True

    def make_agent(self, view: cb.LocalView) -> cb.Agent:
        machine = NeighborsMachine(view, cb.ArmSums().registers(view.num_arms))
        return cb.CooperativeAgent(view, machine, Optimist(), self.spelling)


class Secretive(Whole):
    """Hides rewards by noise."""

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | cb.Private(1.0, 100).needs


class Undeclared(Whole):
    """Says nothing of claims."""

    checks_claims: ClassVar[bool] = False


class Bare(Whole):
    """Makes agents that fulfil the agent's contract and no more."""

    def make_agent(self, view: cb.LocalView) -> cb.Agent:
        return BareAgent(view)


class BareAgent(cb.Agent):
    """Pulls the first arm."""

    def choose(self, word: int, allowed: Any = None) -> int:
        return 0

    def observe(self, arm: int, reward: float) -> None: ...

    def outgoing(self, neighbor: int) -> cb.Vector | None: ...

    def receive(self, messages: Mapping[int, cb.Vector]) -> None: ...

    def export_state(self) -> dict[str, Any]:
        return {}

    def restore_state(self, state: dict[str, Any]) -> None: ...

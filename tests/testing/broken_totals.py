"""Aggregations whose estimates are wrong, although they keep every other clause of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coopbandits.core import (
    UCB,
    AnyAggregation,
    Estimate,
    LocalView,
    Machine,
    Policy,
    Registers,
    Share,
    Vector,
    combine,
)

from .honest import Pool


class AddsAgain(Pool):
    """Adds the neighbours' cumulative totals again in every round."""

    def receive(self, messages: Mapping[int, Vector]) -> None:
        self.heard = sum(messages.values(), self.heard)


class FiveTimes(Pool):
    """Reports five times its counts."""

    def estimate(self) -> Estimate:
        found = super().estimate()
        return found._replace(counts=5.0 * found.counts, sums=5.0 * found.sums)


class FiveTimesTheAgents(FiveTimes):
    """Reports five times its counts, as those of five times as many agents."""

    def estimate(self) -> Estimate:
        return super().estimate()._replace(num_agents=5.0 * (len(self.neighbors) + 1))


class ForgetsItself(Pool):
    """Estimates what the neighbours pulled."""

    def estimate(self) -> Estimate:
        sums, counts = self.heard.reshape(2, -1)
        return Estimate(sums.copy(), counts.copy(), max(2.0, counts.sum()), 1.0)


class FiveTimesTheNeighbors(Pool):
    """Reports five times what it heard."""

    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive(messages)
        self.heard = 5.0 * self.heard


class CountsItselfTwice(Pool):
    """Adds every own pull twice to what it estimates."""

    def estimate(self) -> Estimate:
        sums, counts = (2.0 * self.own + self.heard).reshape(2, -1)
        return Estimate(sums, counts, max(2.0, counts.sum()), 1.0)


class CountsItselfAmongNeighbors(Pool):
    """Adds its own pulls to the neighbours' as well, from where they come back."""

    def estimate(self) -> Estimate:
        extra = self.own if self.neighbors else np.zeros(self.own.size)
        sums, counts = (self.own + self.heard + extra).reshape(2, -1)
        return Estimate(sums, counts, max(2.0, counts.sum()), 1.0)


class HearsTheLowest(Pool):
    """Listens to the neighbour with the lowest number alone."""

    def receive(self, messages: Mapping[int, Vector]) -> None:
        lowest = {j: messages[j] for j in sorted(messages)[:1]}
        super().receive(lowest)


class WeighsTheLowest(Pool):
    """Between two neighbours, takes the rewards of the lower number in place of the other's."""

    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive(messages)
        if len(messages) == 2:
            half, order = self.own.size // 2, sorted(messages)
            self.heard[:half] += messages[order[0]][:half] - messages[order[-1]][:half]


class KeepsArmZero(Pool):
    """Does not tell of arm 0."""

    def outgoing(self, neighbor: int) -> Vector | None:
        message = super().outgoing(neighbor)
        if message is not None:
            message.reshape(2, -1)[:, 0] = 0.0
        return message


class DelaysArmZero(Pool):
    """Tells of arm 0 a round later than of others."""

    fields = ("own", "heard", "before")

    def __init__(self, view: LocalView) -> None:
        super().__init__(view)
        self.before = self.own.copy()

    def outgoing(self, neighbor: int) -> Vector | None:
        message = super().outgoing(neighbor)
        if message is not None:
            message.reshape(2, -1)[:, 0] = self.before.reshape(2, -1)[:, 0]
        return message

    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive(messages)
        self.before = self.own.copy()


class RelaysEverything(Pool):
    """Sends all it knows, so that pulls arrive over both ways round a cycle, and come back."""

    def outgoing(self, neighbor: int) -> Vector | None:
        return self.own + self.heard if neighbor in self.neighbors else None


class DoublesNeighbors(Pool):
    """Counts the neighbours' pulls once from each side of a cycle."""

    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive(messages)
        if len(self.neighbors) == 2:
            self.heard = 2.0 * self.heard


class Certifying(Pool):
    """Certifies own pulls, which is right."""

    certifies: ClassVar[bool] = True

    def estimate(self) -> Estimate:
        return super().estimate()._replace(certain=self.certain())

    def certain(self) -> Share | None:
        return Share(*self.own.reshape(2, -1).copy())


class CertifiesTheNewest(Certifying):
    """Certifies what it heard in the last round, which is less where messages are lost."""

    def certain(self) -> Share | None:
        return Share(*(self.own + self.heard).reshape(2, -1))


class CertifiesTwice(Certifying):
    """Certifies every own pull twice."""

    def certain(self) -> Share | None:
        return Share(*(2.0 * self.own).reshape(2, -1))


class CertifiesOtherSums(Certifying):
    """Certifies sums over more pulls than it counts."""

    def certain(self) -> Share | None:
        sums, counts = (self.own + self.heard).reshape(2, -1)
        return Share(sums, np.where(self.own.reshape(2, -1)[1] > 0.0, counts, 0.0))


class CertifiesNothing(Certifying):
    """Says that it certifies pulls, and does not."""

    def certain(self) -> Share | None:
        return None


class CertifiesInSecret(Certifying):
    """Certifies pulls, and says that it does not."""

    certifies = False


@dataclass(frozen=True)
class Wrong(AnyAggregation):
    """An aggregation of one of these machines."""

    machine: Any = Pool
    name: ClassVar[str] = "wrong"

    @property
    def uncertified(self) -> str:
        return "" if getattr(self.machine, "certifies", False) else super().uncertified

    def make(self, view: LocalView, registers: Registers) -> Machine:
        del registers
        made: Machine = self.machine(view)
        return made


class Undeclared(Wrong):
    """Promises no totals."""

    totals: ClassVar[bool] = False


def wrong(machine: Any, *, totals: bool = True) -> Policy:
    policy = combine((Wrong if totals else Undeclared)(machine), UCB())
    assert isinstance(policy, Policy)
    return policy


FOUND: dict[str, tuple[tuple[Any, str], ...]] = {
    "own pulls": (
        (ForgetsItself, r"counts \[0\.0, 0\.0, 0\.0\].*observe"),
        (FiveTimes, r"counts \[20\.0, 20\.0, 20\.0\].*twice"),
        (CountsItselfTwice, r"counts \[8\.0, 8\.0, 8\.0\].*twice"),
    ),
    "no invented pulls": (
        (AddsAgain, r"have made \d+"),
        (FiveTimesTheNeighbors, r"\d+ pulls of arm \d.*scaled"),
        (FiveTimesTheAgents, r"15 agents.* 4\b"),
        (CountsItselfAmongNeighbors, r"20 pulls of arm 0.* 16\b"),
        (RelaysEverything, r"cycle"),
        (DoublesNeighbors, r"cycle"),
    ),
    "totals of all": (
        (HearsTheLowest, r"counts \[8\.0, 8\.0, 8\.0\].*\[20\.0, 20\.0, 20\.0\]"),
        (KeepsArmZero, r"counts \[4\.0, 20\.0, 20\.0\]"),
    ),
    "renamed agents": ((WeighsTheLowest, r"agent called \d instead of \d.* sums"),),
    "renamed arms": (
        (
            DelaysArmZero,
            r"arms are called \[1, 2, 0\].* counts",
        ),
    ),
    "certified pulls": (
        (CertifiesTwice, r"certified 2 times"),
        (CertifiesTheNewest, r"\d+ certified pulls.*overtaken"),
        (CertifiesOtherSums, r"sums of certified pulls"),
        (CertifiesNothing, r"certifies no pulls.*`uncertified` is ''"),
        (CertifiesInSecret, r"certifies pulls.*`uncertified` is 'does not"),
    ),
}
"""What each check says of whom."""

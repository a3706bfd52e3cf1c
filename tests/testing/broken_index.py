"""Indices that each say something untrue of themselves, or play on no number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from coopbandits.core import UCB, Estimate, Index, LocalView, uniform_of


@dataclass(frozen=True)
class Mean(Index):
    """Keeps the contract: the mean, and +∞ for an arm never seen."""

    name: ClassVar[str] = "mean"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        if estimate.counts[arm] <= 1e-12 * estimate.num_agents:
            return math.inf
        return float(estimate.sums[arm] / estimate.counts[arm])


@dataclass(frozen=True)
class Noisy(Mean):
    """Keeps the contract: a mean and some noise, drawn before all arms; with a bound."""

    random: ClassVar[bool] = True
    prepare_reads: ClassVar[str] = "word"

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = uniform_of(word)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return Mean.value(arm, estimate, word, numbers, scratch) + float(scratch[0])

    @staticmethod
    def bound(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return Mean.value(arm, estimate, word, numbers, scratch) + 1.0


class NotANumber(Mean):
    """0/0 of an arm never seen, as numpy divides."""

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return Mean.value(arm, estimate, word, numbers, scratch) * float(estimate.counts[arm] != 0)


class NoFloat(Mean):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> Any:
        return 0 if arm == 0 else Mean.value(arm, estimate, word, numbers, scratch)


class SecretlyRandom(Noisy):
    """Reads the word in `prepare`."""

    random: ClassVar[bool] = False


class SecretlyRandomValue(Mean):
    """Reads the word in `value`."""

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return Mean.value(arm, estimate, word, numbers, scratch) + float(word % 7)


class PreparesTheWord(Noisy):
    """Reads the word, but says that it reads arms."""

    prepare_reads: ClassVar[str] = "arms"


class PreparesTheArms(Mean):
    """Reads the arms, but says that it reads the time."""

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = sum(estimate.sums)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return Mean.value(arm, estimate, word, numbers, scratch) + float(scratch[0])


class PreparesOwnNumbers(PreparesTheArms):
    """Reads a number that no two agents share, but says that it reads the time."""

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        return (float(view.agent_id),)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = numbers[0]


class PreparesAnything(Mean):
    prepare_reads: ClassVar[str] = "everything"


class WritesTooFar(Mean):
    """Fills more than it asked for."""

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        for k in range(len(estimate.counts)):
            scratch[k] = 1.0


class LowBound(Noisy):
    @staticmethod
    def bound(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return Mean.value(arm, estimate, word, numbers, scratch) + 0.5


class FiniteBound(Noisy):
    """Forgets that an arm never seen has the value +∞."""

    @staticmethod
    def bound(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return min(1e300, Mean.value(arm, estimate, word, numbers, scratch) + 1.0)


class HalfBonus(UCB):
    @staticmethod
    def bonus(estimate: Estimate, numbers: Any, scratch: Any) -> tuple[float, float]:
        return 0.5 * float(scratch[0]), 0.0


class BonusOfArms(UCB):
    """Right, but looks at arms that engines do not show it."""

    @staticmethod
    def bonus(estimate: Estimate, numbers: Any, scratch: Any) -> tuple[float, float]:
        return float(scratch[0]) + 0.0 * sum(estimate.counts) + float(not estimate.counts), 0.0


class FiniteUnseen(UCB):
    """An arm never seen has a finite value, which a bonus cannot make."""

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return min(1e9, UCB.value(arm, estimate, word, numbers, scratch))

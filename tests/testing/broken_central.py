"""Controllers and central policies that each break one clause of the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from coopbandits.core import UCB, ArmSums, CentralPolicy
from coopbandits.core.aggregate import Controller


class Plain(Controller):
    """Keeps the contract: a batched UCB, or with another delay."""

    delay: ClassVar[int] = 0

    def __init__(self, num_arms: int) -> None:
        super().__init__(UCB(), ArmSums().registers(num_arms), 1.0, self.delay)


class UsingController(CentralPolicy):
    """Makes controllers of a given class."""

    name = "test"

    def __init__(self, make: Any) -> None:
        self.make = make

    def make_controller(self, num_arms: int, sigma: float, num_features: int = 0) -> Controller:
        controller: Controller = self.make(num_arms)
        return controller


class NumberedCentralPolicy(UsingController):
    name: ClassVar[Any] = 7


class OneTooFar(Plain):
    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        return self.totals.size // 2


class NumpyIntegers(Plain):
    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> Any:
        return np.int64(super().choose(word))


class GlobalChance(Plain):
    """Has a source of chance of its own."""

    pulls: ClassVar[int] = 0

    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        type(self).pulls += 1
        return self.pulls % (self.totals.size // 2)


class CountsQuestions(Plain):
    asked = 0

    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        self.asked += 1
        return self.asked % (self.totals.size // 2)


class PaysForQuestions(Plain):
    """Plays as it should, but every question counts as a pull."""

    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        self.totals[-1] += 1.0
        return self.rounds % (self.totals.size // 2)


class Forgets(Plain):
    """Loses rewards of the last arm."""

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        if arm + 1 < self.totals.size // 2:
            super().observe(arm, reward)


class Discounts(Plain):
    def end_round(self) -> None:
        super().end_round()
        self.totals[:] *= 0.5


class Peeks(Plain):
    """Batched by its history, but looks at what the others of this round have got."""

    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        self.history[0] = self.totals.copy()
        return super().choose(word)


class PeeksByOneRound(Plain):
    """Delayed by its history, but one round less."""

    delay = 2

    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        me = self.machine.state.me
        kept, me.oldest_round = me.oldest_round, (me.oldest_round + 1) % len(self.history)
        arm = super().choose(word)
        me.oldest_round = kept
        return arm


class NeverLearns(Plain):
    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        return word % (self.totals.size // 2)


class LateWithinTheRound(Plain):
    """Sequential by its history, but sees a round only when it is over."""

    delay = -1
    seen: Any = None

    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        present = self.totals.copy()
        self.totals[:] = 0.0 if self.seen is None else self.seen
        arm = super().choose(word)
        self.totals[:] = present
        return arm

    def end_round(self) -> None:
        super().end_round()
        self.seen = self.totals.copy()


class LateByOneRound(Plain):
    """Delayed by its history, and by one round more."""

    delay = 1

    def __init__(self, num_arms: int) -> None:
        super().__init__(num_arms)
        self.later = self.totals.copy()

    def end_round(self) -> None:
        super().end_round()
        newest = self.history[self.machine.state.me.oldest_round - 1]
        newest[:], self.later = self.later, newest.copy()

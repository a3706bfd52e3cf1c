"""An index of one's own is tried in plain Python before anything is compiled of it."""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar

import numpy as np
import pytest

from coopbandits.core import Estimate, Index, InputError, LinUCB
from coopbandits.core.index import LINEAR_INDICES
from coopbandits.core.index.trial import try_index
from coopbandits.core.registry import INDICES
from coopbandits.core.statistic import ArmSums, Registers
from coopbandits.core.statistic.linear import LinearSums

from .estimates import numbers_of

ARMS = 3


def registers(squares: str = "none") -> Registers:
    return ArmSums(squares).registers(ARMS)


class Own(Index):
    """Plays the mean, and fills one place of scratch per arm."""

    name: ClassVar[str] = "own"
    random: ClassVar[bool] = False

    def numbers(self, view: Any) -> tuple[float, ...]:
        return (2.0,)

    def scratch_size(self, num_arms: int) -> int:
        return num_arms

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        for k in range(len(estimate.counts)):
            scratch[k] = numbers[0] / max(1.0, estimate.counts[k])

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        if estimate.counts[arm] <= 0.0:
            return math.inf
        return float(estimate.sums[arm] / estimate.counts[arm] + scratch[arm])


@pytest.mark.parametrize("kind", [*INDICES, *LINEAR_INDICES], ids=lambda kind: kind.name)
def test_every_index_that_ships_passes(kind: type[Index]) -> None:
    index = kind()
    statistic = index.statistic.with_features(2)
    assert try_index(index, numbers_of(index, ARMS), statistic.registers(ARMS))


def test_an_index_with_all_that_it_uses_passes() -> None:
    assert try_index(Own(), (2.0,), registers())


class NoRoom(Own):
    def scratch_size(self, num_arms: int) -> int:
        return 1


class FromTheEnd(Own):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(scratch[-1])


class Half(Own):
    def scratch_size(self, num_arms: int) -> int:
        return num_arms / 2  # type: ignore[return-value]  # what is to be refused


class Nothing(Own):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return None  # type: ignore[return-value]  # what is to be refused


class Dividing(Own):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(estimate.sums[arm] / estimate.counts[arm])


class PicksBeyond(Own):
    @staticmethod
    def pick(values: Any, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> int:
        return int(scratch[len(values)])


class BoundBeyond(Own):
    @staticmethod
    def bound(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(numbers[1])


class PicksAFloat(Own):
    @staticmethod
    def pick(values: Any, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return 1.0


class BonusOfArms(Own):
    """Looks at the arms, which compiled engines do not show to a bonus."""

    prepare_reads: ClassVar[str] = "time"

    @staticmethod
    def bonus(estimate: Estimate, numbers: Any, scratch: Any) -> tuple[float, float]:
        return float(estimate.counts[0]), 0.0


class BonusAlone(Own):
    """Has a bonus, and prepares by the arms."""

    @staticmethod
    def bonus(estimate: Estimate, numbers: Any, scratch: Any) -> tuple[float, float]:
        return float(scratch[0]), 0.0


class OnFeatures(Own):
    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = numbers[0]

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(scratch[0]) * arm


def test_an_index_that_prepares_by_arms_or_looks_at_features_passes() -> None:
    assert try_index(BonusAlone(), (2.0,), registers())
    assert try_index(OnFeatures(), (2.0,), LinearSums().with_features(2).registers(ARMS))


class Refusing(Own):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        raise InputError("this index plays with two arms alone")


@pytest.mark.parametrize(
    ("index", "numbers", "sentence"),
    [
        (Refusing(), (2.0,), "^this index plays with two arms alone$"),
        (NoRoom(), (2.0,), r"prepare.* 1\b.*scratch.* 1\b.*size"),
        (FromTheEnd(), (2.0,), r"value.* -1\b.*scratch.* 3\b"),
        (Own(), (), r"prepare.* 0\b.*numbers\(view\).* 0\b"),
        (BoundBeyond(), (2.0,), r"bound.* 1\b.* 1\b"),
        (PicksBeyond(), (2.0,), r"pick.* 3\b.*scratch.* 3\b"),
        (Half(), (2.0,), r"scratch_size.* 1\.5"),
        (Nothing(), (2.0,), r"value.* None.*arm 0\b"),
        (PicksAFloat(), (2.0,), r"pick.* 1\.0.*int"),
        (Dividing(), (2.0,), r"value.*ZeroDivisionError.* 2\b"),
        (BonusOfArms(), (2.0,), "bonus.*IndexError"),
    ],
)
def test_what_fails_is_refused(index: Index, numbers: tuple[float, ...], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        try_index(index, numbers, registers())


class Summing(Own):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(sum(numbers))


class Cutting(Own):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(numbers[0:][0])


class Measuring(Own):
    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        for k in range(len(scratch)):
            scratch[k] = 0.0


@pytest.mark.parametrize("index", [Summing(), Cutting(), Measuring()], ids=lambda each: each.name)
def test_how_long_things_are_is_unknown_to_compiled_code(index: Index) -> None:
    assert not try_index(index, (2.0,), registers())


class Cropping(Own):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(scratch[0:2][1])


def test_a_stretch_with_an_end_is_known() -> None:
    assert try_index(Cropping(), (2.0,), registers())


class Straight(LinUCB):
    """Made for the arrays of compiled code, as its parent's `prepare` is."""

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return -float(arm)


def test_linear_models_need_values_for_all_arms() -> None:
    index = Straight()
    with pytest.raises(InputError, match=r"features.*values\("):
        try_index(index, numbers_of(index, ARMS), LinearSums(features=2).registers(ARMS))


NEWS = itertools.count()
"""In the place of a generator: something else whenever it is asked."""


class Drawing(Own):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(next(NEWS))


class DrawingBefore(Own):
    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = float(next(NEWS))


class DrawingArms(Own):
    @staticmethod
    def pick(values: Any, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> int:
        return next(NEWS)


class DrawingAll(Own):
    @staticmethod
    def values(estimate: Estimate, word: int, numbers: Any) -> Any:
        return np.full(ARMS, next(NEWS))


@pytest.mark.parametrize(
    ("index", "name"),
    [
        (Drawing(), "value"),
        (DrawingBefore(), "prepare"),
        (DrawingArms(), "pick"),
        (DrawingAll(), "values"),
    ],
)
def test_draws_that_no_seed_tells_are_refused(index: Index, name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} of index.*again"):
        try_index(index, (2.0,), registers())


def test_so_are_those_on_features() -> None:
    with pytest.raises(InputError, match=r"^value of index.*again"):
        try_index(Drawing(), (2.0,), LinearSums().with_features(2).registers(ARMS))


class Collecting(Own):
    """Adds up in its scratch, which is new in every choice, and has values that are none."""

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        scratch[0] += 1.0
        return math.nan if arm else float(scratch[0])


def test_what_changes_within_a_choice_passes() -> None:
    assert try_index(Collecting(), (2.0,), registers())

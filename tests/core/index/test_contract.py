"""What holds for every index: numbers always, and declarations that are true."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import UCB, BetaDraw, Estimate, Index, NormalDraw
from coopbandits.core.choice import best_arm, choose_arm, index_values
from coopbandits.core.index import ANY_REWARDS

from .estimates import (
    SETTINGS,
    estimates,
    ids,
    numbers_of,
    prepared,
    some_estimate,
    told,
    words,
)

REPEATABLE = settings(max_examples=30, deadline=None, derandomize=True, database=None)
WITHOUT_PRIOR = {
    "ucb", "inflated-ucb", "ucl", "kl-ucb", "moss", "epsilon-greedy", "elimination", "robust-ucb",
}  # fmt: skip
every_index = pytest.mark.parametrize("index", SETTINGS, ids=ids)


def values_at(index: Index, estimate: Estimate, word: int) -> list[float]:
    numbers = numbers_of(index, len(estimate.counts))
    return index_values(index, numbers, told(index, estimate), word)[0]


def choice_at(
    index: Index, estimate: Estimate, word: int, playable: list[int] | None = None
) -> int:
    numbers = numbers_of(index, len(estimate.counts))
    return choose_arm(index, numbers, told(index, estimate), word, playable)


@REPEATABLE
@given(estimate=estimates(), word=words)
def test_values_are_numbers_and_never_minus_infinity(estimate: Estimate, word: int) -> None:
    for index in SETTINGS:
        for value in values_at(index, estimate, word):
            assert isinstance(value, float), index
            assert value > -math.inf, index


@REPEATABLE
@given(estimate=estimates(), word=words, data=st.data())
def test_choices_are_allowed_arms(estimate: Estimate, word: int, data: st.DataObject) -> None:
    num_arms = len(estimate.counts)
    allowed = data.draw(st.lists(st.integers(0, num_arms - 1), min_size=1))
    for index in SETTINGS:
        assert choice_at(index, estimate, word) in range(num_arms), index
        assert choice_at(index, estimate, word, allowed) in allowed, index


@every_index
def test_without_a_pick_the_largest_value_is_played(index: Index) -> None:
    estimate = some_estimate(5)
    numbers = numbers_of(index, 5)
    word = 77 if index.random else 0
    arm = choice_at(index, estimate, 77)
    if index.pick is None:
        assert arm == best_arm(values_at(index, estimate, word))
    else:
        values, read, scratch = index_values(index, numbers, told(index, estimate), word)
        assert arm == index.pick(values, read, word, numbers, scratch)


@REPEATABLE
@given(estimate=estimates(), one=words, other=words)
def test_who_is_not_random_does_not_read_the_word(estimate: Estimate, one: int, other: int) -> None:
    for index in SETTINGS:
        if not index.random:
            assert values_at(index, estimate, one) == values_at(index, estimate, other), index


@every_index
def test_who_is_random_does(index: Index) -> None:
    estimate = some_estimate(5, time=20.0)
    arms = {choice_at(index, estimate, word * 2**57 + word) for word in range(128)}
    assert (len(arms) > 1) == index.random


@REPEATABLE
@given(estimate=estimates(3), strange=estimates(3), one=words, other=words)
def test_prepare_reads_no_more_than_it_says(
    estimate: Estimate, strange: Estimate, one: int, other: int
) -> None:
    """What it fills in is the same for other words, and for other arms where it says so."""
    moved = strange._replace(time=estimate.time, num_agents=estimate.num_agents)
    for index in SETTINGS:
        if index.prepare_reads == "word":
            assert index.random, f"{index} reads no word; let it declare what `prepare` reads"
            continue
        scratch = prepared(index, estimate, one)
        assert same(prepared(index, estimate, other), scratch), index
        if index.prepare_reads == "time":
            assert same(prepared(index, moved, other), scratch), index


@REPEATABLE
@given(estimate=estimates(), word=words)
def test_what_stood_in_the_scratch_before_does_not_matter(estimate: Estimate, word: int) -> None:
    arms = range(len(estimate.counts))
    for index in SETTINGS:
        numbers, read = numbers_of(index, len(arms)), told(index, estimate)
        found = [prepared(index, estimate, word, fill) for fill in (math.nan, 7.0)]
        values = [[index.value(k, read, word, numbers, s) for k in arms] for s in found]
        assert values[0] == values[1], index


def same(left: list[float], right: list[float]) -> bool:
    """Equal to the bit; what is left unwritten is NaN in both."""
    return np.array_equal(left, right, equal_nan=True)


BOUNDED = [index for index in SETTINGS if index.bound is not None]
WITH_BONUS = [index for index in SETTINGS if index.bonus is not None]


def test_some_declare_shortcuts() -> None:
    """Else the tests below say nothing."""
    assert len(BOUNDED) >= 1
    assert len({index.name for index in WITH_BONUS}) >= 3


@pytest.mark.parametrize("index", BOUNDED, ids=ids)
@REPEATABLE
@given(estimate=estimates(), word=words)
def test_bounds_are_never_below_the_value(index: Index, estimate: Estimate, word: int) -> None:
    estimate, numbers = told(index, estimate), numbers_of(index, len(estimate.counts))
    scratch = prepared(index, estimate, word)
    for k in range(len(estimate.counts)):
        value = index.value(k, estimate, word, numbers, scratch)
        assert index.bound(k, estimate, word, numbers, scratch) >= value


@pytest.mark.parametrize("index", WITH_BONUS, ids=ids)
@REPEATABLE
@given(estimate=estimates(), word=words)
def test_a_bonus_makes_the_value(index: Index, estimate: Estimate, word: int) -> None:
    """(s + √(a n + c))/n, or +∞ for an arm without information."""
    estimate, numbers = told(index, estimate), numbers_of(index, len(estimate.counts))
    scratch = prepared(index, estimate, word)
    a, c = index.bonus(estimate, numbers, scratch)
    for k, (total, count) in enumerate(zip(estimate.sums, estimate.counts, strict=True)):
        value = index.value(k, estimate, word, numbers, scratch)
        if count <= 1e-12 * estimate.num_agents:
            assert value == math.inf
        else:
            spread = math.sqrt(a * count + c) / count
            assert value == pytest.approx(total / count + spread, rel=1e-9, abs=1e-9 * spread)


@every_index
def test_no_information_at_all(index: Index) -> None:
    for num_arms in (1, 2, 17):
        none = np.zeros(num_arms)
        nothing = Estimate(none, none, 2.0, 1.0, squares=none)
        values = values_at(index, nothing, 5)
        if index.name in WITHOUT_PRIOR or not all(map(math.isfinite, values)):
            assert values == [math.inf] * num_arms
        assert choice_at(index, nothing, 5) in range(num_arms)


@every_index
def test_few_arms(index: Index) -> None:
    for num_arms in (1, 2):
        estimate = some_estimate(num_arms)
        arms = {choice_at(index, estimate, word) for word in range(60)}
        assert arms <= set(range(num_arms))
        assert all(map(math.isfinite, values_at(index, estimate, 3)))


@every_index
def test_huge_rewards(index: Index) -> None:
    """An arm of huge rewards wins or loses; the others stay numbers."""
    for size in (1e15, -1e15, 1e140, -1e140):
        estimate = some_estimate(3)
        sums, squares = estimate.sums.copy(), list(estimate.squares)
        sums[1], squares[1] = size, size * size / estimate.counts[1]
        huge = estimate._replace(sums=sums, squares=squares)
        values = values_at(index, huge, 11)
        assert not any(map(math.isnan, values))
        if not index.random and index.pick is None and index.support == ANY_REWARDS:
            assert (max(values) == values[1]) == (size > 0)


class OtherPrepare(UCB):
    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = float(word % 2)


class OtherValue(UCB):
    random: ClassVar[bool] = False

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return -UCB.value(arm, estimate, word, numbers, scratch)


class SameFunctions(UCB):
    pass


def test_declarations_are_not_inherited_without_their_functions() -> None:
    declared = [
        (cls.random, cls.prepare_reads, cls.bonus)
        for cls in (UCB, SameFunctions, OtherPrepare, OtherValue)
    ]
    assert declared == [
        (False, "time", UCB.bonus),
        (False, "time", UCB.bonus),
        (True, "word", None),
        (False, "time", None),
    ]


def test_draws_are_not_inherited_past_other_values() -> None:
    class OtherDraw(NormalDraw):
        @staticmethod
        def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
            return -NormalDraw.value(arm, estimate, word, numbers, scratch)

    index: Index
    for index, declares in ((NormalDraw(), True), (OtherDraw(), False), (UCB(), False)):
        found = index.draws(some_estimate(), numbers_of(index, 3))
        assert (found is not None) == declares


class Backwards:
    """A value for other classes to mix in."""

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return -UCB.value(arm, estimate, word, numbers, scratch)


class Still(Backwards):
    random: ClassVar[bool] = False


def test_declarations_are_not_inherited_past_the_functions_of_a_mixin() -> None:
    class Mixed(Backwards, UCB):
        pass

    class MixedStill(Still, UCB):
        pass

    class Child(Mixed):
        pass

    class Later(UCB, Backwards):
        pass

    declared = [
        (cls.random, cls.prepare_reads, cls.bonus) for cls in (Mixed, MixedStill, Child, Later)
    ]
    assert declared == [
        (True, "time", None),
        (False, "time", None),
        (True, "time", None),
        (False, "time", UCB.bonus),
    ]
    mixed: Any = type("MixedDraw", (Backwards, BetaDraw), {})
    assert mixed.values is None

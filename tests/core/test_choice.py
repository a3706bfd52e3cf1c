"""From an estimate to an arm: ties, allowed arms, open pulls, and an index evaluated."""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

import numpy as np
import pytest

import coopbandits.core.registry  # noqa: F401  # an index is spelled by it
from coopbandits.core import UCB, Estimate, Index, InputError
from coopbandits.core.choice import (
    best_arm,
    best_arms,
    choose_arm,
    index_values,
    with_open_pulls,
)
from coopbandits.core.draws import words
from coopbandits.core.errors import IndexFailedError


def best(*values: float) -> int:
    return best_arm(np.array(values))


def test_ties_go_to_the_lowest_arm_within_rounding() -> None:
    assert best(0.5, 1.0, 1.0) == 1
    assert best(1.0 - 0.9e-9, 1.0, 0.0) == 0
    assert best(1.0 - 1.1e-9, 1.0, 0.0) == 1


def test_the_tolerance_grows_with_the_largest_index() -> None:
    assert best(1e6 - 0.9e-3, 1e6) == 0
    assert best(1e6 - 1.1e-3, 1e6) == 1
    assert best(-1e6 - 0.9e-3, -1e6) == 0
    # A small index keeps the absolute tolerance.
    assert best(0.0, 0.9e-9) == 0
    assert best(0.0, 1.1e-9) == 1


def test_the_best_arm_of_every_row() -> None:
    """In arrays as one by one."""
    drawn = words(5, np.arange(1600, dtype=np.uint64)).reshape(2, 200, 4) % np.uint64(3)
    values = drawn[0] + 1e-10 * drawn[1]
    values[::7, 2] = np.inf
    values[::11, 0] = -np.inf
    assert best_arms(values).tolist() == [best_arm(row) for row in values.tolist()]


def test_infinity_wins_and_ties_with_infinity_alone() -> None:
    assert best(1e300, math.inf, math.inf) == 1
    assert best(math.inf, math.inf) == 0


def test_allowed_arms_are_respected_in_any_order() -> None:
    values = np.array([5.0, 3.0, 3.0, 4.0])
    assert best_arm(values, [2, 1]) == 1
    assert best_arm(values, [2]) == 2
    assert best_arm(values, (3, 1, 2)) == 3


@pytest.mark.parametrize("allowed", [[-1, 0], [0, 4], [7]])
def test_allowed_arms_out_of_range(allowed: list[int]) -> None:
    with pytest.raises(InputError, match=f"allowed.*{re.escape(str(allowed))}.*0 to 3"):
        best_arm(np.zeros(4), allowed)


def test_an_index_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match=r"arm 1\b"):
        best_arm(np.array([1.0, math.nan]))


class Failing(Index):
    """Raises where it is told to, or returns NaN."""

    name: ClassVar[str] = "failing"

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = 1.0 / numbers[0]

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return math.nan if numbers[1] == arm else math.log(abs(numbers[2] - arm))

    @staticmethod
    def pick(values: Any, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> int:
        return int(1.0 / numbers[3])


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((0, 9, 9, 1), r"ZeroDivisionError.* prepare.*\.py:.*1\.0 / numbers"),
        ((1, 2, 9, 1), "NaN.*arm 2"),
        ((1, 9, 1, 1), "ValueError: math domain error.* value.*arm 1"),
        ((1, 9, 9, 0), r"ZeroDivisionError.* pick\b"),
        ((1, 9, 9, 0.1), "pick.*arm 10"),
    ],
)
def test_an_index_that_fails(numbers: Any, said: str) -> None:
    estimate = Estimate(np.ones(3), np.ones(3), 3.0, 1.0)
    with pytest.raises(IndexFailedError, match=f"Failing.*{said}"):
        choose_arm(Failing(), numbers, estimate, 0)


def test_an_index_that_is_no_function_at_all() -> None:
    """The error comes from the call itself, of which there is no line of the user's."""
    broken: Any = Failing()
    broken.value = None
    with pytest.raises(IndexFailedError, match=r"Failing.*TypeError.*arm 0"):
        choose_arm(broken, (1, 9, 9, 1), Estimate(np.ones(3), np.ones(3), 3.0, 1.0), 0)


def test_no_allowed_arm() -> None:
    with pytest.raises(InputError, match="no arm is allowed"):
        best_arm(np.zeros(4), [])


def test_open_pulls_keep_the_mean_and_shrink_the_doubt() -> None:
    estimate = Estimate(np.array([6.0, 2.0, 0.0]), np.array([3.0, 2.0, 0.0]), 5.0, 1.0)
    counted = with_open_pulls(estimate, np.array([2, 0, 1]))
    assert counted.counts.tolist() == [5.0, 2.0, 1.0]
    assert counted.sums.tolist() == pytest.approx([10.0, 2.0, 8.0 / 5.0])
    assert (counted.time, counted.num_agents) == (5.0, 1.0)
    assert estimate.counts.tolist() == [3.0, 2.0, 0.0]


def test_open_pulls_replace_a_negative_count() -> None:
    """Counts below zero, from too little mixing, carry nothing and do not eat open pulls."""
    estimate = Estimate(np.array([4.0, -9.0]), np.array([2.0, -3.0]), 5.0, 4.0)
    counted = with_open_pulls(estimate, np.array([0, 1]))
    assert counted.counts.tolist() == [2.0, 1.0]
    assert counted.sums.tolist() == [4.0, 2.0]


def test_open_pulls_without_any_reward_expect_zero() -> None:
    counted = with_open_pulls(Estimate(np.zeros(2), np.zeros(2), 2.0, 1.0), np.array([0, 2]))
    assert counted.sums.tolist() == [0.0, 0.0]
    assert counted.counts.tolist() == [0.0, 2.0]


@pytest.mark.parametrize("squares", [[40.0], [30.0, 10.0]])
def test_open_pulls_leave_the_scatter_of_rewards_as_it_is(squares: list[float]) -> None:
    known = np.array([6.0, 1.0]), np.array([3.0, 4.0])
    estimate = Estimate(*known, 7.0, 1.0, squares=np.array(squares))
    counted = with_open_pulls(estimate, np.array([2, 1]))
    explained = [e.sums**2 / e.counts for e in (estimate, counted)]
    if len(squares) == 1:
        explained = [each.sum() for each in explained]
    scatters = [e.squares - each for e, each in zip((estimate, counted), explained, strict=True)]
    assert scatters[1] == pytest.approx(scatters[0])
    assert counted.time == estimate.time


def test_no_open_pulls_change_nothing() -> None:
    estimate = Estimate(np.ones(2), np.ones(2), 2.0, 1.0)
    assert with_open_pulls(estimate, np.zeros(2, dtype=np.int64)) is estimate


# An index evaluated.


class Twist(Index):
    """Arm k is worth scratch − k; `pick` takes the arm that the word says."""

    name: ClassVar[str] = "twist"

    def scratch_size(self, num_arms: int) -> int:
        return num_arms + 1

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        assert isinstance(estimate.sums, list)
        assert isinstance(estimate.counts, list)
        scratch[-1] = estimate.time * numbers[0]

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(scratch[-1] - arm)


class Picking(Twist):
    @staticmethod
    def pick(values: Any, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> Any:
        return word


ESTIMATE = Estimate(np.array([6.0, 2.0, 1.0]), np.array([3.0, 2.0, 1.0]), 5.0, 1.0)


def test_an_index_sees_lists_and_a_scratch_of_its_size() -> None:
    values, read, scratch = index_values(Twist(), (2.0,), ESTIMATE, 0)
    assert values == [10.0, 9.0, 8.0]
    assert (read.sums, read.counts) == ([6.0, 2.0, 1.0], [3.0, 2.0, 1.0])
    assert scratch == [0.0, 0.0, 0.0, 10.0]


def test_choices() -> None:
    assert choose_arm(Twist(), (2.0,), ESTIMATE, 1) == 0
    assert choose_arm(Twist(), (2.0,), ESTIMATE, 1, [2, 1]) == 1
    assert choose_arm(Picking(), (2.0,), ESTIMATE, 2) == 2
    assert choose_arm(Picking(), (2.0,), ESTIMATE, 2, [2, 0]) == 2


@pytest.mark.parametrize("allowed", [[], [-1, 0], [0, 4]])
def test_a_pick_is_checked_like_the_largest(allowed: list[int]) -> None:
    with pytest.raises(InputError, match=r"no arm is allowed|allowed.*0 to 2"):
        choose_arm(Picking(), (2.0,), ESTIMATE, 0, allowed)


@pytest.mark.parametrize(("word", "allowed"), [(3, None), (-1, None), (1, [0, 2])])
def test_a_pick_that_is_no_playable_arm_is_refused(word: int, allowed: list[int] | None) -> None:
    with pytest.raises(InputError, match=f"Picking.*arm {word}\\b.*pick"):
        choose_arm(Picking(), (2.0,), ESTIMATE, word, allowed)


def test_who_is_not_random_gets_the_word_zero() -> None:
    class Steady(Picking):
        random: ClassVar[bool] = False

    assert choose_arm(Steady(), (2.0,), ESTIMATE, 2) == 0


def test_a_largest_index_of_minus_infinity_is_still_an_allowed_arm() -> None:
    assert best_arm([-math.inf, -math.inf, 1.0], [1]) == 1


@pytest.mark.parametrize("estimate", [None, ([1.0], [1.0], 2.0, 1.0)])
def test_what_is_no_estimate_is_refused(estimate: Any) -> None:
    with pytest.raises(InputError, match=f"estimate.*{re.escape(str(estimate))}"):
        choose_arm(UCB(), (1.0,), estimate, 0)

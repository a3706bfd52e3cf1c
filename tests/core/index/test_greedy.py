"""ε-greedy: how often it explores, and whom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from coopbandits.core import MOSS, Elimination, EpsilonGreedy, Estimate, InputError
from coopbandits.core.choice import choose_arm
from coopbandits.core.draws import words
from coopbandits.core.index.greedy import LOWEST, any_of, largest_of
from coopbandits.literature import CoopSE

from ..fleet import one_view, values_of

ESTIMATE = Estimate(np.array([2.0, 8.0, 3.0, 1.0]), np.array([10.0, 10.0, 10.0, 10.0]), 40.0, 1.0)
WORDS = words(5, np.arange(4000, dtype=np.uint64)).tolist()


def played(index: EpsilonGreedy, estimate: Estimate, allowed: Any = None) -> Any:
    arms = [choose_arm(index, (index.constant,), estimate, word, allowed) for word in WORDS]
    return np.bincount(arms, minlength=4)


def test_values_are_means() -> None:
    assert values_of(EpsilonGreedy(), ESTIMATE).tolist() == [0.2, 0.8, 0.3, 0.1]
    unseen = values_of(
        EpsilonGreedy(), ESTIMATE._replace(counts=np.array([10.0, 1e-13, 0.0, -1.0]))
    )
    assert unseen.tolist() == [0.2, math.inf, math.inf, math.inf]


@pytest.mark.parametrize(("constant", "time"), [(5.0, 40.0), (2.0, 40.0), (5.0, 200.0)])
def test_frequencies(constant: float, time: float) -> None:
    """ε = min(1, cK/s), over all arms alike."""
    epsilon = min(1.0, constant * 4 / time)
    counts = played(EpsilonGreedy(constant), ESTIMATE._replace(time=time))
    expected = len(WORDS) * (np.array([0.0, 1.0 - epsilon, 0.0, 0.0]) + epsilon / 4)
    assert chisquare(counts, expected).pvalue > 0.01


def test_late_it_hardly_explores() -> None:
    assert played(EpsilonGreedy(1e-9), ESTIMATE).tolist() == [0, len(WORDS), 0, 0]


def test_only_allowed_arms_are_explored() -> None:
    """ε stays, and is shared by those that are allowed."""
    counts = played(EpsilonGreedy(5.0), ESTIMATE, [0, 2])
    assert counts[[1, 3]].tolist() == [0, 0]
    assert binomtest(int(counts[0]), len(WORDS), 0.5 / 2).pvalue > 0.01


def test_an_arm_never_seen_comes_first() -> None:
    unseen = ESTIMATE._replace(counts=np.array([10.0, 10.0, 0.0, 0.0]))
    assert played(EpsilonGreedy(), unseen).tolist() == [0, 0, len(WORDS), 0]
    counts = played(EpsilonGreedy(1e9), unseen, [0, 1, 3])
    assert counts.tolist() == [0, 0, 0, len(WORDS)]


def test_the_largest_within_rounding() -> None:
    assert largest_of([1.0 - 0.9e-9, 1.0]) == 0
    assert largest_of([1.0 - 1.1e-9, 1.0]) == 1
    assert largest_of([-math.inf, 3.0, math.inf, math.inf]) == 2
    assert largest_of([-math.inf, -math.inf]) == 0
    assert largest_of([5.0]) == 0
    assert largest_of([math.nan, math.nan]) == 0  # somebody else refuses those


def test_any_arm() -> None:
    values = [-math.inf, 3.0, -math.inf, math.inf, 0.0]
    assert [any_of(values, u, LOWEST) for u in (0.0, 0.33, 0.34, 0.66, 0.67, 0.999999)] == [
        1,
        1,
        3,
        3,
        4,
        4,
    ]
    assert any_of([-math.inf], 0.5, LOWEST) == 0


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan, "big"])
def test_a_rate_that_is_no_rate(constant: Any) -> None:
    with pytest.raises(InputError, match=f"constant.* {constant!r}"):
        EpsilonGreedy(constant)


def test_its_constant_is_no_bonus() -> None:
    assert EpsilonGreedy().bonus_constant is None


def estimate(sums: list[float], counts: list[float], time: float = 100.0) -> Estimate:
    return Estimate(np.array(sums), np.array(counts), time, 4.0)


def elimination_played(
    index: Elimination, known: Estimate, allowed: list[int] | None = None
) -> list[int]:
    """How often each arm is elimination_played in 3000 choices."""
    numbers = index.numbers(one_view(num_arms=len(known.counts), sigma=0.5))
    drawn = words(5, np.arange(3000, dtype=np.uint64)).tolist()
    arms = [choose_arm(index, numbers, known, word, allowed) for word in drawn]
    counted: list[int] = np.bincount(arms, minlength=len(known.counts)).tolist()
    return counted


def test_values_are_distances_to_the_best_lower_bound() -> None:
    """w = sqrt(2 · 0.25 · ln(3 · 4 · 50²)/n)."""
    known = estimate([90.0, 60.0, 5.0], [100.0, 100.0, 50.0])
    found = values_of(Elimination(50), known, sigma=0.5)
    w = [math.sqrt(0.5 * math.log(12 * 2500) / n) for n in (100, 100, 50)]
    lower = 0.9 - w[0]
    np.testing.assert_allclose(found, [2 * w[0], 0.6 + w[1] - lower, 0.1 + w[2] - lower])
    assert found[2] < 0.0 < found[1]


def test_without_a_horizon_the_time_stands_for_it() -> None:
    known = estimate([90.0, 60.0], [100.0, 100.0], time=777.0)
    assert values_of(Elimination(), known).tolist() == values_of(Elimination(777), known).tolist()


def test_arms_that_are_not_out_are_played_evenly() -> None:
    known = estimate([90.0, 85.0, 88.0, 1.0], [100.0] * 4)
    *even, out = elimination_played(Elimination(100), known)
    assert out == 0
    assert all(abs(count - 1000) < 4 * math.sqrt(1000) for count in even)


def test_unknown_arms_come_first_and_one_out_is_better_than_none() -> None:
    assert elimination_played(Elimination(), estimate([9.0, 0.0, 0.0], [9.0, 0.0, 0.0]))[0] == 0
    known = estimate([900.0, 10.0, 20.0], [1000.0] * 3)
    assert elimination_played(Elimination(), known) == [3000, 0, 0]
    assert elimination_played(Elimination(), known, [1, 2]) == [0, 0, 3000]


@pytest.mark.parametrize("horizon", [0, -5, 2.5])
def test_a_horizon_that_is_none(horizon: float) -> None:
    with pytest.raises(InputError, match=f"horizon.* {horizon!r}"):
        CoopSE(horizon=horizon)  # type: ignore[arg-type]  # it is refused


def test_there_is_no_bonus_constant() -> None:
    assert CoopSE().bonus_constant is None


@pytest.mark.parametrize("index", [Elimination, MOSS])
def test_a_horizon_that_is_no_float_is_refused(index: Any) -> None:
    with pytest.raises(InputError, match=r"horizon is above 1e\+100"):
        index(horizon=10**5000)
    index(horizon=10**100).numbers(one_view())

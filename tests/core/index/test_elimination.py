"""Elimination: which arms are out, and that the others are played evenly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import MOSS, Elimination, Estimate, InputError
from coopbandits.core.choice import choose_arm
from coopbandits.core.draws import words
from coopbandits.literature import CoopSE

from ..fleet import one_view, values_of


def estimate(sums: list[float], counts: list[float], time: float = 100.0) -> Estimate:
    return Estimate(np.array(sums), np.array(counts), time, 4.0)


def played(index: Elimination, known: Estimate, allowed: list[int] | None = None) -> list[int]:
    """How often each arm is played in 3000 choices."""
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
    *even, out = played(Elimination(100), known)
    assert out == 0
    assert all(abs(count - 1000) < 4 * math.sqrt(1000) for count in even)


def test_unknown_arms_come_first_and_one_out_is_better_than_none() -> None:
    assert played(Elimination(), estimate([9.0, 0.0, 0.0], [9.0, 0.0, 0.0]))[0] == 0
    known = estimate([900.0, 10.0, 20.0], [1000.0] * 3)
    assert played(Elimination(), known) == [3000, 0, 0]
    assert played(Elimination(), known, [1, 2]) == [0, 0, 3000]


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

"""The upper confidence bound: its formula, and +∞ where nothing is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import MOSS, UCB, Estimate, InputError, RobustUCB
from coopbandits.core.index.ucb import ucb

from ..fleet import values_of


def test_formula() -> None:
    estimate = Estimate(np.array([3.0, -1.0]), np.array([4.0, 0.5]), time=20.0, num_agents=5.0)
    values = values_of(UCB(4.0), estimate)
    assert values.tolist() == pytest.approx(
        [
            0.75 + math.sqrt(4.0 * math.log(20.0) / 4.0),
            -2.0 + math.sqrt(4.0 * math.log(20.0) / 0.5),
        ]
    )


def test_the_word_does_not_matter() -> None:
    estimate = Estimate(np.array([3.0, 1.0]), np.array([4.0, 2.0]), time=6.0, num_agents=1.0)
    first, second = (values_of(UCB(2.0), estimate, word).tolist() for word in (0, 2**64 - 1))
    assert first == second


@pytest.mark.parametrize("count", [0.0, -0.3, 5e-12, -1e9])
def test_no_information_is_plus_infinity(count: float) -> None:
    """Counts of five agents together; 1e-12 per agent is still nothing."""
    estimate = Estimate(np.array([-7.0, 1.0]), np.array([count, 2.0]), time=6.0, num_agents=5.0)
    values = values_of(UCB(4.0), estimate)
    assert values[0] == math.inf
    assert math.isfinite(values[1])


def test_information_starts_just_above_the_limit() -> None:
    estimate = Estimate(np.array([0.0]), np.array([5.1e-12]), time=6.0, num_agents=5.0)
    assert math.isfinite(values_of(UCB(4.0), estimate)[0])


def test_leaf() -> None:
    assert ucb(3.0, 4.0, 1e-12, 16.0) == 0.75 + 2.0
    assert ucb(3.0, 1e-12, 1e-12, 16.0) == math.inf


ESTIMATE = Estimate(np.array([20.0, 9.0, -1.0]), np.array([80.0, 20.0, 5.0]), 105.0, 5.0)


@pytest.mark.parametrize("horizon", [None, 105, 3000])
@pytest.mark.parametrize("constant", [4.0, 1.5])
def test_formula_of_moss(horizon: int | None, constant: float) -> None:
    s = 105 if horizon is None else horizon
    expected = []
    for total, count in zip(ESTIMATE.sums, ESTIMATE.counts, strict=True):
        ratio = s / (3 * count)
        bonus = math.sqrt(constant * 0.25 * math.log(ratio) / count) if ratio > 1 else 0.0
        expected.append(total / count + bonus)
    found = values_of(MOSS(horizon, constant), ESTIMATE, sigma=0.5)
    assert found.tolist() == pytest.approx(expected, rel=1e-13)


def test_an_arm_with_its_share_of_pulls_has_no_bonus() -> None:
    assert values_of(MOSS(), ESTIMATE)[0] == 0.25


@pytest.mark.parametrize("count", [0.0, -0.3, 5e-12])
def test_no_information_is_plus_infinity_of_moss(count: float) -> None:
    values = values_of(MOSS(), ESTIMATE._replace(counts=np.array([80.0, count, 5.0])))
    assert values[1] == math.inf
    assert np.isfinite(values[[0, 2]]).all()


@pytest.mark.parametrize("horizon", [0, -3, 1.5, True, "long"])
def test_horizon_is_a_whole_number(horizon: Any) -> None:
    with pytest.raises(InputError, match=f"horizon.* {horizon!r}"):
        MOSS(horizon)


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan, "big"])
def test_a_bonus_that_is_no_bonus(constant: Any) -> None:
    with pytest.raises(InputError, match=f"constant.* {constant!r}"):
        MOSS(constant=constant)


def test_values_by_hand() -> None:
    known = Estimate(np.array([30.0, 4.0, 0.0]), np.array([20.0, 8.0, 0.0]), 28.0, 2.0)
    for p in (1.25, 2.0):
        found = values_of(RobustUCB(3.0, p), known, sigma=7.0)
        bonus = [4 * 3 ** (1 / p) * (2 * math.log(28) / n) ** ((p - 1) / p) for n in (20, 8)]
        np.testing.assert_allclose(found, [1.5 + bonus[0], 0.5 + bonus[1], math.inf])


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"moment.* 1\b"):
        RobustUCB(moment=1)
    with pytest.raises(InputError, match=r"limit.* 0\b"):
        RobustUCB(0)
    with pytest.raises(InputError, match=r"constant.* 0\b"):
        RobustUCB(constant=0)
    assert RobustUCB().bonus_constant is None

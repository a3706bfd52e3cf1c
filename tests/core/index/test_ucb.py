"""The upper confidence bound: its formula, and +∞ where nothing is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.core import UCB, Estimate
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

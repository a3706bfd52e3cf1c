"""Inflated upper confidence bounds against numbers by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.core import Estimate
from coopbandits.core.index import inflated_ucb, inflated_ucb_index
from coopbandits.core.index.inflated import root_log, rounds_of

# Five agents, 20 rounds; n̂ = 16 and 4, ŝ = 4 and −2.
ESTIMATE = Estimate(np.array([20.0, -10.0]), np.array([80.0, 20.0]), time=100.0, num_agents=5.0)


def test_coop_ucb_by_hand() -> None:
    """γ = 2, σ = 0.5, ε_c = 3: scale = 2·2·0.25 = 1."""
    values = inflated_ucb_index(ESTIMATE, 0, scale=1.0, epsilon_c=3.0)
    assert values.tolist() == pytest.approx(
        [
            0.25 + 0.5 * math.sqrt(4 * (16 + 3) / (5 * 16) * math.log(20) / 16),
            -0.5 + 0.5 * math.sqrt(4 * (4 + 3) / (5 * 4) * math.log(20) / 4),
        ],
        rel=1e-14,
    )
    assert values.tolist() == pytest.approx([0.460874, 0.011983], abs=1e-6)


def test_coop_ucb2_by_hand() -> None:
    f = math.sqrt(math.log(20))
    assert root_log(20.0) == pytest.approx(f) == pytest.approx(1.7308183826)
    values = inflated_ucb_index(ESTIMATE, 0, scale=2.02, epsilon_c=None)
    assert values.tolist() == pytest.approx(
        [
            0.25 + math.sqrt(2.02 * (16 + f) / (5 * 16) * math.log(20) / 16),
            -0.5 + math.sqrt(2.02 * (4 + f) / (5 * 4) * math.log(20) / 4),
        ],
        rel=1e-14,
    )


def test_without_inflation_it_is_the_ucb_of_the_rounds() -> None:
    values = inflated_ucb_index(ESTIMATE, 0, scale=3.0, epsilon_c=0.0)
    assert values[0] == pytest.approx(0.25 + math.sqrt(3.0 * math.log(20) / 80))


def test_rounds_are_pulls_per_agent() -> None:
    assert rounds_of(ESTIMATE) == 20.0


@pytest.mark.parametrize("time", [2.0, 5.0])
def test_within_the_first_round_there_is_no_bonus(time: float) -> None:
    """ln t is 0 up to t = 1, not negative."""
    estimate = ESTIMATE._replace(time=time)
    assert inflated_ucb_index(estimate, 0, scale=1.0, epsilon_c=3.0).tolist() == [0.25, -0.5]
    assert inflated_ucb_index(estimate, 0, scale=1.0, epsilon_c=None).tolist() == [0.25, -0.5]


def test_the_word_does_not_matter() -> None:
    first, second = (
        inflated_ucb_index(ESTIMATE, word, scale=2.0, epsilon_c=None).tolist()
        for word in (0, 2**64 - 1)
    )
    assert first == second


@pytest.mark.parametrize("count", [0.0, -0.3, 5e-12])
def test_no_information_is_plus_infinity(count: float) -> None:
    estimate = ESTIMATE._replace(counts=np.array([count, 20.0]))
    values = inflated_ucb_index(estimate, 0, scale=1.0, epsilon_c=3.0)
    assert values[0] == math.inf
    assert math.isfinite(values[1])


def test_leaf() -> None:
    assert inflated_ucb(3.0, 4.0, 1e-12, 16.0, 12.0) == 0.75 + 4.0
    assert inflated_ucb(3.0, 4.0, 1e-12, 16.0, 0.0) == 0.75 + 2.0
    assert inflated_ucb(3.0, 1e-12, 1e-12, 16.0, 0.0) == math.inf

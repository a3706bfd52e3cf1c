from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from coopbandits.problems.proxies import proxy_of_quantiles, smallest_proxy


@pytest.mark.parametrize("chance", [0.001, 0.1, 0.4, 0.9])
def test_of_two_values(chance: float) -> None:
    """The smallest proxy of a Bernoulli variable is known (Kearns and Saul 1998)."""
    expected = (1 - 2 * chance) / (2 * math.log(1 / chance - 1))
    found = smallest_proxy(np.array([0.0, 1.0]), np.array([1 - chance, chance]))
    assert expected <= found <= 1.002 * expected


def test_of_distributions_whose_proxy_is_their_variance() -> None:
    assert smallest_proxy(np.array([-1.0, 1.0]), np.array([0.5, 0.5])) == pytest.approx(1, rel=2e-3)
    assert proxy_of_quantiles(lambda u: u) == pytest.approx(1 / 12, rel=2e-3)
    assert proxy_of_quantiles(stats.norm(3, 2).ppf) == pytest.approx(4, rel=2e-3)
    assert smallest_proxy(np.array([5.0]), np.array([1.0])) == 0.0


@given(
    st.lists(
        st.tuples(st.floats(-5, 5), st.floats(0.01, 1)),
        min_size=2,
        max_size=6,
        unique_by=lambda p: p[0],
    ),
    st.floats(-30, 30),
)
def test_no_larger_expectation_is_found(pairs: list[tuple[float, float]], x: float) -> None:
    values, chances = np.array(pairs).T
    chances = chances / chances.sum()
    proxy = smallest_proxy(values, chances)
    away = values - values @ chances
    assert np.log(chances @ np.exp(x * away)) <= x**2 * proxy / 2 + 1e-9
    assert proxy <= 1.002 * np.ptp(values) ** 2 / 4
    assert proxy >= chances @ away**2


def test_of_an_exponential_reward_as_the_tape_plays_it() -> None:
    """From its moment generating function, with everything beyond the last word at its reward."""
    cap, xs = 53 * math.log(2), np.linspace(1.05, 8, 4000)
    rare = 2.0**-52
    log_mgf = np.log((1 - np.exp((xs - 1) * cap)) / (1 - xs) + rare * np.exp(xs * cap)) - xs
    expected = (2 * log_mgf / xs**2).max()
    assert proxy_of_quantiles(lambda u: -np.log1p(-u)) == pytest.approx(expected, rel=2e-2)

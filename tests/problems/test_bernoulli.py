from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coopbandits.core.errors import InputError
from coopbandits.problems import BernoulliBandit


def test_basics() -> None:
    problem = BernoulliBandit([0.5, 0.9])
    assert (problem.best_arm, problem.sigma, problem.variate) == (1, 0.5, "uniform")
    assert problem.rewards([0, 0, 1, 1], [0.49, 0.5, 0.89, 0.91]).tolist() == [1, 0, 1, 0]


def test_mean_and_variance() -> None:
    uniform = (np.arange(10**5) + 0.5) / 10**5
    rewards = BernoulliBandit([0.3]).rewards(np.zeros(uniform.size, dtype=int), uniform)
    assert rewards.mean() == pytest.approx(0.3, abs=1e-12)
    assert rewards.var() == pytest.approx(0.21, abs=1e-12)


def test_certain_arms_never_surprise() -> None:
    extremes = np.array([5e-324, 0.5, 1 - 2**-53])
    problem = BernoulliBandit([0.0, 1.0])
    assert not problem.rewards(np.zeros(3, dtype=int), extremes).any()
    assert problem.rewards(np.ones(3, dtype=int), extremes).all()


@given(st.floats(0, 1), st.floats(-50, 50))
def test_sigma_is_a_proxy(p: float, x: float) -> None:
    problem = BernoulliBandit([p])
    log_mgf = np.logaddexp(np.log1p(-p) if p < 1 else -np.inf, np.log(p) + x if p > 0 else -np.inf)
    assert log_mgf - x * p <= x**2 * problem.sigma**2 / 2 + 1e-12


@pytest.mark.parametrize("wrong", [-0.1, 1.1])
def test_refuses_means_that_are_no_probabilities(wrong: float) -> None:
    with pytest.raises(InputError, match=f"arm 1\\b.* {wrong}"):
        BernoulliBandit([0.5, wrong])


def test_refuses_no_arms() -> None:
    with pytest.raises(InputError, match="no arms"):
        BernoulliBandit([])

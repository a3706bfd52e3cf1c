"""Quantiles of posteriors against numbers by hand, and far out in the tail."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta, norm

from coopbandits.core import BayesUCB, Estimate, InputError
from coopbandits.core.index.quantile import normal_upper, upper_quantile

from ..fleet import values_of

# Five agents, 20 rounds; n̂ = 16 and 4, ŝ = 4 and −2.
ESTIMATE = Estimate(np.array([20.0, -10.0]), np.array([80.0, 20.0]), time=100.0, num_agents=5.0)


@pytest.mark.parametrize("tail", [0.4, 1e-3, 1e-10, 1e-17, 1e-100, 1e-300])
def test_upper_quantile(tail: float) -> None:
    assert upper_quantile(tail) == pytest.approx(float(norm.isf(tail)), rel=1e-12)


@pytest.mark.parametrize("tail", [0.5, 0.7, 1.0])
def test_upper_quantile_is_never_below_the_median(tail: float) -> None:
    assert upper_quantile(tail) == 0.0


def test_bayes_ucb_by_hand() -> None:
    """Prior N(0, 1), σ = 0.5: τ = 1 + 4n, h = 4s, level 1 − 1/21."""
    q = -float(ndtri(1 / 21))
    expected = [80 / 321 + q / math.sqrt(321), -40 / 81 + q / math.sqrt(81)]
    assert values_of(BayesUCB(), ESTIMATE, 0, sigma=0.5).tolist() == pytest.approx(
        expected, rel=1e-13
    )


def test_bayes_ucb_of_an_arm_never_pulled_is_the_prior() -> None:
    estimate = ESTIMATE._replace(sums=np.array([20.0, 0.0]), counts=np.array([100.0, 0.0]))
    assert values_of(BayesUCB(), estimate, 0, sigma=1.0)[1] == pytest.approx(-float(ndtri(1 / 21)))


def test_the_word_does_not_matter() -> None:
    for word in (1, 2**64 - 1):
        same = values_of(BayesUCB(), ESTIMATE, word, sigma=1.0) == values_of(
            BayesUCB(), ESTIMATE, 0, sigma=1.0
        )
        assert same.all()


def test_leaf() -> None:
    assert normal_upper(6.0, 3.0, 1.0, 2.0, 1.0, 4.0) == 2.0 + 2.0
    assert normal_upper(6.0, 0.75, 1.0, 2.0, 0.5, 4.0) == 6.5 + 2.0
    assert normal_upper(0.0, 0.0, 0.0, 0.0, 1.0, 4.0) == math.inf


@pytest.mark.parametrize("rounds", [1.0, 20.0, 1e6])
@pytest.mark.parametrize("anticipation", [1.0, 2.5])
def test_bayes_ucb_of_bernoulli_rewards(rounds: float, anticipation: float) -> None:
    """The quantile of Beta(1 + c s, 1 + c(n − s)) at 1 − 1/(t + 1)."""
    s, n = np.array([60.0, 2.5, 0.0, 20.0]), np.array([80.0, 20.0, 0.0, 20.0])
    estimate = Estimate(s, n, 5.0 * rounds, 5.0, anticipation)
    a, b = 1 + anticipation * s, 1 + anticipation * (n - s)
    expected = beta.isf(1 / (1 + rounds), a, b)
    np.testing.assert_allclose(values_of(BayesUCB("bernoulli"), estimate), expected, rtol=1e-10)


def test_bayes_ucb_takes_what_rounding_leaves() -> None:
    spoiled = Estimate(
        np.array([-1e-15, 5.0 + 1e-13, 1e-16]), np.array([5.0, 5.0, -1e-16]), 10.0, 1.0
    )
    clean = Estimate(np.array([0.0, 5.0, 0.0]), np.array([5.0, 5.0, 0.0]), 10.0, 1.0)
    for index in (BayesUCB(), BayesUCB("bernoulli")):
        np.testing.assert_allclose(values_of(index, spoiled), values_of(index, clean), rtol=1e-12)


def test_families_of_bayes_ucb() -> None:
    with pytest.raises(InputError, match=r"'gausian'.*'gaussian'"):
        BayesUCB("gausian")

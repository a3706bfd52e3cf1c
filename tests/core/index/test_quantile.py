"""Quantiles of posteriors against numbers by hand, and far out in the tail."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import beta, norm

from coopbandits.core import UCL, BayesUCB, Estimate, InputError
from coopbandits.core.choice import index_values
from coopbandits.core.index.quantile import normal_upper, upper_quantile

from ..fleet import values_of

# Five agents, 20 rounds; n̂ = 16 and 4, ŝ = 4 and −2.
ESTIMATE = Estimate(np.array([20.0, -10.0]), np.array([80.0, 20.0]), time=100.0, num_agents=5.0)
FLAT = {"gamma": 2.0, "sigma": 0.5, "precision": 0.0, "shift": 0.0}


def ucl(
    estimate: Estimate, word: int, *, gamma: float, sigma: float, precision: float, shift: float
) -> NDArray[np.float64]:
    """The index as `UCL.numbers` tells it: shift = precision · prior mean."""
    numbers = (gamma, sigma, precision, shift)
    return np.array(index_values(UCL(), numbers, estimate, word)[0])


def test_coop_ucl_with_a_flat_prior_by_hand() -> None:
    f, q = math.sqrt(math.log(20)), norm.isf(1 / 400)
    expected = [
        0.25 + 0.5 / math.sqrt(80) * math.sqrt((16 + f) / 16) * q,
        -0.5 + 0.5 / math.sqrt(20) * math.sqrt((4 + f) / 4) * q,
    ]
    assert ucl(ESTIMATE, 0, **FLAT).tolist() == pytest.approx(expected, rel=1e-13)


def test_coop_ucl_with_a_prior_by_hand() -> None:
    """N(0.7, 0.4²): 1/v = 1/σ_0² + 1/Γ, mean = v(ν_0/σ_0² + μ̂/Γ)."""
    f, q = math.sqrt(math.log(20)), norm.isf(1 / 400)
    expected = []
    for mean, count in ((0.25, 16), (-0.5, 4)):
        spread = 0.25 / (5 * count)
        v = 1 / (1 / 0.16 + 1 / spread)
        middle = v * (0.7 / 0.16 + mean / spread)
        expected.append(middle + math.sqrt(v) * math.sqrt((count + f) / count) * q)
    told = {"gamma": 2.0, "sigma": 0.5, "precision": 1 / 0.16, "shift": 0.7 / 0.16}
    assert ucl(ESTIMATE, 0, **told).tolist() == pytest.approx(expected, rel=1e-13)


def test_a_wide_prior_is_the_flat_one() -> None:
    wide = FLAT | {"precision": 1e-18, "shift": 1e-18}
    assert ucl(ESTIMATE, 0, **wide) == pytest.approx(ucl(ESTIMATE, 0, **FLAT))


@pytest.mark.parametrize("precision", [0.0, 4.0])
def test_coop_ucl_without_information_is_plus_infinity(precision: float) -> None:
    estimate = ESTIMATE._replace(counts=np.array([5e-12, 20.0]))
    values = ucl(estimate, 0, gamma=2.0, sigma=1.0, precision=precision, shift=0.0)
    assert values[0] == math.inf
    assert math.isfinite(values[1])


def test_coop_ucl_before_anything_was_pulled() -> None:
    nothing = Estimate(np.zeros(2), np.zeros(2), time=0.0, num_agents=5.0)
    assert ucl(nothing, 0, **FLAT).tolist() == [math.inf, math.inf]


@pytest.mark.parametrize("gamma", [1.01, 2.0, 5.0, 40.0])
@pytest.mark.parametrize("rounds", [2.0, 1e4, 1e9, 1e15, 1e18])
def test_huge_times_have_finite_limits(gamma: float, rounds: float) -> None:
    """1 − t^−γ rounds to 1, whose quantile would be infinite; underflow of t^−γ is no excuse."""
    estimate = ESTIMATE._replace(time=5.0 * rounds)
    values = ucl(estimate, 0, gamma=gamma, sigma=1.0, precision=0.0, shift=0.0)
    assert np.isfinite(values).all()
    assert values[0] > 0.25


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
        assert (ucl(ESTIMATE, word, **FLAT) == ucl(ESTIMATE, 0, **FLAT)).all()


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

"""KL-UCB against a search for the largest mean that the rewards do not rule out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtri, rel_entr
from scipy.stats import beta, norm

from coopbandits.core import KLUCB, BayesUCB, Estimate, InputError
from coopbandits.core.index.kl import normal_upper, upper_quantile

from ..fleet import values_of

ESTIMATE = Estimate(np.array([20.0, 9.0, 0.0, 5.0]), np.array([80.0, 20.0, 6.0, 5.0]), 111.0, 5.0)


def largest(mean: float, level: float) -> float:
    """The largest q with kl(mean, q) ≤ level, by bisection."""

    def excess(q: float) -> float:
        return float(rel_entr(mean, q) + rel_entr(1.0 - mean, 1.0 - q)) - level

    if mean >= 1.0 or excess(1.0 - 1e-15) <= 0.0:
        return 1.0
    return float(brentq(excess, mean, 1.0 - 1e-15, xtol=1e-14))


@pytest.mark.parametrize("c", [0.0, 3.0])
@pytest.mark.parametrize("time", [111.0, 3.0, 1e6])
def test_bernoulli(c: float, time: float) -> None:
    log = math.log(time)
    level = log + c * math.log(max(1.0, log))
    found = values_of(KLUCB("bernoulli", c), ESTIMATE._replace(time=time))
    expected = [
        largest(total / count, level / count)
        for total, count in zip(ESTIMATE.sums, ESTIMATE.counts, strict=True)
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("c", [0.0, 3.0])
def test_gaussian(c: float) -> None:
    """n (q − μ)²/(2σ²) = ln s + c ln ln s."""
    level = math.log(111.0) + c * math.log(math.log(111.0))
    found = values_of(KLUCB(c=c), ESTIMATE, sigma=0.5)
    means = ESTIMATE.sums / ESTIMATE.counts
    np.testing.assert_allclose(ESTIMATE.counts * (found - means) ** 2 / (2 * 0.25), level)
    assert (found > means).all()


def test_the_gaussian_one_is_ucb_with_two() -> None:
    from coopbandits.core import UCB

    np.testing.assert_allclose(
        values_of(KLUCB(), ESTIMATE, sigma=0.3), values_of(UCB(2.0), ESTIMATE, sigma=0.3)
    )


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_within_the_first_pulls_ln_ln_is_not_negative(family: str) -> None:
    at_start = ESTIMATE._replace(time=1.0)
    means = ESTIMATE.sums / ESTIMATE.counts
    np.testing.assert_allclose(values_of(KLUCB(family, 3.0), at_start), means, atol=1e-12)
    early = values_of(KLUCB(family, 3.0), ESTIMATE._replace(time=2.0))
    np.testing.assert_allclose(early, values_of(KLUCB(family), ESTIMATE._replace(time=2.0)))


def test_sums_beyond_the_counts_are_taken_for_rounding() -> None:
    spoiled = ESTIMATE._replace(sums=np.array([80.0 + 1e-9, -1e-9, 0.0, 5.0]))
    clean = ESTIMATE._replace(sums=np.array([80.0, 0.0, 0.0, 5.0]))
    index = KLUCB("bernoulli")
    np.testing.assert_allclose(values_of(index, spoiled), values_of(index, clean), atol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("count", [0.0, -0.3, 5e-12])
def test_no_information_is_plus_infinity(family: str, count: float) -> None:
    estimate = ESTIMATE._replace(counts=np.array([count, 20.0, 6.0, 5.0]))
    values = values_of(KLUCB(family), estimate)
    assert values[0] == math.inf
    assert np.isfinite(values[1:]).all()
    if family == "bernoulli":
        scratch = [math.log(111.0)]
        assert KLUCB(family).bound(0, estimate, 0, (), scratch) == math.inf


@pytest.mark.parametrize("c", [-0.1, math.inf, math.nan, "three", True])
def test_c_is_not_negative(c: Any) -> None:
    with pytest.raises(InputError, match=rf"\bc\b.* {c!r}"):
        KLUCB(c=c)


def test_families() -> None:
    with pytest.raises(InputError, match=r"'bernouli'.*'bernoulli'"):
        KLUCB("bernouli")


# Five agents, 20 rounds; n̂ = 16 and 4, ŝ = 4 and −2.
QUANTILE_ESTIMATE = Estimate(
    np.array([20.0, -10.0]), np.array([80.0, 20.0]), time=100.0, num_agents=5.0
)


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
    assert values_of(BayesUCB(), QUANTILE_ESTIMATE, 0, sigma=0.5).tolist() == pytest.approx(
        expected, rel=1e-13
    )


def test_bayes_ucb_of_an_arm_never_pulled_is_the_prior() -> None:
    estimate = QUANTILE_ESTIMATE._replace(sums=np.array([20.0, 0.0]), counts=np.array([100.0, 0.0]))
    assert values_of(BayesUCB(), estimate, 0, sigma=1.0)[1] == pytest.approx(-float(ndtri(1 / 21)))


def test_the_word_does_not_matter() -> None:
    for word in (1, 2**64 - 1):
        same = values_of(BayesUCB(), QUANTILE_ESTIMATE, word, sigma=1.0) == values_of(
            BayesUCB(), QUANTILE_ESTIMATE, 0, sigma=1.0
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

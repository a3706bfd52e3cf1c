"""KL-UCB against a search for the largest mean that the rewards do not rule out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import rel_entr

from coopbandits.core import KLUCB, Estimate, InputError

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

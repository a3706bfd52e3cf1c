"""Divergence and its inverse: against exact arithmetic, scipy, and what numba makes of them."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from coopbandits.core.special import (
    bernoulli_divergence,
    bernoulli_upper,
    bernstein_upper,
    pinsker_upper,
)

from .compiled import compiled

ROUNDING = 2.0**-52

exponents = st.floats(-300.0, 0.0)
means = st.one_of(
    st.floats(0.0, 1.0),
    exponents.map(lambda e: 10.0**e),
    st.floats(-16.0, 0.0).map(lambda e: 1.0 - 10.0**e),
)
levels = st.floats(-300.0, 6.0).map(lambda e: 10.0**e)


def exact(p: float | Decimal, q: float | Decimal) -> Decimal:
    """Return kl(p, q) to some thirty digits, for 0 ≤ p ≤ 1, 0 < q < 1 and p ≠ q."""
    with localcontext(prec=50) as context:
        context.Emin, context.Emax = -(10**6), 10**6
        a, b = Decimal(p), Decimal(q)
        # The sum is of the order of (b − a)², and its terms cancel down to that.
        context.prec = 50 - 2 * (b - a).adjusted()
        pairs = ((a, b), (1 - a, 1 - b))
        return sum((x * (x / y).ln() for x, y in pairs if x > 0), Decimal(0))


def slack(q: float) -> float:
    """Return the error allowed to q: some last places of it."""
    return 8 * ROUNDING * q


@pytest.mark.parametrize("p", [0.0, 1e-300, 1e-9, 0.2, 0.5, 1 - 1e-9, 1.0])
def test_divergence_is_that_of_scipy(p: float) -> None:
    for q in (0.0, 5e-324, 1e-300, 1e-9, 0.11, 0.2, 0.21, 0.5, 0.9, 1 - 1e-9, 1 - 2**-53, 1.0):
        expected = float(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))
        assert bernoulli_divergence(p, q) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_divergence_at_the_ends() -> None:
    assert bernoulli_divergence(0.0, 0.0) == bernoulli_divergence(1.0, 1.0) == 0.0
    assert bernoulli_divergence(0.0, 1.0) == bernoulli_divergence(1.0, 0.0) == math.inf
    assert bernoulli_divergence(0.3, 0.0) == bernoulli_divergence(0.3, 1.0) == math.inf
    assert bernoulli_divergence(0.0, 0.25) == pytest.approx(math.log(4 / 3), rel=1e-15)
    assert bernoulli_divergence(1.0, 0.25) == pytest.approx(math.log(4), rel=1e-15)
    # Rounding may carry a mean out of the interval.
    assert bernoulli_divergence(1.0 + ROUNDING, 1.0) == bernoulli_divergence(-1e-17, 0.0) == 0.0


@given(means, means)
@example(0.3, 0.3 + 1e-12)
@example(0.3, 0.3 - 1e-9)
@example(0.2, 0.2 * 1.2222)
@settings(max_examples=100, deadline=None)
def test_divergence_keeps_its_digits(p: float, q: float) -> None:
    if p != q and 0.0 < q < 1.0:
        assert bernoulli_divergence(p, q) == pytest.approx(float(exact(p, q)), rel=1e-14)
    assert bernoulli_divergence(p, p) == 0.0
    assert bernoulli_divergence(p, q) >= 0.0


@given(means, levels)
@example(0.9, 0.15)
@example(0.88, 0.18)
@example(1e-10, 1.0)
@example(0.5, 0.25e-10)
@example(0.5, 0.26e-10)
@example(1e-300, 1e-300)
@example(1 - 1e-12, 1e-21)
@example(1e-217, 1e-226)
@example(1e-217, 1e-227)
@example(1 - 2**-53, 1e-16)
@settings(max_examples=120, deadline=None)
def test_upper_has_the_level_as_its_divergence(mean: float, level: float) -> None:
    """A little below it the divergence is smaller than the level, a little above larger."""
    q = bernoulli_upper(mean, level)
    assert mean <= q <= 1.0
    if (low := q - slack(q)) > mean:
        assert exact(mean, low) <= Decimal(level)
    if (high := q + slack(q)) < 1.0:
        assert exact(mean, high) >= Decimal(level)


def test_upper_at_the_ends() -> None:
    for mean in (0.0, 1e-300, 0.3, 1 - 2**-53, 1.0):
        assert bernoulli_upper(mean, 0.0) == bernoulli_upper(mean, -1.0) == mean
        assert bernoulli_upper(mean, 1e6) == bernoulli_upper(mean, math.inf) == 1.0
    assert bernoulli_upper(-1e-17, 0.0) == 0.0
    assert bernoulli_upper(1.0 + ROUNDING, 0.5) == 1.0
    for level in (1e-300, 1e-9, 0.5, 30.0):
        assert bernoulli_upper(0.0, level) == pytest.approx(-math.expm1(-level), rel=1e-15)
        assert bernoulli_upper(1.0, level) == 1.0
    assert bernoulli_upper(0.5, 1e-300) == 0.5


@given(means, levels, levels)
@settings(max_examples=120, deadline=None)
def test_upper_grows_with_the_level(mean: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    smaller, larger = bernoulli_upper(mean, low), bernoulli_upper(mean, high)
    assert smaller <= larger + slack(larger)


@given(means, levels)
@example(0.5, 1e-300)
@example(0.0, 1e-300)
@example(1.0, 1e6)
@settings(max_examples=120, deadline=None)
def test_bounds_are_in_order(mean: float, level: float) -> None:
    upper = bernoulli_upper(mean, level)
    bernstein, pinsker = bernstein_upper(mean, level), pinsker_upper(mean, level)
    assert upper <= bernstein + slack(bernstein)
    assert bernstein <= pinsker + slack(pinsker)
    assert pinsker <= 1.0
    if (bound := bernstein + slack(bernstein)) < 1.0:  # without the inverse as a witness
        assert exact(mean, bound) >= Decimal(level)


def test_bernstein_bound_is_exact_to_second_order() -> None:
    for mean in (0.02, 0.3, 0.5, 0.98):
        gaps = [bernstein_upper(mean, x) - bernoulli_upper(mean, x) for x in (1e-5, 1e-7)]
        assert 0.0 <= gaps[1] <= gaps[0] <= 1e-6
        # Of order level^1.5, hence smaller by 1000; at 1/2 even the next term vanishes.
        assert gaps[1] <= gaps[0] / 900 + ROUNDING
    assert bernstein_upper(0.02, 0.01) < 0.05 < 0.09 < pinsker_upper(0.02, 0.01)


def grid() -> tuple[list[float], list[float]]:
    edge = [0.0, 1e-300, 1e-12, 1e-3, 0.999, 1 - 1e-12, 1.0]
    pairs = [
        (mean, level)
        for mean in [*edge, *np.linspace(0.05, 0.95, 19).tolist()]
        for level in [0.0, *(10.0 ** np.arange(-300, 7, 1.5)).tolist()]
    ]
    return [mean for mean, _ in pairs], [level for _, level in pairs]


@pytest.mark.covering(1)
@pytest.mark.parametrize("function", [bernoulli_upper, bernstein_upper, pinsker_upper])
def test_numba_compiles_the_same_bounds(function: object) -> None:
    first, second = grid()
    found = compiled(function, 2)(np.array(first), np.array(second))
    expected = [function(p, x) for p, x in zip(first, second, strict=True)]  # type: ignore[operator]  # one of ours
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=0.0)


def test_numba_compiles_the_same_divergence() -> None:
    first = np.repeat([0.0, 1e-300, 0.1, 0.3, 0.31, 0.9, 1.0], 7)
    second = np.tile([0.0, 1e-300, 0.1, 0.3, 0.31, 0.9, 1.0], 7)
    expected = [bernoulli_divergence(p, q) for p, q in zip(first, second, strict=True)]
    found = compiled(bernoulli_divergence, 2)(first, second)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=0.0)

"""Divergences and beta quantiles: against scipy, exact arithmetic and closed forms."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import cache
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba.extending import register_jitable
from scipy.special import betainc, betaincc, betainccinv, betaincinv, betaln, rel_entr

from coopbandits.core import special
from coopbandits.core.special import (
    FUNCTIONS,
    bernoulli_divergence,
    bernoulli_upper,
    bernstein_upper,
    beta_quantile,
    beta_upper_quantile,
    pinsker_upper,
)

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


SHAPES = [1.0, 1.01, 1.5, 2.0, 7.3, 40.0, 333.3, 1e4, 1.7e6, 1e8]
LEVELS = [1e-12, 1e-6, 0.01, 0.3, 0.46, 0.5, 0.54, 0.9, 1 - 1e-6, 1 - 1e-12]

# Where x is 1e-8, scipy is off by some 1e-17; sums and closed forms below are exact there.
TINY = 1e-15

PAIRS = [(a, b) for a in SHAPES for b in SHAPES]

shapes = st.one_of(st.floats(1.0, 20.0), st.floats(0.0, 8.0).map(lambda e: 10.0**e))
tails = st.one_of(st.floats(1e-9, 0.5), st.floats(-300.0, -0.302).map(lambda e: 10.0**e))


@pytest.mark.parametrize("p", LEVELS)
def test_quantile_is_that_of_scipy(p: float) -> None:
    a, b = np.array(PAIRS).T
    found = [beta_quantile(p, *pair) for pair in PAIRS]
    np.testing.assert_allclose(found, betaincinv(a, b, p), rtol=1e-10, atol=TINY)


@pytest.mark.parametrize("tail", [*LEVELS, 1e-20, 1e-50])
def test_upper_quantile_is_that_of_scipy(tail: float) -> None:
    a, b = np.array(PAIRS).T
    found = [beta_upper_quantile(tail, *pair) for pair in PAIRS]
    np.testing.assert_allclose(found, betainccinv(a, b, tail), rtol=1e-10, atol=TINY)


TAILS = [0.5, 0.49, 0.46, 1e-2, 1e-12, 1e-100, 1e-300]


@pytest.mark.parametrize("tail", TAILS)
def test_a_parameter_of_one_has_closed_forms(tail: float) -> None:
    """P(X > x) is (1 − x)^b if a = 1, and 1 − x^a if b = 1."""
    for shape in SHAPES:
        low = -math.expm1(math.log1p(-tail) / shape)
        high = -math.expm1(math.log(tail) / shape)
        assert beta_quantile(tail, 1.0, shape) == pytest.approx(low, rel=1e-13)
        assert beta_upper_quantile(tail, 1.0, shape) == pytest.approx(high, rel=1e-13)
        assert beta_quantile(tail, shape, 1.0) == pytest.approx(tail ** (1 / shape), rel=1e-12)
        assert beta_upper_quantile(tail, shape, 1.0) == pytest.approx(1.0 - low, rel=1e-15)


def binomial_tail(x: Decimal, y: Decimal, a: int, b: int) -> Decimal:
    """Return P(X > x) as the chance of fewer than a successes in a + b − 1 trials."""
    with localcontext(prec=50):
        trials = a + b - 1
        term = total = y**trials
        for k in range(1, a):
            term *= (trials - k + 1) * x / (k * y)
            total += term
        return total


@pytest.mark.parametrize(
    ("a", "b"),
    [(2, 3), (40, 2), (30, 30), (2, 10**8), (9, 10**7), (250, 7), (100, 10**6), (60, 10**5)],
)
def test_whole_parameters_have_binomial_sums(a: int, b: int) -> None:
    """Scipy's inverse fails for tiny tails, where these sums are exact."""
    for tail in TAILS:
        x, y = Decimal(beta_upper_quantile(tail, a, b)), Decimal(beta_quantile(tail, b, a))
        with localcontext(prec=50):
            less, more = (1 - Decimal("1e-13"), 1 + Decimal("1e-13"))
            assert binomial_tail(x * less, 1 - x * less, a, b) > tail
            assert x * more >= 1 or binomial_tail(x * more, 1 - x * more, a, b) < tail
            # The mirror image keeps the digits of 1 − x.
            assert binomial_tail(1 - y * less, y * less, a, b) < tail
            assert binomial_tail(1 - y * more, y * more, a, b) > tail


@given(tails, shapes, shapes)
@example(1e-300, 1.0, 1e8)
@example(1e-300, 1e8, 1.0)
@example(0.5, 1e8, 1e8)
@settings(max_examples=80, deadline=None)
def test_point_and_its_complement_undo_the_distribution(tail: float, a: float, b: float) -> None:
    x, y = special.tail_point(tail, a, b)
    assert 0.0 < x <= 1.0
    assert 0.0 < y < 1.0
    assert x + y == pytest.approx(1.0, rel=1e-15)
    # By so much the tail changes, relatively, when x and y change by 1e-11 of the smaller.
    slack = 1e-11 / (special.tail_ratio(a, b, y, b - (a + b) * y) * max(x, y))
    found = float(betainc(b, a, y) if y < x else betaincc(a, b, x))
    if tail > 1e-290:  # scipy's distribution ends there
        assert found == pytest.approx(tail, rel=slack)


@given(tails, tails, shapes, shapes)
@settings(max_examples=80, deadline=None)
def test_quantiles_are_monotone(one: float, other: float, a: float, b: float) -> None:
    low, high = sorted((one, other))
    assert beta_quantile(low, a, b) <= beta_quantile(high, a, b) * (1 + 1e-12)
    assert beta_upper_quantile(high, a, b) <= beta_upper_quantile(low, a, b) * (1 + 1e-12)


@given(st.floats(1e-3, 1 - 1e-3), shapes, shapes)
@settings(max_examples=100, deadline=None)
def test_the_two_quantiles_agree(p: float, a: float, b: float) -> None:
    assert beta_quantile(p, a, b) == pytest.approx(beta_upper_quantile(1.0 - p, a, b), rel=1e-11)
    assert beta_quantile(p, a, b) == pytest.approx(1.0 - beta_quantile(1.0 - p, b, a), rel=1e-8)


def test_quantiles_at_the_ends() -> None:
    for p in (0.0, -0.5):
        assert beta_quantile(p, 3.0, 4.0) == beta_upper_quantile(1.0 - p, 3.0, 4.0) == 0.0
        assert beta_quantile(1.0 - p, 3.0, 4.0) == beta_upper_quantile(p, 3.0, 4.0) == 1.0
    assert beta_quantile(0.3, 0.2, 1.0 - 1e-9) == pytest.approx(0.3, rel=1e-14)
    assert beta_quantile(0.5, 5.0, 5.0) == pytest.approx(0.5, rel=1e-15)
    assert 0.0 < beta_upper_quantile(5e-324, 2.0, 2.0) <= 1.0
    assert math.isnan(beta_quantile(math.nan, 3.0, 4.0))


def test_parameters_may_be_whole_numbers() -> None:
    assert beta_quantile(0.9, 3, 40) == beta_quantile(0.9, 3.0, 40.0)


def test_parameters_may_be_beyond_the_range() -> None:
    assert beta_quantile(0.5, 1e13, 1e13) == pytest.approx(0.5, rel=1e-14)
    assert beta_quantile(0.9, 1e13, 7.0) == pytest.approx(1.0, abs=1e-12)
    assert beta_upper_quantile(1e-3, 1.0, 1e13) == pytest.approx(math.log(1e3) / 1e13, rel=1e-12)


@pytest.mark.parametrize("b", [0.999e7, 1.001e7])
def test_large_parameters_skip_the_evaluation_unnoticed(b: float) -> None:
    found = [special.tail_point(tail, 2e7, b) for tail in TAILS]
    np.testing.assert_allclose(found, [through_scipy(tail, 2e7, b) for tail in TAILS], rtol=1e-11)


def through_scipy(tail: float, a: float, b: float) -> tuple[float, float]:
    """Return the point after a Newton step with scipy's distribution."""
    x, y = special.tail_point(tail, a, b)
    density = math.exp((a - 1) * math.log(x) + (b - 1) * math.log(y) - float(betaln(a, b)))
    step = (float(betainc(b, a, y)) - tail) / density
    return x + step, y - step


def test_fraction_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing known takes so many terms; a fraction without end would hang an agent."""
    full = special.tail_ratio(900.0, 800.0, 0.45, 35.0)
    monkeypatch.setattr(special, "MOST_TERMS", 8)
    short = special.tail_ratio(900.0, 800.0, 0.45, 35.0)
    assert short != full
    assert short == pytest.approx(full, rel=1e-3)


@pytest.mark.parametrize("start", [-0.02, 0.0, 0.3, 2.0, 20.0])
@pytest.mark.parametrize(("a", "b"), [(1.0, 20.0), (30.0, 20.0), (500.0, 3.0)])
def test_any_start_leads_to_the_quantile(
    monkeypatch: pytest.MonkeyPatch, start: float, a: float, b: float
) -> None:
    for tail in (0.5, 1e-3, 1e-30):
        expected = special.tail_point(tail, a, b)
        with monkeypatch.context() as patch:
            patch.setattr(special, "first_rise", lambda *_: start)
            assert special.tail_point(tail, a, b) == pytest.approx(expected, rel=1e-12)


def test_start_is_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two evaluations are enough, at any tail."""
    counts = []
    step = special.rise_step

    def counted(*arguments: float) -> tuple[float, float]:
        counts.append(1)
        return step(*arguments)

    monkeypatch.setattr(special, "rise_step", counted)
    for tail, pair in product(TAILS, PAIRS):
        counts.clear()
        special.tail_point(tail, *pair)
        assert len(counts) <= 2, (tail, pair)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.5, 1.0), (3.0, 9.9), (10.0, 10.1), (80, 7)])
def test_factor_is_that_of_log_beta(a: float, b: float) -> None:
    n = a + b
    expected = a * math.log(a / n) + b * math.log(b / n) - float(betaln(a, b))
    assert special.log_factor(a, b) == pytest.approx(expected, abs=1e-12)


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize("function", [beta_quantile, beta_upper_quantile])
def test_numba_compiles_the_same_quantiles(function: object) -> None:
    levels = [0.0, 1e-300, 1e-50, *LEVELS, 1.0]
    triples = [(level, *pair) for level in levels for pair in PAIRS if max(pair) < 1e7]
    p, a, b = np.array(triples).T
    expected = [function(*triple) for triple in triples]  # type: ignore[operator]  # one of ours
    found = compiled(function, 3)(p, a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=0.0)


for _function in FUNCTIONS:
    register_jitable(_function)


@cache
def compiled(function: Any, num_arguments: int) -> Any:
    """Return a compiled loop over arrays that calls a function of two or three floats."""
    if num_arguments == 2:

        @numba.njit  # type: ignore[untyped-decorator]  # numba is not typed
        def pairs(x: Any, y: Any) -> Any:
            values = np.empty(x.size)
            for i in range(x.size):
                values[i] = function(x[i], y[i])
            return values

        return pairs

    @numba.njit  # type: ignore[untyped-decorator]  # numba is not typed
    def triples(x: Any, y: Any, z: Any) -> Any:
        values = np.empty(x.size)
        for i in range(x.size):
            values[i] = function(x[i], y[i], z[i])
        return values

    return triples

"""Quantiles of beta distributions whose parameters are at least 1.

All work is done in the upper half, for P(X > x) = tail ≤ 1/2; the lower half is its mirror image.
A point x is told by its rise r = ln((1 − m)/(1 − x)) above the mean m, as in `bernoulli`, so that
x and 1 − x keep their digits however small they are.
"""

from __future__ import annotations

import math

from coopbandits.core.draws import normal_quantile
from coopbandits.core.special.bernoulli import reverted, upper_rise

HALF_LOG_TWO_PI = 0.9189385332046727

# Stirling's series in 1/z², highest power first.
STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)

MOST_TERMS = 10_000
"""The fraction takes up to 1500 terms near the median of large parameters, and few in the tails."""


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return x with P(X ≤ x) = p for X ~ Beta(a, b), where a, b ≥ 1.

    It is 0 for p ≤ 0 and 1 for p ≥ 1. Parameters below 1 are taken as 1.
    """
    if p > 0.5:
        return tail_point(1.0 - p, a, b)[0]
    return tail_point(p, b, a)[1]


def beta_upper_quantile(tail: float, a: float, b: float) -> float:
    """Return x with P(X > x) = tail for X ~ Beta(a, b), where a, b ≥ 1.

    Tails may be tiny: 1 − tail is not formed. It is 1 for tail ≤ 0 and 0 for tail ≥ 1. Parameters
    below 1 are taken as 1.
    """
    if tail > 0.5:
        return tail_point(1.0 - tail, b, a)[1]
    return tail_point(tail, a, b)[0]


def tail_point(tail: float, a: float, b: float) -> tuple[float, float]:
    """Return x with P(X > x) = tail ≤ 1/2, and 1 − x.

    Newton's method on ln P(X > x), which is concave in the rise r as a ≥ 1: from wherever it
    starts, all later iterates lie above the solution and close in. The start is so good that two
    evaluations are the most that was ever seen.
    """
    if tail <= 0.0:
        return 1.0, 0.0
    a, b = max(1.0, a), max(1.0, b)
    n = a + b
    mean, rest = a / n, b / n
    target = math.log(tail) - log_factor(a, b)
    r = first_rise(tail, a, b)
    # The relative error of the start falls with the square of the smaller parameter.
    size = 1.0 if min(a, b) < 1e7 else 0.0
    while size > 1e-2:  # a step of this size, corrected, leaves less than 1e-12 of it
        d, y = -rest * math.expm1(-r), rest * math.exp(-r)
        x = mean + d
        fraction = tail_ratio(a, b, y, n * d)
        divergence = rest * r - mean * math.log1p(d / mean)
        excess = math.log(fraction) - n * divergence - target
        step, size = rise_step(excess, 1.0 / (x * fraction), a, b, x, y)
        r += step
    return min(1.0, mean - rest * math.expm1(-r)), rest * math.exp(-r)


def rise_step(
    excess: float, hazard: float, a: float, b: float, x: float, y: float
) -> tuple[float, float]:
    """Return by how much the rise must grow for ln P(X > x) to fall by `excess`.

    Also returned is the size of the step beside the scale on which ln P(X > x) bends. Small steps
    are correct to order five.
    """
    # With h the hazard, ln P(X > x) has the derivatives −h, −hs, −h(s² + s′), … in the rise.
    odds = y / x
    s = hazard - b + (a - 1.0) * odds
    curve = (a - 1.0) * odds / x
    ds = hazard * s - curve
    dds = hazard * (s * s + ds) + curve * (1.0 + 2.0 * odds)
    newton = excess / hazard
    size = abs(newton) * (hazard + abs(s) + math.sqrt(curve))
    if size > 0.2:
        return newton, size
    fourth = (s * (s * s + 3.0 * ds) + dds) / 24.0
    return reverted(newton, -0.5 * s, (s * s + ds) / 6.0, -fourth), size


def first_rise(tail: float, a: float, b: float) -> float:
    """Return the rise of an approximate quantile.

    P(X > x) is about P(Z > ζ + ln(u/ζ)/ζ) for a normal Z, with ζ² = 2n kl(m, x) and
    u = (x − m) √(n/(m(1 − m))). Near the median this becomes the Cornish–Fisher expansion.
    """
    n = a + b
    mean, rest = a / n, b / n
    z = -normal_quantile(tail)
    scale = math.sqrt(mean * rest / n)
    if z < 0.1:
        d = z * scale + (rest - mean) * (z * z - 1.0) / (3.0 * n)
        return -math.log1p(-d / rest)
    r = upper_rise(mean, rest, 0.5 * z * z / n)
    d = -rest * math.expm1(-r)
    return r - math.log(d / (scale * z)) * (mean + d) / (n * d)


def log_factor(a: float, b: float) -> float:
    """Return ln(m^a (1 − m)^b / B(a, b)) with m = a/(a + b).

    In this combination the large terms of the log-gamma functions cancel on paper.
    """
    n = a + b
    stirling = stirling_error(n) - stirling_error(a) - stirling_error(b)
    return 0.5 * math.log(a * (b / n)) - HALF_LOG_TWO_PI + stirling


def stirling_error(z: float) -> float:
    """Return ln Γ(z) − (z − 1/2) ln z + z − ln √(2π) for z ≥ 1."""
    if z < 10.0:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - HALF_LOG_TWO_PI
    square, series = 1.0 / (z * z), 0.0
    for coefficient in STIRLING:
        series = series * square + coefficient
    return series / z


def tail_ratio(a: float, b: float, y: float, excess: float) -> float:
    """Return P(X > x) B(a, b) / (x^a y^b), where y = 1 − x and excess = (a + b) x − a > −1.

    This is the continued fraction of DiDonato and Morris (1992, ACM algorithm 708, BFRAC).
    """
    inverse = 1.0 / (b + 1.0)
    # Numerators and denominators of two convergents, scaled so that the newer denominator is 1.
    value = 1.0 / (b * inverse * (1.0 + excess))
    older_top, older_bottom = 0.0, value
    for i in range(1, MOST_TERMS):
        w = i * (a - i) * y * inverse
        alpha = (b + i - 1.0) * (a + b + i - 1.0) * y * inverse * w
        inverse = 1.0 / (b + 2.0 * i + 1.0)
        beta = i + w + (b + i) * inverse * (1.0 + excess + i * (2.0 - y))
        scale = 1.0 / (alpha * older_bottom + beta)
        newer = (alpha * older_top + beta * value) * scale
        older_top, older_bottom = value * scale, scale
        change, value = abs(newer - value), newer
        if not change > 1e-15 * value:  # NaN ends it, too
            break
    return value

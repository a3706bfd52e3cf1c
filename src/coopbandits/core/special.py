"""Bernoulli divergence and beta quantiles, as plain functions of floats.

They raise nothing, and numba compiles this very source: the caller registers all of `FUNCTIONS`,
since a compiled function sees only callees that numba knows.

**Bernoulli.** A mean q above p is found by its *rise* r = ln((1 − p)/(1 − q)): q and 1 − q both
follow from it without losing digits, and kl(p, q) is nearly linear in r where it is large.

**Beta**, with parameters of at least 1. All work is done in the upper half, for
P(X > x) = tail ≤ 1/2; the lower half is its mirror image. A point x is given by its rise
r = ln((1 − m)/(1 − x)) above the mean m, so that x and 1 − x keep their digits however small they
are.
"""

from __future__ import annotations

import math

from coopbandits.core.draws import normal_quantile

# The series of artanh from its second term on, highest power first.
ARTANH = (1 / 19, 1 / 17, 1 / 15, 1 / 13, 1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3)

HALF_LOG_TWO_PI = 0.9189385332046727

# Stirling's series in 1/z², highest power first.
STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)

MOST_TERMS = 10_000
"""The fraction takes up to 1500 terms near the median of large parameters, and few in the tails."""


def bernoulli_divergence(p: float, q: float) -> float:
    """Return kl(p, q) = p ln(p/q) + (1 − p) ln((1 − p)/(1 − q)) in nats.

    0 ln 0 is 0, and the value is +∞ where q is 0 or 1 and p is not. p and q are clipped to [0, 1].
    """
    p, q = min(1.0, max(0.0, p)), min(1.0, max(0.0, q))
    return deviance(p, q) + deviance(1.0 - p, 1.0 - q)


def deviance(p: float, q: float) -> float:
    """Return p ln(p/q) − p + q for p, q ≥ 0.

    Two of them add up to a divergence. Neither is negative, so no digits cancel where p ≈ q.
    """
    if p == 0.0:
        return q
    if q == 0.0:
        return math.inf
    change = q - p
    ratio = change / (p + q)
    if abs(ratio) > 0.1:
        return p * (math.log(p) - math.log(q)) + change
    # ln(q/p) = 2 artanh(ratio); its first term cancels against the change in closed form.
    square, series = ratio * ratio, 0.0
    for coefficient in ARTANH:
        series = series * square + coefficient
    return ratio * (change - 2.0 * p * square * series)


def bernoulli_upper(mean: float, level: float) -> float:
    """Return the largest q in [mean, 1] with kl(mean, q) ≤ level: the index of KL-UCB.

    It is correct to the last places of q. The mean is clipped to [0, 1]. A level of 0 or less
    gives the mean; +∞ gives 1.
    """
    p = min(1.0, max(0.0, mean))
    rest = 1.0 - p
    if level <= 0.0:
        return p
    # The rise is at least level/rest, and exp(−40) is lost beside 1.
    if level >= 40.0 * rest:
        return 1.0
    # Without p, kl is −ln(1 − q); what p adds is below rounding.
    if level >= 1e20 * p:
        return -math.expm1(-level)
    # The bound is off by less than (level/variance)^1.5 / 12 of the mean: a rounding error.
    if level <= 1e-10 * p * rest:
        return p + bernstein_width(p, rest, level)
    return p - rest * math.expm1(-upper_rise(p, rest, level))


def upper_rise(p: float, rest: float, level: float) -> float:
    """Return the rise r > 0 with rest·r − p ln(q/p) = level, where q = p + rest (1 − e^−r).

    The left side is kl(p, q). The start is at most 4 % too large, and one step of order eight
    brings that to 1e-13. `rest` is 1 − p, and neither is 0.
    """
    width = min(rest, bernstein_width(p, rest, level))
    # As q ≤ p + width, this r is not too small.
    r = (level + p * math.log1p(width / p)) / rest
    d = -rest * math.expm1(-r)
    q = p + d
    y = rest - d
    # The Taylor coefficients at r in units of q, divided by the slope; the polynomials are Euler's.
    inverse = 1.0 / d
    newton = (rest * r - p * math.log1p(d / p) - level) * inverse
    a2 = (1 / 2) * p * y * inverse
    a3 = (-1 / 3) * a2 * (1.0 + y)
    a4 = (1 / 12) * a2 * (1.0 + y * (4.0 + y))
    a5 = (-1 / 60) * a2 * (1.0 + y * (11.0 + y * (11.0 + y)))
    a6 = (1 / 360) * a2 * (1.0 + y * (26.0 + y * (66.0 + y * (26.0 + y))))
    a7 = (-1 / 2520) * a2 * (1.0 + y * (57.0 + y * (302.0 + y * (302.0 + y * (57.0 + y)))))
    h = reverted(newton, a2, a3, a4)
    tail = a4 - h * (a5 - h * (a6 - h * a7))
    excess = newton - h * (1.0 - h * (a2 - h * (a3 - h * tail)))
    return r - q * (h + excess / (1.0 - h * (2.0 * a2 - 3.0 * h * a3)))


def reverted(u: float, a2: float, a3: float, a4: float) -> float:
    """Return h with u = h − a2 h² + a3 h³ − a4 h⁴ up to terms of order five."""
    square = a2 * a2
    return u * (1.0 + u * (a2 + u * (2.0 * square - a3 + u * (5.0 * a2 * (square - a3) + a4))))


# Why the two bounds hold. Let p be the mean, v = p(1 − p), c = 1 − 2p and q = p + d. Then
#
#     kl(p, q) = ∫₀ᵈ t / (v + ct − t²) dt,
#
# as the derivative in q is (q − p)/(q(1 − q)). Let w(d) = v + (2/3)cd − d²/2. The derivative of
# d²/(2w) is d (v + cd/3)/w², and
#
#     w² − (v + cd/3)(v + cd − d²) = d² (c/3 − d/2)² ≥ 0.
#
# For 0 ≤ d < 1 − p the second factor is q(1 − q) > 0. The first is linear in d, and positive as it
# is v at d = 0 and (1 − p)(1 + p)/3 at d = 1 − p. So w has no zero there, and w > 0 as w(0) = v.
# Hence d²/(2w) grows no faster than kl, and d²/(2w) ≤ kl(p, q). So kl ≤ level implies
# d² ≤ 2 level w, a quadratic inequality in d whose larger root is `bernstein_width`.
# Pinsker's bound follows and is weaker: 1/4 − w = c²/4 − 2cd/3 + d²/2 is a quadratic form with
# negative discriminant, so w ≤ 1/4 and kl ≥ 2d².


def pinsker_upper(mean: float, level: float) -> float:
    """Return min(1, mean + √(level/2)), which is not below `bernoulli_upper`.

    It needs a level of at least 0, and a mean in [0, 1].
    """
    return min(1.0, mean + math.sqrt(0.5 * level))


def bernstein_upper(mean: float, level: float) -> float:
    """Return a bound between `bernoulli_upper` and `pinsker_upper`, up to rounding.

    It is mean + √(2v·level) + (2/3)(1 − 2·mean)·level + O(level^1.5) with v = mean (1 − mean), as
    is `bernoulli_upper`. It needs a finite level of at least 0, and a mean in [0, 1].
    """
    return min(1.0, mean + bernstein_width(mean, 1.0 - mean, level))


def bernstein_width(p: float, rest: float, level: float) -> float:
    """Return the larger root d of d² = level·(2v + (4/3)(1 − 2p)d − d²), where v = p·rest."""
    skew = (2.0 / 3.0) * (rest - p)
    # Two roots, as a product of tiny numbers would underflow.
    root = math.sqrt(level) * math.sqrt(skew * skew * level + 2.0 * p * rest * (1.0 + level))
    return (skew * level + root) / (1.0 + level)


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


FUNCTIONS = (
    bernoulli_divergence, bernoulli_upper, bernstein_upper, bernstein_width, beta_quantile,
    beta_upper_quantile, deviance, first_rise, log_factor, normal_quantile, pinsker_upper, reverted,
    rise_step, stirling_error, tail_point, tail_ratio, upper_rise,
)  # fmt: skip
"""All functions here and their callees, for numba's `register_jitable`."""

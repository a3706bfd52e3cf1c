"""Bernoulli divergence, and the largest mean that it allows.

A mean q above p is found by its *rise* r = ln((1 − p)/(1 − q)): q and 1 − q both follow from it
without losing digits, and kl(p, q) is nearly linear in r where it is large.
"""

from __future__ import annotations

import math

# The series of artanh from its second term on, highest power first.
ARTANH = (1 / 19, 1 / 17, 1 / 15, 1 / 13, 1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3)


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

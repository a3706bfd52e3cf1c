"""Confidence intervals of means over runs, and the tests that belong to them.

Regrets of a bandit policy are skewed: most runs lock onto the best arm early, a few find it late
and cost several times as much. Student's interval is symmetric and then misses the mean on the
upper side. With n runs, mean m, standard error e, T = (m − μ)/e and the skewness g of the sample,
Hall (1992, "On the removal of skewness by transformation") corrects it by a = g/√n:

    H(T) = T + a T²/3 + a² T³/27 + a/6

H is increasing and has a closed inverse, so H(T) within Student's quantiles is an interval of μ.
In our measurements it covers as often as the bootstrap-t, needs no resamples, and equals Student's
interval where there is no skewness to see (two runs, or a symmetric sample). A skewness that is
only estimated can also shorten one side, which costs coverage if both tails are heavy, as with
differences of two policies. Therefore either side is the longer one of Hall's and Student's.

The p-value of a mean is the level at which its interval just reaches 0. Several comparisons share
the error probability equally (Bonferroni): p-values are multiplied by their number m and intervals
have level 1 − 0.05/m, so that an interval excludes 0 if and only if its adjusted p-value is below
0.05, and all intervals together hold with 95 %. Holm's procedure rejects a little more, but its
decisions have no such intervals. At these levels H is steep, so the long side of a skewed sample
can be several times Student's. Lengthening Student's interval by the factor found at 95 % instead
was shorter, but with ten skewed runs and ten pairs it missed up to half as often again.

No interval can know of runs that did not occur. If one run in twenty is ten times as bad, ten runs
miss all of those with probability 0.6. `dominating_run` finds the opposite case, in which one run
makes the mean what it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from coopbandits.core.contract import Vector

LEVEL = 0.95
ROUNDING = 1e-12
"""What is left of equal numbers when they are subtracted, relative to them; some thousand ulps."""
DOMINANT_SPREAD = 0.75
"""A run dominates if the squared deviations lose more than this share without it …"""
DOMINANT_SHIFT = 0.05
"""… and the mean is higher by more than this share with it."""

Interval = tuple[float, float]


def mean_interval(sample: Vector, level: float = LEVEL) -> Interval:
    """Return the interval of the mean; not-a-number for a single run."""
    low, high = mean_intervals(sample[None], level)
    return (float(low[0]), float(high[0]))


def mean_intervals(
    samples: NDArray[np.float64], level: float = LEVEL
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both ends of the interval of every row's mean."""
    runs = samples.shape[-1]
    means = samples.mean(axis=-1)
    if runs < 2:
        return np.full_like(means, math.nan), np.full_like(means, math.nan)
    quantile = float(stdtrit(runs - 1, (1 + level) / 2))
    errors, skewness = _errors(samples), _scaled_skewness(samples)
    below = np.maximum(quantile, _hall_inverse(quantile, skewness))
    above = np.maximum(quantile, -_hall_inverse(-quantile, skewness))
    return means - errors * below, means + errors * above


def p_value(sample: Vector) -> float:
    """Return the two-sided p-value of a mean of 0; NaN for a single run."""
    return float(p_values(sample[None])[0])


def p_values(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the level at which the interval of every row's mean reaches 0."""
    runs = samples.shape[-1]
    means = samples.mean(axis=-1)
    if runs < 2:
        return np.full_like(means, math.nan)
    errors, skewness = _errors(samples), _scaled_skewness(samples)
    varies, certain = errors > 0.0, np.where(samples.any(axis=-1), math.inf, 0.0)
    t = np.divide(means, errors, out=np.zeros_like(means), where=varies)
    hall = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    distance = np.minimum(np.abs(t), np.maximum(0.0, np.sign(t) * hall))
    found: NDArray[np.float64] = 2 * stdtr(runs - 1, -np.where(varies, distance, certain))
    return found


def compare(samples: NDArray[np.float64]) -> list[tuple[Interval, float]]:
    """Return simultaneous intervals of all rows' means, with adjusted p-values of a mean of 0."""
    count = len(samples)
    low, high = mean_intervals(samples, 1 - (1 - LEVEL) / max(count, 1))
    adjusted = np.minimum(1.0, count * p_values(samples))
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return list(zip(ends, adjusted.tolist(), strict=True))


def ratio_interval(sample: Vector, reference: Vector) -> Interval:
    """Return the interval of the ratio of two paired means, by the delta method.

    To first order the error of the ratio R of the means of x and y is that of the mean of x − R y,
    divided by the mean of y; it is zero where y is x itself. Means of numbers that are never
    negative have no negative ratio, which a few skewed pairs would otherwise leave open.
    """
    scale = float(reference.mean())
    ratio = float(sample.mean()) / scale
    low, high = mean_interval(subtract(sample, ratio * reference))
    least = 0.0 if min(sample.min(), reference.min()) >= 0.0 else -np.inf
    return (float(np.maximum(least, ratio + low / scale)), ratio + high / scale)


def standard_error(sample: Vector) -> float:
    """Return the standard error of the mean; 0 where the numbers differ by rounding alone."""
    return float(_errors(sample[None])[0])


def subtract(first: Vector, second: Vector) -> Vector:
    """Return the difference, exactly 0 where only rounding is left of it.

    Otherwise it would be printed, and tested for significance, like any other number.
    """
    difference = first - second
    noise = ROUNDING * np.maximum(np.abs(first), np.abs(second))
    return np.where(np.abs(difference) <= noise, 0.0, difference)


class DominatingRun(NamedTuple):
    """A run that makes the mean what it is: its share of the sum, and the mean of the others."""

    run: int
    share: float
    others: float


def dominating_run(sample: Vector) -> DominatingRun | None:
    """Return the largest run if it accounts for most of the spread and shifts the mean."""
    runs, total = sample.size, float(sample.sum())
    if runs < 4 or standard_error(sample) == 0.0:  # of three, one is always far from the others
        return None
    run = int(sample.argmax())
    others = (total - float(sample[run])) / (runs - 1)
    deviations = (sample - sample.mean()) ** 2
    spread = float(deviations[run] / deviations.sum()) * runs / (runs - 1)
    if spread <= DOMINANT_SPREAD or total / runs <= (1 + DOMINANT_SHIFT) * max(others, 0.0):
        return None
    return DominatingRun(run, float(sample[run]) / total, others)


def _errors(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard error of every row's mean; 0 where only rounding varies."""
    varies = np.ptp(samples, axis=-1) > ROUNDING * np.abs(samples).max(axis=-1)
    found: NDArray[np.float64] = samples.std(axis=-1, ddof=1) / math.sqrt(samples.shape[-1])
    return np.where(varies, found, 0.0)


def _scaled_skewness(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sample skewness G₁ over √n, between −1 and 1; 0 where there is none to estimate.

    As `scipy.stats.skew(bias=False)`, but silent about rows that do not vary.
    """
    runs = samples.shape[-1]
    deviations = samples - samples.mean(axis=-1, keepdims=True)
    squares = (deviations**2).sum(axis=-1)
    if runs < 3:
        return np.zeros_like(squares)
    cubes = (deviations**3).sum(axis=-1)
    scale = math.sqrt(runs * (runs - 1)) / (runs - 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = scale * cubes / squares**1.5
    return np.where(np.isfinite(found), np.clip(found, -1.0, 1.0), 0.0)


def _hall_inverse(value: float, skewness: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return T with H(T) = value, written so that a skewness of 0 is no special case."""
    shifted = value - skewness / 6
    root = np.cbrt(1 + skewness * shifted)
    found: NDArray[np.float64] = 3 * shifted / (root**2 + root + 1)
    return found

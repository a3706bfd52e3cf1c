"""The smallest variance proxy of a distribution, found numerically.

σ² is a variance proxy if E exp(x(X − μ)) ≤ exp(x²σ²/2) for all x, so the smallest one is the
supremum of 2 ln E exp(x(X − μ)) / x². It exists for every bounded reward, and is at most a quarter
of the squared range (Hoeffding's lemma), mostly far less.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coopbandits.problems.quantiles import cell_means

Floats = NDArray[np.float64]

FINEST = 53
"""The tape's uniforms lie between 2⁻⁵³ and 1 − 2⁻⁵³: what is rarer is never played."""

PIECES = 16
"""Pieces of equal probability into which every halving of a tail is cut."""

STEP = 0.05
"""Values of x are this far apart, relative to their size. In between, what is divided by x² is
convex, so that the supremum is missed by at most a quarter of the step's square."""

MARGIN = 1.001


def smallest_proxy(values: Floats, chances: Floats) -> float:
    """Return the smallest variance proxy of a distribution on some values, to 0.2 % and not below.

    As |x| grows, 2 ln E exp(x(X − μ)) / x² is at most 2 max |X − μ| / |x|, and as it falls to 0 it
    approaches the variance: both ends of the search follow.
    """
    away = values - np.sum(values * chances)
    reach = float(np.abs(away).max())
    if reach == 0.0:
        return 0.0
    away = away / reach
    variance = float(np.sum(away**2 * chances))
    low, high = 0.01 / math.sqrt(variance), 2.0 / variance
    places = np.geomspace(low, high, 2 + int(math.log(high / low) / STEP))
    logs = np.log(chances)
    largest = max(_ratio(x, away, logs) for x in (*places, *-places))
    return MARGIN * max(variance, largest) * reach**2


def _ratio(x: float, away: Floats, logs: Floats) -> float:
    exponents = x * away + logs
    top = exponents.max()
    return float(2.0 * (top + np.log(np.sum(np.exp(exponents - top)))) / x**2)


def proxy_of_quantiles(quantile: Callable[[Floats], Floats]) -> float:
    """Return a variance proxy of a distribution by its quantile function, as the tape plays it.

    Each piece of the distribution is pushed out to its two ends, with its mean kept. That can only
    raise a convex expectation, so the proxy of the result holds for the original.
    """
    shares = 1.0 + np.arange(PIECES) / PIECES
    tail = np.outer(2.0 ** -np.arange(2.0, FINEST + 1.0), shares).ravel()
    edges = np.unique(np.concatenate([tail, [0.5], 1.0 - tail]))
    ends = np.asarray(quantile(edges), dtype=np.float64)
    left, right, mass = ends[:-1], ends[1:], np.diff(edges)
    means = np.clip(cell_means(quantile, edges, ends), left, right)
    upper = np.where(right > left, (means - left) / np.where(right > left, right - left, 1.0), 0.0)
    rarest = 2.0 * edges[0]  # each of the two outermost words of the tape stands for that much
    values = np.concatenate([left, right, ends[[0, -1]]])
    chances = np.concatenate([mass * (1.0 - upper), mass * upper, [rarest, rarest]])
    kept = chances > 0.0
    return smallest_proxy(values[kept], chances[kept] / chances.sum())

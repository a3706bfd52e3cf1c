"""Quantiles of a posterior: optimism without a draw."""

from __future__ import annotations

import math

import numpy as np

from coopbandits.core.agent import NO_INFORMATION, Estimate, Vector
from coopbandits.core.draws import normal_quantile
from coopbandits.core.index.inflated import root_log, rounds_of


def normal_upper(
    total: float, count: float, precision: float, shift: float, sigma: float, spread: float
) -> float:
    """Return the posterior mean plus `spread` standard deviations; a compilable leaf.

    The prior of an arm is normal with this precision and precision·mean = shift; rewards are
    normal with standard deviation σ.
    """
    posterior = precision + count / sigma**2
    if posterior <= 0.0:
        return math.inf
    return (shift + total / sigma**2) / posterior + spread / math.sqrt(posterior)


def upper_quantile(tail: float) -> float:
    """Return Φ⁻¹(1 − tail) as −Φ⁻¹(tail), which stays exact for tiny tails.

    Tails are taken between 1e-300 and one half, so that the quantile is finite and not negative.
    """
    return -normal_quantile(min(0.5, max(1e-300, tail)))


def ucl_index(
    estimate: Estimate, word: int, *, gamma: float, sigma: float, precision: float, shift: float
) -> Vector:
    r"""Return coop-UCL's index of every arm.

    .. math:: m + \sqrt{v} \sqrt{(\hat n + f(t))/\hat n} \; Φ^{-1}(1 - t^{-γ})

    m and v are the mean and variance of the posterior; a flat prior has precision 0.
    """
    del word
    rounds = rounds_of(estimate)
    quantile = upper_quantile(max(1.0, rounds) ** -gamma)
    inflation = estimate.num_agents * root_log(rounds)
    least = NO_INFORMATION * estimate.num_agents
    values = np.full(estimate.counts.size, math.inf)
    for k, (total, count) in enumerate(zip(estimate.sums, estimate.counts, strict=True)):
        if count > least:
            spread = quantile * math.sqrt(1.0 + inflation / count)
            values[k] = normal_upper(total, count, precision, shift, sigma, spread)
    return values


def bayes_ucb_index(estimate: Estimate, word: int, *, sigma: float) -> Vector:
    r"""Return the quantile of level 1 − 1/(t + 1) of every arm's posterior, prior N(0, 1)."""
    del word
    spread = upper_quantile(1.0 / (1.0 + rounds_of(estimate)))
    pairs = zip(estimate.sums.tolist(), estimate.counts.tolist(), strict=True)
    return np.array([normal_upper(s, n, 1.0, 0.0, sigma, spread) for s, n in pairs])

"""Draws from a posterior: Thompson sampling."""

from __future__ import annotations

import math

import numpy as np

from coopbandits.core.agent import NO_INFORMATION, Estimate, Vector
from coopbandits.core.draws import betas, normals, words

ROUNDING = 1e-14
"""Scatter up to this share of the sum of squares is taken for rounding."""


def normal_draw_index(estimate: Estimate, word: int, *, sigma: float) -> Vector:
    r"""Draw every arm's mean from its posterior, prior N(0, 1), rewards N(·, σ²).

    .. math:: θ_k \sim N(h_k/τ_k, 1/τ_k), \quad τ_k = 1 + n_k/σ^2, \; h_k = s_k/σ^2
    """
    precision = 1.0 + estimate.counts / sigma**2
    draws = normals(words(word, np.arange(estimate.counts.size, dtype=np.uint64)))
    return estimate.sums / sigma**2 / precision + draws / np.sqrt(precision)


def centred_draw_index(estimate: Estimate, word: int, *, sigma: float | None) -> Vector:
    r"""Draw every arm's mean from its posterior, the prior being one pull of the average reward.

    .. math:: θ_k \sim N\left(\frac{\bar m + c s_k}{1 + c n_k}, \frac{σ^2}{1 + c n_k}\right),
        \quad \bar m = \frac{\sum_k s_k}{\sum_k n_k}

    c is the estimate's anticipation. Without data all draws are alike, and the first pull uniform.
    A shift or another scale of the rewards makes no difference.

    Parameters
    ----------
    estimate : Estimate
        Network totals.
    word : int
        64 random bits.
    sigma : float or None
        σ; None to estimate it from the squares (`pooled_sigma`). As long as that says nothing,
        all arms are drawn alike.
    """
    draws = normals(words(word, np.arange(estimate.counts.size, dtype=np.uint64)))
    spread = pooled_sigma(estimate) if sigma is None else sigma
    if spread is None:
        return draws
    total = estimate.counts.sum()
    average = estimate.sums.sum() / total if total > 0.0 else 0.0
    precision = 1.0 + estimate.anticipation * estimate.counts
    means = (average + estimate.anticipation * estimate.sums) / precision
    return means + spread * draws / np.sqrt(precision)


def pooled_sigma(estimate: Estimate) -> float | None:
    r"""Return σ̂ from the scatter of rewards about their arms' means, or None for too few pulls.

    .. math:: \hat σ^2 = \frac{\sum u^2 - \sum_k s_k^2/n_k}{A - K' - 2}

    A is the number of pulls and K' that of arms seen. The 2 makes it the variance of the Student
    posterior that goes with an unknown σ: early on it is too large rather than too small.
    """
    seen = estimate.counts > NO_INFORMATION * estimate.num_agents
    freedom = estimate.time - np.count_nonzero(seen) - 2.0
    if freedom <= 0.0:
        return None
    explained = (estimate.sums[seen] ** 2 / estimate.counts[seen]).sum()
    return deviation(estimate.squares, float(explained), freedom)


def deviation(squares: float, explained: float, freedom: float) -> float:
    """Return sqrt((squares − explained)/freedom), or 0 for nothing but rounding; a compilable leaf.

    Equal rewards leave rounding, which nobody should act on: it differs between engines.
    """
    scatter = squares - explained
    return math.sqrt(scatter / freedom) if scatter > ROUNDING * squares else 0.0


def beta_draw_index(estimate: Estimate, word: int) -> Vector:
    r"""Draw every arm's mean from Beta(1 + c s_k, 1 + c(n_k − s_k)), for rewards in [0, 1].

    c is the estimate's anticipation, 1 where nothing is anticipated.
    """
    # Mixing may leave sums beyond the counts by rounding.
    counts = np.maximum(estimate.counts, 0.0)
    wins = np.minimum(np.maximum(estimate.sums, 0.0), counts)
    losses = counts - wins
    c = estimate.anticipation
    return betas(word, 1.0 + c * wins, 1.0 + c * losses)

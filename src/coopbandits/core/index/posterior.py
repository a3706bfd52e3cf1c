"""Draws from a posterior: Thompson sampling."""

from __future__ import annotations

import numpy as np

from coopbandits.core.agent import Estimate, Vector
from coopbandits.core.draws import betas, normals, words


def normal_draw_index(estimate: Estimate, word: int, *, sigma: float) -> Vector:
    r"""Draw every arm's mean from its posterior, prior N(0, 1), rewards N(·, σ²).

    .. math:: θ_k \sim N(h_k/τ_k, 1/τ_k), \quad τ_k = 1 + n_k/σ^2, \; h_k = s_k/σ^2
    """
    precision = 1.0 + estimate.counts / sigma**2
    draws = normals(words(word, np.arange(estimate.counts.size, dtype=np.uint64)))
    return estimate.sums / sigma**2 / precision + draws / np.sqrt(precision)


def beta_draw_index(estimate: Estimate, word: int) -> Vector:
    r"""Draw every arm's mean from Beta(1 + s_k, 1 + n_k − s_k), for rewards in [0, 1]."""
    # Mixing may leave sums beyond the counts by rounding.
    wins = np.clip(estimate.sums, 0.0, np.maximum(estimate.counts, 0.0))
    losses = np.maximum(estimate.counts - wins, 0.0)
    return betas(word, 1.0 + wins, 1.0 + losses)

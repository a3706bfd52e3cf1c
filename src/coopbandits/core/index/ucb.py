"""Upper confidence bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.agent import NO_INFORMATION

if TYPE_CHECKING:
    from coopbandits.core.agent import Estimate, Vector


def ucb(total: float, count: float, least: float, exploration: float) -> float:
    """Return total/count + sqrt(exploration/count), or +∞ for a count up to `least`.

    A leaf that compiled engines build from this very source. `exploration` is B σ² ln s.
    """
    if count <= least:
        return math.inf
    return total / count + math.sqrt(exploration / count)


def ucb_index(estimate: Estimate, word: int, *, scale: float) -> Vector:
    r"""Return the upper confidence bound of every arm.

    .. math:: \hat\mu_k + \sqrt{B σ^2 \ln s / n_k}

    Parameters
    ----------
    estimate : Estimate
        Network totals: :math:`n_k` are the counts, s the time.
    word : int
        Not used: the index is deterministic.
    scale : float
        B σ².

    Notes
    -----
    *Differs from the paper*: an arm without information has index +∞.
    """
    del word
    least = NO_INFORMATION * estimate.num_agents
    exploration = scale * math.log(estimate.time)
    pairs = zip(estimate.sums.tolist(), estimate.counts.tolist(), strict=True)
    return np.array([ucb(total, count, least, exploration) for total, count in pairs])

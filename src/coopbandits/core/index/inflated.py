"""Upper confidence bounds that are inflated for what has not been mixed well."""

from __future__ import annotations

import math

import numpy as np

from coopbandits.core.agent import NO_INFORMATION, Estimate, Vector


def inflated_ucb(
    total: float, count: float, least: float, exploration: float, inflation: float
) -> float:
    """Return total/count + sqrt(exploration·(1 + inflation/count)/count), or +∞.

    A compilable leaf. `exploration` is 2γσ² ln t; `inflation` is N ε_c, or N f(t).
    """
    if count <= least:
        return math.inf
    return total / count + math.sqrt(exploration * (1.0 + inflation / count) / count)


def rounds_of(estimate: Estimate) -> float:
    """Return t, the rounds behind an estimate: pulls per agent."""
    return estimate.time / estimate.num_agents


def root_log(rounds: float) -> float:
    """Return f(t) = sqrt(ln t), Landgren's inflation without knowledge of the graph."""
    return math.sqrt(math.log(max(1.0, rounds)))


def inflated_ucb_index(
    estimate: Estimate, word: int, *, scale: float, epsilon_c: float | None
) -> Vector:
    r"""Return coop-UCB's index of every arm, with n̂ = counts/N.

    .. math:: \hat s/\hat n + σ \sqrt{2γ \frac{\hat n + ε}{N \hat n} \frac{\ln t}{\hat n}}

    Parameters
    ----------
    estimate : Estimate
        Network totals.
    word : int
        Not used.
    scale : float
        2γσ².
    epsilon_c : float or None
        ε of the formula; None for f(t) = sqrt(ln t).
    """
    del word
    rounds = rounds_of(estimate)
    inflation = estimate.num_agents * (root_log(rounds) if epsilon_c is None else epsilon_c)
    exploration = scale * math.log(max(1.0, rounds))
    least = NO_INFORMATION * estimate.num_agents
    pairs = zip(estimate.sums.tolist(), estimate.counts.tolist(), strict=True)
    return np.array([inflated_ucb(s, n, least, exploration, inflation) for s, n in pairs])

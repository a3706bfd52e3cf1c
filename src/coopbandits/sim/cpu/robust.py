"""What the policies for failing networks play on an agent's totals, by a run-time switch."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from coopbandits.core.agent import NO_INFORMATION
from coopbandits.core.index import posterior as posterior_source
from coopbandits.core.robust import FloodTS, FloodUCB, GossipTS, TreeTS, TreeUCB
from coopbandits.sim.cpu.draws import (
    beta_posteriors,
    normal_posteriors,
    play_betas,
    play_normals,
)
from coopbandits.sim.cpu.leaves import best_arm, ucb

UCB, NORMAL, BETA = range(3)

deviation = njit()(posterior_source.deviation)


class Posterior(NamedTuple):
    """Which index, and its numbers.

    Attributes
    ----------
    kind : int
        UCB, NORMAL or BETA.
    scale : float
        B σ² of UCB.
    sigma : float
        σ of NORMAL, unless it is estimated.
    squares : int
        1 if σ is estimated, for which squares of rewards travel; else 0.
    """

    kind: int
    scale: float
    sigma: float
    squares: int


def posterior_of(
    policy: GossipTS | TreeTS | FloodTS | TreeUCB | FloodUCB, sigma: float
) -> Posterior:
    """Return the compiled form of a policy's index."""
    if isinstance(policy, TreeUCB | FloodUCB):
        return Posterior(UCB, policy.constant * sigma**2, sigma, 0)
    if policy.family == "bernoulli":
        return Posterior(BETA, 0.0, sigma, 0)
    return Posterior(NORMAL, 0.0, sigma, int(policy.sigma == "estimate"))


@njit(inline="always")
def choose_robust(
    posterior: Any, rows: Any, agent: int, factor: float, num_agents: float, ahead: float,
    word: Any, cubics: Any, scratch: Any,
) -> int:  # fmt: skip
    """Return the arm for one agent.

    `factor` times a row holds K reward sums, K counts and, where σ is estimated, the sum of
    squares; `ahead` is the anticipation c. See `core.index.posterior` and `core.index.ucb`.
    """
    if posterior.kind == BETA:
        beta_posteriors(rows, agent, factor, ahead, scratch)
        return play_betas(word, scratch, cubics)
    num_arms = scratch.shape[1]
    total, pulls = 0.0, 0.0
    for k in range(num_arms):
        total += rows[agent, k]
        pulls += rows[agent, num_arms + k]
    if posterior.kind == UCB:
        _write_ucb(rows, agent, factor, num_agents, posterior.scale, factor * pulls, scratch)
        return best_arm(scratch[0])
    spread = posterior.sigma
    if posterior.squares > 0:
        spread = _pooled_sigma(rows, agent, factor, num_agents, num_arms, factor * pulls)
        if spread < 0.0:  # not known yet: any arm is as good as any other
            scratch[1], scratch[2] = 1.0, 0.0
            return play_normals(word, scratch, 1.0, cubics)
    average = total / pulls if pulls > 0.0 else 0.0
    normal_posteriors(rows, agent, factor * ahead, average, scratch)
    return play_normals(word, scratch, spread, cubics)


@njit
def _write_ucb(
    rows: Any, agent: int, factor: float, num_agents: float, scale: float, pulls: float,
    scratch: Any,
) -> None:  # fmt: skip
    """Write the indices."""
    half = np.uintp(scratch.shape[1])  # unsigned: nothing counts from the end
    exploration = scale * math.log(max(2.0, pulls))
    for k in range(half):
        reward, count = factor * rows[agent, k], factor * rows[agent, half + k]
        scratch[0, k] = ucb(reward, count, NO_INFORMATION * num_agents, exploration)


@njit
def _pooled_sigma(
    rows: Any, agent: int, factor: float, num_agents: float, num_arms: int, pulls: float
) -> float:
    """Return σ̂, or −1 as long as there are too few pulls."""
    seen, explained = 0, 0.0
    for k in range(num_arms):
        reward, count = factor * rows[agent, k], factor * rows[agent, num_arms + k]
        if count > NO_INFORMATION * num_agents:
            seen += 1
            explained += reward * reward / count
    freedom = max(2.0, pulls) - seen - 2.0
    if freedom <= 0.0:
        return -1.0
    return deviation(factor * rows[agent, 2 * num_arms], explained, freedom)

"""What the policies for failing networks play on an agent's totals, by a run-time switch."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba import njit

from coopbandits.core.agent import NO_INFORMATION
from coopbandits.core.index import posterior as posterior_source
from coopbandits.core.robust import FloodTS, FloodUCB, GossipTS, TreeTS, TreeUCB
from coopbandits.sim.cpu.indices import gamma, may_tie
from coopbandits.sim.cpu.leaves import best_arm, normal, ucb, word_at

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


@njit
def choose_robust(
    posterior: Any, rows: Any, agent: int, factor: float, num_agents: float, ahead: float,
    word: Any, cubics: Any, scratch: Any,
) -> int:  # fmt: skip
    """Return the arm for one agent.

    `factor` times a row holds K reward sums, K counts and, where σ is estimated, the sum of
    squares; `ahead` is the anticipation c. See `core.index.posterior` and `core.index.ucb`.
    """
    num_arms = scratch.shape[1]
    total, pulls = 0.0, 0.0
    for k in range(num_arms):
        total += rows[agent, k]
        pulls += rows[agent, num_arms + k]
    spread = posterior.sigma
    if posterior.squares > 0:
        spread = _pooled_sigma(rows, agent, factor, num_agents, num_arms, factor * pulls)
    average = total / pulls if pulls > 0.0 else 0.0
    exploration = posterior.scale * math.log(max(2.0, factor * pulls))
    best, second, arm = -math.inf, -math.inf, 0
    for k in range(num_arms):
        reward, count = factor * rows[agent, k], factor * rows[agent, num_arms + k]
        if posterior.kind == UCB:
            value = ucb(reward, count, NO_INFORMATION * num_agents, exploration)
        elif posterior.kind == BETA:
            wins = min(max(0.0, reward), max(0.0, count))
            losses = max(count - wins, 0.0)
            first = gamma(word_at(word, k), 1.0 + ahead * wins, cubics)
            other = gamma(word_at(word, num_arms + k), 1.0 + ahead * losses, cubics)
            value = first / (first + other)
        else:
            value = normal(word_at(word, k), cubics)
            if spread >= 0.0:
                precision = 1.0 + ahead * count
                value = (average + ahead * reward) / precision + spread * value / math.sqrt(
                    precision
                )
        scratch[0, k] = value
        if value > best:
            best, second, arm = value, best, k
        elif value > second:
            second = value
    if best == math.inf or may_tie(best, second):
        return best_arm(scratch[0])
    return arm


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

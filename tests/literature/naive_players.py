"""A second implementation of the colliding players, vectorised over runs, with numpy's own chance.

Written from the papers' rules, and shares nothing with the package: it is the oracle of
`test_besson2018`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def kl_upper(mean: Floats, level: Floats) -> Floats:
    """Return the largest q with kl(mean, q) ≤ level, by bisection."""
    p = np.clip(mean, 1e-12, 1 - 1e-12)
    low, high = p.copy(), np.ones_like(p)
    for _ in range(30):
        q = np.minimum((low + high) / 2, 1 - 1e-12)
        inside = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)) <= level
        low, high = np.where(inside, q, low), np.where(inside, high, q)
    return low


def play(rule: str, means: list[float], players: int, horizon: int, runs: int, seed: int) -> Floats:
    """Return the regret of every run under "rho-rand", "mc-top-m", "rand-top-m" or "selfish"."""
    rng = np.random.default_rng(seed)  # noqa: TID251  other chance than the package's
    mu, arms = np.array(means), len(means)
    shape = (runs, players)
    counts, sums = np.zeros((*shape, arms)), np.zeros((*shape, arms))
    index = np.full((*shape, arms), np.inf)
    at = np.indices(shape)
    rank, arm = rng.integers(players, size=shape), rng.integers(arms, size=shape)
    seated = np.zeros(shape, dtype=bool)
    earned = np.zeros(runs)
    for t in range(1, horizon + 1):
        order = np.lexsort((rng.random(index.shape), -index))  # best first, ties at random
        if rule in ("rho-rand", "selfish"):
            arm = order[(*at, rank if rule == "rho-rand" else np.zeros(shape, dtype=int))]
        paid = rng.random((runs, arms)) < mu
        met = (arm[:, :, None] == arm[:, None, :]).sum(axis=2) > 1
        sensed = np.take_along_axis(paid, arm, axis=1)
        earned += np.where(met, 0.0, mu[arm]).sum(axis=1)
        counts[(*at, arm)] += 1
        sums[(*at, arm)] += sensed & ~met if rule == "selfish" else sensed
        before = index
        tried = np.maximum(counts, 1)
        index = np.where(counts > 0, kl_upper(sums / tried, np.log(t) / tried), np.inf)
        if rule == "rho-rand":
            rank = np.where(met, rng.integers(players, size=shape), rank)
        elif rule != "selfish":
            order = np.lexsort((rng.random(index.shape), -index))
            best = np.zeros_like(index, dtype=bool)
            np.put_along_axis(best, order[:, :, :players], True, axis=2)
            inside = best[(*at, arm)]
            smaller = best & (before <= before[(*at, arm)][:, :, None])
            smaller = np.where(smaller.any(axis=2, keepdims=True), smaller, best)
            any_best, any_smaller = (
                np.where(of, rng.random(index.shape), -1.0).argmax(axis=2) for of in (best, smaller)
            )
            if rule == "rand-top-m":
                arm = np.where(met, any_best, np.where(inside, arm, any_smaller))
            else:
                moves = inside & met & ~seated
                arm = np.where(inside, np.where(moves, any_best, arm), any_smaller)
                seated = inside & ~moves
    lost: Floats = horizon * np.sort(mu)[-players:].sum() - earned
    return lost

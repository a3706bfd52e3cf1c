"""Compiled choices by chance: one draw per arm from its posterior, and the arm of the largest.

`core.draws` has the algorithms. Here all arms are drawn before any two are compared, and branches
that are hard to foretell are avoided, which is what makes draws cheap.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from coopbandits.sim.cpu.leaves import best_arm, normal, uniform, word_at

ROUNDING = 4e-9
"""Indices that differ by less, relative to their size above 1, may tie."""

SQUEEZE, SQUEEZED_FROM = 0.2, 0.31
"""Who is below one and above the other need not be looked at more closely; see `play_betas`."""


@njit(inline="always")
def normal_posteriors(rows: Any, row: int, factor: float, prior: float, scratch: Any) -> None:
    """Write what `play_normals` reads; the prior counts as one pull of reward `prior`.

    `factor` times a row holds K reward sums and K counts.
    """
    half = np.uintp(scratch.shape[1])  # unsigned: nothing counts from the end
    for k in range(half):
        scratch[1, k] = 1.0 / math.sqrt(1.0 + factor * rows[row, half + k])
    for k in range(half):
        scratch[2, k] = (prior + factor * rows[row, k]) * scratch[1, k]


@njit(inline="always")
def play_normals(word: Any, scratch: Any, sigma: float, cubics: Any) -> int:
    """Return the arm of the largest of m_k + s_k σ z_k, from s in row 1 and m/s in row 2."""
    num_arms = np.uintp(scratch.shape[1])
    for k in range(num_arms):
        draw = normal(word_at(word, k), cubics)
        scratch[0, k] = scratch[1, k] * (scratch[2, k] + sigma * draw)
    arm: Any = np.uintp(0)
    best, second = -1e300, -1e300
    for k in range(num_arms):
        value = scratch[0, k]
        arm = k if value > best else arm
        second = max(second, min(best, value))
        best = max(best, value)
    if may_tie(best, second):
        return best_arm(scratch[0])
    return np.int64(arm)  # type: ignore[return-value]  # an int to numba


@njit
def may_tie(best: float, second: float) -> bool:
    """Tell whether two indices are so near that the rule for ties has to decide."""
    return best - second <= ROUNDING * max(1.0, abs(best))


@njit
def beta_posteriors(rows: Any, row: int, factor: float, ahead: float, scratch: Any) -> None:
    """Write what `play_betas` reads; `ahead` is the anticipation c, `factor` as above."""
    half = np.uintp(scratch.shape[1])
    for k in range(half):
        reward, count = factor * rows[row, k], factor * rows[row, half + k]
        wins = min(max(0.0, reward), max(0.0, count))
        scratch[1, k] = 1.0 + ahead * wins
        scratch[2, k] = 1.0 + ahead * max(count - wins, 0.0)


@njit
def play_betas(word: Any, scratch: Any, cubics: Any) -> int:
    """Return the arm of the largest draw from Beta(a_k, b_k), from a and b in rows 1 and 2.

    A trial x, u of a gamma is taken if ln u < r = x²/2 + d(1 − v + ln v). As e^r ≥ 1 + r, and
    r ≥ −0.2 c² x⁴ where 1 + c x > 0.31, most can be taken without logarithms: all but about
    7 % / d. Row 0 holds the variates afterwards, rows 3 and 4 their gammas.
    """
    num_arms = np.uintp(scratch.shape[1])
    for side in range(np.uintp(2)):
        for k in range(num_arms):
            scratch[3 + side, k] = 1.0 / math.sqrt(9.0 * (scratch[1 + side, k] - 1.0 / 3.0))
        for k in range(num_arms):
            key = word_at(word, side * num_arms + k)
            x, u = normal(word_at(key, 0), cubics), uniform(word_at(key, 1))
            c = scratch[3 + side, k]
            base, square = 1.0 + c * x, c * x * x
            if base > SQUEEZED_FROM and u < 1.0 - SQUEEZE * square * square:
                d = scratch[1 + side, k] - 1.0 / 3.0
                scratch[3 + side, k] = d * (base * base * base)
            else:
                scratch[3 + side, k] = gamma(key, scratch[1 + side, k], cubics)
    for k in range(num_arms):
        scratch[0, k] = scratch[3, k] / (scratch[3, k] + scratch[4, k])
    return best_arm(scratch[0])


@njit
def gamma(key: Any, shape: float, cubics: Any) -> float:
    """Return one Gamma(shape, 1) variate; see `core.draws.gammas`."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    trial = 0
    while True:
        x = normal(word_at(key, 2 * trial), cubics)
        u = uniform(word_at(key, 2 * trial + 1))
        base = 1.0 + c * x
        if base > 0.0:
            v = base * base * base
            if math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                return d * v
        trial += 1

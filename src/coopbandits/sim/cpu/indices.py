"""Compiled choices: what each index plays on one agent's totals, by a run-time switch.

`core.index` has the formulas for all arms at once. Here they are restated for one agent, without
divisions and roots where a comparison does not need them; the engines' equality holds the two
together. Totals are averages per agent, `num_agents` times which is the network's total.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from coopbandits.core.agent import NO_INFORMATION
from coopbandits.core.index import normal_upper as normal_upper_source
from coopbandits.sim.cpu.draws import (
    ROUNDING,
    beta_posteriors,
    may_tie,
    normal_posteriors,
    play_betas,
    play_normals,
)
from coopbandits.sim.cpu.leaves import best_arm, normal_quantile, word_at

UCB, INFLATED, UCL, BAYES, NORMAL_DRAW, BETA_DRAW = range(6)

normal_upper = njit()(normal_upper_source)

GROWING = -1.0
"""An inflation of this value stands for f(t) = sqrt(ln t)."""


class IndexRule(NamedTuple):
    """Which index, and its numbers; those a kind does not use are 0.

    Attributes
    ----------
    kind : int
        UCB, INFLATED, UCL, BAYES, NORMAL_DRAW or BETA_DRAW.
    scale : float
        B σ² or 2γσ², the factor of the logarithm under the root.
    sigma : float
        σ.
    gamma, precision, shift : float
        coop-UCL's γ and prior.
    """

    kind: int
    scale: float = 0.0
    sigma: float = 1.0
    gamma: float = 0.0
    precision: float = 0.0
    shift: float = 0.0


@njit
def level(rule: Any, num_agents: float, rounds: float) -> float:
    """Return what an index takes from the time alone, the same for all agents of a round.

    `rounds` is t, the pulls per agent behind the averages. For UCB and INFLATED it is G of
    `_choose_bonus`, for UCL and BAYES a quantile.
    """
    if rule.kind == UCB:
        return rule.scale * math.log(max(2.0, rounds * num_agents)) / num_agents
    if rule.kind == INFLATED:
        return rule.scale * math.log(max(1.0, rounds)) / num_agents
    if rule.kind == UCL:
        return upper_quantile(max(1.0, rounds) ** -rule.gamma)
    if rule.kind == BAYES:
        return upper_quantile(1.0 / (1.0 + rounds))
    return 0.0


@njit
def choose(
    rule: Any, own: Any, start: int, end: int, num_agents: float, done: int, rounds: float,
    time_level: float, inflation: Any, words_from: Any, cubics: Any, lasts: Any, levels: Any,
    scratch: Any,
) -> None:  # fmt: skip
    """Write the arms of agents start … end − 1 into `lasts`.

    `own[agent]` holds K average sums and K average counts, `inflation[agent]` the ε of an inflated
    index or GROWING, `words_from[agent]` the tape of decisions; `done` is the number of rounds
    played, `rounds` and `time_level` are t and what `level` makes of it, `levels` belongs to
    `_choose_bonus`, and `scratch` has room for five numbers per arm. If `own` has one
    row, it is read by all agents; only draws allow for that. As in `averaging`, the loop over
    agents stands inside.
    """
    growing = math.sqrt(math.log(max(1.0, rounds)))
    if rule.kind == UCB or rule.kind == INFLATED:
        _choose_bonus(
            own, start, end, done, time_level, inflation, growing, lasts, levels, scratch[0]
        )
    elif rule.kind == NORMAL_DRAW:
        precision = 1.0 / rule.sigma**2
        _draw_normals(
            own, start, end, num_agents, done, precision, words_from, cubics, lasts, scratch
        )
    elif rule.kind == BETA_DRAW:
        _draw_betas(own, start, end, num_agents, done, words_from, cubics, lasts, scratch)
    else:
        _choose_quantile(
            rule, own, start, end, num_agents, time_level, inflation, growing, lasts, scratch[0]
        )


@njit
def _choose_bonus(
    own: Any, start: int, end: int, done: int, growth: float, inflation: Any, growing: float,
    lasts: Any, levels: Any, values: Any,
) -> None:  # fmt: skip
    """Choose by (s + √(G(n + ε)))/n, s and n averages.

    Whether an index reaches some level V, s + √(G(n + ε)) ≥ V n, takes neither root nor division.
    `levels` remembers a level that only the index of the arm played last exceeded then; as long as
    that remains so, nothing else is computed.
    """
    num_arms = np.uintp(values.size)  # unsigned: nothing counts from the end
    for agent in range(np.uintp(start), np.uintp(end)):
        last, threshold = np.uintp(lasts[agent]), levels[agent]
        offset = growth * (growing if inflation[agent] == GROWING else inflation[agent])
        count = own[agent, num_arms + last]
        lack = (threshold + ROUNDING * max(1.0, abs(threshold))) * count - own[agent, last]
        is_clear = done >= values.size and growth * count + offset >= lack * abs(lack)
        if is_clear and _reaching(own, agent, num_arms, growth, offset, threshold) == 1:
            continue
        arm: Any = last
        best, second = -1e300, -1e300
        for k in range(num_arms):
            total, count = own[agent, k], own[agent, num_arms + k]
            lack, radicand = second * count - total, growth * count + offset
            if count <= NO_INFORMATION or radicand >= lack * abs(lack):
                value = _bonus_index(total, count, radicand)
                if value > best:
                    best, second, arm = value, best, k
                else:
                    second = max(second, value)
        lasts[agent] = arm
        if may_tie(best, second):
            for k in range(num_arms):
                total, count = own[agent, k], own[agent, num_arms + k]
                values[k] = _bonus_index(total, count, growth * count + offset)
            lasts[agent] = best_arm(values)
        levels[agent] = 0.2 * best + 0.8 * second  # the best falls faster than the others rise


@njit
def _bonus_index(total: float, count: float, radicand: float) -> float:
    """Return the index of one arm, +∞ without information."""
    return (total + math.sqrt(radicand)) / count if count > NO_INFORMATION else math.inf


@njit(fastmath={"contract"})
def _reaching(
    own: Any, agent: int, num_arms: int, growth: float, offset: float, threshold: float
) -> int:
    """Return the number of arms whose index is at least `threshold`, without a branch."""
    found = 0
    half = np.uintp(num_arms)  # unsigned: nothing counts from the end
    for k in range(half):
        count = own[agent, half + k]
        lack = threshold * count - own[agent, k]
        found += int(growth * count + offset >= lack * abs(lack))
    return found


@njit
def _draw_normals(
    own: Any, start: int, end: int, num_agents: float, done: int, precision: float, words_from: Any,
    cubics: Any, lasts: Any, scratch: Any,
) -> None:  # fmt: skip
    """Choose by draws from normal posteriors with a standard normal prior."""
    for agent in range(start, end):
        if agent == start or own.shape[0] > 1:
            row = agent if own.shape[0] > 1 else 0
            normal_posteriors(own, row, num_agents * precision, 0.0, scratch)
        word = word_at(words_from[agent], done)
        lasts[agent] = play_normals(word, scratch, 1.0, cubics)


@njit
def _draw_betas(
    own: Any, start: int, end: int, num_agents: float, done: int, words_from: Any, cubics: Any,
    lasts: Any, scratch: Any,
) -> None:  # fmt: skip
    """Choose by draws from Beta posteriors with a uniform prior."""
    for agent in range(start, end):
        if agent == start or own.shape[0] > 1:
            row = agent if own.shape[0] > 1 else 0
            beta_posteriors(own, row, num_agents, 1.0, scratch)
        lasts[agent] = play_betas(word_at(words_from[agent], done), scratch, cubics)


@njit
def _choose_quantile(
    rule: Any, own: Any, start: int, end: int, num_agents: float, time_level: float,
    inflation: Any, growing: float, lasts: Any, values: Any,
) -> None:  # fmt: skip
    """Choose by quantiles of normal posteriors; with coop-UCL an arm not yet seen comes first."""
    num_arms = values.size
    precision, shift = (1.0, 0.0) if rule.kind == BAYES else (rule.precision, rule.shift)
    for agent in range(start, end):
        inflated = growing if inflation[agent] == GROWING else inflation[agent]
        for k in range(num_arms):
            total, count = num_agents * own[agent, k], num_agents * own[agent, num_arms + k]
            values[k], spread = math.inf, time_level
            if rule.kind == UCL and count > NO_INFORMATION * num_agents:
                spread = time_level * math.sqrt(1.0 + num_agents * inflated / count)
            if rule.kind == BAYES or count > NO_INFORMATION * num_agents:
                values[k] = normal_upper(total, count, precision, shift, rule.sigma, spread)
        lasts[agent] = best_arm(values)


@njit
def upper_quantile(tail: float) -> float:
    """Return Φ⁻¹(1 − tail); see `core.index.quantile`."""
    return -normal_quantile(min(0.5, max(1e-300, tail)))

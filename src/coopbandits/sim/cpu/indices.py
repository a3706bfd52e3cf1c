"""Compiled choices: what each index plays on one agent's totals, by a run-time switch.

`core.index` has the formulas for all arms at once. Here they are restated for one agent, without
divisions and roots where a comparison does not need them; the engines' equality holds the two
together. Totals are averages per agent, `num_agents` times which is the network's total.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba import njit

from coopbandits.core.agent import NO_INFORMATION
from coopbandits.core.index import normal_upper as normal_upper_source
from coopbandits.sim.cpu.leaves import best_arm, normal, normal_quantile, uniform, word_at

UCB, INFLATED, UCL, BAYES, NORMAL_DRAW, BETA_DRAW = range(6)

normal_upper = njit()(normal_upper_source)


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
    rule: Any, own: Any, agent: int, num_agents: float, time_level: float, inflation: float,
    word: Any, cubics: Any, last: int, values: Any,
) -> int:  # fmt: skip
    """Return the arm for one agent; `own[agent]` holds K average sums and K average counts.

    `time_level` comes from `level`; `inflation` is the ε of an inflated index; `last` the arm
    played last, where the search for the best begins.
    """
    if rule.kind == UCB or rule.kind == INFLATED:
        return _choose_bonus(own, agent, time_level, inflation, last, values)
    num_arms = values.size
    for k in range(num_arms):
        total, count = num_agents * own[agent, k], num_agents * own[agent, num_arms + k]
        if rule.kind == NORMAL_DRAW:
            z = normal(word_at(word, k), cubics)
            root = 1.0 / math.sqrt(1.0 + count / rule.sigma**2)
            values[k] = root * (total / rule.sigma**2 * root + z)
        elif rule.kind == BETA_DRAW:
            wins = min(max(0.0, total), max(0.0, count))
            first = gamma(word_at(word, k), 1.0 + wins, cubics)
            second = gamma(word_at(word, num_arms + k), 1.0 + max(0.0, count - wins), cubics)
            values[k] = first / (first + second)
        elif rule.kind == BAYES:
            values[k] = normal_upper(total, count, 1.0, 0.0, rule.sigma, time_level)
        elif count <= NO_INFORMATION * num_agents:
            return k
        else:
            spread = time_level * math.sqrt(1.0 + num_agents * inflation / count)
            values[k] = normal_upper(total, count, rule.precision, rule.shift, rule.sigma, spread)
    return best_arm(values)


@njit
def _choose_bonus(
    own: Any, agent: int, growth: float, inflation: float, last: int, values: Any
) -> int:
    """Choose by (s + √(G(n + ε)))/n, s and n averages.

    An arm can only win if s + √(G(n + ε)) ≥ V n for the largest index V found so far, which takes
    neither root nor division to rule out. The search begins with the arm played last.
    """
    num_arms = values.size
    count = own[agent, num_arms + last]
    best = -1e300
    if count > NO_INFORMATION:
        best = (own[agent, last] + math.sqrt(growth * (count + inflation))) / count
    enough = best - 4e-9 * max(1.0, abs(best))
    found, arm = 0, 0
    for k in range(num_arms):
        total, count = own[agent, k], own[agent, num_arms + k]
        if count <= NO_INFORMATION:
            return k
        radicand = growth * (count + inflation)
        lack = enough * count - total
        values[k] = -1e300
        if lack <= 0.0 or radicand >= lack * lack:
            values[k] = (total + math.sqrt(radicand)) / count
            found, arm = found + 1, k
            if values[k] > best:
                best = values[k]
                enough = best - 4e-9 * max(1.0, abs(best))
    return arm if found == 1 else best_arm(values)


@njit
def upper_quantile(tail: float) -> float:
    """Return Φ⁻¹(1 − tail); see `core.index.quantile`."""
    return -normal_quantile(min(0.5, max(1e-300, tail)))


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
            # The squeeze rules out most logarithms and changes no decision.
            if u < 1.0 - 0.0331 * (x * x) * (x * x):
                return d * v
            if math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                return d * v
        trial += 1

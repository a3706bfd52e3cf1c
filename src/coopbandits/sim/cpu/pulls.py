"""Kernels that play: agents that choose by UCB on their own for a span of rounds.

In a function with ``parallel=True`` numba drops updates of arrays that stand in a tuple, taking
them for dead code. There, tallies are only written by functions of their own that are not inlined.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, prange

from coopbandits.sim.cpu.leaves import best_arm, reward_from_variate, ucb, variate, word_at

BUFFER = 128
"""Variates made at once, and the longest stretch for which one bound is used."""


@njit(cache=True, parallel=True)
def play_initial(world: Any, span: Any, tally: Any, fresh: Any) -> None:
    """Pull arm r in round r, for rounds of the initial stage."""
    for task in prange(world.reward_keys.shape[0] * world.num_blocks):
        run, block = task // world.num_blocks, task % world.num_blocks
        last = min((block + 1) * world.block, world.reward_keys.shape[1])
        for agent in range(block * world.block, last):
            key = world.reward_keys[run, agent]
            at = 0
            for r in range(span.rounds):
                z = variate(world.is_normal, word_at(key, r), world.cubics)
                u = reward_from_variate(world.form_kind, world.table, r, z)
                _book(span, tally, run, block, agent, at, r, r, r + 1, u, fresh[run, agent])
                if r + 1 == span.stops[at]:
                    at += 1


@njit(cache=True, parallel=True)
def play_alone(
    world: Any, span: Any, tally: Any, settled: Any, fresh: Any, explorations: Any, rule: Any
) -> None:
    """Let every agent play a span of rounds on its settled totals.

    Nobody reads what the others do meanwhile, so agents are independent of one another.

    Parameters
    ----------
    settled, fresh : (run, agent, 2K)
        Network totals as the agents see them, and their own pulls; both are brought up to date.
    explorations : (rounds,)
        B σ² ln s in every round.
    rule : UcbRule
        How own pulls count.
    """
    num_arms = world.table.shape[0]
    for task in prange(world.reward_keys.shape[0] * world.num_blocks):
        run, block = task // world.num_blocks, task % world.num_blocks
        last = min((block + 1) * world.block, world.reward_keys.shape[1])
        means, widths, values = np.empty(num_arms), np.empty(num_arms), np.empty(num_arms)
        variates = np.empty(BUFFER)
        for agent in range(block * world.block, last):
            if rule.own_pulls:
                _play_own_pulls(
                    world, span, tally, run, block, agent, settled[run, agent], fresh[run, agent],
                    explorations, rule, means, widths, values, variates,
                )  # fmt: skip
            else:
                _play_one_arm(
                    world, span, tally, run, block, agent, settled[run, agent], fresh[run, agent],
                    explorations[0], rule, values, variates,
                )  # fmt: skip


@njit
def _play_own_pulls(
    world: Any, span: Any, tally: Any, run: int, block: int, agent: int, settled: Any, fresh: Any,
    explorations: Any, rule: Any, means: Any, widths: Any, values: Any, variates: Any,
) -> None:  # fmt: skip
    """Choose every round; look at all arms only when the arm in play may have lost its lead.

    Only the played arm's totals change, and the others' indices grow with ln s alone. So an upper
    bound on them holds for a stretch of rounds, and as long as the played arm is surely above it
    the choice is known. With totals S, n and E = B σ² ln s (taken at the start of the stretch,
    where it is smallest) the test S/n + √(E/n) > bound needs neither division nor root.
    """
    num_arms = means.size
    key = world.reward_keys[run, agent]
    for k in range(num_arms):
        _refresh(k, settled[k], settled[num_arms + k], rule.least, means, widths)
    r, at, made_from, made_to = 0, 0, 0, 0
    while r < span.rounds:
        if r >= made_to:
            made_from, made_to = r, min(span.rounds, r + BUFFER)
            _fill(world, key, span.first + made_from, made_to - made_from, variates)
        end = min(made_to, span.stops[at])
        arm = _leader(means, widths, values, math.sqrt(explorations[r]))
        bound = _bound_others(arm, means, widths, values, math.sqrt(explorations[end - 1]))
        exploration = explorations[r]
        total, count, gained, start = settled[arm], settled[num_arms + arm], 0.0, r
        while True:
            u = reward_from_variate(world.form_kind, world.table, arm, variates[r - made_from])
            gained += u
            total += rule.weight * u
            count += rule.weight
            r += 1
            if r >= end:
                break
            lack = bound * count - total
            if lack > 0.0 and exploration * count <= lack * lack:
                break
        settled[arm], settled[num_arms + arm] = total, count
        _refresh(arm, total, count, rule.least, means, widths)
        _book(span, tally, run, block, agent, at, arm, start, r, gained, fresh)
        if r == span.stops[at]:
            at += 1


@njit
def _play_one_arm(
    world: Any, span: Any, tally: Any, run: int, block: int, agent: int, settled: Any, fresh: Any,
    exploration: float, rule: Any, values: Any, variates: Any,
) -> None:  # fmt: skip
    """Choose once; then the tape is only summed."""
    num_arms = values.size
    for k in range(num_arms):
        values[k] = ucb(settled[k], settled[num_arms + k], rule.least, exploration)
    arm = best_arm(values)
    key = world.reward_keys[run, agent]
    r, at = 0, 0
    while r < span.rounds:
        end = min(span.rounds, span.stops[at], r + BUFFER)
        _fill(world, key, span.first + r, end - r, variates)
        gained = 0.0
        for i in range(end - r):
            gained += reward_from_variate(world.form_kind, world.table, arm, variates[i])
        _book(span, tally, run, block, agent, at, arm, r, end, gained, fresh)
        r = end
        if r == span.stops[at]:
            at += 1


@njit(inline="always")
def _fill(world: Any, key: Any, first: int, size: int, variates: Any) -> None:
    for i in range(size):
        variates[i] = variate(world.is_normal, word_at(key, first + i), world.cubics)


@njit(inline="always")
def _refresh(arm: int, total: float, count: float, least: float, means: Any, widths: Any) -> None:
    """Keep an arm's index as mean + width·√E."""
    if count <= least:
        means[arm], widths[arm] = math.inf, 0.0
    else:
        means[arm], widths[arm] = total / count, 1.0 / math.sqrt(count)


@njit(fastmath={"nnan", "nsz"})
def _largest(means: Any, widths: Any, values: Any, root: float) -> float:
    """Fill in the indices and return the largest; no not-a-number can occur, so it vectorises."""
    largest = -1e300
    for k in range(means.size):
        values[k] = means[k] + widths[k] * root
        largest = max(largest, values[k])
    return largest


@njit(inline="always")
def _leader(means: Any, widths: Any, values: Any, root: float) -> int:
    """Return the arm to play; the tie rule of `best_arm` after a faster search."""
    largest = _largest(means, widths, values, root)
    if largest < math.inf:
        largest -= 1e-9 * max(1.0, abs(largest))
    arm = 0
    while values[arm] < largest:
        arm += 1
    return arm


@njit(inline="always")
def _bound_others(arm: int, means: Any, widths: Any, values: Any, root: float) -> float:
    """Return what the played arm's index must exceed to win without a closer look."""
    mean, width = means[arm], widths[arm]
    means[arm], widths[arm] = -1e300, 0.0
    bound = _largest(means, widths, values, root)
    means[arm], widths[arm] = mean, width
    return bound + 4e-9 * max(1.0, abs(bound)) if bound > -1e300 else bound


@njit
def _book(
    span: Any, tally: Any, run: int, block: int, agent: int, at: int, arm: int, start: int,
    end: int, gained: float, fresh: Any,
) -> None:  # fmt: skip
    """Enter a stretch of pulls of one arm."""
    fresh[arm] += gained
    fresh[fresh.size // 2 + arm] += end - start
    tally.counts[run, block, span.slot + at, arm] += end - start
    tally.rewards[run, block, span.slot + at] += gained
    if tally.arms.shape[2] > 0:
        for r in range(start, end):
            tally.arms[run, agent, span.first + r] = arm


@njit(cache=True, parallel=True)
def play_round(
    world: Any, span: Any, tally: Any, read: Any, fresh: Any, explorations: Any, rule: Any,
    arms: Any, rewards: Any,
) -> None:  # fmt: skip
    """Let every agent pull once by what it reads; leave arms and rewards for the others to see.

    Parameters
    ----------
    read : (run, agent, 2K)
        Network totals as the agents see them; not changed.
    explorations : (agent,)
        B σ² ln s of every agent.
    arms, rewards : (run, agent)
        What was pulled and what it paid.
    """
    num_arms = world.table.shape[0]
    for task in prange(world.reward_keys.shape[0] * world.num_blocks):
        run, block = task // world.num_blocks, task % world.num_blocks
        last = min((block + 1) * world.block, world.reward_keys.shape[1])
        values = np.empty(num_arms)
        for agent in range(block * world.block, last):
            seen = read[run, agent]
            for k in range(num_arms):
                values[k] = ucb(seen[k], seen[num_arms + k], rule.least, explorations[agent])
            arm = best_arm(values)
            z = variate(
                world.is_normal, word_at(world.reward_keys[run, agent], span.first), world.cubics
            )
            u = reward_from_variate(world.form_kind, world.table, arm, z)
            arms[run, agent], rewards[run, agent] = arm, u
            _book(span, tally, run, block, agent, 0, arm, 0, 1, u, fresh[run, agent])


@njit(cache=True, parallel=True)
def settle_pulls(
    indptr: Any, indices: Any, arms: Any, rewards: Any, settled: Any, weight: float
) -> None:
    """Add the last pull of every agent and of its neighbours to its settled totals."""
    num_runs, num_agents = arms.shape
    num_arms = settled.shape[2] // 2
    for task in prange(num_runs * num_agents):
        run, agent = task // num_agents, task % num_agents
        _settle(settled[run, agent], num_arms, arms[run, agent], rewards[run, agent], weight)
        for at in range(indptr[agent], indptr[agent + 1]):
            other = indices[at]
            _settle(settled[run, agent], num_arms, arms[run, other], rewards[run, other], weight)


@njit
def _settle(settled: Any, num_arms: int, arm: int, reward: float, weight: float) -> None:
    settled[arm] += weight * reward
    settled[num_arms + arm] += weight

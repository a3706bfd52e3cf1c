"""Kernels that play: agents that choose on their own for a span of rounds.

`play_alone` takes any index. `play_bonus` is for indices s/n + √(a/n), UCB above all, which need
not be computed in every round; tests hold it to the former.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from coopbandits.problems.rewards import LOCATION_SCALE
from coopbandits.sim.cpu.choice_forms import AGENTS, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.compiling import alone, for_threads, inner
from coopbandits.sim.cpu.launch import launch, num_tasks, share_of
from coopbandits.sim.cpu.leaves import (
    normal,
    reward_from_variate,
    segment_end,
    segment_of,
    square_place,
    table_of,
    uniform,
    variate,
    word_at,
)
from coopbandits.sim.cpu.world import book, charge, enter, keep_worst

BUFFER = 128
"""Variates made at once, and the longest stretch for which one bound is used."""


def play_initial(world: Any, span: Any, tally: Any, fresh: Any) -> None:
    """Pull arm r in round r, for rounds of the initial stage."""
    launch(_play_initial, num_tasks(world), (world, span, tally, fresh))


@for_threads
def _play_initial(task: int, world: Any, span: Any, tally: Any, fresh: Any) -> None:
    run, first, last = share_of(task, world.num_blocks, world)
    block, table = task % world.num_blocks, table_of(world.tables, run)
    prices, num_arms = table_of(world.prices, run), world.num_arms
    for agent in range(first, last):
        key = world.reward_keys[run, agent]
        at = 0
        for r in range(span.rounds):
            row = world.places[agent] + segment_of(world.starts, world.period, r) * num_arms + r
            z = variate(world.is_normal, word_at(key, r), world.cubics)
            u = reward_from_variate(world.form_kind, table, row, z)
            book(
                tally.counts[run, block], tally.rewards[run, block], tally.arms[run],
                fresh[run], agent, num_arms, span.slot + at, r, r, r + 1, u,
            )  # fmt: skip
            charge(prices, num_arms, row, 1, tally.regrets[run], agent, tally.costs[run, block],
                   span.slot + at)  # fmt: skip
            if r + 1 == span.stops[at]:
                keep_worst(tally.worst[run, block], span.slot + at, tally.regrets[run, agent])
                at += 1


class Reading(NamedTuple):
    """How agents read what has settled: `factor` times, as so many agents' totals.

    Own pulls count at once, with `weight`, if `own_pulls`; a count up to `least` tells nothing.
    """

    own_pulls: bool
    weight: float
    least: float
    num_agents: float


def play_alone(
    world: Any, span: Any, tally: Any, read: Any, fresh: Any, factor: float, times: Any,
    reading: Any, rule: Any, numbers: Any, memory: Any, weights: Any, factors: Any, made: Any,
) -> None:  # fmt: skip
    """Let every agent play a span of rounds on the totals it reads at the start.

    Nobody reads what the others do meanwhile, so agents are independent of one another.

    Parameters
    ----------
    read : (run, agent, size)
        What agents read at the start, `factor` times.
    fresh : (run, agent, size)
        The new pulls, in place of whatever is there.
    times : (rounds,)
        s in every round.
    weights, factors : (rounds,)
        What a pull of each round counts in units of what is read, and the inverse; see `Stages`.
    made : (run, agent, K) or (run, 0, K)
        All pulls, where that is asked for.
    """
    given = (
        world, span, tally, read, fresh, factor, times, reading, rule, numbers, memory, weights,
        factors, made,
    )  # fmt: skip
    launch(_play_block, num_tasks(world), given)


@for_threads(allocates=True)
def _play_block(
    task: int, world: Any, span: Any, tally: Any, all_read: Any, all_fresh: Any, factor: float,
    times: Any, reading: Any, rule: Any, numbers: Any, all_memory: Any, weights: Any,
    factors: Any, all_made: Any,
) -> None:  # fmt: skip
    run, first, last = share_of(task, world.num_blocks, world)
    block, read, fresh = task % world.num_blocks, all_read[run], all_fresh[run]
    num_arms, squares, memory, made = rule.num_arms, rule.squares, all_memory[run], all_made[run]
    keys, words_from = world.reward_keys[run], world.decision_keys[run]
    table, stops = table_of(world.tables, run), span.stops
    counts, rewards, arms = tally.counts[run, block], tally.rewards[run, block], tally.arms[run]
    prices, costs = table_of(world.prices, run), tally.costs[run, block]
    regrets, worst = tally.regrets[run], tally.worst[run, block]
    totals, contexts = np.empty((1, read.shape[1])), np.ones((1, CONTEXT))
    scratch, chosen = np.empty(rule.scratch), np.zeros(1, np.int64)
    contexts[0, AGENTS] = reading.num_agents
    # Else one choice holds for the whole span.
    changes = reading.own_pulls or rule.random or weights[0] != 1.0
    for agent in range(first, last):
        for c in range(totals.shape[1]):
            totals[0, c] = factor * read[agent, c]
            fresh[agent, c] = 0.0
        own, at = (agent if rule.numbers_stride > 0 else 0), 0
        place, border = 0, -1
        for r in range(span.rounds):
            done = span.first + r
            if done >= border:
                segment = segment_of(world.starts, world.period, done)
                place = world.places[agent] + segment * num_arms
                border = segment_end(world.starts, world.period, done)
            if r == 0 or changes:
                contexts[0, TIME], contexts[0, FACTOR] = times[r], factors[r]
                choose(
                    rule.address, totals, 0, contexts, 0, words_from[agent : agent + 1], done,
                    numbers[own : own + 1], 0, memory[agent : agent + 1], scratch, chosen, 0, 1,
                    num_arms, squares,
                )  # fmt: skip
            arm = chosen[0]
            z = variate(world.is_normal, word_at(keys[agent], done), world.cubics)
            u = reward_from_variate(world.form_kind, table, place + arm, z)
            fresh[agent, arm] += weights[r] * u
            fresh[agent, num_arms + arm] += weights[r]
            if reading.own_pulls:
                totals[0, arm] += reading.weight * weights[r] * u
                totals[0, num_arms + arm] += reading.weight * weights[r]
            if squares > 0:
                square = square_place(num_arms, squares, arm)
                fresh[agent, square] += weights[r] * u * u
                if reading.own_pulls:
                    totals[0, square] += reading.weight * weights[r] * u * u
            if made.shape[0] > 0:
                made[agent, arm] += 1
            enter(counts, rewards, arms, agent, span.slot + at, arm, done, done + 1, u)
            charge(prices, num_arms, place + arm, 1, regrets, agent, costs, span.slot + at)
            if r + 1 == stops[at]:
                keep_worst(worst, span.slot + at, regrets[agent])
                at += 1


def play_bonus(
    world: Any, span: Any, tally: Any, read: Any, fresh: Any, factor: float, clear: bool,
    explorations: Any, rule: Any,
) -> None:  # fmt: skip
    """As `play_alone`, for an index s/n + √(a/n).

    Parameters
    ----------
    read : (run, agent, 2K)
        What agents read at the start, `factor` times; may be `fresh` itself.
    fresh : (run, agent, 2K)
        Own pulls; the new ones are added, after clearing the old ones if `clear`.
    explorations : (rounds,)
        a in every round; it must not fall.
    rule : Reading
        How own pulls count.
    """
    given = (world, span, tally, read, fresh, factor, clear, explorations, rule)
    launch(_play_bonus, num_tasks(world), given)


@for_threads
def _play_bonus(
    task: int, world: Any, span: Any, tally: Any, read: Any, fresh: Any, factor: float, clear: bool,
    explorations: Any, rule: Any,
) -> None:  # fmt: skip
    run, block = task // world.num_blocks, task % world.num_blocks
    play_bonus_block(
        world, span, tally, run, block, read[run], fresh[run], factor, clear, explorations, rule
    )


@inner(allocates=True)
def play_bonus_block(
    world: Any, span: Any, tally: Any, run: int, block: int, read: Any, fresh: Any, factor: float,
    clear: bool, explorations: Any, rule: Any,
) -> None:  # fmt: skip
    num_arms = world.num_arms
    last = min((block + 1) * world.block, world.reward_keys.shape[1])
    keys, table = world.reward_keys[run], table_of(world.tables, run)
    cubics, stops = world.cubics, span.stops
    counts, rewards, arms = tally.counts[run, block], tally.rewards[run, block], tally.arms[run]
    prices, costs = table_of(world.prices, run), tally.costs[run, block]
    regrets, worst = tally.regrets[run], tally.worst[run, block]
    places, starts, period = world.places, world.starts, world.period
    means, widths, values = np.empty(num_arms), np.empty(num_arms), np.empty(num_arms)
    totals, variates = np.empty(2 * num_arms), np.empty(BUFFER)
    kind, is_normal = world.form_kind, world.is_normal
    for agent in range(block * world.block, last):
        for c in range(totals.size):
            totals[c] = factor * read[agent, c]
        if clear:
            for c in range(totals.size):
                fresh[agent, c] = 0.0
        if rule.own_pulls:
            _play_own_pulls(
                kind, table, is_normal, cubics, keys[agent], span.first, span.rounds, stops,
                span.slot, counts, rewards, arms, agent, totals, fresh, explorations, rule.weight,
                rule.least, means, widths, values, variates,
                prices, costs, regrets, worst, places[agent], starts, period,
            )  # fmt: skip
        else:
            _play_one_arm(
                kind, table, is_normal, cubics, keys[agent], span.first, span.rounds, stops,
                span.slot, counts, rewards, arms, agent, totals, fresh, explorations[0],
                rule.least, means, widths, values, variates,
                prices, costs, regrets, worst, places[agent], starts, period,
            )  # fmt: skip


@inner(forceinline=True)
def _play_own_pulls(
    kind: int, table: Any, is_normal: bool, cubics: Any, key: Any, first: int, rounds: int,
    stops: Any, slot: int, counts: Any, rewards: Any, arms: Any, agent: int, totals: Any,
    fresh: Any, explorations: Any, weight: float, least: float, means: Any, widths: Any,
    values: Any, variates: Any, prices: Any, costs: Any, regrets: Any, worst: Any, own_place: int,
    starts: Any, period: int,
) -> None:  # fmt: skip
    """Choose every round; look at all arms only when the arm in play may have lost its lead.

    Only the played arm's totals change, and the others' indices grow with a alone. So an upper
    bound on them holds for a stretch of rounds, and as long as the played arm is surely above it
    the choice is known. With totals s, n and a (taken at the start of the stretch, where it is
    smallest) the test s/n + √(a/n) > bound needs neither division nor root.
    """
    num_arms = means.size
    affine, scale_column = kind == LOCATION_SCALE, min(1, table.shape[1] - 1)
    for k in range(num_arms):
        _refresh(k, totals[k], totals[num_arms + k], least, means, widths)
    r, at, made_from, made_to = 0, 0, 0, 0
    place, border = own_place, -1
    while r < rounds:
        if first + r >= border:
            place = own_place + segment_of(starts, period, first + r) * num_arms
            border = segment_end(starts, period, first + r)
        if r >= made_to:
            made_from, made_to = r, min(rounds, r + BUFFER)
            _fill(is_normal, cubics, key, first + made_from, made_to - made_from, variates)
        end = min(made_to, stops[at], border - first)
        arm = _leader(means, widths, values, math.sqrt(explorations[r]))
        bound = _bound_others(arm, means, widths, values, math.sqrt(explorations[end - 1]))
        exploration = explorations[r]
        total, count, gained, start = totals[arm], totals[num_arms + arm], 0.0, r
        row = place + arm
        mean, scale = table[row, 0], table[row, scale_column]
        while True:
            z = variates[r - made_from]
            u = mean + scale * z if affine else reward_from_variate(kind, table, row, z)
            gained += u
            total += weight * u
            count += weight
            r += 1
            if r >= end:
                break
            lack = bound * count - total
            if lack > 0.0 and exploration * count <= lack * lack:
                break
        totals[arm], totals[num_arms + arm] = total, count
        _refresh(arm, total, count, least, means, widths)
        book(
            counts, rewards, arms, fresh, agent, num_arms, slot + at, arm, first + start, first + r,
            gained,
        )  # fmt: skip
        charge(prices, num_arms, row, r - start, regrets, agent, costs, slot + at)
        if r == stops[at]:
            keep_worst(worst, slot + at, regrets[agent])
            at += 1


@inner(forceinline=True)
def _play_one_arm(
    kind: int, table: Any, is_normal: bool, cubics: Any, key: Any, first: int, rounds: int,
    stops: Any, slot: int, counts: Any, rewards: Any, arms: Any, agent: int, totals: Any,
    fresh: Any, exploration: float, least: float, means: Any, widths: Any, values: Any,
    variates: Any, prices: Any, costs: Any, regrets: Any, worst: Any, own_place: int, starts: Any,
    period: int,
) -> None:  # fmt: skip
    """Choose once; then the tape is only summed."""
    num_arms = values.size
    for k in range(num_arms):
        _refresh(k, totals[k], totals[num_arms + k], least, means, widths)
    arm = _leader(means, widths, values, math.sqrt(exploration))
    r, at = 0, 0
    row, border = own_place + arm, -1
    while r < rounds:
        if first + r >= border:
            row = own_place + segment_of(starts, period, first + r) * num_arms + arm
            border = segment_end(starts, period, first + r)
        end = min(rounds, stops[at], r + BUFFER, border - first)
        _fill(is_normal, cubics, key, first + r, end - r, variates)
        gained = _sum_rewards(kind, table, row, end - r, variates)
        book(
            counts, rewards, arms, fresh, agent, num_arms, slot + at, arm, first + r, first + end,
            gained,
        )  # fmt: skip
        charge(prices, num_arms, row, end - r, regrets, agent, costs, slot + at)
        r = end
        if r == stops[at]:
            keep_worst(worst, slot + at, regrets[agent])
            at += 1


@inner
def _sum_rewards(kind: int, table: Any, arm: int, size: int, variates: Any) -> float:
    gained = 0.0
    if kind == LOCATION_SCALE:  # without a branch per pull
        mean, scale = table[arm, 0], table[arm, 1]
        for i in range(size):
            gained += mean + scale * variates[i]
    else:
        for i in range(size):
            gained += reward_from_variate(kind, table, arm, variates[i])
    return gained


@inner(forceinline=True)
def _fill(is_normal: bool, cubics: Any, key: Any, first: int, size: int, variates: Any) -> None:
    if is_normal:
        for i in range(size):
            variates[i] = normal(word_at(key, first + i), cubics)
    else:
        for i in range(size):
            variates[i] = uniform(word_at(key, first + i))


@inner(forceinline=True)
def _refresh(arm: int, total: float, count: float, least: float, means: Any, widths: Any) -> None:
    """Keep an arm's index as mean + width·√a."""
    if count <= least:
        means[arm], widths[arm] = math.inf, 0.0
    else:
        means[arm], widths[arm] = total / count, 1.0 / math.sqrt(count)


@alone(fastmath={"nnan", "nsz"})
def _largest(means: Any, widths: Any, values: Any, root: float) -> float:
    """Fill in the indices and return the largest; no not-a-number can occur, so it vectorises."""
    largest = -1e300
    for k in range(means.size):
        values[k] = means[k] + widths[k] * root
        largest = max(largest, values[k])
    return largest


@inner(forceinline=True)
def _leader(means: Any, widths: Any, values: Any, root: float) -> int:
    """Return the arm to play; the tie rule of `best_arm` after a faster search."""
    largest = _largest(means, widths, values, root)
    if largest < math.inf:
        largest -= 1e-9 * max(1.0, abs(largest))
    arm = 0
    while values[arm] < largest:
        arm += 1
    return arm


@inner(forceinline=True)
def _bound_others(arm: int, means: Any, widths: Any, values: Any, root: float) -> float:
    """Return what the played arm's index must exceed to win without a closer look."""
    mean, width = means[arm], widths[arm]
    means[arm], widths[arm] = -1e300, 0.0
    bound = _largest(means, widths, values, root)
    means[arm], widths[arm] = mean, width
    return bound + 4e-9 * max(1.0, abs(bound)) if bound > -1e300 else bound

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
    uniform,
    variate,
    word_at,
)
from coopbandits.sim.cpu.world import book, charge, enter, keep_worst

BUFFER = 128
"""Variates made at once, and the longest stretch for which one bound is used."""


def play_initial(world: Any, span: Any, tally: Any, fresh: Any) -> None:
    """Pull arm r in round r, for rounds of the initial stage."""
    own = world, tally, fresh
    launch(_play_initial, num_tasks(world), (span,), own, world.num_blocks)


@for_threads
def _play_initial(task: int, span: Any, world: Any, tally: Any, fresh: Any) -> None:
    _, first, last = share_of(task, world.num_blocks, world)
    block, num_arms = task % world.num_blocks, world.num_arms
    for agent in range(first, last):
        at = 0
        for r in range(span.rounds):
            row = world.places[agent] + segment_of(world.starts, world.period, r) * num_arms + r
            z = variate(world.is_normal, word_at(world.reward_keys[agent], r), world.cubics)
            u = reward_from_variate(world.form_kind, world.tables, row, z)
            slot = span.slot + at
            book(fresh, num_arms, agent, r, 1, u)
            enter(tally, block, slot, agent, r, r, r + 1, u)
            charge(world, tally, block, slot, agent, row, 1)
            if r + 1 == span.stops[at]:
                keep_worst(tally, block, slot, agent)
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
    given = span, factor, times, reading, rule, numbers, weights, factors
    own = world, tally, read, fresh, memory, made
    launch(_play_block, num_tasks(world), given, own, world.num_blocks)


@for_threads(allocates=True)
def _play_block(
    task: int, span: Any, factor: float, times: Any, reading: Any, rule: Any, numbers: Any,
    weights: Any, factors: Any, world: Any, tally: Any, read: Any, fresh: Any, memory: Any,
    made: Any,
) -> None:  # fmt: skip
    _, first, last = share_of(task, world.num_blocks, world)
    block, num_arms, squares = task % world.num_blocks, rule.num_arms, rule.squares
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
                    rule.address, totals, 0, contexts, 0, world.decision_keys[agent : agent + 1],
                    done, numbers[own : own + 1], 0, memory[agent : agent + 1], scratch, chosen,
                    0, 1, num_arms, squares,
                )  # fmt: skip
            arm = chosen[0]
            z = variate(world.is_normal, word_at(world.reward_keys[agent], done), world.cubics)
            u = reward_from_variate(world.form_kind, world.tables, place + arm, z)
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
            slot = span.slot + at
            enter(tally, block, slot, agent, arm, done, done + 1, u)
            charge(world, tally, block, slot, agent, place + arm, 1)
            if r + 1 == span.stops[at]:
                keep_worst(tally, block, slot, agent)
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
    given, own = (span, factor, clear, explorations, rule), (world, tally, read, fresh)
    launch(_play_bonus, num_tasks(world), given, own, world.num_blocks)


@for_threads
def _play_bonus(
    task: int, span: Any, factor: float, clear: bool, explorations: Any, rule: Any, world: Any,
    tally: Any, read: Any, fresh: Any,
) -> None:  # fmt: skip
    block = task % world.num_blocks
    play_bonus_block(world, span, tally, block, read, fresh, factor, clear, explorations, rule)


class Room(NamedTuple):
    """Working memory of a block of agents: totals of one, indices as mean + width·√a, variates."""

    totals: Any
    means: Any
    widths: Any
    values: Any
    variates: Any


@inner(allocates=True)
def play_bonus_block(
    world: Any, span: Any, tally: Any, block: int, read: Any, fresh: Any, factor: float,
    clear: bool, explorations: Any, rule: Any,
) -> None:  # fmt: skip
    """Let a block of agents of one run play; `world` and `tally` are those of the run."""
    num_arms = world.num_arms
    means, widths, values = np.empty(num_arms), np.empty(num_arms), np.empty(num_arms)
    totals, variates = np.empty(2 * num_arms), np.empty(BUFFER)
    room = Room(totals, means, widths, values, variates)
    for agent in range(block * world.block, min((block + 1) * world.block, world.places.size)):
        for c in range(totals.size):
            totals[c] = factor * read[agent, c]
        if clear:
            for c in range(totals.size):
                fresh[agent, c] = 0.0
        for k in range(num_arms):
            _refresh(k, totals[k], totals[num_arms + k], rule.least, means, widths)
        if rule.own_pulls:
            _play_own_pulls(
                world, span, tally, agent, fresh, explorations, rule.weight, rule.least, room
            )
        else:
            _play_one_arm(world, span, tally, agent, fresh, explorations[0], room)


@inner(forceinline=True)
def _play_own_pulls(
    world: Any, span: Any, tally: Any, agent: int, fresh: Any, explorations: Any, weight: float,
    least: float, room: Any,
) -> None:  # fmt: skip
    """Choose every round; look at all arms only when the arm in play may have lost its lead.

    Only the played arm's totals change, and the others' indices grow with a alone. So an upper
    bound on them holds for a stretch of rounds, and as long as the played arm is surely above it
    the choice is known. With totals s, n and a (taken at the start of the stretch, where it is
    smallest) the test s/n + √(a/n) > bound needs neither division nor root.
    """
    kind, table, num_arms, block = (
        world.form_kind,
        world.tables,
        world.num_arms,
        agent // world.block,
    )
    totals, means, widths, values, variates = room
    affine, scale_column = kind == LOCATION_SCALE, min(1, table.shape[1] - 1)
    r, at, made_from, made_to = 0, 0, 0, 0
    place, border = world.places[agent], -1
    while r < span.rounds:
        if span.first + r >= border:
            segment = segment_of(world.starts, world.period, span.first + r)
            place = world.places[agent] + segment * num_arms
            border = segment_end(world.starts, world.period, span.first + r)
        if r >= made_to:
            made_from, made_to = r, min(span.rounds, r + BUFFER)
            _fill(world, agent, span.first + made_from, made_to - made_from, variates)
        end = min(made_to, span.stops[at], border - span.first)
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
        slot = span.slot + at
        book(fresh, num_arms, agent, arm, r - start, gained)
        enter(tally, block, slot, agent, arm, span.first + start, span.first + r, gained)
        charge(world, tally, block, slot, agent, row, r - start)
        if r == span.stops[at]:
            keep_worst(tally, block, slot, agent)
            at += 1


@inner(forceinline=True)
def _play_one_arm(
    world: Any, span: Any, tally: Any, agent: int, fresh: Any, exploration: float, room: Any
) -> None:
    """Choose once; then the tape is only summed."""
    num_arms, block, variates = world.num_arms, agent // world.block, room.variates
    arm = _leader(room.means, room.widths, room.values, math.sqrt(exploration))
    r, at = 0, 0
    row, border = world.places[agent] + arm, -1
    while r < span.rounds:
        if span.first + r >= border:
            segment = segment_of(world.starts, world.period, span.first + r)
            row = world.places[agent] + segment * num_arms + arm
            border = segment_end(world.starts, world.period, span.first + r)
        end = min(span.rounds, span.stops[at], r + BUFFER, border - span.first)
        _fill(world, agent, span.first + r, end - r, variates)
        gained = _sum_rewards(world.form_kind, world.tables, row, end - r, variates)
        slot = span.slot + at
        book(fresh, num_arms, agent, arm, end - r, gained)
        enter(tally, block, slot, agent, arm, span.first + r, span.first + end, gained)
        charge(world, tally, block, slot, agent, row, end - r)
        r = end
        if r == span.stops[at]:
            keep_worst(tally, block, slot, agent)
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
def _fill(world: Any, agent: int, first: int, size: int, variates: Any) -> None:
    key, cubics = world.reward_keys[agent], world.cubics
    if world.is_normal:
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

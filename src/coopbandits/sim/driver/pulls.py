"""Choices and pulls, compiled: what agents do alone, in rounds as on clocks of their own.

All functions work on agents `first` … `last` − 1, at the same pull number. `linear` is None where
rewards do not depend on features; numba then leaves out all branches that are for features.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from coopbandits.core.aggregate.fields import COUNTED
from coopbandits.core.contract import Vector
from coopbandits.problems.tables import BEST, NETWORK_GAP, OWN_GAP
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.compiling import inner
from coopbandits.sim.cpu.leaves import (
    reward_from_variate,
    segment_of,
    square_place,
    sum_of,
    variate,
    word_at,
)
from coopbandits.sim.cpu.linear import expect, look, write_pull
from coopbandits.sim.driver.steps import ESTIMATE


class Reading(NamedTuple):
    """How estimates are completed, as `FieldMachine.estimate` does; custom ones are checked."""

    least_time: float
    clips: bool
    is_checked: bool


class Room(NamedTuple):
    """Working memory of a span of rounds.

    `arms` are those that agents chose last, `means` and `common` (agent, arm) what arms pay in the
    contexts that agents see, to them and on the network's average.
    """

    contexts: Vector
    arms: Any
    everybody: Any
    apart: Vector
    scratch: Vector
    means: Vector
    common: Vector


@inner(allocates=True)
def make_room(num_agents: int, width: int, rule: Any, linear: Any) -> Room:
    """Return working memory; features stand behind the scratch of the choice."""
    features, seen, averaged = 0, 0, 0
    if linear is not None:
        features, seen = num_agents * rule.num_arms * linear.size, num_agents
        averaged = num_agents if linear.common.shape[0] > 0 else 0
    return Room(
        np.ones((num_agents, CONTEXT)), np.zeros(num_agents, np.int64),
        np.ones(num_agents, np.uint8), np.empty((num_agents if rule.stopping else 0, 2 * width)),
        np.empty(rule.scratch + features), np.empty((seen, rule.num_arms)),
        np.empty((averaged, rule.num_arms)),
    )  # fmt: skip


@inner
def choose(
    step: Any, choice: Any, state: Any, world: Any, rule: Any, numbers: Any, memory: Any,
    reading: Any, room: Any, linear: Any, run: int, pull: int, time: int, first: int, last: int,
) -> bool:  # fmt: skip
    """Let agents choose at some time; return whether their estimates were numbers."""
    totals, certain, contexts = state.totals, state.certain, room.contexts
    for agent in range(first, last):
        contexts[agent, FACTOR], contexts[agent, TIME] = 1.0, COUNTED
        contexts[agent, AGENTS], contexts[agent, AHEAD] = 1.0, 1.0
    ok = step(
        ESTIMATE, state.me.ctypes, state.block.ctypes, state.block.size, state.indptr.ctypes,
        state.reverse.ctypes, state.rows.ctypes, state.sizes.ctypes, state.box.ctypes,
        state.lengths.ctypes,
        totals.ctypes, certain.ctypes, contexts.ctypes, state.pulls.ctypes, room.everybody.ctypes,
        first, last,
    )  # fmt: skip
    if ok != 1 or not complete(totals, contexts, rule, reading, linear, first, last):
        return False
    read, width = totals, totals.shape[1]
    if rule.stopping:
        for agent in range(first, last):
            for w in range(width):
                room.apart[agent, w], room.apart[agent, width + w] = (
                    totals[agent, w],
                    certain[agent, w],
                )
        read = room.apart
    if linear is not None:
        look_around(world, linear, room, run, pull, time, first, last)
    choice(
        read.ctypes, read.shape[1], contexts.ctypes, CONTEXT, world.decision_keys.ctypes, pull,
        numbers.ctypes, rule.numbers_stride, memory.ctypes, room.scratch.ctypes, room.arms.ctypes,
        first, last, rule.num_arms, rule.squares,
    )  # fmt: skip
    return True


@inner
def complete(
    totals: Any, contexts: Any, rule: Any, reading: Any, linear: Any, first: int, last: int
) -> bool:
    """Clip what is never negative, and count pulls where no time was told."""
    num_arms, width, models = rule.num_arms, totals.shape[1], 0
    if linear is not None:
        models = linear.models
    for agent in range(first, last):
        if reading.clips:
            if linear is None:
                for w in range(num_arms, width):
                    totals[agent, w] = max(0.0, totals[agent, w])
            else:
                for w in range(width):
                    if linear.nonnegative[w]:
                        totals[agent, w] = max(0.0, totals[agent, w])
        if contexts[agent, TIME] < 0.0:
            counted = 0.0
            if models == 0:
                counted = sum_of(totals[agent], num_arms, num_arms)
            else:
                for model in range(1, models + 1):
                    counted += totals[agent, model * (width // models) - 1]
            contexts[agent, TIME] = max(reading.least_time, -contexts[agent, TIME] * counted)
        if reading.is_checked:
            told = contexts[agent, TIME] + contexts[agent, AGENTS] + contexts[agent, AHEAD]
            for w in range(width):
                told += totals[agent, w]
            if not math.isfinite(told):
                return False
    return True


@inner
def look_around(
    world: Any, linear: Any, room: Any, run: int, pull: int, time: int, first: int, last: int
) -> None:
    """Draw the features that agents see, and what arms pay then."""
    segment = segment_of(world.starts, world.period, time)
    for agent in range(first, last):
        table = world.places[agent] // world.num_arms + segment
        look(linear, run, agent, pull, world.cubics, room.scratch)
        expect(linear, run, agent, linear.theta, table, room.scratch, room.means)
        if linear.common.shape[0] > 0:
            expect(linear, run, agent, linear.common, segment, room.scratch, room.common)


@inner
def pay(
    world: Any, tally: Any, fresh: Any, state: Any, room: Any, acts: Any, rule: Any, linear: Any,
    run: int, slot: int, pull: int, time: int, first: int, last: int,
) -> None:  # fmt: skip
    """Let agents that act pull their arms; write what each pull adds to the statistic."""
    pulls, lasts, arms = state.pulls, state.lasts, room.arms
    table, prices, num_arms, squares = world.tables, world.prices, world.num_arms, rule.squares
    shift = segment_of(world.starts, world.period, time) * num_arms
    for block in range(first // world.block, (last - 1) // world.block + 1):
        paid = 0.0
        start, end = max(first, block * world.block), min(last, (block + 1) * world.block)
        for agent in range(start, end):
            if acts.shape[0] > 0 and acts[0, agent] == 0:
                continue
            arm, models = arms[agent], 0
            row = world.places[agent] + shift + arm
            z = variate(world.is_normal, word_at(world.reward_keys[agent], pull), world.cubics)
            if linear is None:
                u = reward_from_variate(world.form_kind, table, row, z)
                gap = prices[row, OWN_GAP]
                if prices.shape[0] > num_arms:
                    tally.costs[block, slot, OWN_GAP] += gap
                    tally.costs[block, slot, NETWORK_GAP] += prices[row, NETWORK_GAP]
                    tally.costs[block, slot, BEST] += prices[row, BEST]
            else:
                u, models = room.means[agent, arm] + linear.sigma * z, linear.models
                gap = _book_in_context(tally, linear, room, agent, arm, block, slot)
                if linear.pulls.shape[1] > 0:
                    linear.pulls[run, agent, arm] += 1
            if models == 0:
                before = lasts[agent]  # the only pull in this row
                pulls[agent, before] = pulls[agent, num_arms + before] = 0.0
                if squares > 0:
                    pulls[agent, square_place(num_arms, squares, before)] = 0.0
                lasts[agent] = arm
                pulls[agent, arm], pulls[agent, num_arms + arm] = u, 1.0
                if squares > 0:
                    pulls[agent, square_place(num_arms, squares, arm)] = u * u
            elif linear is not None:
                _write_features(pulls, lasts, linear, room, agent, arm, u)
            tally.counts[block, slot, arm] += 1
            paid += u
            if fresh.shape[0] > 0:
                fresh[agent, num_arms + arm] += 1.0
            if tally.arms.shape[1] > 0:
                tally.arms[agent, pull] = arm
            tally.regrets[agent] += gap
        tally.rewards[block, slot] += paid


@inner(allocates=True)
def _write_features(
    pulls: Any, lasts: Any, linear: Any, room: Any, agent: int, arm: int, reward: float
) -> None:
    """Write what a pull adds to the model of its arm; no other model has one in this row."""
    models, num_arms = linear.models, room.means.shape[1]
    rows = pulls.reshape((pulls.shape[0] * models, pulls.shape[1] // models))
    for w in range(rows.shape[1]):
        rows[agent * models + lasts[agent], w] = 0.0
    lasts[agent] = arm if models > 1 else 0
    at = linear.room + (agent * num_arms + arm) * linear.size
    write_pull(rows, agent * models + lasts[agent], room.scratch, at, linear.size, reward)


@inner
def _book_in_context(
    tally: Any, linear: Any, room: Any, agent: int, arm: int, block: int, slot: int
) -> float:
    """Enter what a pull cost in the context in which it was made; return the agent's own gap."""
    best = _best(linear, room.means, agent)
    gap = best - room.means[agent, arm]
    tally.costs[block, slot, OWN_GAP] += gap
    tally.costs[block, slot, BEST] += best
    if room.common.shape[0] > 0:
        gap_of_all = _best(linear, room.common, agent) - room.common[agent, arm]
        tally.costs[block, slot, NETWORK_GAP] += gap_of_all
    else:
        tally.costs[block, slot, NETWORK_GAP] += gap
    return float(gap)


@inner
def _best(linear: Any, means: Any, agent: int) -> float:
    """Return the largest mean among the arms that an agent may play."""
    best = -math.inf
    for k in range(means.shape[1]):
        if linear.allowed.shape[0] == 0 or linear.allowed[agent, k] > 0.0:
            best = max(best, means[agent, k])
    return best


@inner
def end_recorded(
    world: Any, tally: Any, span: Any, linear: Any, run: int, at: int, slot: int, r: int
) -> int:
    """Note regrets at the end of a recorded round; return the place of the next."""
    if span.stops[at] != r + 1:
        return at
    for agent in range(tally.regrets.size):
        block = agent // world.block
        tally.worst[block, slot] = max(tally.worst[block, slot], tally.regrets[agent])
        if linear is not None and linear.regrets.shape[1] > 0:
            linear.regrets[run, agent, slot] = tally.regrets[agent]
    return at + 1

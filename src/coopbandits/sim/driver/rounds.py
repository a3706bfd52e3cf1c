"""The compiled driver: plays rounds of any aggregation and index that are compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from coopbandits.core.aggregate.fields import COUNTED
from coopbandits.network.faults import DOWN, LOST
from coopbandits.problems.tables import BEST, NETWORK_GAP, OWN_GAP
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.leaves import (
    reward_from_variate,
    segment_of,
    square_place,
    variate,
    word_at,
)
from coopbandits.sim.driver.steps import ESTIMATE, MESSAGE, OBSERVE, RECEIVE

VALUES, SENT, DELIVERED, MISSED, LATE = range(5)
"""What is counted of messages; one that is missed was lost on its way, or overtaken."""

COUNTS = 5


@njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def play_rounds(
    step: Any, choose: Any, state: Any, world: Any, span: Any, tally: Any, fresh: Any, rule: Any,
    numbers: Any, memory: Any, counts: Any, acts: Any, fate: Any, late: Any, least_time: float,
    clips: bool, is_checked: bool,
) -> int:  # fmt: skip
    """Play a span of rounds of one run; return how many, fewer where a function failed."""
    me, block, indptr, reverse, sizes, box, lengths, totals, certain, pulls, lasts = state
    num_agents, width = totals.shape
    num_arms, squares, num_links = rule.num_arms, rule.squares, lengths.size
    contexts, scratch = np.ones((num_agents, CONTEXT)), np.empty(rule.scratch)
    arms, at = np.zeros(num_agents, np.int64), 0
    everybody = np.ones(num_agents, np.uint8)
    apart = np.empty((num_agents if rule.stopping else 0, 2 * width))
    for r in range(span.rounds):
        done, slot = span.first + r, span.slot + at
        for agent in range(num_agents):
            contexts[agent, FACTOR], contexts[agent, TIME] = 1.0, COUNTED
            contexts[agent, AGENTS], contexts[agent, AHEAD] = 1.0, 1.0
        ok = step(
            ESTIMATE, me.ctypes, block.ctypes, block.size, indptr.ctypes, reverse.ctypes,
            sizes.ctypes, box.ctypes, lengths.ctypes, totals.ctypes, certain.ctypes,
            contexts.ctypes, pulls.ctypes, everybody.ctypes, 0, num_agents,
        )  # fmt: skip
        for agent in range(num_agents):
            if clips:
                for w in range(num_arms, width):
                    totals[agent, w] = max(0.0, totals[agent, w])
            if contexts[agent, TIME] < 0.0:
                counted = 0.0
                for k in range(num_arms):
                    counted += totals[agent, num_arms + k]
                contexts[agent, TIME] = max(least_time, -contexts[agent, TIME] * counted)
            if is_checked:
                told = contexts[agent, TIME] + contexts[agent, AGENTS] + contexts[agent, AHEAD]
                for w in range(width):
                    told += totals[agent, w]
                if not math.isfinite(told):
                    return r
        if ok != 1:
            return r
        read = totals
        if rule.stopping:
            for agent in range(num_agents):
                apart[agent, :width], apart[agent, width:] = totals[agent], certain[agent]
            read = apart
        choose(
            read.ctypes, read.shape[1], contexts.ctypes, CONTEXT, world.decision_keys.ctypes, done,
            numbers.ctypes, rule.numbers_stride, memory.ctypes, scratch.ctypes, arms.ctypes, 0,
            num_agents, num_arms, squares,
        )  # fmt: skip
        _pull(world, tally, fresh, pulls, arms, lasts, acts[r : r + 1], squares, slot, done)
        at = _end_recorded(world, tally, span, at, slot, r)
        acting = acts[r] if acts.shape[0] > 0 else everybody
        ok += step(
            OBSERVE, me.ctypes, block.ctypes, block.size, indptr.ctypes, reverse.ctypes,
            sizes.ctypes, box.ctypes, lengths.ctypes, totals.ctypes, certain.ctypes,
            contexts.ctypes, pulls.ctypes, acting.ctypes, 0, num_agents,
        )  # fmt: skip
        ok += step(
            MESSAGE, me.ctypes, block.ctypes, block.size, indptr.ctypes, reverse.ctypes,
            sizes.ctypes, box.ctypes, lengths.ctypes, totals.ctypes, certain.ctypes,
            contexts.ctypes, pulls.ctypes, everybody.ctypes, 0, num_agents,
        )  # fmt: skip
        for link in range(num_links):  # a message is counted if it was sent, whatever its fate
            fated = fate[r, link] if fate.shape[0] > 0 else 0
            if lengths[link] > 0 and fated != DOWN:
                counts[slot, VALUES] += lengths[link]
                counts[slot, SENT] += 1
                if late.lengths.shape[0] > 0 and fated != LOST:
                    _put_off(late, link, box[link], lengths[link], done, fated, counts[slot])
                else:
                    counts[slot, DELIVERED if fated == 0 else MISSED] += 1
            if fated != 0:
                lengths[link] = 0
        if late.lengths.shape[0] > 0:
            _deliver(late, box, lengths, done, counts[slot])
        ok += step(
            RECEIVE, me.ctypes, block.ctypes, block.size, indptr.ctypes, reverse.ctypes,
            sizes.ctypes, box.ctypes, lengths.ctypes, totals.ctypes, certain.ctypes,
            contexts.ctypes, pulls.ctypes, everybody.ctypes, 0, num_agents,
        )  # fmt: skip
        if ok != 4:  # a C function that raised returned 0
            return r
    return int(span.rounds)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _put_off(
    late: Any, link: int, message: Any, length: int, done: int, delay: int, counts: Any
) -> None:
    """Keep a message until it is due; an earlier one that is due together with it is lost."""
    slot = (done + delay) % late.lengths.shape[0]
    counts[MISSED] += late.lengths[slot, link] > 0
    late.boxes[slot, link, :length] = message[:length]
    late.lengths[slot, link], late.sent[slot, link] = length, done


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _deliver(late: Any, box: Any, lengths: Any, done: int, counts: Any) -> None:
    """Deliver what is due now, but for messages that a newer one has overtaken and made useless."""
    slot = done % late.lengths.shape[0]
    for link in range(lengths.size):
        length, sent = late.lengths[slot, link], late.sent[slot, link]
        lengths[link], late.lengths[slot, link] = 0, 0
        if length == 0:
            continue
        is_overtaken = late.overtakes and sent < late.newest[link]
        late.newest[link] = max(late.newest[link], sent)
        if is_overtaken:
            counts[MISSED] += 1
            continue
        lengths[link] = length
        box[link, :length] = late.boxes[slot, link, :length]
        counts[DELIVERED] += 1
        counts[LATE] += sent < done


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def sit_out(step: Any, state: Any, agent: int, rounds: int) -> None:
    """Let a fresh agent end rounds in which it did nothing and heard nothing."""
    me, block, indptr, reverse, sizes, box, lengths, totals, certain, pulls, _ = state
    contexts, nobody = np.ones((totals.shape[0], CONTEXT)), np.zeros(totals.shape[0], np.uint8)
    lengths[indptr[agent] : indptr[agent + 1]] = 0
    kept = lengths.copy()
    for _ in range(rounds):
        for phase in (MESSAGE, RECEIVE):
            step(
                phase, me.ctypes, block.ctypes, block.size, indptr.ctypes, reverse.ctypes,
                sizes.ctypes, box.ctypes, lengths.ctypes, totals.ctypes, certain.ctypes,
                contexts.ctypes, pulls.ctypes, nobody.ctypes, agent, agent + 1,
            )  # fmt: skip
            lengths[:] = kept


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _pull(
    world: Any, tally: Any, fresh: Any, pulls: Any, arms: Any, lasts: Any, acts: Any, squares: int,
    slot: int, done: int,
) -> None:  # fmt: skip
    """Let agents that act pull their arms; write what each pull adds to the statistic."""
    num_agents = arms.size
    table, prices, num_arms = world.tables, world.prices, world.num_arms
    shift = segment_of(world.starts, world.period, done) * num_arms
    for first in range(0, num_agents, world.block):
        at, paid = first // world.block, 0.0
        for agent in range(first, min(first + world.block, num_agents)):
            if acts.shape[0] > 0 and acts[0, agent] == 0:
                continue
            arm = arms[agent]
            row = world.places[agent] + shift + arm
            z = variate(world.is_normal, word_at(world.reward_keys[agent], done), world.cubics)
            u = reward_from_variate(world.form_kind, table, row, z)
            before = lasts[agent]  # the only pull in this row
            pulls[agent, before] = pulls[agent, num_arms + before] = 0.0
            if squares > 0:
                pulls[agent, square_place(num_arms, squares, before)] = 0.0
            lasts[agent] = arm
            pulls[agent, arm], pulls[agent, num_arms + arm] = u, 1.0
            if squares > 0:
                pulls[agent, square_place(num_arms, squares, arm)] = u * u
            tally.counts[at, slot, arm] += 1
            paid += u
            if fresh.shape[0] > 0:
                fresh[agent, num_arms + arm] += 1.0
            if tally.arms.shape[1] > 0:
                tally.arms[agent, done] = arm
            tally.regrets[agent] += prices[row, OWN_GAP]
            if prices.shape[0] > num_arms:
                tally.costs[at, slot, OWN_GAP] += prices[row, OWN_GAP]
                tally.costs[at, slot, NETWORK_GAP] += prices[row, NETWORK_GAP]
                tally.costs[at, slot, BEST] += prices[row, BEST]
        tally.rewards[at, slot] += paid


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _end_recorded(world: Any, tally: Any, span: Any, at: int, slot: int, r: int) -> int:
    """Note the largest regret at the end of a recorded round; return the place of the next."""
    if span.stops[at] != r + 1:
        return at
    for agent in range(tally.regrets.size):
        block = agent // world.block
        tally.worst[block, slot] = max(tally.worst[block, slot], tally.regrets[agent])
    return at + 1

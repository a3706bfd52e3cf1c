"""The compiled driver in rounds: any aggregation and index, and controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from coopbandits.core.aggregate.fields import COUNTED
from coopbandits.network.faults import DOWN, LOST
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.compiling import inner
from coopbandits.sim.cpu.leaves import word_at
from coopbandits.sim.driver.pulls import choose, complete, end_recorded, look_around, make_room, pay
from coopbandits.sim.driver.steps import ESTIMATE, MESSAGE, OBSERVE, RECEIVE

if TYPE_CHECKING:
    from coopbandits.sim.driver.agents import Memory
    from coopbandits.sim.record import Task


VALUES, SENT, DELIVERED, MISSED, LATE = range(5)
"""What is counted of messages; one that is missed was lost on its way, or overtaken."""

COUNTS = 5


class Late(NamedTuple):
    """Messages under way, by the round in which they are due: as many as the longest delay, and 1.

    `boxes` (slot, link, value) and `lengths` (slot, link), 0 for none; `sent` is when, and `newest`
    (link) when the newest that arrived was sent. A link `overtakes` if a message over it makes all
    earlier ones worthless. Without delays there is no slot.
    """

    boxes: Any
    lengths: Any
    sent: Any
    newest: Any
    overtakes: Any


def late_slots(task: Task) -> int:
    """Return for how many rounds messages may be under way, and 1; 0 where none is late."""
    longest = sum(kind.longest_delay for kind in task.faults.kinds)  # delays add up
    return longest + 1 if longest else 0


def make_late(task: Task, memory: Memory, overtakes: Any) -> Late:
    slots, links, most = late_slots(task), memory.lengths.size, memory.box.shape[1]
    return Late(
        np.zeros((slots, links, most)), np.zeros((slots, links), dtype=np.int64),
        np.zeros((slots, links), dtype=np.int64), np.zeros(links, dtype=np.int64), overtakes,
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def play_rounds(
    step: Any, choice: Any, state: Any, world: Any, span: Any, tally: Any, fresh: Any, rule: Any,
    numbers: Any, memory: Any, counts: Any, acts: Any, fate: Any, late: Any, reading: Any,
    linear: Any, run: int,
) -> int:  # fmt: skip
    """Play a span of rounds of one run; return how many, fewer where a function failed."""
    me, block, indptr, reverse, rows, sizes, box, lengths, totals, certain, pulls, _ = state
    num_agents, at = totals.shape[0], 0
    room = make_room(num_agents, totals.shape[1], rule, linear)
    contexts, everybody = room.contexts, room.everybody
    for r in range(span.rounds):
        done, slot = span.first + r, span.slot + at
        chosen = choose(
            step, choice, state, world, rule, numbers, memory, reading, room, linear, run, done,
            done, 0, num_agents,
        )  # fmt: skip
        if not chosen:
            return r
        pay(
            world, tally, fresh, state, room, acts[r : r + 1], rule, linear, run, slot, done, done,
            0, num_agents,
        )  # fmt: skip
        at = end_recorded(world, tally, span, linear, run, at, slot, r)
        acting = acts[r] if acts.shape[0] > 0 else everybody
        ok = step(
            OBSERVE, me.ctypes, block.ctypes, block.size, indptr.ctypes, reverse.ctypes,
            rows.ctypes, sizes.ctypes, box.ctypes, lengths.ctypes, totals.ctypes, certain.ctypes,
            contexts.ctypes, pulls.ctypes, acting.ctypes, 0, num_agents,
        )  # fmt: skip
        ok += step(
            MESSAGE, me.ctypes, block.ctypes, block.size, indptr.ctypes, reverse.ctypes,
            rows.ctypes, sizes.ctypes, box.ctypes, lengths.ctypes, totals.ctypes, certain.ctypes,
            contexts.ctypes, pulls.ctypes, everybody.ctypes, 0, num_agents,
        )  # fmt: skip
        _pass_on(box, lengths, fate, r, late, done, counts[slot])
        ok += step(
            RECEIVE, me.ctypes, block.ctypes, block.size, indptr.ctypes, reverse.ctypes,
            rows.ctypes, sizes.ctypes, box.ctypes, lengths.ctypes, totals.ctypes, certain.ctypes,
            contexts.ctypes, pulls.ctypes, everybody.ctypes, 0, num_agents,
        )  # fmt: skip
        if ok != 3:  # a C function that raised returned 0
            return r
    return int(span.rounds)


@inner(forceinline=True)
def _pass_on(box: Any, lengths: Any, fate: Any, r: int, late: Any, done: int, counts: Any) -> None:
    """Count the messages of a round, and leave those that arrive now."""
    if fate.shape[0] == 0:  # all arrive: without branches this takes a fraction of the time
        values, sent = 0, 0
        for link in range(lengths.size):
            values += lengths[link]
            sent += int(lengths[link] > 0)
        counts[VALUES] += values
        counts[SENT] += sent
        counts[DELIVERED] += sent
        return
    for link in range(lengths.size):  # a message is counted if it was sent, whatever its fate
        fated = fate[r, link]
        if lengths[link] > 0 and fated != DOWN:
            counts[VALUES] += lengths[link]
            counts[SENT] += 1
            if late.lengths.shape[0] > 0 and fated != LOST:
                _put_off(late, link, box, lengths[link], done, fated, counts)
            else:
                counts[DELIVERED if fated == 0 else MISSED] += 1
        if fated != 0:
            lengths[link] = 0
    if late.lengths.shape[0] > 0:
        _deliver(late, box, lengths, done, counts)


@inner
def _put_off(
    late: Any, link: int, box: Any, length: int, done: int, delay: int, counts: Any
) -> None:
    """Keep a message until it is due; an earlier one that is due together with it is lost."""
    slot = (done + delay) % late.lengths.shape[0]
    counts[MISSED] += late.lengths[slot, link] > 0
    for w in range(length):
        late.boxes[slot, link, w] = box[link, w]
    late.lengths[slot, link], late.sent[slot, link] = length, done


@inner
def _deliver(late: Any, box: Any, lengths: Any, done: int, counts: Any) -> None:
    """Deliver what is due now, but for messages that a newer one has overtaken and made useless."""
    slot = done % late.lengths.shape[0]
    for link in range(lengths.size):
        length, sent = late.lengths[slot, link], late.sent[slot, link]
        lengths[link], late.lengths[slot, link] = 0, 0
        if length == 0:
            continue
        is_overtaken = late.overtakes[link] and sent < late.newest[link]
        late.newest[link] = max(late.newest[link], sent)
        if is_overtaken:
            counts[MISSED] += 1
            continue
        lengths[link] = length
        for w in range(length):
            box[link, w] = late.boxes[slot, link, w]
        counts[DELIVERED] += 1
        counts[LATE] += sent < done


@njit(cache=True, nogil=True)
def sit_out(step: Any, state: Any, agent: int, rounds: int) -> None:
    """Let a fresh agent end rounds in which it did nothing and heard nothing."""
    me, block, indptr, reverse, rows, sizes, box, lengths, totals, certain, pulls, _ = state
    contexts, nobody = np.ones((totals.shape[0], CONTEXT)), np.zeros(totals.shape[0], np.uint8)
    for link in range(indptr[agent], indptr[agent + 1]):
        lengths[link] = 0
    kept = lengths.copy()
    for _ in range(rounds):
        for phase in (MESSAGE, RECEIVE):
            step(
                phase, me.ctypes, block.ctypes, block.size, indptr.ctypes, reverse.ctypes,
                rows.ctypes, sizes.ctypes, box.ctypes, lengths.ctypes, totals.ctypes,
                certain.ctypes, contexts.ctypes, pulls.ctypes, nobody.ctypes, agent, agent + 1,
            )  # fmt: skip
            for link in range(lengths.size):
                lengths[link] = kept[link]


# One controller, compiled: all agents of a run choose by its totals, and tell it what they pulled.
#
# What it remembers are the fields of one agent. Where it sees whole rounds alone, all agents of a
# round choose at once; else each sees what those before it have pulled. One that serves agents
# which are apart is told whose turn it is, and writes the sizes of messages in the place of their
# lengths.


@njit(cache=True, nogil=True, error_model="numpy")
def play_central(
    step: Any, choice: Any, state: Any, world: Any, span: Any, tally: Any, fresh: Any, rule: Any,
    numbers: Any, memory: Any, counts: Any, delay: int, turn: int, acts: Any, reading: Any,
    linear: Any, run: int,
) -> int:  # fmt: skip
    """Play a span of rounds of one run; return how many, fewer where a function failed.

    `delay` is by how many rounds totals are late, −1 where every pull is seen at once; `turn` is
    the place of `s.me.agent` among the numbers, before `s.me.word`, −1 if it makes no difference.
    """
    num_agents, at = state.pulls.shape[0], 0
    me = state.me.view(np.int64)
    room = make_room(num_agents, state.totals.shape[1], rule, linear)
    for r in range(span.rounds):
        done, slot = span.first + r, span.slot + at
        acting = acts[r] if acts.shape[0] > 0 else room.everybody
        agent, is_first = 0, True
        while agent < num_agents:
            stop = agent + 1 if delay < 0 else num_agents
            if acting[agent] > 0 or delay >= 0:
                if turn >= 0:
                    me[turn] = agent
                    if is_first:
                        me[turn + 1] = np.int64(word_at(world.decision_keys[agent], done))
                    is_first = False
                if not _see(step, state, rule, reading, room, linear):
                    return r
                _choose(
                    choice, state, world, rule, numbers, memory, delay, room, linear, run, done,
                    acting, agent, stop,
                )  # fmt: skip
                pay(
                    world, tally, fresh, state, room, acts[r : r + 1], rule, linear, run, slot,
                    done, done, agent, stop,
                )  # fmt: skip
                for other in range(agent, stop):
                    if acting[other] > 0 and _step(step, OBSERVE, state, room, other) != 1:
                        return r
            agent = stop
        at = end_recorded(world, tally, span, linear, run, at, slot, r)
        if _step(step, RECEIVE, state, room, 0) != 1:
            return r
        for line in range(state.lengths.size):
            if state.lengths[line] > 0:
                counts[slot, VALUES] += state.lengths[line]
                counts[slot, SENT] += 1
                counts[slot, DELIVERED] += 1
                state.lengths[line] = 0
    return int(span.rounds)


@inner
def _step(step: Any, phase: int, state: Any, room: Any, agent: int) -> int:
    """Let the controller's functions work, on an agent's pull."""
    done: int = step(
        phase, state.me.ctypes, state.block.ctypes, state.block.size, state.indptr.ctypes,
        state.reverse.ctypes, state.rows.ctypes, state.sizes.ctypes, state.box.ctypes,
        state.lengths.ctypes,
        state.totals.ctypes, state.certain.ctypes, room.contexts.ctypes,
        state.pulls[agent : agent + 1].ctypes, room.everybody.ctypes, 0, 1,
    )  # fmt: skip
    return done


@inner
def _see(step: Any, state: Any, rule: Any, reading: Any, room: Any, linear: Any) -> bool:
    """Read what the controller sees; return whether it is numbers."""
    totals, certain, contexts = state.totals, state.certain, room.contexts
    contexts[0, FACTOR], contexts[0, TIME] = 1.0, COUNTED
    contexts[0, AGENTS], contexts[0, AHEAD] = 1.0, 1.0
    if _step(step, ESTIMATE, state, room, 0) != 1:
        return False
    if not complete(totals, contexts, rule, reading, linear, 0, 1):
        return False
    if rule.stopping:
        width = totals.shape[1]
        for w in range(width):
            room.apart[0, w], room.apart[0, width + w] = totals[0, w], certain[0, w]
    return True


@inner
def _choose(
    choice: Any, state: Any, world: Any, rule: Any, numbers: Any, memory: Any, delay: int,
    room: Any, linear: Any, run: int, done: int, acting: Any, first: int, last: int,
) -> None:  # fmt: skip
    """Let agents choose by what is seen; where that is alike for all, one of them for all."""
    read, arms = room.apart if rule.stopping else state.totals, room.arms
    if linear is not None:
        look_around(world, linear, room, run, done, done, first, last)
    is_at_once = not rule.masked and not rule.stopping
    agent = first
    while agent < last:
        stop = last if is_at_once and (rule.random or linear is not None) else agent + 1
        turn, is_blind = -1, True
        if linear is not None:
            is_blind = linear.models == 0  # the policy ignores the features
        if delay > 0 and is_blind:
            turn = _turn(state.totals, numbers[agent % numbers.shape[0]], rule, done)
        if turn >= 0:
            for other in range(agent, stop):
                arms[other] = turn
        elif acting[agent] > 0 or is_at_once:
            choice(
                read.ctypes, 0, room.contexts.ctypes, 0, world.decision_keys.ctypes, done,
                numbers.ctypes, rule.numbers_stride, memory.ctypes, room.scratch.ctypes,
                arms.ctypes, agent, stop, rule.num_arms, rule.squares,
            )  # fmt: skip
        if is_at_once:
            for other in range(stop, last):
                arms[other] = arms[agent]
            stop = last
        agent = stop


@inner
def _turn(totals: Any, flags: Any, rule: Any, done: int) -> int:
    """Return the arm whose turn it is while one that may be played is unknown, −1 if none is."""
    playable, unknown = 0, 0
    for k in range(rule.num_arms):
        if not rule.masked or flags[k] > 0.0:
            playable += 1
            unknown += totals[0, rule.num_arms + k] == 0.0
    if unknown == 0:
        return -1
    left = done % playable
    for k in range(rule.num_arms):
        if not rule.masked or flags[k] > 0.0:
            if left == 0:
                return k
            left -= 1
    return -1  # unreachable: some arm may be played

"""The compiled driver: plays rounds of any aggregation and index that are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from coopbandits.network.faults import DOWN, LOST
from coopbandits.sim.cpu.choice_forms import CONTEXT
from coopbandits.sim.cpu.compiling import inner
from coopbandits.sim.driver.pulls import choose, end_recorded, make_room, pay
from coopbandits.sim.driver.steps import MESSAGE, OBSERVE, RECEIVE

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
    """Return an empty one for a run."""
    slots, links, most = late_slots(task), memory.lengths.size, memory.box.shape[1]
    return Late(
        np.zeros((slots, links, most)), np.zeros((slots, links), dtype=np.int64),
        np.zeros((slots, links), dtype=np.int64), np.zeros(links, dtype=np.int64), overtakes,
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def play_rounds(
    step: Any, choice: Any, state: Any, world: Any, span: Any, tally: Any, fresh: Any, rule: Any,
    numbers: Any, memory: Any, counts: Any, acts: Any, fate: Any, late: Any, reading: Any,
    scene: Any, run: int,
) -> int:  # fmt: skip
    """Play a span of rounds of one run; return how many, fewer where a function failed."""
    me, block, indptr, reverse, rows, sizes, box, lengths, totals, certain, pulls, _ = state
    num_agents, at = totals.shape[0], 0
    room = make_room(num_agents, totals.shape[1], rule, scene)
    contexts, everybody = room.contexts, room.everybody
    for r in range(span.rounds):
        done, slot = span.first + r, span.slot + at
        chosen = choose(
            step, choice, state, world, rule, numbers, memory, reading, room, scene, run, done,
            done, 0, num_agents,
        )  # fmt: skip
        if not chosen:
            return r
        pay(
            world, tally, fresh, state, room, acts[r : r + 1], rule, scene, run, slot, done, done,
            0, num_agents,
        )  # fmt: skip
        at = end_recorded(world, tally, span, scene, run, at, slot, r)
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

"""The compiled driver on clocks of the agents' own: the queue of events of `sim.asynchronous`.

The order of events is that of the reference engine: by time, kind, agent, and when they were
scheduled; so are the tapes of clocks, latencies and losses, and their arithmetic. What is different
is where messages are. One that was sent stands in a slot until its receiver gossips, and in the
receiver's box only while this reads it: functions of an aggregation see boxes as in rounds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from coopbandits.core.contract import Vector
from coopbandits.core.draws import Words, stream_key, words
from coopbandits.sim.asynchronous import (
    ARRIVAL,
    CLOCKS,
    GOSSIP,
    GOSSIPS,
    LATENCIES,
    LOSSES,
    PULL,
    PULLS,
    RATES,
    WHOLE,
)
from coopbandits.sim.clocks import PoissonClocks, RegularClocks
from coopbandits.sim.cpu.compiling import inner
from coopbandits.sim.cpu.leaves import uniform, word_at
from coopbandits.sim.driver.pulls import choose, end_recorded, make_room, pay
from coopbandits.sim.driver.rounds import DELIVERED, LATE, MISSED, SENT, VALUES
from coopbandits.sim.driver.steps import MESSAGE, OBSERVE, RECEIVE

if TYPE_CHECKING:
    from coopbandits.sim.driver.agents import Memory
    from coopbandits.sim.record import Task

QUEUED, SCHEDULED, FREE, ENDED, FAILED = range(5)
"""Places in `Events.state`: events in the queue, those ever scheduled, free slots, units of time
that are over, and whether a function failed."""

NOTHING = -1

COMPILED = (PoissonClocks, RegularClocks)
"""Clocks whose gaps are compiled; subclasses may have others."""


class Tapes(NamedTuple):
    """What events are made of: constants of one run.

    `rates` and `ticks` (2, agent) are those of clocks for pulls and for gossip, as numbers of ticks
    in a unit of time and keys of tapes; `senders` (link) and what `overtakes` are as in `Late`.
    """

    is_regular: bool
    rates: Vector
    ticks: Words
    latencies: Words
    losses: Words
    latency: float
    loss: float
    senders: Any
    overtakes: Any


class Letters(NamedTuple):
    """Messages in slots, under way or in an inbox: over which link, what, and when it was sent.

    `free` begins with the slots that are free.
    """

    links: Any
    boxes: Vector
    lengths: Any
    sent: Vector
    free: Any


class Events(NamedTuple):
    """What of a run in events is kept from one span to the next.

    The queue is a heap: the time of an event, its kind and agent as one number, when it was
    scheduled, and the slot of a letter. `inbox` (link) is the slot of the latest letter that
    arrived, and `newest` (link) when the newest that ever did was sent. `ticked` (2, agent),
    `posted` (link) and `pulled` (agent) count what was used of tapes.
    """

    times: Vector
    ranks: Any
    numbers: Any
    slots: Any
    letters: Letters
    inbox: Any
    newest: Vector
    ticked: Any
    posted: Any
    pulled: Any
    state: Any


def make_tapes(task: Task, run: int, senders: Any, overtakes: Any) -> Tapes:
    clocks = task.clocks
    assert clocks is not None  # noqa: S101  else it is played in rounds
    agents, links = task.network.num_agents, task.network.adjacency.nnz

    def keys(part: int, rows: int) -> Words:
        return words(stream_key(task.seed, CLOCKS, run, part), np.arange(rows, dtype=np.uint64))

    chances = [kind.loss_without_rounds or 0.0 for kind in task.faults.kinds]
    rates = clocks.pull_rates(keys(RATES, agents))
    return Tapes(
        type(clocks) is RegularClocks, np.stack([rates, rates * clocks.gossip]),
        np.stack([keys(PULLS, agents), keys(GOSSIPS, agents)]), keys(LATENCIES, links),
        keys(LOSSES, links), float(clocks.latency),
        1.0 - float(np.prod([1.0 - chance for chance in chances])), senders,
        overtakes,
    )  # fmt: skip


def make_events(task: Task, memory: Memory, tapes: Tapes) -> Events:
    """Return the events with which a run begins: the first unit of time, and all clocks' first."""
    agents, links, most = task.network.num_agents, memory.lengths.size, memory.box.shape[1]
    letters = _letters(2 * links, most)
    room = _queue_size(agents, 2 * links)
    events = Events(
        np.zeros(room), np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.int64),
        np.zeros(room, dtype=np.int64), letters, np.full(links, NOTHING), np.full(links, -np.inf),
        np.zeros((2, agents), dtype=np.int64), np.zeros(links, dtype=np.int64),
        np.zeros(agents, dtype=np.int64), np.zeros(FAILED + 1, dtype=np.int64),
    )  # fmt: skip
    events.state[FREE] = letters.free.size
    begin(tapes, events, agents)
    return events


def _letters(slots: int, most: int) -> Letters:
    return Letters(
        np.zeros(slots, dtype=np.int64), np.zeros((slots, most)), np.zeros(slots, dtype=np.int64),
        np.zeros(slots), np.arange(slots),
    )  # fmt: skip


def _queue_size(agents: int, slots: int) -> int:
    return 1 + 2 * agents + slots


def grown(events: Events) -> Events:
    """Return the same with twice as many slots, as long latencies need."""
    old = events.letters
    slots = old.free.size
    letters = _letters(2 * max(1, slots), old.boxes.shape[1])
    for name in ("links", "boxes", "lengths", "sent"):
        getattr(letters, name)[:slots] = getattr(old, name)
    free = events.state[FREE]
    letters.free[:free] = old.free[:free]
    letters.free[free : free + letters.free.size - slots] = np.arange(slots, letters.free.size)
    events.state[FREE] += letters.free.size - slots
    room = _queue_size(events.pulled.size, letters.free.size)
    names = ("times", "ranks", "numbers", "slots")
    queue = {name: np.resize(getattr(events, name), room) for name in names}
    return events._replace(letters=letters, **queue)


@njit(cache=True, nogil=True)
def begin(tapes: Any, events: Any, num_agents: int) -> None:
    """Schedule the end of the first unit of time, and the first event of every clock."""
    _push(events, num_agents, 1.0, WHOLE, 0, NOTHING)
    for kind in (PULL, GOSSIP):
        for agent in range(num_agents):
            _push_tick(tapes, events, num_agents, 0.0, kind, agent)


@inner
def _push_tick(
    tapes: Any, events: Any, num_agents: int, time: float, kind: int, agent: int
) -> None:
    """Schedule the next event of a clock."""
    row = kind - PULL
    number = events.ticked[row, agent]
    events.ticked[row, agent] = number + 1
    gap = 1.0
    if number == 0 or not tapes.is_regular:
        gap = uniform(word_at(tapes.ticks[row, agent], number))
        if not tapes.is_regular:
            gap = -math.log(gap)
    _push(events, num_agents, time + gap / tapes.rates[row, agent], kind, agent, NOTHING)


@inner
def _push(events: Any, num_agents: int, time: float, kind: int, who: int, slot: int) -> None:
    times, ranks, numbers, slots = events.times, events.ranks, events.numbers, events.slots
    at, number, rank = events.state[QUEUED], events.state[SCHEDULED], kind * num_agents + who
    events.state[QUEUED], events.state[SCHEDULED] = at + 1, number + 1
    while at > 0:
        parent = (at - 1) >> 1
        if not _is_sooner(time, rank, number, times[parent], ranks[parent], numbers[parent]):
            break
        times[at], ranks[at], numbers[at] = times[parent], ranks[parent], numbers[parent]
        slots[at] = slots[parent]
        at = parent
    times[at], ranks[at], numbers[at], slots[at] = time, rank, number, slot


@inner
def _drop_first(events: Any) -> None:
    times, ranks, numbers, slots = events.times, events.ranks, events.numbers, events.slots
    size, at = events.state[QUEUED] - 1, 0
    events.state[QUEUED] = size
    time, rank, number, slot = times[size], ranks[size], numbers[size], slots[size]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _is_sooner(
            times[child + 1], ranks[child + 1], numbers[child + 1],
            times[child], ranks[child], numbers[child],
        ):  # fmt: skip
            child += 1
        if not _is_sooner(times[child], ranks[child], numbers[child], time, rank, number):
            break
        times[at], ranks[at], numbers[at] = times[child], ranks[child], numbers[child]
        slots[at] = slots[child]
        at = child
    times[at], ranks[at], numbers[at], slots[at] = time, rank, number, slot


@inner
def _is_sooner(
    time: float, rank: int, number: int, other_time: float, other_rank: int, other_number: int
) -> bool:
    if time != other_time:
        return time < other_time
    return rank < other_rank or (rank == other_rank and number < other_number)


@njit(cache=True, nogil=True, error_model="numpy")
def play_events(
    step: Any, choice: Any, state: Any, world: Any, span: Any, tally: Any, fresh: Any, rule: Any,
    numbers: Any, memory: Any, counts: Any, tapes: Any, events: Any, reading: Any, linear: Any,
    run: int,
) -> None:  # fmt: skip
    """Play until a span of units of time is over, a function failed, or slots are lacking."""
    num_agents, indptr, marks, at = state.totals.shape[0], state.indptr, events.state, 0
    room = make_room(num_agents, state.totals.shape[1], rule, linear)
    all_act = np.zeros((0, num_agents), np.uint8)
    while span.stops[at] <= marks[ENDED] - span.first:  # after slots were lacking
        at += 1
    while marks[ENDED] < span.first + span.rounds:
        time, slot = events.times[0], span.slot + at
        kind, who, letter = events.ranks[0] // num_agents, events.ranks[0] % num_agents, 0
        if kind == GOSSIP and marks[FREE] < indptr[who + 1] - indptr[who]:
            return
        letter = events.slots[0]
        _drop_first(events)
        if kind == WHOLE:
            at = end_recorded(world, tally, span, linear, run, at, slot, marks[ENDED] - span.first)
            marks[ENDED] += 1
            _push(events, num_agents, time + 1.0, WHOLE, 0, NOTHING)
        elif kind == ARRIVAL:
            _arrive(tapes, events, letter, counts[slot])
        elif kind == PULL:
            number = events.pulled[who]
            events.pulled[who] = number + 1
            chosen = choose(
                step, choice, state, world, rule, numbers, memory, reading, room, linear, run,
                number, int(time), who, who + 1,
            )  # fmt: skip
            if not chosen:
                marks[FAILED] = 1
                return
            pay(
                world, tally, fresh, state, room, all_act, rule, linear, run, slot, number,
                int(time), who, who + 1,
            )  # fmt: skip
            if _step(step, OBSERVE, state, room, who) != 1:
                marks[FAILED] = 1
                return
            _push_tick(tapes, events, num_agents, time, PULL, who)
        else:
            if not _gossip(step, state, room, tapes, events, time, who, counts[slot]):
                marks[FAILED] = 1
                return
            _push_tick(tapes, events, num_agents, time, GOSSIP, who)


@inner
def _step(step: Any, phase: int, state: Any, room: Any, agent: int) -> int:
    done: int = step(
        phase, state.me.ctypes, state.block.ctypes, state.block.size, state.indptr.ctypes,
        state.reverse.ctypes, state.rows.ctypes, state.sizes.ctypes, state.box.ctypes,
        state.lengths.ctypes,
        state.totals.ctypes, state.certain.ctypes, room.contexts.ctypes, state.pulls.ctypes,
        room.everybody.ctypes, agent, agent + 1,
    )  # fmt: skip
    return done


@inner
def _gossip(
    step: Any, state: Any, room: Any, tapes: Any, events: Any, time: float, agent: int, counts: Any
) -> bool:
    """Let an agent send to every neighbour, then receive what has arrived."""
    letters, box, lengths = events.letters, state.box, state.lengths
    first, stop = state.indptr[agent], state.indptr[agent + 1]
    if _step(step, MESSAGE, state, room, agent) != 1:
        return False
    for link in range(first, stop):
        back = state.reverse[link]
        if lengths[back] > 0:
            _send(state, tapes, events, time, link, back, counts)
            lengths[back] = 0
    for link in range(first, stop):
        slot = events.inbox[link]
        if slot == NOTHING:
            continue
        length = letters.lengths[slot]
        for w in range(length):
            box[link, w] = letters.boxes[slot, w]
        lengths[link] = length
        counts[DELIVERED] += 1
        counts[LATE] += time - letters.sent[slot] >= 1.0
        _release(events, slot)
        events.inbox[link] = NOTHING
    received = _step(step, RECEIVE, state, room, agent)
    for link in range(first, stop):
        lengths[link] = 0
    return bool(received == 1)


@inner
def _send(
    state: Any, tapes: Any, events: Any, time: float, link: int, back: int, counts: Any
) -> None:
    """Put the message that was written for the end of a link on its way, or lose it.

    To its receiver the link is `back`; tapes are counted by links as the sender sees them.
    """
    letters, length, number = events.letters, state.lengths[back], events.posted[link]
    events.posted[link] = number + 1
    counts[VALUES] += length
    counts[SENT] += 1
    delay = tapes.latency * -math.log(uniform(word_at(tapes.latencies[link], number)))
    if uniform(word_at(tapes.losses[link], number)) < tapes.loss:
        counts[MISSED] += 1
        return
    events.state[FREE] -= 1
    slot = letters.free[events.state[FREE]]
    for w in range(length):
        letters.boxes[slot, w] = state.box[back, w]
    letters.links[slot], letters.lengths[slot], letters.sent[slot] = back, length, time
    num_agents, receiver = state.indptr.size - 1, tapes.senders[link]
    _push(events, num_agents, time + delay, ARRIVAL, receiver, slot)


@inner
def _arrive(tapes: Any, events: Any, slot: int, counts: Any) -> None:
    """Keep only the newest letter of each link; the older one counts as lost."""
    letters = events.letters
    link, sent = letters.links[slot], letters.sent[slot]
    there = events.inbox[link]
    newest = max(sent, events.newest[link])
    events.newest[link] = newest
    is_overtaken = tapes.overtakes[link] and sent < newest
    counts[MISSED] += is_overtaken or there != NOTHING
    if is_overtaken or (there != NOTHING and letters.sent[there] >= sent):
        _release(events, slot)
        return
    if there != NOTHING:
        _release(events, there)
    events.inbox[link] = slot


@inner
def _release(events: Any, slot: int) -> None:
    events.letters.free[events.state[FREE]] = slot
    events.state[FREE] += 1

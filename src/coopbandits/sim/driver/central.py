"""One controller, compiled: all agents of a run choose by its totals, and tell it what they pulled.

What it remembers are the fields of one agent. Where it sees whole rounds alone, all agents of a
round choose at once; else each sees what those before it have pulled. One that serves agents which
are apart is told whose turn it is, and writes the sizes of messages in the place of their lengths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from coopbandits.core.aggregate.fields import COUNTED
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, FACTOR, TIME
from coopbandits.sim.cpu.compiling import inner
from coopbandits.sim.cpu.leaves import word_at
from coopbandits.sim.driver.pulls import complete, end_recorded, look_around, make_room, pay
from coopbandits.sim.driver.rounds import DELIVERED, SENT, VALUES
from coopbandits.sim.driver.steps import ESTIMATE, OBSERVE, RECEIVE


@njit(cache=True, nogil=True, error_model="numpy")
def play_central(
    step: Any, choice: Any, state: Any, world: Any, span: Any, tally: Any, fresh: Any, rule: Any,
    numbers: Any, memory: Any, counts: Any, delay: int, turn: int, acts: Any, reading: Any,
    scene: Any, run: int,
) -> int:  # fmt: skip
    """Play a span of rounds of one run; return how many, fewer where a function failed.

    `delay` is by how many rounds totals are late, −1 where every pull is seen at once; `turn` is
    the place of `s.me.agent` among the numbers, before `s.me.word`, −1 if it makes no difference.
    """
    num_agents, at = state.pulls.shape[0], 0
    me = state.me.view(np.int64)
    room = make_room(num_agents, state.totals.shape[1], rule, scene)
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
                if not _see(step, state, rule, reading, room, scene):
                    return r
                _choose(
                    choice, state, world, rule, numbers, memory, delay, room, scene, run, done,
                    acting, agent, stop,
                )  # fmt: skip
                pay(
                    world, tally, fresh, state, room, acts[r : r + 1], rule, scene, run, slot,
                    done, done, agent, stop,
                )  # fmt: skip
                for other in range(agent, stop):
                    if acting[other] > 0 and _step(step, OBSERVE, state, room, other) != 1:
                        return r
            agent = stop
        at = end_recorded(world, tally, span, scene, run, at, slot, r)
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
def _see(step: Any, state: Any, rule: Any, reading: Any, room: Any, scene: Any) -> bool:
    """Read what the controller sees; return whether it is numbers."""
    totals, certain, contexts = state.totals, state.certain, room.contexts
    contexts[0, FACTOR], contexts[0, TIME] = 1.0, COUNTED
    contexts[0, AGENTS], contexts[0, AHEAD] = 1.0, 1.0
    if _step(step, ESTIMATE, state, room, 0) != 1:
        return False
    if not complete(totals, contexts, rule, reading, scene, 0, 1):
        return False
    if rule.stopping:
        width = totals.shape[1]
        for w in range(width):
            room.apart[0, w], room.apart[0, width + w] = totals[0, w], certain[0, w]
    return True


@inner
def _choose(
    choice: Any, state: Any, world: Any, rule: Any, numbers: Any, memory: Any, delay: int,
    room: Any, scene: Any, run: int, done: int, acting: Any, first: int, last: int,
) -> None:  # fmt: skip
    """Let agents choose by what is seen; where that is alike for all, one of them for all."""
    read, arms = room.apart if rule.stopping else state.totals, room.arms
    if scene is not None:
        look_around(world, scene, room, run, done, done, first, last)
    is_at_once = not rule.masked and not rule.stopping
    agent = first
    while agent < last:
        stop = last if is_at_once and (rule.random or scene is not None) else agent + 1
        turn, is_blind = -1, True
        if scene is not None:
            is_blind = scene.models == 0  # the policy ignores the features
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

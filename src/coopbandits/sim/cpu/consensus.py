"""Running consensus without faults: every round all agents average, choose and pull.

A round of messages is a product with P, so there are no messages here. Time is the same for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.averaging import average
from coopbandits.sim.cpu.booking import pull_rows
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.compiling import for_threads
from coopbandits.sim.cpu.launch import launch_rounds, parts_of_a_run, share_of
from coopbandits.sim.cpu.leaves import count_up_to
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick

SPAN_PULLS = 2_000_000
"""Pulls of one run played between two reports of progress."""


def play_consensus(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on a running consensus."""
    state = Runs(parts, task, runs, tick)
    rule, numbers = state.rule()
    matrix = task.network.matrix
    indptr, indices = matrix.indptr.astype(np.uint32), matrix.indices.astype(np.uint32)
    fresh = state.fresh if task.keep else np.empty((len(runs), 0, state.shape[2]))
    shape = (*state.shape[:2], -(-state.shape[2] // 4) * 4)  # four values are averaged at a time
    mixed, spare = np.zeros(shape), np.zeros(shape)
    lasts = np.zeros(state.shape[:2], dtype=np.int64)
    most = max(1, SPAN_PULLS // task.network.num_agents)
    in_parts = parts_of_a_run(state.world)
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        play_rounds(
            state.world, span(task, done, rounds), state.tally, fresh, mixed, spare, lasts,
            state.memory, indptr, indices, matrix.data, rule, numbers, in_parts,
        )  # fmt: skip
        if rounds % 2:
            mixed, spare = spare, mixed
        state.played(rounds)
    links = 2 * task.network.num_edges
    state.record.values[:] = links * state.shape[2] * task.rounds
    state.record.messages[:] = links * task.horizon
    return state.finish()


def play_rounds(
    world: Any, span: Any, tally: Any, fresh: Any, mixed: Any, spare: Any, lasts: Any, memory: Any,
    indptr: Any, indices: Any, weights: Any, rule: Any, numbers: Any, parts: int,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread some runs (`parts` = 1), or of each round some agents.

    After an odd number of rounds `spare` holds the totals.
    """
    at_once = span.rounds if parts == 1 else 1
    given = (parts, span, indptr, indices, weights, rule, numbers)
    own = (world, tally, fresh, mixed, spare, lasts, memory)
    launch_rounds(_play, mixed.shape[0] * parts, span.rounds, at_once, given, own, parts)


@for_threads(allocates=True)
def _play(
    task: int, first: int, stop: int, parts: int, span: Any, indptr: Any, indices: Any,
    weights: Any, rule: Any, numbers: Any, world: Any, tally: Any, fresh: Any, mixed: Any,
    spare: Any, lasts: Any, memory: Any,
) -> None:  # fmt: skip
    """Let some agents of one run average, choose and pull, in every of some rounds.

    x + y of the last round stands in `own`; P(x + y) goes to `other`, and the new pulls are added.
    """
    _, start, end = share_of(task, parts, world)
    num_agents = float(mixed.shape[0])
    scratch, contexts = np.empty(rule.scratch), np.empty((1, CONTEXT))
    contexts[0, FACTOR], contexts[0, AGENTS], contexts[0, AHEAD] = num_agents, num_agents, 1.0
    for r in range(first, stop):
        done = span.first + r
        passed = count_up_to(span.stops, r)
        own, other = (mixed, spare) if r % 2 == 0 else (spare, mixed)
        contexts[0, TIME] = max(1.0, done * num_agents)
        average(indptr, indices, weights, own, other, start, end)
        choose(
            rule.address, other, other.shape[1], contexts, 0, world.decision_keys, done, numbers,
            rule.numbers_stride, memory, scratch, lasts, start, end, rule.num_arms, rule.squares,
        )  # fmt: skip
        pull_rows(
            world, tally, fresh, other, lasts, rule.squares, span.slot + passed, done, start, end,
            span.stops[passed] == r + 1,
        )  # fmt: skip

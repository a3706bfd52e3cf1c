"""Running consensus without faults: every round all agents average, choose and pull.

A round of messages is a product with P, so there are no messages here. Time is the same for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.compiling import alone, for_threads
from coopbandits.sim.cpu.launch import launch_rounds, parts_of_a_run, share_of
from coopbandits.sim.cpu.leaves import count_up_to
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.world import pull_rows, span
from coopbandits.sim.record import Record, Task, Tick

# Plain mixing of some agents, y_i ← (P y)_i.
#
# numba counts references of every array passed to a function that branches, which costs as much as
# adding up ten values. So one function holds the loop over agents with all its branches, and what
# it calls for each agent is free of them. Indices are unsigned: for signed ones numba checks at
# every access whether they count from the end.


ONE, TWO, THREE, FOUR, FIVE = (np.uintp(number) for number in range(1, 6))


@alone
def average(
    indptr: Any, indices: Any, weights: Any, values: Any, out: Any, start: int, end: int
) -> None:
    """Overwrite rows start … end − 1 of `out` with those of P values; P's places are unsigned.

    The first pass adds up three or five rows, every further pass two. Where fewer are left, the
    first row stands in for the missing one with weight 0.
    """
    for agent in range(np.uintp(start), np.uintp(end)):
        at, stop = indptr[agent], indptr[agent + ONE]
        a, wa = indices[at], weights[at]
        b, wb = (indices[at + ONE], weights[at + ONE]) if at + ONE < stop else (a, 0.0)
        c, wc = (indices[at + TWO], weights[at + TWO]) if at + TWO < stop else (a, 0.0)
        if at + THREE >= stop:
            _sum_three(values, a, b, c, wa, wb, wc, out, agent)
        else:
            d, wd = indices[at + THREE], weights[at + THREE]
            e, we = (indices[at + FOUR], weights[at + FOUR]) if at + FOUR < stop else (a, 0.0)
            _sum_five(values, a, b, c, d, e, wa, wb, wc, wd, we, out, agent)
            for more in range(at + FIVE, stop, TWO):
                d, wd = indices[more], weights[more]
                e, we = (
                    (indices[more + ONE], weights[more + ONE]) if more + ONE < stop else (a, 0.0)
                )
                _add_two(values, d, e, wd, we, out, agent)


@alone(fastmath={"contract"})
def _sum_three(
    values: Any, a: int, b: int, c: int, wa: float, wb: float, wc: float, out: Any, agent: int
) -> None:
    for i in range(np.uintp(out.shape[1])):
        out[agent, i] = wa * values[a, i] + wb * values[b, i] + wc * values[c, i]


@alone(fastmath={"contract"})
def _sum_five(
    values: Any, a: int, b: int, c: int, d: int, e: int, wa: float, wb: float, wc: float, wd: float,
    we: float, out: Any, agent: int,
) -> None:  # fmt: skip
    for i in range(np.uintp(out.shape[1])):
        out[agent, i] = (
            (wa * values[a, i] + wb * values[b, i])
            + (wc * values[c, i] + wd * values[d, i])
            + we * values[e, i]
        )


@alone(fastmath={"contract"})
def _add_two(values: Any, a: int, b: int, wa: float, wb: float, out: Any, agent: int) -> None:
    for i in range(np.uintp(out.shape[1])):
        out[agent, i] += wa * values[a, i] + wb * values[b, i]


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
        # Every thread plays whole runs, or some agents of each round.
        at_once = rounds if in_parts == 1 else 1
        given = in_parts, span(task, done, rounds), indptr, indices, matrix.data, rule, numbers
        own = state.world, state.tally, fresh, mixed, spare, lasts, state.memory
        launch_rounds(_play, len(runs) * in_parts, rounds, at_once, given, own, in_parts)
        if rounds % 2:  # the totals are in the other array
            mixed, spare = spare, mixed
        state.played(rounds)
    links = 2 * task.network.num_edges
    state.record.values[:] = links * state.shape[2] * task.rounds
    state.record.messages[:] = links * task.horizon
    return state.finish()


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

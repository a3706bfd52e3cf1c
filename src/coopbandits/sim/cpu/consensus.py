"""Running consensus, and own sums: every round all agents average, choose and pull.

Under faults agents that do not act keep their averages, and time is the number of pulls behind an
agent's own averages: no longer the same for all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from coopbandits.core.contract import Vector
from coopbandits.core.policy import Parts
from coopbandits.network import Network
from coopbandits.sim.cpu.ageing import ageing, end_span, most_rounds
from coopbandits.sim.cpu.averaging import average, average_heard
from coopbandits.sim.cpu.booking import pull_rows
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.fault_chunks import FaultReader, count_messages, link_table
from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.launch import launch_rounds
from coopbandits.sim.cpu.leaves import count_up_to, set_row
from coopbandits.sim.cpu.parallel import share_of
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick

SPAN_PULLS = 2_000_000
"""Pulls of one run played between two reports of progress."""


class Mixing(NamedTuple):
    """How averages become totals: N times them, or own sums as they are; the least time told."""

    mixes: bool
    num_agents: float
    least_time: float


class Hearing(NamedTuple):
    """The links that lead to every agent, as in `LinkTable`; their weights in P; its diagonal."""

    indptr: NDArray[np.int64]
    senders: NDArray[np.int64]
    weights: Vector
    own_weights: Vector


def play_consensus(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on a running consensus."""
    return play_rows(parts, task, runs, tick, Mixing(True, float(task.network.num_agents), 1.0))


def play_local(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on own sums alone."""
    return play_rows(parts, task, runs, tick, Mixing(False, 1.0, 2.0))


def play_rows(parts: Parts, task: Task, runs: range, tick: Tick, mixing: Mixing) -> Record:
    """Play some runs of agents with one row of registers each."""
    state = Runs(parts, task, runs, tick)
    rule, numbers = state.rule()
    matrix = task.network.matrix
    indptr, indices = matrix.indptr.astype(np.uint32), matrix.indices.astype(np.uint32)
    fresh = state.fresh if task.keep else np.empty((len(runs), 0, state.shape[2]))
    shape = (*state.shape[:2], -(-state.shape[2] // 4) * 4)  # four values are averaged at a time
    mixed = np.zeros(shape)
    spare = np.zeros(shape) if mixing.mixes else mixed
    lasts = np.zeros(state.shape[:2], dtype=np.int64)
    reader, hearing = FaultReader(task, runs), hearing_of(task.network)
    before = np.zeros((len(runs), 1, hearing.senders.size), dtype=np.int16)
    most = min(
        reader.most, max(1, SPAN_PULLS // task.network.num_agents), most_rounds(state.discount)
    )
    values = state.shape[2] + (state.discount != 1.0)
    # With as many runs as threads each thread plays runs of its own, else all share every round.
    blocks = 1 if len(runs) >= get_num_threads() else state.world.num_blocks
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        faults = reader.read(rounds)
        play_rounds(
            state.world, span(task, done, rounds), state.tally, fresh, mixed, spare, lasts,
            state.memory, indptr, indices, matrix.data, mixing, rule, numbers, blocks, faults,
            before, hearing, ageing(state.discount, done, rounds),
        )  # fmt: skip
        if mixing.mixes and rounds % 2:
            mixed, spare = spare, mixed
        if mixing.mixes:
            count_messages(state.record, task, done, rounds, faults.fate, values)
        end_span(state.discount, rounds, mixed)
        before = faults.fate[:, -1:].copy()
        state.played(rounds)
    return state.finish()


def hearing_of(network: Network) -> Hearing:
    """Return the weights of links, in their order; of some none may be stored."""
    links = link_table(network)
    receivers = np.repeat(np.arange(network.num_agents), network.degrees)
    weights = np.zeros(receivers.size)
    if receivers.size > 0:  # no places at all would not be an array
        weights[:] = network.matrix[receivers, links.senders]
    return Hearing(links.indptr, links.senders, weights, network.matrix.diagonal())


def play_rounds(
    world: Any, span: Any, tally: Any, fresh: Any, mixed: Any, spare: Any, lasts: Any, memory: Any,
    indptr: Any, indices: Any, weights: Any, mixing: Any, rule: Any, numbers: Any, parts: int,
    faults: Any, before: Any, hearing: Any, ageing: Any,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread some runs (`parts` = 1), or of each round some agents.

    After an odd number of rounds `spare` holds the totals. `before` (run, 1, link) are the fates of
    the last messages before the span.
    """
    at_once = span.rounds if parts == 1 else 1
    given = (parts, span, indptr, indices, weights, mixing, rule, numbers, hearing, ageing)
    own = (world, tally, fresh, mixed, spare, lasts, memory, faults, before)
    launch_rounds(_play, mixed.shape[0] * parts, span.rounds, at_once, given, own, parts)


@inner(allocates=True)
def _play(
    task: int, first: int, stop: int, parts: int, span: Any, indptr: Any, indices: Any,
    weights: Any, mixing: Any, rule: Any, numbers: Any, hearing: Any, ageing: Any, world: Any,
    tally: Any, fresh: Any, mixed: Any, spare: Any, lasts: Any, memory: Any, faults: Any,
    before: Any,
) -> None:  # fmt: skip
    """Let some agents of one run average, choose and pull, in every of some rounds.

    x + y of the last round stands in `own`; P(x + y) goes to `other`, and the new pulls are added.
    """
    _, start, end = share_of(task, parts, world)
    scratch, num_agents = np.empty(rule.scratch), mixing.num_agents
    acts, fate = faults.acts, faults.fate
    is_faulty = fate.shape[0] > 0
    contexts = np.empty((mixed.shape[0] if is_faulty else 1, CONTEXT))
    for agent in range(len(contexts)):
        contexts[agent, AGENTS], contexts[agent, AHEAD] = num_agents, 1.0
    for r in range(first, stop):
        done = span.first + r
        passed = count_up_to(span.stops, r)
        own, other = (mixed, spare) if r % 2 == 0 else (spare, mixed)
        if is_faulty:
            _average_faulty(
                own, other, contexts, hearing.indptr, hearing.senders, hearing.weights,
                hearing.own_weights, mixing.mixes, num_agents * ageing.factors[r],
                mixing.least_time, faults.fresh[r], before[0] if r == 0 else fate[r - 1],
                rule.num_arms, start, end,
            )  # fmt: skip
        else:
            contexts[0, TIME] = max(mixing.least_time, ageing.passed[r] * num_agents)
            contexts[0, FACTOR] = num_agents * ageing.factors[r]
            if mixing.mixes:
                average(indptr, indices, weights, own, other, start, end)
        choose(
            rule.address, other, other.shape[1], contexts, CONTEXT if is_faulty else 0,
            world.decision_keys, done, numbers, rule.numbers_stride, memory, scratch, lasts, start,
            end, rule.num_arms, rule.squares,
        )  # fmt: skip
        pull_rows(
            world, tally, fresh, other, lasts, acts[r : r + 1], rule.squares, span.slot + passed,
            done, start, end, span.stops[passed] == r + 1, ageing.weights[r],
        )  # fmt: skip


@inner
def _average_faulty(
    own: Any, other: Any, contexts: Any, indptr: Any, senders: Any, weights: Any, own_weights: Any,
    mixes: bool, factor: float, least_time: float, renewed: Any, fate: Any, num_arms: int,
    start: int, end: int,
) -> None:  # fmt: skip
    """Let some agents average over what they heard, and count the pulls behind it."""
    if mixes:
        average_heard(indptr, senders, weights, own_weights, fate, own, other, start, end)
    for agent in range(start, end):
        if renewed[agent] > 0:
            set_row(other, agent, 0.0)
        pulls = 0.0
        for k in range(num_arms):
            pulls += other[agent, num_arms + k]
        contexts[agent, TIME], contexts[agent, FACTOR] = max(least_time, pulls * factor), factor

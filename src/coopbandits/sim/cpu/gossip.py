"""Pull mixing: every agent moves towards what it heard, and counts agents by minima."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.extrema import EXPONENTIALS, GENERATION, SETTLED, exponentials
from coopbandits.core.aggregate.pull_mixing import RECENT
from coopbandits.core.policy import Parts
from coopbandits.network.faults import DOWN
from coopbandits.sim.cpu.ageing import ageing, end_span, most_rounds
from coopbandits.sim.cpu.booking import pull_rows
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.fault_chunks import FaultReader, link_table
from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.launch import launch
from coopbandits.sim.cpu.leaves import copy_row, count_up_to, set_row
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.tapes import identity_words

SPAN_PULLS = 500_000
"""Pulls of one run played between two reports of progress."""


def play_gossip(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on pull mixing."""
    state, links = Runs(parts, task, runs, tick), link_table(task.network)
    reader, (rule, numbers) = FaultReader(task, runs), state.rule()
    mixed = np.zeros(state.shape)
    born = first_minima(task, runs)
    ages, told = np.zeros((2, len(runs), links.senders.size))
    last = np.zeros(born.shape[:2])
    moved, minima, spare = mixed.copy(), born.copy(), born.copy()
    counts = np.zeros((len(runs), task.rounds.size, 4), dtype=np.int64)
    most = min(
        reader.most, max(1, SPAN_PULLS // task.network.num_agents), most_rounds(state.discount)
    )
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        play_runs(
            state.world, span(task, done, rounds), state.tally, state.fresh, mixed, moved, ages,
            told, born, minima, spare, last, counts, reader.read(rounds), links, rule, numbers,
            state.memory, ageing(state.discount, done, rounds), state.discount != 1.0,
        )  # fmt: skip
        end_span(state.discount, rounds, mixed)
        state.played(rounds)
    return state.finish(counts)


def first_minima(task: Task, runs: range) -> NDArray[np.float64]:
    """Return the exponentials of every agent, by which agents are counted."""
    words = [identity_words(task.seed, run, task.network.num_agents) for run in runs]
    return np.array([[exponentials(word) for word in row] for row in words])


def play_runs(
    world: Any, span: Any, tally: Any, fresh: Any, mixed: Any, moved: Any, ages: Any, told: Any,
    born: Any, minima: Any, spare: Any, last: Any, counts: Any, faults: Any, links: Any, rule: Any,
    numbers: Any, memory: Any, ageing: Any, stamps: bool,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread a run."""
    given = (span, links, rule, numbers, ageing, stamps)
    state = (mixed, moved, ages, told, born, minima, spare, last)
    launch(_play_run, mixed.shape[0], given, (world, tally, fresh, counts, faults, memory, *state))


@inner(allocates=True)
def _play_run(
    _run: int, span: Any, links: Any, rule: Any, numbers: Any, ageing: Any, stamps: bool,
    world: Any, tally: Any, fresh: Any, counts: Any, faults: Any, memory: Any, mixed: Any,
    moved: Any, ages: Any, told: Any, born: Any, minima: Any, spare: Any, last: Any,
) -> None:  # fmt: skip
    acts, renewed, fate = faults.acts, faults.fresh, faults.fate
    scratch = np.empty(rule.scratch)
    sums, degrees = np.empty(mixed.shape[0]), np.empty(mixed.shape[0])
    contexts, lasts = np.ones((mixed.shape[0], CONTEXT)), np.zeros(mixed.shape[0], np.int64)
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        collect_anew(born, minima, spare, last, done)
        if renewed.shape[0] > 0:
            _renew(renewed[r], links.indptr, mixed, ages, told, born, minima, spare, last, done)
        _look(mixed, minima, last, sums, contexts, rule.num_arms, ageing.factors[r])
        choose(
            rule.address, mixed, mixed.shape[1], contexts, CONTEXT, world.decision_keys, done,
            numbers, rule.numbers_stride, memory, scratch, lasts, 0, mixed.shape[0], rule.num_arms,
            rule.squares,
        )  # fmt: skip
        pull_rows(
            world, tally, fresh, mixed, lasts, acts[r : r + 1], rule.squares, slot, done, 0,
            mixed.shape[0], span.stops[slot - span.slot] == r + 1, ageing.weights[r],
        )  # fmt: skip
        _mix(
            links.indptr, links.senders, links.reverse, fate[r : r + 1], mixed, moved, ages, told,
            minima, spare, sums, degrees, counts[slot], done, stamps,
        )  # fmt: skip


@inner
def collect_anew(born: Any, minima: Any, spare: Any, last: Any, done: int) -> None:
    """Begin a generation of minima, or forget the count of the last; agents keep step here."""
    if done >= GENERATION and done % GENERATION == 0:
        for agent in range(last.size):
            last[agent] = max(1.0, (EXPONENTIALS - 1) / minima[agent].sum())
            copy_row(minima, agent, born)
            copy_row(spare, agent, born)
    elif done % GENERATION == SETTLED:
        last[:] = 0.0


@inner(forceinline=True)
def minima_values(done: int) -> int:
    """Return how many values minima take in a message: the first generation is not numbered."""
    return EXPONENTIALS + (1 if done >= GENERATION else 0)


@inner
def _renew(
    renewed: Any, indptr: Any, mixed: Any, ages: Any, told: Any, born: Any, minima: Any, spare: Any,
    last: Any, done: int,
) -> None:  # fmt: skip
    """Make some agents anew, as if they had heard nothing in all rounds so far."""
    for agent in range(mixed.shape[0]):
        if renewed[agent] > 0:
            set_row(mixed, agent, 0.0)
            copy_row(minima, agent, born)
            copy_row(spare, agent, born)
            last[agent] = 0.0
            for link in range(indptr[agent], indptr[agent + 1]):
                ages[link], told[link] = float(done), 0.0


@inner
def _look(
    mixed: Any, minima: Any, last: Any, sums: Any, contexts: Any, num_arms: int, factor: float
) -> None:
    """Count agents by their minima, and the pulls behind the averages."""
    for agent in range(mixed.shape[0]):
        sums[agent] = minima[agent].sum()
        num_agents, pulls = max(1.0, last[agent], (EXPONENTIALS - 1) / sums[agent]), 0.0
        for k in range(num_arms):
            pulls += mixed[agent, num_arms + k]
        contexts[agent, FACTOR], contexts[agent, AGENTS] = num_agents * factor, num_agents
        contexts[agent, TIME] = max(2.0, num_agents * factor * pulls)
        contexts[agent, AHEAD] = 1.0


@inner
def _mix(
    indptr: Any, senders: Any, reverse: Any, fate: Any, mixed: Any, moved: Any, ages: Any,
    told: Any, minima: Any, spare: Any, sums: Any, degrees: Any, counts: Any, done: int,
    stamps: bool,
) -> None:  # fmt: skip
    """Send all messages of a round, and let everybody move towards what arrives."""
    size, width = mixed.shape
    for agent in range(size):
        degrees[agent] = 0.0
        for link in range(indptr[agent], indptr[agent + 1]):
            degrees[agent] += ages[link] < RECENT
    for agent in range(size):
        for w in range(width):
            moved[agent, w] = mixed[agent, w]
        for link in range(indptr[agent], indptr[agent + 1]):
            sender = senders[link]
            fated = fate[0, link] if fate.shape[0] > 0 else 0
            # The sender leaves its minima out if it was told the same sum before this round.
            differ = told[reverse[link]] != sums[sender]
            if fated != DOWN:
                counts[0] += width + 2 + int(stamps) + (minima_values(done) if differ else 0)
                counts[1] += 1
                counts[2 if fated == 0 else 3] += 1
            if fated == 0:
                if ages[link] < RECENT:
                    weight = 1.0 / (1.0 + max(degrees[agent], degrees[sender]))
                    for w in range(width):
                        moved[agent, w] += weight * (mixed[sender, w] - mixed[agent, w])
                if differ:
                    for i in range(EXPONENTIALS):
                        spare[agent, i] = min(spare[agent, i], minima[sender, i])
    for agent in range(size):
        for w in range(width):
            mixed[agent, w] = moved[agent, w]
        for i in range(EXPONENTIALS):
            minima[agent, i] = spare[agent, i]
        for link in range(indptr[agent], indptr[agent + 1]):
            ages[link] += 1.0
            if fate.shape[0] == 0 or fate[0, link] == 0:
                ages[link], told[link] = 0.0, sums[senders[link]]

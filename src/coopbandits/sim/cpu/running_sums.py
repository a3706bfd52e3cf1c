"""Running sums: shares of mass travel as cumulative sums, so that a lost message loses none."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.extrema import EXPONENTIALS
from coopbandits.core.aggregate.running_sums import LEAST_WEIGHT, PATIENCE
from coopbandits.core.policy import Parts
from coopbandits.network.faults import DOWN
from coopbandits.sim.cpu.booking import pull_rows
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.fault_chunks import FaultReader, link_table
from coopbandits.sim.cpu.gossip import collect_anew, first_minima, minima_values
from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.launch import launch
from coopbandits.sim.cpu.leaves import copy_row, count_up_to, set_row
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick

SPAN_PULLS = 500_000
"""Pulls of one run played between two reports of progress."""


class Mass(NamedTuple):
    """State of all agents (run, agent, …) and of all directed links (run, link, …).

    The last register of `held` is the weight z. `sent` is everything that a link's sender ever
    passed on over it, `heard` everything that its receiver ever got; `ages`, `gaps` and `told` are
    the receiver's.
    """

    held: NDArray[np.float64]
    share: NDArray[np.float64]
    sent: NDArray[np.float64]
    heard: NDArray[np.float64]
    ages: NDArray[np.float64]
    gaps: NDArray[np.float64]
    told: NDArray[np.float64]
    born: NDArray[np.float64]
    minima: NDArray[np.float64]
    spare: NDArray[np.float64]
    last: NDArray[np.float64]


def make_mass(task: Task, runs: range, links: int, size: int) -> Mass:
    """Return the state before the first round."""
    held = np.zeros((len(runs), task.network.num_agents, size + 1))
    held[:, :, -1] = 1.0
    born, places = first_minima(task, runs), (len(runs), links)
    return Mass(
        held=held, share=held.copy(), sent=np.zeros((*places, size + 1)),
        heard=np.zeros((*places, size + 1)), ages=np.zeros(places), gaps=np.ones(places),
        told=np.zeros(places), born=born, minima=born.copy(), spare=born.copy(),
        last=np.zeros(born.shape[:2]),
    )  # fmt: skip


def play_running_sums(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on running sums."""
    state, links = Runs(parts, task, runs, tick), link_table(task.network)
    reader, (rule, numbers) = FaultReader(task, runs), state.rule()
    mass = make_mass(task, runs, links.senders.size, state.shape[2])
    counts = np.zeros((len(runs), task.rounds.size, 4), dtype=np.int64)
    most = min(reader.most, max(1, SPAN_PULLS // task.network.num_agents))
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        play_runs(
            state.world, span(task, done, rounds), state.tally, state.fresh, mass, counts,
            reader.read(rounds), links, rule, numbers, state.memory,
        )  # fmt: skip
        state.played(rounds)
    return state.finish(counts)


def play_runs(
    world: Any, span: Any, tally: Any, fresh: Any, mass: Any, counts: Any, faults: Any, links: Any,
    rule: Any, numbers: Any, memory: Any,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread a run."""
    own = (world, tally, fresh, mass, counts, faults, memory)
    launch(_play_run, mass.held.shape[0], (span, links, rule, numbers), own)


@inner(allocates=True)
def _play_run(
    _run: int, span: Any, links: Any, rule: Any, numbers: Any, world: Any, tally: Any, fresh: Any,
    mass: Any, counts: Any, faults: Any, memory: Any,
) -> None:  # fmt: skip
    held, share, sent, heard, ages, gaps, told, born, minima, spare, last = mass
    acts, renewed, fate = faults.acts, faults.fresh, faults.fate
    size, sums, scratch = held.shape[0], np.empty(held.shape[0]), np.empty(rule.scratch)
    contexts, lasts = np.ones((size, CONTEXT)), np.zeros(size, np.int64)
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        collect_anew(born, minima, spare, last, done)
        if renewed.shape[0] > 0:
            _renew(
                renewed[r], links.indptr, links.reverse, held, sent, heard, ages, gaps, told, born,
                minima, spare, last, done,
            )  # fmt: skip
        _look(held, minima, last, sums, contexts, rule.num_arms)
        choose(
            rule.address, held, held.shape[1], contexts, CONTEXT, world.decision_keys, done,
            numbers, rule.numbers_stride, memory, scratch, lasts, 0, size, rule.num_arms,
            rule.squares,
        )  # fmt: skip
        pull_rows(
            world, tally, fresh, held, lasts, acts[r : r + 1], rule.squares, slot, done, 0, size,
            span.stops[slot - span.slot] == r + 1, 1.0,
        )  # fmt: skip
        _hand_on(links.indptr, links.reverse, held, share, sent, ages, gaps)
        _take(
            links.indptr, links.senders, links.reverse, fate[r : r + 1], held, share, sent, heard,
            ages, gaps, told, minima, spare, sums, counts[slot], done,
        )  # fmt: skip


@inner
def _renew(
    renewed: Any, indptr: Any, reverse: Any, held: Any, sent: Any, heard: Any, ages: Any, gaps: Any,
    told: Any, born: Any, minima: Any, spare: Any, last: Any, done: int,
) -> None:  # fmt: skip
    """Reset some agents, as if they had heard nothing in all rounds so far.

    They passed on shares all the same, until they gave their silent neighbours up.
    """
    for agent in range(held.shape[0]):
        if renewed[agent] == 0:
            continue
        first, end = indptr[agent], indptr[agent + 1]
        set_row(held, agent, 0.0)
        held[agent, held.shape[1] - 1] = 1.0
        copy_row(minima, agent, born)
        copy_row(spare, agent, born)
        last[agent] = 0.0
        for link in range(first, end):
            set_row(sent, reverse[link], 0.0)
            set_row(heard, link, 0.0)
            ages[link], gaps[link], told[link] = float(done), 1.0, 0.0
        for _ in range(min(done, int(PATIENCE))):
            for w in range(held.shape[1]):
                held[agent, w] /= 1.0 + end - first
                for link in range(first, end):
                    sent[reverse[link], w] += held[agent, w]


@inner
def _look(held: Any, minima: Any, last: Any, sums: Any, contexts: Any, num_arms: int) -> None:
    """Write the factor that turns mass into totals, and the number of pulls behind them."""
    for agent in range(held.shape[0]):
        sums[agent] = minima[agent].sum()
        num_agents, pulls = max(1.0, last[agent], (EXPONENTIALS - 1) / sums[agent]), 0.0
        for k in range(num_arms):
            pulls += max(0.0, held[agent, num_arms + k])
        weight = held[agent, held.shape[1] - 1]
        factor = num_agents / weight if weight > LEAST_WEIGHT else 0.0
        contexts[agent, FACTOR], contexts[agent, AGENTS] = factor, num_agents
        contexts[agent, TIME], contexts[agent, AHEAD] = max(2.0, factor * pulls), 1.0


@inner
def _hand_on(
    indptr: Any, reverse: Any, held: Any, share: Any, sent: Any, ages: Any, gaps: Any
) -> None:
    """Split every agent's mass into shares, and pass them on to neighbours that are alive."""
    width = held.shape[1]
    for agent in range(held.shape[0]):
        alive = 0
        for link in range(indptr[agent], indptr[agent + 1]):
            alive += ages[link] < PATIENCE * gaps[link]
        for w in range(width):
            share[agent, w] = held[agent, w] / (1.0 + alive)
        for link in range(indptr[agent], indptr[agent + 1]):
            if ages[link] < PATIENCE * gaps[link]:
                back = reverse[link]
                for w in range(width):
                    sent[back, w] += share[agent, w]


@inner
def _take(
    indptr: Any, senders: Any, reverse: Any, fate: Any, held: Any, share: Any, sent: Any,
    heard: Any, ages: Any, gaps: Any, told: Any, minima: Any, spare: Any, sums: Any, counts: Any,
    done: int,
) -> None:  # fmt: skip
    """Let every agent keep one share, and take what is new in the sums that arrive."""
    size, width = held.shape
    last = width - 1
    for agent in range(size):
        for w in range(width):
            held[agent, w] = share[agent, w]
        for link in range(indptr[agent], indptr[agent + 1]):
            sender = senders[link]
            fated = fate[0, link] if fate.shape[0] > 0 else 0
            # The sender leaves its minima out if it had heard the same sum before this round.
            differ = told[reverse[link]] != sums[sender]
            if fated != DOWN:
                counts[0] += width + 1 + (minima_values(done) if differ else 0)
                counts[1] += 1
                counts[2 if fated == 0 else 3] += 1
            if fated == 0:
                if sent[link, last] >= heard[link, last]:  # else the message was overtaken
                    for w in range(width):
                        held[agent, w] += sent[link, w] - heard[link, w]
                        heard[link, w] = sent[link, w]
                if differ:
                    for i in range(EXPONENTIALS):
                        spare[agent, i] = min(spare[agent, i], minima[sender, i])
    for agent in range(size):
        for i in range(EXPONENTIALS):
            minima[agent, i] = spare[agent, i]
        for link in range(indptr[agent], indptr[agent + 1]):
            ages[link] += 1.0
            if fate.shape[0] == 0 or fate[0, link] == 0:
                gaps[link] += 0.2 * (ages[link] - gaps[link])
                ages[link], told[link] = 0.0, sums[senders[link]]

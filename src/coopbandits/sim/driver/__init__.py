"""The driver: plays aggregations that are written as functions on fields, compiled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, NoReturn

import numba
import numpy as np

from coopbandits.core.aggregate.fields import FieldAggregation, sizes_of, state_class
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Parts
from coopbandits.core.spelling import is_ours
from coopbandits.core.statistic import Registers
from coopbandits.sim.cpu.choices import CannotCompileError
from coopbandits.sim.cpu.fault_chunks import FaultReader, link_table
from coopbandits.sim.cpu.runs import REPLAYED, Runs
from coopbandits.sim.cpu.world import span
from coopbandits.sim.driver.rounds import COUNTS, LATE, play_rounds, sit_out
from coopbandits.sim.driver.steps import DIMS, MOST_SIZES, compiled_step, numbers_type
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.reference import local_views, play_again

SPAN_PULLS = 500_000
"""Pulls of one run between two reports of progress."""


class Memory(NamedTuple):
    """State of all agents of one run, and what their functions read and write."""

    me: Any
    block: Any
    indptr: Any
    reverse: Any
    sizes: Any
    box: Any
    lengths: Any
    totals: Any
    certain: Any
    pulls: Any
    lasts: Any


class Late(NamedTuple):
    """Messages under way, by the round in which they are due: as many as the longest delay, and 1.

    `boxes` (slot, link, value) and `lengths` (slot, link), 0 for none; `sent` is when, and `newest`
    (link) when the newest that arrived was sent. Without delays there is no slot.
    """

    boxes: Any
    lengths: Any
    sent: Any
    newest: Any
    overtakes: bool


def make_late(spec: FieldAggregation, task: Task, memory: Memory) -> Late:
    """Return an empty one for a run."""
    longest = max((kind.longest_delay for kind in task.faults.kinds), default=0)
    slots, (links, most) = longest + 1 if longest else 0, memory.box.shape
    return Late(
        np.zeros((slots, links, most)), np.zeros((slots, links), dtype=np.int64),
        np.zeros((slots, links), dtype=np.int64), np.zeros(links, dtype=np.int64), spec.overtakes,
    )  # fmt: skip


class Agents:
    """All agents of one run."""

    def __init__(self, spec: FieldAggregation, registers: Registers, task: Task, run: int) -> None:
        self.spec, self.views = spec, local_views(task, run)
        width, self.registers = registers.size, spec.decaying(registers)
        table, agents = link_table(task.network), len(self.views)
        links = table.senders.size
        told = self.views[0].num_agents or 0
        sizes = sizes_of(registers, 1, told)
        self.layout, most = spec.layout(sizes, self.registers.decay), spec.widest(sizes, registers)
        dims = [size for field in self.layout.arrays for size in field.shape]
        given = np.zeros(MOST_SIZES, dtype=np.int64)
        given[: DIMS + len(dims)] = [width, most, agents, *dims]
        lengths = [
            (links if field.per_link else agents) * int(np.prod(field.shape, dtype=np.int64))
            for field in self.layout.arrays
        ]
        me = np.zeros(agents, dtype=numbers_type(self.layout))
        self.memory = Memory(
            me, np.zeros(sum(lengths)), table.indptr, table.reverse, given,
            np.zeros((links, most)), np.zeros(links, dtype=np.int64), np.zeros((agents, width)),
            np.zeros((agents, width)), np.zeros((agents, width)), np.zeros(agents, dtype=np.int64),
        )  # fmt: skip
        self.numbers = me.view(np.recarray)
        self.arrays, at = [], 0
        for field, length in zip(self.layout.arrays, lengths, strict=True):
            array = self.memory.block[at : at + length]
            array = array.view(np.int64) if field.whole else array
            rows = links if field.per_link else agents
            self.arrays.append(array.reshape((rows, *field.shape)))
            at += length
        self.kind = state_class(tuple(field.name for field in self.layout.arrays))
        for agent in range(agents):
            self.spec.begin(self.state(agent), self.views[agent], self.registers)

    def state(self, agent: int) -> Any:
        """Return what the functions of one agent see."""
        first, stop = self.memory.indptr[agent : agent + 2]
        parts = [
            array[first:stop] if field.per_link else array[agent]
            for field, array in zip(self.layout.arrays, self.arrays, strict=True)
        ]
        return self.kind(self.numbers[agent], *parts)

    def renew(self, step: Any, agent: int, rounds: int) -> None:
        """Replace an agent by a fresh one that has sat out all rounds so far."""
        self.memory.me[agent] = np.zeros((), dtype=self.memory.me.dtype)
        state = self.state(agent)
        for part in state[1:]:
            part[...] = 0
        self.spec.begin(state, self.views[agent], self.registers)
        sit_out(step, self.memory, agent, rounds)


def obstacle(parts: Parts, task: Task) -> str:
    """Return why the driver cannot play an aggregation on fields, or nothing."""
    spec = parts.aggregation
    if not isinstance(spec, FieldAggregation):
        return f" for aggregation {spec.spelling}"
    registers = parts.statistic.registers(task.problem.num_arms)
    sizes = sizes_of(registers, 1, task.network.num_agents)
    try:
        decay = spec.decaying(registers).decay
        compiled_step(spec, spec.layout(sizes, decay), decay)
    except CannotCompileError as error:
        return f", since numba cannot compile aggregation {spec.spelling} ({error})"
    return ""


def play_fields(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs, each in some thread."""
    spec = parts.aggregation
    assert isinstance(spec, FieldAggregation)  # noqa: S101  `obstacle` says so
    state, reader = Runs(parts, task, runs, tick), FaultReader(task, runs)
    rule, numbers = state.rule(apart=True)
    registers = parts.statistic.registers(task.problem.num_arms)
    agents = [Agents(spec, registers, task, run) for run in runs]
    step = compiled_step(spec, agents[0].layout, agents[0].registers.decay)
    counts = np.zeros((len(runs), task.rounds.size, COUNTS), dtype=np.int64)
    late = [make_late(spec, task, each.memory) for each in agents]
    most = min(reader.most, max(1, SPAN_PULLS // task.network.num_agents))
    fresh = state.fresh if task.keep else np.zeros((len(runs), 0, state.shape[2]))

    failed: dict[int, int] = {}

    def play(row: int) -> None:
        """Play a span of one run, stopping for every agent that is renewed."""
        acts, renewed, fate = faults.acts[row], faults.fresh[row], faults.fate[row]
        cuts = np.flatnonzero(renewed.any(axis=1)).tolist() if renewed.size else []
        world, tally = _of_run(state.world, row), _of_run(state.tally, row)
        for first, stop in zip([0, *cuts], [*cuts, rounds], strict=True):
            if first in cuts:
                for agent in np.flatnonzero(renewed[first]).tolist():
                    agents[row].renew(step, agent, done + first)
            if stop == first:
                continue
            played = play_rounds(
                step, state.choice.function, agents[row].memory, world,
                span(task, done + first, stop - first), tally, fresh[row], rule, numbers,
                state.memory[row], counts[row], acts[first:stop], fate[first:stop],
                late[row], spec.least_time, spec.clips, not is_ours(spec),
            )  # fmt: skip
            if played < stop - first:
                failed[row] = done + first + played + 1
                return

    with ThreadPoolExecutor(min(len(runs), numba.get_num_threads())) as pool:
        while (done := state.done) < task.horizon:
            rounds = min(most, task.horizon - done)
            faults = reader.read(rounds)
            list(pool.map(play, range(len(runs))))
            if failed:
                _raise_failure(task, runs, failed)
            state.played(rounds)
    state.record.late[:] = counts[:, :, LATE].sum(axis=1)
    return state.finish(counts[:, :, :LATE])


def _raise_failure(task: Task, runs: range, failed: dict[int, int]) -> NoReturn:
    """Raise what the reference engine does where a function of the first such run failed."""
    row, rounds = min(failed.items())
    if rounds * task.network.num_agents <= REPLAYED:
        play_again(task, runs[row], rounds)
    raise InputError(
        f"round {rounds} of run {runs[row]}: a function of aggregation {task.policy.spelling} "
        'failed; find the line with engine="reference"'
    )


def _of_run(values: Any, row: int) -> Any:
    """Return a world or a tally as one run sees it."""
    return type(values)(
        *(value[row % len(value)] if np.ndim(value) > 1 else value for value in values)
    )

"""The driver: plays aggregations that are written as functions on fields, compiled."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import numba
import numpy as np

from coopbandits.core.errors import InputError
from coopbandits.core.policy import AnyPolicy, Parts
from coopbandits.core.sources import Source
from coopbandits.core.spelling import is_ours
from coopbandits.sim.cpu.choices import CannotCompileError
from coopbandits.sim.cpu.linear import LinearRuns, LinearWorld, make_linear_world
from coopbandits.sim.cpu.runs import REPLAYED, FaultReader, LinkTable, Runs, link_table
from coopbandits.sim.cpu.world import span
from coopbandits.sim.driver.agents import (
    Agents,
    aggregation_of,
    excess,
    form_of,
    mixed_choice,
    played_parts,
    players,
    registers_of,
    run_bytes,
    source_of,
)
from coopbandits.sim.driver.events import (
    COMPILED,
    ENDED,
    FAILED,
    grown,
    make_events,
    make_tapes,
    play_events,
)
from coopbandits.sim.driver.pulls import Reading
from coopbandits.sim.driver.rounds import COUNTS, LATE, make_late, play_central, play_rounds
from coopbandits.sim.driver.steps import compiled_step
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.reference import play_again

__all__ = [
    "excess",
    "obstacle",
    "on_fields",
    "play_fields",
    "played_parts",
    "players",
    "run_bytes",
    "source_of",
]

SPAN_PULLS = 500_000
"""Pulls of one run between two reports of progress."""


def on_fields(task: Task) -> bool:
    """Return whether the policies of all agents are made of an aggregation on fields."""
    found = players(task.policy)
    return bool(found) and all(aggregation_of(player) is not None for player in found)


def obstacle(task: Task) -> str:
    """Return why the driver cannot play a task on fields, or nothing."""
    first, *others = players(task.policy)
    spec, parts, source = aggregation_of(first), played_parts(first), source_of(first)
    assert spec is not None  # noqa: S101  it is on fields
    assert parts is not None  # noqa: S101  so it is made of parts
    statistic = parts.statistic
    if task.clocks is not None and (task.policy.central or type(task.clocks) not in COMPILED):
        return f" on clocks {task.clocks.spelling}"
    if statistic.takes_context:
        if not is_ours(parts.index):
            return f" of index {parts.index.spelling} for rewards that depend on features"
    elif registers_of(first, task).layout is None:
        return f" for statistic {statistic.spelling}"
    if source is not None and (missing := _no_source(source, task)):
        return missing
    form = form_of(first, task)
    for other in others:
        same_functions = _functions_of(other) == _functions_of(first)
        same_statistic = other.parts and other.parts.statistic == statistic
        if not (same_functions and same_statistic and form_of(other, task) == form):
            return f" for {first.spelling} and {other.spelling} in one network"
    if is_ours(spec):
        return ""  # what plays the task compiles its step, if it needs one
    try:
        compiled_step(spec, form.layout, form.decay, source)
    except CannotCompileError as error:
        return f", since numba cannot compile aggregation {spec.spelling} ({error})"
    return ""


def _no_source(source: Source, task: Task) -> str:
    """Return why a source is for the reference engine, which refuses pulls that are too many."""
    if not is_ours(source):
        return f" for source {source.spelling}"
    most = task.horizon if task.clocks is None else math.inf
    return source.plain_only or (
        "" if most <= source.most_pulls else f" for more pulls than {source.spelling} is made for"
    )


def _functions_of(policy: AnyPolicy) -> tuple[type, Any]:
    """Return what is compiled of a policy's aggregation: its settings may ask for functions."""
    spec = aggregation_of(policy)
    return type(spec), spec and spec.plain_functions()


def play_fields(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs, each in some thread."""
    driver = Driver(parts, task, runs, tick)
    with ThreadPoolExecutor(min(len(runs), numba.get_num_threads())) as pool:
        while driver.state.done < task.horizon:
            driver.play_span(pool)
    return driver.finish()


class Driver:
    """Some runs of one task in progress."""

    def __init__(self, parts: Parts, task: Task, runs: range, tick: Tick) -> None:
        self.task, self.runs = task, runs
        policy, table = players(task.policy)[0], link_table(task.network)
        spec, registers = aggregation_of(policy), registers_of(policy, task)
        assert spec is not None  # noqa: S101  `obstacle` says so
        self.linear: LinearWorld | None = None
        self.state: Runs | LinearRuns
        if registers.num_features:
            self.state = LinearRuns(parts, task, runs, tick)
            self.rule, self.numbers = self.state.rule()
            self.linear, self.choice = self.state.linear, self.state.choice
        else:
            self.state = Runs(parts, task, runs, tick)
            if len(players(task.policy)) > 1:
                self.choice, self.rule, self.numbers = mixed_choice(self.state, task)
            else:
                self.rule, self.numbers = self.state.rule(apart=True)
                self.choice = self.state.choice
            if task.tables.in_context:
                room = self.rule.scratch
                self.linear = make_linear_world(task, runs, registers, self.state.record, room)
        self.turn = -1
        if task.policy.central:  # a controller has no links, but places for what it says was sent
            lines = getattr(spec, "lines", 0) * task.network.num_agents
            places = np.arange(lines)
            table = LinkTable(np.array([0, lines]), np.zeros_like(places), places)
            if lines:
                names = [name for name, _ in form_of(policy, task).layout.numbers]
                self.turn = names.index("agent")
        self.agents = [Agents(task, run, table, registers.size) for run in runs]
        form = form_of(policy, task)
        self.step = compiled_step(spec, form.layout, form.decay, source_of(policy))
        self.reading = Reading(spec.least_time, spec.clips, not is_ours(spec) or spec.finds_out)
        self.counts = np.zeros((len(runs), task.rounds.size, COUNTS), dtype=np.int64)
        self.fresh = np.zeros((len(runs), 0, registers.size))
        if task.keep and isinstance(self.state, Runs) and self.linear is None:
            self.fresh = self.state.fresh
        self.failed: dict[int, int] = {}
        self.most = max(1, SPAN_PULLS // task.network.num_agents)
        senders = range(task.network.num_agents)
        overtakes = np.array([task.policy.overtakes_from(sender) for sender in senders])
        overtakes = overtakes[table.senders]
        if task.clocks is None:
            self.reader = FaultReader(task, runs)
            self.most = min(self.reader.most, self.most)
            self.late = [make_late(task, each.memory, overtakes) for each in self.agents]
        else:
            self.tapes = [make_tapes(task, run, table.senders, overtakes) for run in runs]
            self.events = [
                make_events(task, each.memory, tapes)
                for each, tapes in zip(self.agents, self.tapes, strict=True)
            ]

    def play_span(self, pool: ThreadPoolExecutor) -> None:
        rounds = min(self.most, self.task.horizon - self.state.done)
        if self.task.clocks is None:
            self.faults = self.reader.read(rounds)
        play = self._play_rounds if self.task.clocks is None else self._play_events
        list(pool.map(play, range(len(self.runs)), [rounds] * len(self.runs)))
        if self.failed:
            self._raise_failure()
        self.state.played(rounds)

    def finish(self) -> Record:
        self.state.record.late[:] = self.counts[:, :, LATE].sum(axis=1)
        return self.state.finish(self.counts[:, :, :LATE])

    def _play_rounds(self, row: int, rounds: int) -> None:
        """Play a span of one run, stopping for every agent that is renewed."""
        agents, done = self.agents[row], self.state.done
        if self.task.policy.central:
            self._play_central(row, rounds)
            return
        acts, renewed, fate = self.faults.acts[row], self.faults.fresh[row], self.faults.fate[row]
        cuts = np.flatnonzero(renewed.any(axis=1)).tolist() if renewed.size else []
        for first, stop in zip([0, *cuts], [*cuts, rounds], strict=True):
            if first in cuts:
                for agent in np.flatnonzero(renewed[first]).tolist():
                    agents.renew(self.step, agent, done + first)
            if stop == first:
                continue
            played = play_rounds(
                *self._given(row, done + first, stop - first), acts[first:stop], fate[first:stop],
                self.late[row], self.reading, self.linear, row,
            )  # fmt: skip
            if played < stop - first:
                self.failed[row] = done + first + played + 1
                return

    def _play_central(self, row: int, rounds: int) -> None:
        """Play a span of one run by a controller, which keeps its state whoever is renewed."""
        delay = len(getattr(self.agents[row].state(0), "history", ())) - 1
        given = self._given(row, self.state.done, rounds)
        acts = self.faults.acts[row]
        played = play_central(*given, delay, self.turn, acts, self.reading, self.linear, row)
        if played < rounds:
            self.failed[row] = self.state.done + played + 1

    def _play_events(self, row: int, rounds: int) -> None:
        """Play a span of one run in events, stopping where letters need more room."""
        given, done = self._given(row, self.state.done, rounds), self.state.done
        while True:
            events = self.events[row]
            play_events(*given, self.tapes[row], events, self.reading, self.linear, row)
            if events.state[FAILED]:
                self.failed[row] = int(events.state[ENDED]) + 1
            if events.state[FAILED] or events.state[ENDED] == done + rounds:
                return
            self.events[row] = grown(events)

    def _given(self, row: int, first: int, rounds: int) -> tuple[Any, ...]:
        """Return the arguments that rounds and events have in common."""
        state = self.state
        return (
            self.step, self.choice.function, self.agents[row].memory, _of_run(state.world, row),
            span(self.task, first, rounds), _of_run(state.tally, row), self.fresh[row], self.rule,
            self.numbers, state.memory[row], self.counts[row],
        )  # fmt: skip

    def _raise_failure(self) -> NoReturn:
        """Raise what the reference engine does where a function of the first such run failed."""
        task = self.task
        row, rounds = min(self.failed.items())
        if rounds * task.network.num_agents <= REPLAYED:
            play_again(task, self.runs[row], rounds)
        raise InputError(
            f"round {rounds} of run {self.runs[row]}: a function of aggregation "
            f'{task.policy.spelling} failed; find the line with engine="reference"'
        )


def _of_run(values: Any, row: int) -> Any:
    """Return a world or a tally as one run sees it."""
    return type(values)(
        *(value[row % len(value)] if np.ndim(value) > 1 else value for value in values)
    )

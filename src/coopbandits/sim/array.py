"""The array engine: plays aggregations, and policies with a rule of their own, in array form.

The choices and pulls of all agents in a round are one compiled call; between rounds the array form
(`core.aggregate.rows`) exchanges what was pulled. Policies without parts are played as teams
(`sim.teams`), all runs at once.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import cast

import numpy as np

from coopbandits.core.aggregate import Aggregation, MessageSize
from coopbandits.core.aggregate.rows import AgentRows, RowEstimates, Rows
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Parts
from coopbandits.core.statistic import Registers
from coopbandits.sim import teams
from coopbandits.sim.cpu import index_obstacle, own_rewards, parts_of, threads
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, TIME
from coopbandits.sim.cpu.fault_chunks import FaultReader, count_messages
from coopbandits.sim.cpu.one_round import play_round
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.world import of_first_run
from coopbandits.sim.engine import Engine
from coopbandits.sim.record import Record, Task, Tick, join
from coopbandits.sim.reference import CHUNK, local_views

SPAN_PULLS = 100_000
"""Pulls between two reports of progress."""


class ArrayEngine:
    """Plays aggregations that have an array form, on networks without faults."""

    name = "array"

    def obstacle(self, task: Task) -> str | None:
        """Return why a task cannot be played in array form, or None."""
        parts = task.policy.parts
        if task.policy.central:
            return "has no array form"
        if task.tables.in_context:
            return "has no array form for rewards that depend on features"
        if task.clocks is not None:
            return "has no array form on own clocks"
        if task.faults:
            return f"has no array form for faults {task.faults.spelling}"
        if task.stop is not None:  # rows hold what is played on, which need not be certified
            return "has no array form for agents that stop"
        if parts is None:
            return teams.obstacle(task)
        if not task.policy.plays_parts:
            return "has no array form for agents that it makes itself"
        if parts.statistic.registers(task.problem.num_arms).layout is None:
            return f"has no array form for statistic {parts.statistic.spelling}"
        if make_rows(task, 0) is None:
            return f"has no array form of aggregation {parts.aggregation.spelling}"
        if missing := own_rewards.obstacle(task.problem):
            return f"has no array form here, since {missing}"
        return _uncounted(task) or _uncompiled(parts, task)

    def run_bytes(self, task: Task) -> int | None:
        """Ask for single runs, of which batches gain nothing, but for teams."""
        if task.policy.parts is not None:
            return None
        table = task.tables.rows.nbytes if task.shuffle_arms else 0
        return task.network.num_agents * (100 * task.problem.num_arms + 32 * CHUNK) + table

    def session(self, threads_wanted: int | None) -> AbstractContextManager[None]:
        """Announce compilations; only one thread is used."""
        return threads(threads_wanted)

    def play(self, task: Task, runs: range, tick: Tick) -> Record:
        """Play some runs, one after another."""
        if task.policy.parts is None:
            return teams.play(task, runs, tick)
        return join([Play(task, run, tick).whole() for run in runs])


ENGINE: Engine = ArrayEngine()


def make_rows(task: Task, run: int) -> AgentRows | None:
    """Return the array form of the agents of one run, if there is one."""
    aggregation, registers = _parts(task)
    if not teams.speaks_for(aggregation, "make_rows", "make"):
        return None
    return aggregation.make_rows(local_views(task, run), task.network.matrix, registers)


def _uncounted(task: Task) -> str | None:
    """Refuse messages of varying size: values are counted without sending anything."""
    usual, most, _ = _message_size(task)
    return f"has no array form for messages of {usual} to {most} values" if usual < most else None


def _message_size(task: Task) -> MessageSize:
    aggregation, registers = _parts(task)
    return aggregation.message_size(registers, task.network.num_agents)


def _uncompiled(parts: Parts, task: Task) -> str | None:
    missing = index_obstacle(parts, task)
    return f"has no array form here, since {missing}" if missing else None


def _parts(task: Task) -> tuple[Aggregation, Registers]:
    """Return the aggregation and the registers that it carries."""
    parts = parts_of(task)
    aggregation = cast("Aggregation", parts.aggregation)  # `obstacle` refuses central policies
    return aggregation, parts.statistic.registers(task.problem.num_arms)


def _all_finite(values: Rows) -> bool:
    # A finite sum says so sooner; huge values overflow: look again.
    return math.isfinite(values.sum()) or bool(np.isfinite(values).all())


class Play:
    """One run in progress."""

    def __init__(self, task: Task, run: int, tick: Tick) -> None:
        self.task = task
        self.state = Runs(parts_of(task), task, range(run, run + 1), tick)
        self.rule, self.numbers = self.state.rule()
        rows = make_rows(task, run)
        assert rows is not None  # noqa: S101  `obstacle` says so
        self.rows = rows
        self.shape = self.state.shape[1:]
        self.contexts = np.ones((self.shape[0], CONTEXT))
        self.scratch = np.empty(self.rule.scratch)
        self.lasts = np.zeros(self.shape[0], dtype=np.int64)
        self.silent: list[tuple[int, int]] = []  # rounds done, and messages that nobody sent
        self.fresh = self.state.fresh[0] if task.keep else np.empty((0, self.shape[1]))
        self.world, self.tally = of_first_run(self.state.world), of_first_run(self.state.tally)

    def whole(self) -> Record:
        """Play all rounds and return the record."""
        state, task, size = self.state, self.task, _message_size(self.task).usual
        most = max(1, SPAN_PULLS // task.network.num_agents)
        nothing_fails = FaultReader(task, range(1)).read(0)
        while (done := state.done) < task.horizon:
            rounds = min(most, task.horizon - done)
            self.play(rounds)
            if size > 0:
                count_messages(state.record, task, done, rounds, nothing_fails.fate, size)
            state.played(rounds)
        for done, missing in self.silent:
            state.record.messages -= missing
            state.record.values[:, task.rounds > done] -= size * missing
        return state.finish()

    def play(self, rounds: int) -> None:
        """Play some rounds."""
        state, recorded = self.state, self.task.rounds
        slot = int(np.searchsorted(recorded, state.done, side="right"))
        for done in range(state.done, state.done + rounds):
            totals = self.read(self.rows.estimate(), done)
            pulls = np.zeros(self.shape)
            play_round(
                self.world, self.tally, self.rule, self.numbers, totals, self.contexts,
                state.memory[0], self.scratch, self.lasts, self.fresh, pulls, slot, done,
                bool(done + 1 == recorded[slot]),
            )  # fmt: skip
            talking = self.rows.talking()
            if talking is not None:
                missing = self.task.network.degrees[~talking].sum()
                self.silent.append((done, int(missing)))
            self.rows.exchange(pulls)
            slot += done + 1 == recorded[slot]

    def read(self, estimates: RowEstimates, done: int) -> Rows:
        """Check and take over what the array form returned; return its totals."""
        totals = np.ascontiguousarray(estimates.totals, dtype=np.float64)
        if totals.shape != self.shape:
            raise self._refusal(
                f"totals of shape {totals.shape}; return {self.shape}, a row of registers per agent"
            )
        try:
            self.contexts[:, TIME] = estimates.time
            self.contexts[:, AGENTS] = estimates.num_agents
            self.contexts[:, AHEAD] = estimates.anticipation
        except ValueError as error:
            raise self._refusal(
                "a time, a number of agents or an anticipation that is neither one number nor one "
                f"per agent: {error}"
            ) from error
        if not (_all_finite(totals) and _all_finite(self.contexts)):
            raise self._refusal(f"values that are not finite after {done} rounds; repair it")
        return totals

    def _refusal(self, returned: str) -> InputError:
        return InputError(f"the array form of {self.task.given.spelling} returned {returned}")

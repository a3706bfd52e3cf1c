"""The array engine: aggregations of one's own that are given in array form as well.

Choices and pulls are compiled, for all agents of a run at once; between them the array form
(`core.aggregate.rows`) spreads what was pulled. Runs are played one after another.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager

import numpy as np

from coopbandits.core.aggregate import Aggregation, MessageSize
from coopbandits.core.aggregate.rows import AgentRows, RowEstimates, Rows
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.statistic import Registers
from coopbandits.sim.cpu import parts_of, threads
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, TIME
from coopbandits.sim.cpu.choices import CannotCompileError, compiled_choice
from coopbandits.sim.cpu.one_round import play_round
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.weather import Forecast, count_messages
from coopbandits.sim.engine import Engine
from coopbandits.sim.record import Record, Task, Tick, join
from coopbandits.sim.reference import local_views

SPAN_PULLS = 100_000
"""Pulls between two reports of progress."""


class ArrayEngine:
    """Plays what has an array form, where nothing goes wrong."""

    name = "array"

    def obstacle(self, task: Task) -> str | None:
        """Tell what has no array form."""
        policy, parts = task.policy, task.policy.parts
        if parts is None or not isinstance(policy, Policy):
            return "has no array form"
        if task.clocks is not None:
            return "has no array form on own clocks"
        if task.faults:
            return f"has no array form for faults {task.faults.spelling}"
        if parts.statistic.registers(task.problem.num_arms).layout is None:
            return f"has no array form for statistic {parts.statistic.spelling}"
        if make_rows(task, 0) is None:
            return f"has no array form of aggregation {parts.aggregation.spelling}"
        return _uncounted(task) or _uncompiled(parts)

    def run_bytes(self, task: Task) -> None:
        """Ask for single runs: nothing is won by more at once, and Ctrl-C loses one alone."""

    def session(self, threads_wanted: int | None) -> AbstractContextManager[None]:
        """Tell when something is compiled; of the threads one is used."""
        return threads(threads_wanted)

    def play(self, task: Task, runs: range, tick: Tick) -> Record:
        """Play some runs, one after another."""
        return join([Play(task, run, tick).whole() for run in runs])


ENGINE: Engine = ArrayEngine()


def make_rows(task: Task, run: int) -> AgentRows | None:
    """Return the array form of the agents of one run, if there is one."""
    policy, (aggregation, registers) = task.policy, _parts(task)
    assert isinstance(policy, Policy)  # noqa: S101  it has an aggregation
    views = local_views(task, policy, run)
    return aggregation.make_rows(views, task.network.matrix, registers)


def _uncounted(task: Task) -> str | None:
    """Say where values cannot be counted without sending them."""
    usual, most, _ = _message_size(task)
    return f"has no array form for messages of {usual} to {most} values" if usual < most else None


def _message_size(task: Task) -> MessageSize:
    aggregation, registers = _parts(task)
    return aggregation.message_size(registers, task.network.num_agents)


def _uncompiled(parts: Parts) -> str | None:
    try:
        compiled_choice(parts.index)
    except CannotCompileError as error:
        return f"has index {parts.index.spelling}, which numba cannot compile ({error})"
    return None


def _parts(task: Task) -> tuple[Aggregation, Registers]:
    """Return the aggregation, and what is added up."""
    parts = parts_of(task)
    assert isinstance(parts.aggregation, Aggregation)  # noqa: S101  `obstacle` says so
    return parts.aggregation, parts.statistic.registers(task.problem.num_arms)


def _all_finite(values: Rows) -> bool:
    # A finite sum says so sooner; huge values overflow: look again.
    return math.isfinite(values.sum()) or bool(np.isfinite(values).all())


class Play:
    """One run under way."""

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
        self.fresh = self.state.fresh if task.keep else np.empty((1, 0, self.shape[1]))

    def whole(self) -> Record:
        """Play it to the end, and return its record."""
        state, task, size = self.state, self.task, _message_size(self.task).usual
        most = max(1, SPAN_PULLS // task.network.num_agents)
        nothing_fails = Forecast(task, range(1)).read(0)
        while (done := state.done) < task.horizon:
            rounds = min(most, task.horizon - done)
            self.play(rounds)
            if size > 0:
                count_messages(state.record, task, done, rounds, nothing_fails.fate, size)
            state.played(rounds)
        return state.finish()

    def play(self, rounds: int) -> None:
        """Play some rounds."""
        state, recorded = self.state, self.task.rounds
        slot = int(np.searchsorted(recorded, state.done, side="right"))
        for done in range(state.done, state.done + rounds):
            totals = self.read(self.rows.estimate(), done)
            pulls = np.zeros(self.shape)
            play_round(
                state.world, state.tally, self.rule, self.numbers, totals, self.contexts,
                state.memory, self.scratch, self.lasts, self.fresh, pulls, slot, done,
            )  # fmt: skip
            self.rows.exchange(pulls)
            slot += done + 1 == recorded[slot]

    def read(self, estimates: RowEstimates, done: int) -> Rows:
        """Take over what agents see after some rounds, and return the totals; or refuse it."""
        totals = np.ascontiguousarray(estimates.totals, dtype=np.float64)
        if totals.shape != self.shape:
            raise self._refusal(
                f"totals of shape {totals.shape}; tell {self.shape}: one row of registers per agent"
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

    def _refusal(self, told: str) -> InputError:
        return InputError(f"the array form of {self.task.policy.spelling} told {told}")

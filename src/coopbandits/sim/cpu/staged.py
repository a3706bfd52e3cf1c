"""Staged mixing: agents play a stage on settled totals, then the whole stage is mixed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numba import get_num_threads

from coopbandits.core.aggregate import StagedMixing
from coopbandits.core.aggregate.forgetting import decayed_rounds
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.contract import Vector
from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.ageing import end_span
from coopbandits.sim.cpu.choice_forms import AGENTS, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.pulls import (
    Reading,
    play_alone,
    play_bonus,
    play_initial,
    play_round,
    settle_pulls,
)
from coopbandits.sim.cpu.runs import Rows, Rule, Runs
from coopbandits.sim.cpu.stage_mixing import StageOperator
from coopbandits.sim.cpu.whole_runs import StagePlan, play_stages
from coopbandits.sim.cpu.world import Span, span
from coopbandits.sim.record import Record, Task, Tick

SEVERAL_PULLS = 20_000_000
"""Pulls between two reports of progress, where stages are short."""

SPAN_PULLS = 2_000_000
"""Pulls of one run played between two reports of progress, where a stage never ends."""

ALONE = Reading(own_pulls=True, weight=1.0, least=NO_INFORMATION, num_agents=1.0)
"""How agents read their own sums."""


def play_staged(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on staged mixing."""
    stages = Stages(Runs(parts, task, runs, tick))
    return stages.play()


def play_staged_bonus(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of an index s/n + √(a/n) on staged mixing; bounds spare most looks."""
    stages = Stages(Runs(parts, task, runs, tick))
    explorations = stages.state.explorations(
        stages.times, stages.reading.num_agents, stages.stage_rounds
    )
    if explorations is None:
        return stages.play()
    return BonusStages(stages.state, explorations).play()


def play_local(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on own sums: one stage that never ends."""
    state = Runs(parts, task, runs, tick)
    choosing, settled, spare = state.rule(), np.zeros(state.shape), np.empty(state.shape)
    for done, rounds in _spans_alone(task):
        times, ones = np.maximum(2.0, np.arange(done, done + rounds)), np.ones(rounds)
        play_alone(
            state.world, span(task, done, rounds), state.tally, settled, state.fresh, 1.0, times,
            ALONE, *choosing, state.memory, ones, ones, state.made,
        )  # fmt: skip
        state.played(rounds)
        if state.done < task.horizon:
            spare = state.take_fresh(spare)
            settled += spare
    return state.finish()


def play_local_bonus(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play the same of an index s/n + √(a/n)."""
    state = Runs(parts, task, runs, tick)
    times = np.maximum(2.0, np.arange(float(task.horizon)))
    explorations = state.explorations(times, 1.0, task.horizon)
    if explorations is None:
        return play_local(parts, task, runs, tick)
    play_each_arm(state)
    for done, rounds in _spans_alone(task, state.done):
        play_bonus(
            state.world, span(task, done, rounds), state.tally, state.fresh, state.fresh,
            1.0, False, explorations[done : done + rounds], ALONE,
        )  # fmt: skip
        state.played(rounds)
    return state.finish()


def _spans_alone(task: Task, first: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where spans begin, and their rounds."""
    most = max(1, SPAN_PULLS // task.network.num_agents)
    for done in range(first, task.horizon, most):
        yield done, min(most, task.horizon - done)


def play_each_arm(state: Runs) -> None:
    """Pull every arm once, or as many as the horizon allows, as an index does that starts at +∞."""
    rounds = min(state.task.problem.num_arms, state.task.horizon)
    play_initial(state.world, span(state.task, 0, rounds), state.tally, state.fresh)
    state.played(rounds)


class Stages:
    """The pipeline of staged mixing for all agents of some runs together.

    The numbers that all agents share (C, E, bounds on N, variants) are read off one agent, so that
    no formula is repeated here. Values in flight are not touched before their stage ends.

    With a discount, registers are in units of the end of the stage that is being played: a pull
    adds what it will count then, and choices read what a unit counts earlier (see `ageing`).
    """

    def __init__(self, state: Runs) -> None:
        task, network = state.task, state.task.network
        aggregation, self.num_arms = state.parts.aggregation, task.problem.num_arms
        assert isinstance(aggregation, StagedMixing)  # noqa: S101  the table of kernels says so
        view = network.local_view(
            0, num_arms=self.num_arms, sigma=task.sigma, needs=aggregation.needs
        )
        self.state = state
        self.shared = aggregation.plan(view, state.shape[2])
        self.spec = aggregation
        self.stage_rounds = self.shared.stage_rounds
        fewest, most = self.shared.fewest_agents, self.shared.most_agents
        self.reading = Reading(
            own_pulls=aggregation.own_pulls,
            weight=fewest / most,
            least=NO_INFORMATION * fewest,
            num_agents=float(fewest),
        )
        uses = -(-task.horizon // self.stage_rounds) * task.num_runs
        self.operator = StageOperator(
            network.matrix, self.shared.steps, self.shared.lambda_bound, uses, self.num_arms
        )
        # The remixed totals are read every round, or only at the end of a stage.
        self.reads_remixed = aggregation.remix and not aggregation.own_pulls
        if self.spec.remix:
            remix_steps = 1 if self.reads_remixed else self.stage_rounds
            self.remix = StageOperator(network.matrix, remix_steps, 0.0, uses, self.num_arms)
        self.accumulated, self.in_flight = np.zeros(state.shape), np.zeros(state.shape)
        self.first = True
        if state.discount != 1.0 and task.keep:  # what is fresh no longer counts pulls
            state.made = np.zeros((*state.shape[:2], self.num_arms), dtype=np.int64)

    @cached_property
    def choosing(self) -> tuple[Rule, Vector]:
        """The compiled choice, made on first use."""
        return self.state.rule()

    @cached_property
    def times(self) -> Vector:
        """The time s of every round: at first of the agent alone, then of what has settled."""
        rounds = np.arange(self.state.task.horizon)
        stage, in_stage = np.divmod(rounds - self.num_arms, self.stage_rounds)
        settled = self._settled(self.num_arms + stage * self.stage_rounds)
        start = np.where(stage > 0, settled, self._passed(self.num_arms))
        own = self._passed(in_stage) * float(self.reading.own_pulls)
        times = start * self.state.discount ** np.maximum(in_stage, 0) + own
        return np.maximum(2.0, np.where(stage < 0, self._passed(rounds), times))

    def _passed(self, rounds: Any) -> Any:
        """Return what the pulls of one agent in so many rounds count after them."""
        return self.state.discount * decayed_rounds(self.state.discount, rounds)

    def _settled(self, start: Any) -> Any:
        """Return what all pulls count that have been mixed when a stage starts after the first."""
        aged = self.state.discount**self.stage_rounds
        mixed = np.maximum(0, start - self.stage_rounds)
        return self.shared.most_agents * aged * self._passed(mixed)

    def _weights(self, rounds: int) -> Vector:
        """Return what a pull of each of so many rounds counts after them."""
        return self.state.discount ** np.arange(float(rounds), 0.0, -1.0)

    def play(self) -> Record:
        """Play all rounds."""
        state, horizon = self.state, self.state.task.horizon
        self.play_initial()
        if state.done < horizon:
            self.in_flight = state.take_fresh(np.empty(state.shape))
            while state.done < horizon:
                self.play_next()
            self.count_values()
        return state.finish()

    def play_initial(self) -> None:
        """Play the initial stage, in which agents see their own pulls immediately."""
        rounds = min(self.num_arms, self.state.task.horizon)
        reading = self.reading._replace(own_pulls=True)
        self._play_span(self._span(rounds), self.in_flight, 0.0, reading)
        self.state.played(rounds)

    def play_next(self) -> None:
        """Play one stage, cut off at the horizon."""
        state = self.state
        rounds = min(self.stage_rounds, state.task.horizon - state.done)
        end_span(state.discount, rounds, self.accumulated, self.in_flight)
        if self.spec.neighbor_pulls or (self.reads_remixed and not self.first):
            self._play_rounds(rounds)
        else:
            read, factor = self._read()
            self._play_span(self._span(rounds), read, factor, self.reading)
            state.played(rounds)
        if rounds == self.stage_rounds and state.done < state.task.horizon:
            self._end_stage()

    def _span(self, rounds: int) -> Span:
        return span(self.state.task, self.state.done, rounds)

    def _play_span(self, now: Span, read: Rows, factor: float, reading: Reading) -> None:
        state, times = self.state, self.times[now.first : now.first + now.rounds]
        weights = self._weights(now.rounds)
        play_alone(
            state.world, now, state.tally, read, state.fresh, factor, times, reading,
            *self.choosing, state.memory, weights, 1.0 / weights, state.made,
        )  # fmt: skip

    def _read(self) -> tuple[Rows, float]:
        """Return what agents read at the start of a stage, up to a factor."""
        if self.first:
            return self.in_flight, self.reading.weight
        return self.accumulated, float(self.shared.fewest_agents)

    def _end_stage(self) -> None:
        if self.spec.remix and not self.reads_remixed:
            self.accumulated = self.remix.apply(self.accumulated)
        self.operator.add_to(self.accumulated, self.in_flight)
        self.in_flight = self.state.take_fresh(self.in_flight)
        self.first = False

    def _round_of_stage(self) -> int:
        return (self.state.done - self.num_arms) % self.stage_rounds

    def _start_time(self) -> float:
        """Return s at the start of this stage."""
        if self.first:
            return float(self._passed(self.num_arms))
        return float(self._settled(self.state.done - self._round_of_stage()))

    def _play_rounds(self, rounds: int) -> None:
        """Play a stage of a variant in which agents read each other's values every round."""
        self.state.fresh.fill(0.0)
        read, factor = self._read()
        settled = read * factor
        for weight in self._weights(rounds).tolist():
            self._play_round(settled, weight)

    def _play_round(self, settled: Rows, weight: float) -> None:
        state, network = self.state, self.state.task.network
        per_round = 1 + network.degrees if self.spec.neighbor_pulls else 0
        contexts = np.ones((state.shape[1], CONTEXT))
        contexts[:, AGENTS] = self.reading.num_agents
        in_stage = self._round_of_stage()
        start = self._start_time() * state.discount**in_stage
        contexts[:, TIME] = np.maximum(2.0, start + self._passed(in_stage) * per_round)
        contexts[:, FACTOR] = 1.0 / weight
        arms = np.empty(state.shape[:2], dtype=np.int64)
        rewards = np.empty(state.shape[:2])
        play_round(
            state.world, self._span(1), state.tally, settled, state.fresh, contexts,
            *self.choosing, state.memory, arms, rewards, weight, state.made,
        )  # fmt: skip
        if self.spec.neighbor_pulls:
            links = network.adjacency
            settle_pulls(
                links.indptr, links.indices, arms, rewards, settled, self.num_arms,
                state.layout.squares, self.reading.weight * weight,
            )  # fmt: skip
        if self.reads_remixed:
            self.accumulated = self.remix.apply(self.accumulated)
            np.multiply(self.accumulated, self.shared.fewest_agents, out=settled)
        state.played(1)

    def count_values(self) -> None:
        """Record the values and messages that were sent."""
        task, record = self.state.task, self.state.record
        mixing = max(0, task.horizon - self.num_arms)
        sent = np.minimum(
            self.shared.budget,
            self.shared.sends - self.shared.budget * (np.arange(mixing) % self.stage_rounds),
        )
        sent += (self.state.shape[2] if self.spec.remix else 0) + (
            2 if self.spec.neighbor_pulls else 0
        )
        links = 2 * task.network.num_edges
        totals = np.concatenate([np.zeros(self.num_arms, np.int64), np.cumsum(sent)])
        record.values[:] = links * totals[task.rounds - 1]
        record.messages[:] = links * mixing


class BonusStages(Stages):
    """Stages of an index s/n + √(a/n): computed only when the current arm may lose its lead."""

    def __init__(self, state: Runs, explorations: Vector) -> None:
        super().__init__(state)
        self.explorations = explorations
        self.plays_whole_runs = self.can_play_whole_runs()

    def can_play_whole_runs(self) -> bool:
        """Return whether every thread can take a whole run, stage after stage."""
        coupled = self.spec.neighbor_pulls or self.spec.remix or bool(self.state.task.keep)
        enough = self.state.shape[0] >= get_num_threads()
        return enough and not coupled and self.operator.dense is not None

    def play_initial(self) -> None:
        """Pull every arm once."""
        play_each_arm(self.state)

    def play_next(self) -> None:
        """Play one stage, or several of whole runs."""
        if self.plays_whole_runs:
            self.play_several()
        else:
            super().play_next()

    def play_several(self) -> None:
        """Play the stages up to the next report of progress."""
        state, shared = self.state, self.shared
        left = -(-(state.task.horizon - state.done) // self.stage_rounds)
        pulls = self.stage_rounds * state.shape[0] * state.shape[1]
        stages = min(left, max(1, SEVERAL_PULLS // pulls))
        plan = StagePlan(
            stage_rounds=self.stage_rounds,
            horizon=state.task.horizon,
            fewest_agents=shared.fewest_agents,
            num_arms=self.num_arms,
        )
        play_stages(
            state.world, plan, state.tally, state.task.rounds, self.in_flight, state.fresh,
            self.accumulated, self.operator.dense, self.explorations, self.reading, state.done,
            stages,
        )  # fmt: skip
        rounds = min(stages * self.stage_rounds, state.task.horizon - state.done)
        mixed = stages if state.done + rounds < state.task.horizon else stages - 1
        if mixed % 2:
            self.in_flight, state.fresh = state.fresh, self.in_flight
        state.played(rounds)

    def _play_span(self, now: Span, read: Rows, factor: float, reading: Reading) -> None:
        state, explorations = self.state, self.explorations[now.first : now.first + now.rounds]
        play_bonus(
            state.world, now, state.tally, read, state.fresh, factor, True, explorations, reading
        )

"""DDUCB: stages in which agents play on what has settled, and whole stages of mixing between."""

from __future__ import annotations

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from coopbandits.core.agent import NO_INFORMATION, CooperativeAgent
from coopbandits.core.aggregate import StagedMixing
from coopbandits.core.dducb import DDUCB
from coopbandits.sim.cpu.pulls import play_alone, play_round, settle_pulls
from coopbandits.sim.cpu.runs import Pairs, Runs, UcbRule
from coopbandits.sim.cpu.stage_mixing import StageOperator
from coopbandits.sim.cpu.whole_runs import StagePlan, play_stages
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick

SEVERAL_PULLS = 20_000_000
"""Pulls between two reports of progress, where stages are short."""


def play_dducb(policy: DDUCB, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of `DDUCB`, stage by stage."""
    state = Runs(task, runs, tick)
    state.play_initial()
    if state.done < task.horizon:
        stages = Stages(policy, state)
        whole = stages.can_play_whole_runs()
        while state.done < task.horizon:
            if whole:
                stages.play_several()
            else:
                stages.play_one()
        stages.count_values()
    return state.finish()


class Stages:
    """The pipeline of `StagedMixing` for all agents of some runs at once.

    The numbers all agents share (C, E, bounds on N, variants) are read off one agent, so that no
    formula stands here twice. Values in flight are not touched before their stage ends.
    """

    def __init__(self, policy: DDUCB, state: Runs) -> None:
        task, network = state.task, state.task.network
        self.state = state
        self.shared = shared_settings(policy, task)
        self.stage_rounds = self.shared.stage_rounds
        self.scale = policy.bonus_constant * task.problem.sigma**2
        self.rule = UcbRule(
            own_pulls=self.shared.own_pulls,
            weight=self.shared.fewest_agents / self.shared.most_agents,
            least=NO_INFORMATION * self.shared.fewest_agents,
        )
        uses = -(-task.horizon // self.stage_rounds) * task.num_runs
        steps = self.shared.sends // state.shape[2]
        self.operator = StageOperator(
            network.matrix, steps, self.shared.lambda_bound, uses, state.shape[2]
        )
        # The remixed totals are read every round, or only at the end of a stage.
        self.reads_remixed = self.shared.remix and not self.shared.own_pulls
        if self.shared.remix:
            remix_steps = 1 if self.reads_remixed else self.stage_rounds
            self.remix = StageOperator(network.matrix, remix_steps, 0.0, uses, state.shape[2])
        self.in_flight = state.take_fresh(np.empty(state.shape))
        self.accumulated = np.zeros(state.shape)
        self.first = True

    def can_play_whole_runs(self) -> bool:
        """Tell whether every thread can take a run of its own, stage after stage."""
        coupled = self.shared.neighbor_pulls or self.shared.remix or bool(self.state.task.keep)
        enough = self.state.shape[0] >= get_num_threads()
        return enough and not coupled and self.operator.dense is not None

    def play_several(self) -> None:
        """Play as many stages as should lie between two reports of progress."""
        state, shared = self.state, self.shared
        left = -(-(state.task.horizon - state.done) // self.stage_rounds)
        pulls = self.stage_rounds * state.shape[0] * state.shape[1]
        stages = min(left, max(1, SEVERAL_PULLS // pulls))
        plan = StagePlan(
            stage_rounds=self.stage_rounds,
            horizon=state.task.horizon,
            fewest_agents=shared.fewest_agents,
            most_agents=shared.most_agents,
            scale=self.scale,
        )
        play_stages(
            state.world, plan, state.tally, state.task.rounds, self.in_flight, state.fresh,
            self.accumulated, self.operator.dense, self.rule, state.done, stages,
        )  # fmt: skip
        rounds = min(stages * self.stage_rounds, state.task.horizon - state.done)
        mixed = stages if state.done + rounds < state.task.horizon else stages - 1
        if mixed % 2:
            self.in_flight, state.fresh = state.fresh, self.in_flight
        state.played(rounds)

    def play_one(self) -> None:
        """Play one stage, or what the horizon leaves of it."""
        state = self.state
        rounds = min(self.stage_rounds, state.task.horizon - state.done)
        if self.shared.neighbor_pulls or (self.reads_remixed and not self.first):
            self._play_rounds(rounds)
        else:
            read, factor = self._read()
            play_alone(
                state.world, span(state.task, state.done, rounds), state.tally, read, state.fresh,
                factor, True, self._explorations(rounds), self.rule,
            )  # fmt: skip
            state.played(rounds)
        if rounds == self.stage_rounds and state.done < state.task.horizon:
            self._end_stage()

    def _read(self) -> tuple[Pairs, float]:
        """Return what agents read when a stage starts, up to a factor."""
        if self.first:
            return self.in_flight, self.rule.weight
        return self.accumulated, float(self.shared.fewest_agents)

    def _end_stage(self) -> None:
        if self.shared.remix and not self.reads_remixed:
            self.accumulated = self.remix.apply(self.accumulated)
        self.operator.add_to(self.accumulated, self.in_flight)
        self.in_flight = self.state.take_fresh(self.in_flight)
        self.first = False

    def _round_of_stage(self) -> int:
        return (self.state.done - self.shared.view.num_arms) % self.stage_rounds

    def _start_time(self) -> int:
        """Return s at the start of this stage."""
        num_arms = self.shared.view.num_arms
        if self.first:
            return num_arms
        start = self.state.done - self._round_of_stage()
        return (start - self.stage_rounds) * self.shared.most_agents

    def _explorations(self, rounds: int) -> NDArray[np.float64]:
        """Return B σ² ln s of so many rounds from now."""
        times = self._start_time() + np.arange(rounds) * float(self.rule.own_pulls)
        return np.asarray(self.scale * np.log(np.maximum(2.0, times)))

    def _play_rounds(self, rounds: int) -> None:
        """Play a stage of a variant in which agents read each other's values every round."""
        self.state.fresh.fill(0.0)
        read, factor = self._read()
        settled = read * factor
        for _ in range(rounds):
            self._play_round(settled)

    def _play_round(self, settled: Pairs) -> None:
        state, network = self.state, self.state.task.network
        per_round = 1 + network.degrees if self.shared.neighbor_pulls else 0
        times = self._start_time() + self._round_of_stage() * per_round * np.ones(state.shape[1])
        arms = np.empty(state.shape[:2], dtype=np.int64)
        rewards = np.empty(state.shape[:2])
        play_round(
            state.world, span(state.task, state.done, 1), state.tally, settled, state.fresh,
            self.scale * np.log(np.maximum(2.0, times)), self.rule, arms, rewards,
        )  # fmt: skip
        if self.shared.neighbor_pulls:
            links = network.adjacency
            settle_pulls(links.indptr, links.indices, arms, rewards, settled, self.rule.weight)
        if self.reads_remixed:
            self.accumulated = self.remix.apply(self.accumulated)
            np.multiply(self.accumulated, self.shared.fewest_agents, out=settled)
        state.played(1)

    def count_values(self) -> None:
        """Enter the values and messages that were sent."""
        task, record = self.state.task, self.state.record
        mixing = max(0, task.horizon - self.shared.view.num_arms)
        sent = np.minimum(
            self.shared.budget,
            self.shared.sends - self.shared.budget * (np.arange(mixing) % self.stage_rounds),
        )
        sent += (2 * self.shared.view.num_arms if self.shared.remix else 0) + (
            2 if self.shared.neighbor_pulls else 0
        )
        links = 2 * task.network.num_edges
        totals = np.concatenate([np.zeros(self.shared.view.num_arms, np.int64), np.cumsum(sent)])
        record.values[:] = links * totals[task.rounds - 1]
        record.messages[:] = links * mixing


def shared_settings(policy: DDUCB, task: Task) -> StagedMixing:
    """Return the aggregation of agent 0, whose settings are those of every agent."""
    view = task.network.local_view(
        0, num_arms=task.problem.num_arms, sigma=task.problem.sigma, needs=policy.needs
    )
    agent = policy.make_agent(view)
    assert isinstance(agent, CooperativeAgent)  # noqa: S101  a type, not an input
    assert isinstance(agent.aggregation, StagedMixing)  # noqa: S101  a type, not an input
    return agent.aggregation

"""Central policies: one controller's totals, and every agent's pulls in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from coopbandits.core.central import CentralBatchedUCB, CentralTS, CentralUCB, DelayedCentralUCB
from coopbandits.sim.cpu.indices import BETA_DRAW, NORMAL_DRAW, UCB, IndexRule, choose, level
from coopbandits.sim.cpu.leaves import reward_from_variate, table_of, variate, word_at
from coopbandits.sim.cpu.pulls import book
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.weather import Forecast
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick

SPAN_PULLS = 2_000_000
"""Pulls of one run played between two reports of progress."""

AT_ONCE = -1

AnyCentral = CentralUCB | CentralBatchedUCB | DelayedCentralUCB | CentralTS


def play_central(policy: AnyCentral, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any central policy."""
    state = Runs(task, runs, tick)
    delay = AT_ONCE if isinstance(policy, CentralUCB) else 0
    if isinstance(policy, DelayedCentralUCB):
        delay = policy.delay
    rule = index_rule(policy, task.problem.sigma)
    totals = np.zeros((len(runs), 1, state.shape[2]))
    history = np.zeros((len(runs), delay + 1, state.shape[2]))
    forecast = Forecast(task, runs)
    most = min(forecast.most, max(1, SPAN_PULLS // task.network.num_agents))
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        play_rounds(
            state.world, span(task, done, rounds), state.tally, state.fresh, totals, history, rule,
            forecast.read(rounds).acts,
        )  # fmt: skip
        state.played(rounds)
    return state.finish()


def index_rule(policy: AnyCentral, sigma: float) -> IndexRule:
    """Return the compiled form of a policy's index."""
    if isinstance(policy, CentralTS):
        kind = BETA_DRAW if policy.family == "bernoulli" else NORMAL_DRAW
        return IndexRule(kind, sigma=sigma)
    return IndexRule(UCB, scale=policy.constant * sigma**2, sigma=sigma)


@njit(cache=True, parallel=True)
def play_rounds(
    world: Any, span: Any, tally: Any, fresh: Any, totals: Any, history: Any, rule: Any, acts: Any
) -> None:
    """Play a span of rounds, every thread a run."""
    for run in prange(totals.shape[0]):
        _play_run(world, span, tally, fresh[run], totals[run], history[run], rule, acts[run], run)


@njit
def _play_run(
    world: Any, span: Any, tally: Any, fresh: Any, totals: Any, history: Any, rule: Any, acts: Any,
    run: int,
) -> None:  # fmt: skip
    """Play one run; what is visible stands in the row of `history` that is oldest."""
    num_arms, num_agents, kept = world.tables.shape[1], world.reward_keys.shape[1], history.shape[0]
    table, words_from = table_of(world.tables, run), world.decision_keys[run]
    scratch = np.empty((5, num_arms))
    lasts, levels, told = np.zeros(num_agents, np.int64), np.zeros(1), np.zeros(1)
    choosers = 1 if rule.kind == UCB else num_agents
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + np.searchsorted(span.stops, r, side="right")
        row = done % kept if kept > 0 else 0
        visible = history[row : row + 1] if kept > 0 else totals
        is_first = True
        for agent in range(num_agents):
            if acts.shape[0] > 0 and acts[r, agent] == 0:
                continue
            if is_first or kept == 0:  # else all have chosen on what was visible
                is_first = False
                _choose(
                    rule, visible, kept, choosers, done, told, words_from, world.cubics, lasts,
                    levels, scratch,
                )  # fmt: skip
            arm = lasts[agent if choosers > 1 else 0]
            z = variate(world.is_normal, word_at(world.reward_keys[run, agent], done), world.cubics)
            u = reward_from_variate(world.form_kind, table, arm, z)
            totals[0, arm] += u
            totals[0, num_arms + arm] += 1.0
            block = agent // world.block
            book(
                tally.counts[run, block], tally.rewards[run, block], tally.arms[run], fresh, agent,
                slot, arm, done, done + 1, u,
            )  # fmt: skip
        if kept > 0:
            history[row] = totals[0]


@njit
def _choose(
    rule: Any, visible: Any, kept: int, choosers: int, done: int, told: Any, words_from: Any,
    cubics: Any, lasts: Any, levels: Any, scratch: Any,
) -> None:  # fmt: skip
    """Write into `lasts` what is played on what is visible, by one for all or by everyone."""
    num_arms = scratch.shape[1]
    time = 0.0
    for k in range(num_arms):
        if kept > 1 and visible[0, num_arms + k] == 0.0:
            lasts[:choosers] = done % num_arms  # nothing to go by yet: every arm in turn
            return
        time += visible[0, num_arms + k]
    choose(
        rule, visible, 0, choosers, 1.0, done, time, level(rule, 1.0, time), told, words_from,
        cubics, lasts, levels, scratch,
    )  # fmt: skip

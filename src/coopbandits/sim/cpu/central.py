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
    most = max(1, SPAN_PULLS // task.network.num_agents)
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        play_rounds(
            state.world, span(task, done, rounds), state.tally, state.fresh, totals, history, rule
        )
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
    world: Any, span: Any, tally: Any, fresh: Any, totals: Any, history: Any, rule: Any
) -> None:
    """Play a span of rounds, every thread a run."""
    for run in prange(totals.shape[0]):
        _play_run(world, span, tally, fresh[run], totals[run], history[run], rule, run)


@njit
def _play_run(
    world: Any, span: Any, tally: Any, fresh: Any, totals: Any, history: Any, rule: Any, run: int
) -> None:
    """Play one run; what is visible stands in the row of `history` that is oldest."""
    num_arms, kept = world.tables.shape[1], history.shape[0]
    table = table_of(world.tables, run)
    values = np.empty(num_arms)
    last = 0
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + np.searchsorted(span.stops, r, side="right")
        row = done % kept if kept > 0 else 0
        visible = history[row : row + 1] if kept > 0 else totals
        common = rule.kind == UCB and kept > 0  # one choice for all
        if common:
            last = _choose(world, visible, kept, rule, run, 0, done, last, values)
        for agent in range(world.reward_keys.shape[1]):
            if not common:
                last = _choose(world, visible, kept, rule, run, agent, done, last, values)
            z = variate(world.is_normal, word_at(world.reward_keys[run, agent], done), world.cubics)
            u = reward_from_variate(world.form_kind, table, last, z)
            totals[0, last] += u
            totals[0, num_arms + last] += 1.0
            block = agent // world.block
            book(
                tally.counts[run, block], tally.rewards[run, block], tally.arms[run], fresh, agent,
                slot, last, done, done + 1, u,
            )  # fmt: skip
        if kept > 0:
            history[row] = totals[0]


@njit
def _choose(
    world: Any, visible: Any, kept: int, rule: Any, run: int, agent: int, done: int, last: int,
    values: Any,
) -> int:  # fmt: skip
    num_arms = values.size
    time = 0.0
    for k in range(num_arms):
        if kept > 1 and visible[0, num_arms + k] == 0.0:
            return done % num_arms  # nothing to go by yet: every arm in turn
        time += visible[0, num_arms + k]
    word = word_at(world.decision_keys[run, agent], done)
    at = level(rule, 1.0, time)
    return choose(rule, visible, 0, 1.0, at, 0.0, word, world.cubics, last, values)

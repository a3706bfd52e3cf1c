"""Running consensus: every round all agents choose, pull, and average with their neighbours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from coopbandits.core.coop_ucb import CoopUCB, CoopUCB2, CoopUCL
from coopbandits.core.thompson import DecBayesUCB, DecTS, IndependentTS
from coopbandits.sim.cpu.indices import (
    BAYES,
    BETA_DRAW,
    INFLATED,
    NORMAL_DRAW,
    UCL,
    IndexRule,
    choose,
    level,
)
from coopbandits.sim.cpu.leaves import reward_from_variate, table_of, variate, word_at
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.stage_mixing import mix_agent
from coopbandits.sim.cpu.world import span
from coopbandits.sim.knowledge import global_knowledge
from coopbandits.sim.record import Record, Task, Tick

SPAN_PULLS = 2_000_000
"""Pulls of one run played between two reports of progress."""

GROWING = -1.0
"""An inflation of this value stands for f(t) = sqrt(ln t)."""

ConsensusPolicy = CoopUCB | CoopUCB2 | CoopUCL | DecTS | DecBayesUCB | IndependentTS


def play_consensus(policy: ConsensusPolicy, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any policy on a running consensus, or of one on own sums alone."""
    state = Runs(task, runs, tick)
    rule, inflation = index_rule(policy, task)
    mixes = not isinstance(policy, IndependentTS)
    num_agents = float(task.network.num_agents if mixes else 1)
    matrix = task.network.matrix
    mixed, spare = np.zeros(state.shape), np.zeros(state.shape)
    last = np.zeros(state.shape[:2], dtype=np.int64)
    most = max(1, SPAN_PULLS // task.network.num_agents)
    play = play_runs if len(runs) >= get_num_threads() else play_agents
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        play(
            state.world, span(task, done, rounds), state.tally, state.fresh, mixed, spare, last,
            matrix.indptr, matrix.indices, matrix.data, mixes, num_agents, inflation, rule,
        )  # fmt: skip
        if mixes and rounds % 2:
            mixed, spare = spare, mixed
        state.played(rounds)
    if mixes:
        links = 2 * task.network.num_edges
        state.record.values[:] = links * state.shape[2] * task.rounds
        state.record.messages[:] = links * task.horizon
    return state.finish()


def index_rule(policy: ConsensusPolicy, task: Task) -> tuple[IndexRule, NDArray[np.float64]]:
    """Return the compiled form of a policy's index, and every agent's inflation."""
    sigma, num_agents = task.problem.sigma, task.network.num_agents
    growing = np.full(num_agents, GROWING)
    if isinstance(policy, CoopUCB):
        known = global_knowledge(task.network, policy.needs)
        (name,) = known[0]
        told = np.array([own[name] for own in known])
        return IndexRule(INFLATED, scale=2 * policy.gamma * sigma**2), told
    if isinstance(policy, CoopUCB2):
        return IndexRule(INFLATED, scale=2 * policy.gamma * sigma**2), growing
    if isinstance(policy, CoopUCL):
        shift = policy.precision * policy.prior_mean
        return IndexRule(UCL, 0.0, sigma, policy.gamma, policy.precision, shift), growing
    if isinstance(policy, DecBayesUCB):
        return IndexRule(BAYES, sigma=sigma), growing
    kind = BETA_DRAW if policy.family == "bernoulli" else NORMAL_DRAW
    return IndexRule(kind, sigma=sigma), growing


@njit(cache=True, parallel=True)
def play_runs(
    world: Any, span: Any, tally: Any, fresh: Any, mixed: Any, spare: Any, last: Any, indptr: Any,
    indices: Any, weights: Any, mixes: bool, num_agents: float, inflation: Any, rule: Any,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread a run; after an odd number `spare` holds the averages."""
    for run in prange(mixed.shape[0]):
        _play_run(
            world, span, tally, fresh, mixed[run], spare[run], last, indptr, indices, weights,
            mixes, num_agents, inflation, rule, run,
        )  # fmt: skip


@njit
def _play_run(
    world: Any, span: Any, tally: Any, fresh: Any, own: Any, other: Any, last: Any, indptr: Any,
    indices: Any, weights: Any, mixes: bool, num_agents: float, inflation: Any, rule: Any, run: int,
) -> None:  # fmt: skip
    # Arrays are taken out of their tuples once; see `play_block`.
    table, cubics, stops = table_of(world.tables, run), world.cubics, span.stops
    rewards_from, decisions_from = world.reward_keys[run], world.decision_keys[run]
    counts, rewards, arms = tally.counts[run], tally.rewards[run], tally.arms[run]
    pulls, lasts, values = fresh[run], last[run], np.empty(table.shape[0])
    size = own.shape[0]
    for r in range(span.rounds):
        slot = span.slot + np.searchsorted(stops, r, side="right")
        _pull(
            world.form_kind, table, world.is_normal, cubics, rewards_from, decisions_from, counts,
            rewards, arms, pulls, lasts, values, own, num_agents, inflation, rule, world.block,
            slot, span.first + r, 0, size,
        )  # fmt: skip
        if mixes:
            for agent in range(size):
                start, end = indptr[agent], indptr[agent + 1]
                mix_agent(indices, weights, start, end, own, other, agent, 1.0, 0.0)
            own, other = other, own


@njit(cache=True, parallel=True)
def play_agents(
    world: Any, span: Any, tally: Any, fresh: Any, mixed: Any, spare: Any, last: Any, indptr: Any,
    indices: Any, weights: Any, mixes: bool, num_agents: float, inflation: Any, rule: Any,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread some agents; otherwise as `play_runs`."""
    num_runs, size = mixed.shape[:2]
    for r in range(span.rounds):
        own, other = (mixed, spare) if r % 2 == 0 or not mixes else (spare, mixed)
        slot = span.slot + np.searchsorted(span.stops, r, side="right")
        for task in prange(num_runs * world.num_blocks):
            run, block = task // world.num_blocks, task % world.num_blocks
            table = table_of(world.tables, run)
            _pull(
                world.form_kind, table, world.is_normal, world.cubics, world.reward_keys[run],
                world.decision_keys[run], tally.counts[run], tally.rewards[run], tally.arms[run],
                fresh[run], last[run], np.empty(table.shape[0]), own[run], num_agents,
                inflation, rule, world.block, slot, span.first + r, block * world.block,
                min((block + 1) * world.block, size),
            )  # fmt: skip
        if mixes:
            for task in prange(num_runs * size):
                run, agent = task // size, task % size
                start, end = indptr[agent], indptr[agent + 1]
                mix_agent(indices, weights, start, end, own[run], other[run], agent, 1.0, 0.0)


@njit
def _pull(
    kind: int, table: Any, is_normal: bool, cubics: Any, rewards_from: Any, decisions_from: Any,
    counts: Any, rewards: Any, arms: Any, pulls: Any, lasts: Any, values: Any, own: Any,
    num_agents: float, inflation: Any, rule: Any, block: int, slot: int, done: int, start: int,
    end: int,
) -> None:  # fmt: skip
    """Let some agents of one run choose and pull, and add the pulls to their averages."""
    num_arms = values.size
    growing = math.sqrt(math.log(max(1.0, float(done))))
    time_level = level(rule, num_agents, float(done))
    for agent in range(start, end):
        inflated = growing if inflation[agent] == GROWING else inflation[agent]
        word = word_at(decisions_from[agent], done)
        arm = choose(
            rule, own, agent, num_agents, time_level, inflated, word, cubics, lasts[agent], values
        )
        z = variate(is_normal, word_at(rewards_from[agent], done), cubics)
        u = reward_from_variate(kind, table, arm, z)
        own[agent, arm] += u
        own[agent, num_arms + arm] += 1.0
        pulls[agent, num_arms + arm] += 1.0
        lasts[agent] = arm
        counts[agent // block, slot, arm] += 1
        rewards[agent // block, slot] += u
        if arms.shape[1] > 0:
            arms[agent, done] = arm

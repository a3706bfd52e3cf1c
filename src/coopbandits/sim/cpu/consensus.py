"""Running consensus: every round all agents choose, pull, and average with their neighbours.

Under faults agents that do not act keep their averages, and time is the number of pulls behind an
agent's own averages: no longer the same for all.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from coopbandits.core.agent import Vector
from coopbandits.core.baselines import IndependentUCB
from coopbandits.core.coop_ucb import CoopUCB, CoopUCB2, CoopUCL
from coopbandits.core.thompson import DecBayesUCB, DecTS, IndependentTS
from coopbandits.network import Network
from coopbandits.sim.cpu.averaging import average, average_heard
from coopbandits.sim.cpu.indices import (
    BAYES,
    BETA_DRAW,
    GROWING,
    INFLATED,
    NORMAL_DRAW,
    UCB,
    UCL,
    IndexRule,
    choose,
    level,
)
from coopbandits.sim.cpu.leaves import reward_from_variate, table_of, variate, word_at
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.weather import Forecast, count_messages, link_table
from coopbandits.sim.cpu.world import span
from coopbandits.sim.knowledge import global_knowledge
from coopbandits.sim.record import Record, Task, Tick

SPAN_PULLS = 2_000_000
"""Pulls of one run played between two reports of progress."""

ConsensusPolicy = (
    CoopUCB | CoopUCB2 | CoopUCL | DecTS | DecBayesUCB | IndependentTS | IndependentUCB
)


class Hearing(NamedTuple):
    """The links that lead to every agent, as in `LinkTable`; their weights in P; its diagonal."""

    indptr: NDArray[np.int64]
    senders: NDArray[np.int64]
    weights: Vector
    own_weights: Vector


def play_consensus(policy: ConsensusPolicy, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any policy on a running consensus, or of one on own sums alone."""
    state = Runs(task, runs, tick)
    rule, inflation = index_rule(policy, task)
    mixes = not isinstance(policy, IndependentTS | IndependentUCB)
    num_agents = float(task.network.num_agents if mixes else 1)
    matrix = task.network.matrix
    indptr, indices = matrix.indptr.astype(np.uint32), matrix.indices.astype(np.uint32)
    fresh = state.fresh if task.keep else np.empty((len(runs), 0, state.shape[2]))
    shape = (*state.shape[:2], -(-state.shape[2] // 4) * 4)  # four values are averaged at a time
    mixed = np.zeros(shape)
    spare = np.zeros(shape) if mixes else mixed
    lasts, levels = np.zeros(state.shape[:2], dtype=np.int64), np.zeros(state.shape[:2])
    forecast, hearing = Forecast(task, runs), hearing_of(task.network)
    before = np.zeros((len(runs), 1, hearing.senders.size), dtype=np.int16)
    most = min(forecast.most, max(1, SPAN_PULLS // task.network.num_agents))
    # With as many runs as threads each thread plays runs of its own, else all share every round.
    parts = 1 if len(runs) >= get_num_threads() else state.world.num_blocks
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        weather = forecast.read(rounds)
        play_rounds(
            state.world, span(task, done, rounds), state.tally, fresh, mixed, spare, lasts, levels,
            indptr, indices, matrix.data, mixes, num_agents, inflation, rule, parts, weather,
            before, hearing,
        )  # fmt: skip
        if mixes and rounds % 2:
            mixed, spare = spare, mixed
        if mixes:
            count_messages(state.record, task, done, rounds, weather.fate, state.shape[2])
        before = weather.fate[:, -1:].copy()
        state.played(rounds)
    return state.finish()


def hearing_of(network: Network) -> Hearing:
    """Return the weights of links, in their order; of some none may be stored."""
    links = link_table(network)
    receivers = np.repeat(np.arange(network.num_agents), network.degrees)
    weights = np.zeros(receivers.size)
    if receivers.size > 0:  # no places at all would not be an array
        weights[:] = network.matrix[receivers, links.senders]
    return Hearing(links.indptr, links.senders, weights, network.matrix.diagonal())


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
        return IndexRule(UCL, 0.0, sigma, float(policy.gamma), policy.precision, shift), growing
    if isinstance(policy, DecBayesUCB):
        return IndexRule(BAYES, sigma=sigma), growing
    if isinstance(policy, IndependentUCB):
        return IndexRule(UCB, scale=policy.constant * sigma**2), np.zeros(num_agents)
    kind = BETA_DRAW if policy.family == "bernoulli" else NORMAL_DRAW
    return IndexRule(kind, sigma=sigma), growing


@njit(cache=True, parallel=True)
def play_rounds(
    world: Any, span: Any, tally: Any, fresh: Any, mixed: Any, spare: Any, lasts: Any, levels: Any,
    indptr: Any, indices: Any, weights: Any, mixes: bool, num_agents: float, inflation: Any,
    rule: Any, parts: int, weather: Any, before: Any, hearing: Any,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread some runs (`parts` = 1), or of each round some agents.

    After an odd number of rounds `spare` holds the totals. `before` (run, 1, link) are the fates of
    the last messages before the span.
    """
    num_runs, size = mixed.shape[:2]
    at_once = span.rounds if parts == 1 else 1
    width = world.block * (world.num_blocks // parts)
    for first in range(0, span.rounds, at_once):
        for task in prange(num_runs * parts):
            run, start = task // parts, task % parts * width
            _play(
                world, span, tally, fresh[run], mixed[run], spare[run], lasts[run], levels[run],
                indptr, indices, weights, mixes, num_agents, inflation, rule, weather, before,
                hearing, run, start, min(start + width, size), first, first + at_once,
            )  # fmt: skip


@njit
def _play(
    world: Any, span: Any, tally: Any, fresh: Any, mixed: Any, spare: Any, lasts: Any, levels: Any,
    indptr: Any, indices: Any, weights: Any, mixes: bool, num_agents: float, inflation: Any,
    rule: Any, weather: Any, before: Any, hearing: Any, run: int, start: int, end: int, first: int,
    stop: int,
) -> None:  # fmt: skip
    """Let some agents of one run average, choose and pull, in every of some rounds.

    x + y of the last round stands in `own`; P(x + y) goes to `other`, and the new pulls are added.
    """
    scratch = np.empty((5, world.tables.shape[1]))
    table, words_from = table_of(world.tables, run), world.decision_keys[run]
    acts, renewed, fate = weather.acts[run], weather.fresh[run], weather.fate[run]
    for r in range(first, stop):
        done, rounds = span.first + r, float(span.first + r)
        own, other = (mixed, spare) if r % 2 == 0 else (spare, mixed)
        if fate.shape[0] > 0:
            _average_and_choose(
                own, other, lasts, levels, hearing.indptr, hearing.senders, hearing.weights,
                hearing.own_weights, mixes, num_agents, inflation, rule, acts[r], renewed[r],
                before[run, 0] if r == 0 else fate[r - 1], words_from, world.cubics, scratch, done,
                start, end,
            )  # fmt: skip
        else:
            if mixes:
                average(indptr, indices, weights, own, other, start, end)
            choose(
                rule, other, start, end, num_agents, done, rounds, level(rule, num_agents, rounds),
                inflation, words_from, world.cubics, lasts, levels, scratch,
            )  # fmt: skip
        _pull(
            world.form_kind, table, world.is_normal, world.cubics, world.reward_keys[run],
            tally.counts[run], tally.rewards[run], tally.arms[run], fresh, other, lasts,
            acts[r : r + 1], world.block,
            span.slot + np.searchsorted(span.stops, r, side="right"), done, start, end,
        )  # fmt: skip


@njit
def _average_and_choose(
    own: Any, other: Any, lasts: Any, levels: Any, indptr: Any, senders: Any, weights: Any,
    own_weights: Any, mixes: bool, num_agents: float, inflation: Any, rule: Any, acts: Any,
    renewed: Any, fate: Any, words_from: Any, cubics: Any, scratch: Any, done: int, start: int,
    end: int,
) -> None:  # fmt: skip
    """Let some agents average over what they heard, and choose, under faults."""
    num_arms = scratch.shape[1]
    if mixes:
        average_heard(indptr, senders, weights, own_weights, fate, own, other, start, end)
    for agent in range(start, end):
        if renewed[agent] > 0:
            other[agent] = 0.0
        if acts[agent] > 0:
            rounds = 0.0
            for k in range(num_arms):
                rounds += other[agent, num_arms + k]
            levels[agent] = math.inf  # look at all arms: some may hardly be known yet
            choose(
                rule, other, agent, agent + 1, num_agents, done, rounds,
                level(rule, num_agents, max(1.0 / num_agents, rounds)), inflation, words_from,
                cubics, lasts, levels, scratch,
            )  # fmt: skip


@njit
def _pull(
    kind: int, table: Any, is_normal: bool, cubics: Any, rewards_from: Any, counts: Any,
    rewards: Any, arms: Any, fresh: Any, own: Any, lasts: Any, acts: Any, block: int, slot: int,
    done: int, start: int, end: int,
) -> None:  # fmt: skip
    """Let some agents pull the arms they chose, and add the pulls to their averages."""
    num_arms, at_slot = np.uintp(table.shape[0]), np.uintp(slot)  # unsigned as in `averaging`
    for first in range(start, end, block):
        at, paid = np.uintp(first // block), 0.0
        for agent in range(np.uintp(first), np.uintp(min(first + block, end))):
            if acts.shape[0] > 0 and acts[0, agent] == 0:
                continue
            arm = np.uintp(lasts[agent])
            z = variate(is_normal, word_at(rewards_from[agent], done), cubics)
            u = reward_from_variate(kind, table, arm, z)
            own[agent, arm] += u
            own[agent, num_arms + arm] += 1.0
            counts[at, at_slot, arm] += 1
            paid += u
            if fresh.shape[0] > 0:
                fresh[agent, num_arms + arm] += 1.0
            if arms.shape[1] > 0:
                arms[agent, done] = arm
        rewards[at, at_slot] += paid

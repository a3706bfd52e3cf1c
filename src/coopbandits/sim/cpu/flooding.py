"""Pulls told to others: UCB-Network, which is one hop, and MP-UCB.

Nobody sends anything here. Without faults and with one pull a round, who chooses for pull t knows
of another agent d hops away, d up to the hop limit, the pulls 0 … t − d. So in every round each
agent adds one pull of every member of its ball, the one that is d rounds old, from a ring that
holds the latest pulls of all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from coopbandits.core.agent import NO_INFORMATION
from coopbandits.core.shared_pulls import MPUCB, UCBNetwork
from coopbandits.network import Network
from coopbandits.sim.cpu.balls import Balls, find_balls
from coopbandits.sim.cpu.leaves import (
    best_arm,
    reward_from_variate,
    table_of,
    ucb,
    variate,
    word_at,
)
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick, join

SPAN_PULLS = 20_000_000
"""Pulls that all agents of one run hear of between two reports of progress."""

RING_PULLS = 50_000_000
"""Pulls in the rings of all runs that are played together."""


def play_flooding(policy: UCBNetwork | MPUCB, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of a policy whose agents tell each other single pulls."""
    hop_limit, width = (policy.hop_limit, 4) if isinstance(policy, MPUCB) else (1, 2)
    balls = find_balls(task.network, hop_limit)
    at_once = max(1, RING_PULLS // balls.starts.size)
    record = join(
        [
            play_together(policy, task, runs[first : first + at_once], tick, balls)
            for first in range(0, len(runs), at_once)
        ]
    )
    record.values[:] = width * items_sent(task.network, balls, hop_limit, task.rounds)
    record.messages[:] = 2 * task.network.num_edges * task.horizon
    return record


def play_together(
    policy: UCBNetwork | MPUCB, task: Task, runs: range, tick: Tick, balls: Balls
) -> Record:
    """Play some runs whose rings fit into memory together."""
    state = Runs(task, runs, tick)
    totals = np.zeros(state.shape)
    ring = (len(runs), balls.starts.shape[1], task.network.num_agents)
    arms, rewards = np.zeros(ring, dtype=np.int32), np.zeros(ring)
    last = np.zeros(state.shape[:2], dtype=np.int64)
    scale = policy.constant * task.problem.sigma**2
    # With as many runs as threads each thread plays runs of its own, else all share every round.
    parts = 1 if len(runs) >= get_num_threads() else state.world.num_blocks
    most = max(1, SPAN_PULLS // balls.members.size)
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        play_rounds(
            state.world, span(task, done, rounds), state.tally, state.fresh, totals, arms, rewards,
            last, balls.starts, balls.members, parts, scale,
        )  # fmt: skip
        state.played(rounds)
    return state.finish()


def items_sent(
    network: Network, balls: Balls, hop_limit: int, rounds: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many items all agents have sent after so many rounds.

    In round r, from 0, an agent sends to each neighbour one pull of everybody up to
    min(r, hop limit − 1) hops away, itself included.
    """
    links = 2 * network.num_edges
    per_level = np.diff(network.degrees @ balls.starts)
    per_level[0] -= links  # the agents themselves, at distance 0
    per_distance = np.append(links, per_level)[:hop_limit]
    since = np.maximum(0, rounds[:, None] - np.arange(per_distance.size))
    sent: NDArray[np.int64] = since @ per_distance
    return sent


@njit(cache=True, parallel=True)
def play_rounds(
    world: Any, span: Any, tally: Any, fresh: Any, totals: Any, arms: Any, rewards: Any, last: Any,
    starts: Any, members: Any, parts: int, scale: float,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread some runs, or of each round some agents.

    Parameters
    ----------
    totals : (run, agent, 2K)
        What every agent has made or heard of.
    arms, rewards : (run, depth + 1, agent)
        The ring: the pulls number t stand in row t mod (depth + 1).
    last : (run, agent)
        The arm played last.
    starts, members : arrays
        The balls.
    parts : int
        Into how many parts the agents of a run are cut: 1, or the number of blocks.
    scale : float
        B σ².
    """
    at_once = span.rounds if parts == 1 else 1
    width = world.block * (world.num_blocks // parts)
    for first in range(0, span.rounds, at_once):
        for task in prange(totals.shape[0] * parts):
            run, start = task // parts, task % parts * width
            _play(
                world, span, tally, fresh, totals, arms, rewards, last, starts, members, scale, run,
                start, min(start + width, totals.shape[1]), first, first + at_once,
            )  # fmt: skip


@njit
def _play(
    world: Any, span: Any, tally: Any, fresh: Any, totals: Any, ring_arms: Any, ring_rewards: Any,
    last: Any, starts: Any, members: Any, scale: float, run: int, start: int, end: int, first: int,
    stop: int,
) -> None:  # fmt: skip
    """Let some agents of one run play some rounds."""
    # Arrays are taken out of their tuples once; see `play_block`.
    table, keys = table_of(world.tables, run), world.reward_keys[run]
    cubics, stops = world.cubics, span.stops
    counts, paid, arms = tally.counts[run], tally.rewards[run], tally.arms[run]
    pulls, known, lasts = fresh[run], totals[run], last[run]
    told_arms, told_rewards = ring_arms[run], ring_rewards[run]
    num_arms, values = table.shape[0], np.empty(table.shape[0])
    for r in range(first, stop):
        done = span.first + r
        slot = span.slot + np.searchsorted(stops, r, side="right")
        exploration = scale * math.log(max(2.0, float(done)))
        for agent in range(start, end):
            _hear(known, agent, starts, members, told_arms, told_rewards, done)
            arm = _choose(known, agent, exploration, lasts[agent], values)
            z = variate(world.is_normal, word_at(keys[agent], done), cubics)
            u = reward_from_variate(world.form_kind, table, arm, z)
            told_arms[done % told_arms.shape[0], agent] = arm
            told_rewards[done % told_arms.shape[0], agent] = u
            lasts[agent] = arm
            pulls[agent, num_arms + arm] += 1.0
            counts[agent // world.block, slot, arm] += 1
            paid[agent // world.block, slot] += u
            if arms.shape[1] > 0:
                arms[agent, done] = arm


@njit
def _hear(
    known: Any, agent: int, starts: Any, members: Any, arms: Any, rewards: Any, done: int
) -> None:
    """Add the pull of every member of the ball that reaches the agent before its pull `done`."""
    num_arms, depth = known.shape[1] // 2, starts.shape[1] - 1
    for level in range(min(depth, done)):
        row = (done - level - 1) % (depth + 1)
        for at in range(starts[agent, level], starts[agent, level + 1]):
            other = members[at]
            arm = arms[row, other]
            known[agent, arm] += rewards[row, other]
            known[agent, num_arms + arm] += 1.0


@njit
def _choose(known: Any, agent: int, exploration: float, last: int, values: Any) -> int:
    """Return the arm with the largest index.

    An arm can only win if s + √(e n) ≥ V n for the largest index V found so far, which takes
    neither root nor division to rule out. The search begins with the arm played last.
    """
    num_arms = values.size
    best = -1e300
    if known[agent, num_arms + last] > NO_INFORMATION:
        best = ucb(known[agent, last], known[agent, num_arms + last], NO_INFORMATION, exploration)
    enough = best - 4e-9 * max(1.0, abs(best))
    for k in range(num_arms):
        total, count = known[agent, k], known[agent, num_arms + k]
        if count <= NO_INFORMATION:
            return k
        lack = enough * count - total
        values[k] = -1e300
        if lack <= 0.0 or exploration * count >= lack * lack:
            values[k] = ucb(total, count, NO_INFORMATION, exploration)
            if values[k] > best:
                best = values[k]
                enough = best - 4e-9 * max(1.0, abs(best))
    return best_arm(values)

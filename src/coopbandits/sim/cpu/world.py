"""What every kernel is given, the problem, the rounds and the tally, and how pulls are entered."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from coopbandits.core.contract import Vector
from coopbandits.core.draws import Words, normal_cubics
from coopbandits.problems import Problem
from coopbandits.problems.tables import BEST, NETWORK_GAP, OWN_GAP
from coopbandits.sim.cpu.choices import CannotCompileError, filed
from coopbandits.sim.cpu.compiling import inner
from coopbandits.sim.cpu.leaves import (
    REWARD,
    reward_from_variate,
    segment_of,
    square_place,
    variate,
    word_at,
)
from coopbandits.sim.record import Record, Task
from coopbandits.sim.tapes import DECISIONS, REWARDS, keys_of_runs

# A problem's own reward function, compiled from the very source that the reference engine calls.
#
# Kernels are compiled once for all problems. In the place of a form's kind they are handed the
# address of a C function, which reads one row of numbers and returns the reward, NaN where it
# raised. It is filed as choices are, under a digest of all code and constants it is made of.


reward: Any = None  # the place of the problem's own


def _paying(digest: str) -> Any:
    def pay(row_at: Any, width: int, variate: float) -> float:
        try:
            return float(reward(carray(row_at, width), variate)) if len(digest) > 0 else math.nan
        except Exception:
            return math.nan

    return pay


def form_kind(problem: Problem) -> int:
    """Return the kind of a problem's form, or the address of its compiled function."""
    own = problem.reward_function()
    if own is None:
        return problem.kernel_form().kind
    return filed(type(problem).__name__, _paying, {"reward": own}, {}, REWARD).address


def reward_obstacle(problem: Problem) -> str | None:
    """Return why numba cannot compile a problem's rewards, or None."""
    try:
        form_kind(problem)
    except CannotCompileError as error:
        return f"numba cannot compile reward of {type(problem).__name__} ({error})"
    return None


class World(NamedTuple):
    """Constants of some runs: reward form, tapes, blocks of agents.

    Blocks depend only on the number of agents, and totals are added up block by block, so that
    results do not depend on the number of threads. `tables` holds the reward tables below one
    another, once, or once per run where arms are shuffled (see `launch.launch`), and `prices`
    what a pull of each of their rows costs, as in `Tables.costs`. An agent's rows begin at its
    place, `num_arms` further on in every segment; see `leaves.segment_of`. `form_kind` may be the
    address of a function, as `own_rewards` says.
    """

    form_kind: int
    num_arms: int
    tables: Vector
    prices: Vector
    places: NDArray[np.int64]
    starts: NDArray[np.int64]
    period: int
    is_normal: bool
    cubics: Vector
    reward_keys: Words
    decision_keys: Words
    block: int
    num_blocks: int


class Tally(NamedTuple):
    """Totals between recorded rounds (run, block, round[, arm or cost]); arms where kept.

    `regrets` (run, agent) is every agent's regret so far, and `worst` (run, block, round) the
    largest at the end of each recorded round. `costs` stay at 0 where there is one table.
    """

    counts: NDArray[np.int64]
    rewards: Vector
    costs: Vector
    regrets: Vector
    worst: Vector
    arms: NDArray[np.int32]


class Span(NamedTuple):
    """Some rounds to play: pull numbers `first` … `first + rounds − 1`.

    `stops` are the rounds, counted from `first`, after which totals are recorded; the last is at
    least `rounds`. `slot` is the tally's place for the first of them.
    """

    first: int
    rounds: int
    stops: NDArray[np.int64]
    slot: int


def make_world(task: Task, runs: range) -> World:
    """Return the constants of some runs."""
    tables = task.tables
    agents = task.network.num_agents
    block = max(32, -(-agents // 512))
    keys = [keys_of_runs(task.seed, stream, runs, agents) for stream in (REWARDS, DECISIONS)]
    shuffled = runs if task.shuffle_arms else runs[:1]
    ordered = [tables.ordered(task.arm_order(run)) for run in shuffled]
    return World(
        form_kind=form_kind(task.problem),
        num_arms=task.problem.num_arms,
        tables=np.stack([rows for rows, _ in ordered]),
        prices=np.stack([prices for _, prices in ordered]),
        places=tables.places,
        starts=tables.starts,
        period=tables.period,
        is_normal=task.problem.variate == "normal",
        cubics=normal_cubics(),
        reward_keys=keys[0],
        decision_keys=keys[1],
        block=block,
        num_blocks=-(-agents // block),
    )


def make_tally(task: Task, world: World) -> Tally:
    runs, agents = world.reward_keys.shape
    shape = (runs, world.num_blocks, task.rounds.size)
    kept = (runs, agents, task.horizon if task.keep == "arms" else 0)
    return Tally(
        counts=np.zeros((*shape, task.problem.num_arms), dtype=np.int64),
        rewards=np.zeros(shape),
        costs=np.zeros((*shape, 3)),
        regrets=np.zeros((runs, agents)),
        worst=np.zeros(shape),
        arms=np.full(kept, -1, dtype=np.int32),  # −1: no pull
    )


def span(task: Task, first: int, rounds: int) -> Span:
    """Return the span of pull numbers first … first + rounds − 1."""
    slot = int(np.searchsorted(task.rounds, first, side="right"))
    last = int(np.searchsorted(task.rounds, first + rounds, side="left"))
    return Span(first, rounds, task.rounds[slot : last + 1] - first, slot)


def write_record(tally: Tally, record: Record) -> None:
    """Turn tallies into totals up to each recorded round."""
    record.arm_counts[:] = tally.counts.sum(axis=1).cumsum(axis=1)
    rewards: Any = tally.rewards.sum(axis=1)
    record.rewards[:] = rewards.cumsum(axis=1)
    record.costs[:] = tally.costs.sum(axis=1).cumsum(axis=1)
    record.worst[:] = tally.worst.max(axis=1)
    record.arms[:] = tally.arms


# In what follows, `world` and `tally` are those of one run. Small functions are inlined:
# a call passes every array as seven numbers or more, which takes longer than what they do.


@inner(forceinline=True)
def book(fresh: Any, num_arms: int, agent: int, arm: int, pulls: int, gained: float) -> None:
    """Add some pulls to the own pulls of an agent."""
    fresh[agent, arm] += gained
    fresh[agent, num_arms + arm] += pulls


@inner(forceinline=True)
def enter(
    tally: Any, block: int, slot: int, agent: int, arm: int, start: int, end: int, gained: float
) -> None:
    """Enter a stretch of one agent's pulls of one arm, pull numbers `start` … `end − 1`."""
    tally.counts[block, slot, arm] += end - start
    tally.rewards[block, slot] += gained
    if tally.arms.shape[1] > 0:
        for pull in range(start, end):
            tally.arms[agent, pull] = arm


@inner(forceinline=True)
def charge(world: Any, tally: Any, block: int, slot: int, agent: int, row: int, pulls: int) -> None:
    """Enter what some pulls of one row cost an agent; the network's share where tables differ."""
    prices = world.prices
    tally.regrets[agent] += pulls * prices[row, OWN_GAP]
    if prices.shape[0] > world.num_arms:
        for which in range(3):
            tally.costs[block, slot, which] += pulls * prices[row, which]


@inner(forceinline=True)
def keep_worst(tally: Any, block: int, slot: int, agent: int) -> None:
    """Enter an agent's regret at the end of a recorded round."""
    tally.worst[block, slot] = max(tally.worst[block, slot], tally.regrets[agent])


@inner
def pull_rows(
    world: Any, tally: Any, fresh: Any, own: Any, lasts: Any, squares: int, slot: int, done: int,
    start: int, end: int, is_recorded: bool,
) -> None:  # fmt: skip
    """Let some agents pull the arms they chose, and add the pulls to rows."""
    is_plain = world.prices.shape[0] == world.num_arms and squares == 0
    if is_plain and fresh.shape[0] == 0 and tally.arms.shape[1] == 0:
        _pull_plain_rows(world, tally, own, lasts, slot, done, start, end, is_recorded)
        return
    kind, table, num_arms = world.form_kind, world.tables, world.num_arms
    is_normal, cubics, rewards_from = world.is_normal, world.cubics, world.reward_keys
    places, block = world.places, world.block
    shift = segment_of(world.starts, world.period, done) * num_arms
    counts, rewards, arms = tally.counts, tally.rewards, tally.arms
    counted, at_slot = np.uintp(num_arms), np.uintp(slot)  # unsigned as in `averaging`
    for first in range(start, end, block):
        at, paid = np.uintp(first // block), 0.0
        stop = min(first + block, end)
        for agent in range(np.uintp(first), np.uintp(stop)):
            arm = np.uintp(lasts[agent])
            z = variate(is_normal, word_at(rewards_from[agent], done), cubics)
            u = reward_from_variate(kind, table, np.uintp(places[agent] + shift) + arm, z)
            own[agent, arm] += u
            own[agent, counted + arm] += 1.0
            if squares > 0:
                square = np.uintp(square_place(num_arms, squares, np.int64(arm)))
                own[agent, square] += u * u
            counts[at, at_slot, arm] += 1
            paid += u
            if fresh.shape[0] > 0:
                fresh[agent, counted + arm] += 1.0
            if arms.shape[1] > 0:
                arms[agent, done] = arm
        rewards[at, at_slot] += paid
        _charge_rows(world, tally, lasts, shift, slot, first, stop)
        if is_recorded:
            for agent in range(first, stop):
                keep_worst(tally, first // block, slot, agent)


@inner(forceinline=True)
def _pull_plain_rows(
    world: Any, tally: Any, own: Any, lasts: Any, slot: int, done: int, start: int, end: int,
    is_recorded: bool,
) -> None:  # fmt: skip
    """Do the same where there is one table and nothing else is kept: most often so."""
    counted, at_slot = np.uintp(world.num_arms), np.uintp(slot)
    regrets = tally.regrets
    for first in range(start, end, world.block):
        at, paid = np.uintp(first // world.block), 0.0
        stop = min(first + world.block, end)
        for agent in range(np.uintp(first), np.uintp(stop)):
            arm = np.uintp(lasts[agent])
            z = variate(world.is_normal, word_at(world.reward_keys[agent], done), world.cubics)
            u = reward_from_variate(world.form_kind, world.tables, arm, z)
            own[agent, arm] += u
            own[agent, counted + arm] += 1.0
            tally.counts[at, at_slot, arm] += 1
            paid += u
            regrets[agent] += world.prices[arm, OWN_GAP]
        tally.rewards[at, at_slot] += paid
        if is_recorded:
            for agent in range(first, stop):
                keep_worst(tally, first // world.block, slot, agent)


@inner(forceinline=True)
def _charge_rows(
    world: Any, tally: Any, lasts: Any, shift: int, slot: int, first: int, stop: int
) -> None:
    """Enter what one pull of each of some agents costs, in a loop of its own: that is quicker."""
    prices, costs = world.prices, tally.costs[first // world.block]
    for agent in range(np.uintp(first), np.uintp(stop)):
        row = np.uintp(world.places[agent] + shift + lasts[agent])
        tally.regrets[agent] += prices[row, OWN_GAP]
        if prices.shape[0] > world.num_arms:
            costs[slot, OWN_GAP] += prices[row, OWN_GAP]
            costs[slot, NETWORK_GAP] += prices[row, NETWORK_GAP]
            costs[slot, BEST] += prices[row, BEST]

"""What every kernel is given: the problem, the rounds to play, and the tally to fill."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Vector
from coopbandits.core.draws import Words, normal_cubics
from coopbandits.sim.cpu.own_rewards import form_kind
from coopbandits.sim.record import Record, Task
from coopbandits.sim.tapes import DECISIONS, REWARDS, keys_of_runs


class World(NamedTuple):
    """Constants of some runs: reward form, tapes, blocks of agents.

    Blocks depend only on the number of agents, and totals are added up block by block, so that
    results do not depend on the number of threads. `tables` holds the reward tables below one
    another, once, or once per run where arms are shuffled (see `leaves.table_of`), and `prices`
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
    """Return an empty tally."""
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

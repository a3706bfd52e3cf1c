"""Linear models on a flood of totals in which nothing fails.

What an agent knows of another is as old as it is far away, so no entry is kept: in every round an
agent adds the pull that reaches it now from everybody, by a table of who is how far away. What
messages say of whom does not depend on what is added up; so they are counted by the kernel of the
plain flood, which plays nothing but that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate import FloodedTotals
from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.index import UCB
from coopbandits.core.policy import Parts, combine
from coopbandits.problems import GaussianBandit
from coopbandits.sim.cpu.balls import find_balls
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.compiling import for_threads, inner
from coopbandits.sim.cpu.flood import play_together
from coopbandits.sim.cpu.launch import launch
from coopbandits.sim.cpu.leaves import count_up_to, variate, word_at
from coopbandits.sim.cpu.linear_scene import (
    LinearRuns,
    add_pull,
    book_pull,
    look_around,
    note_regrets,
    write_pull,
)
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.setup import Setup

SPAN_PULLS = 100_000
"""Pulls of one run played between two reports of progress."""

SETTLED = 4
"""Rounds after which acknowledgements have come back, with one to spare."""

MOST_BYTES = 2_000_000_000
"""Most bytes for the latest pulls of all agents in one run."""


class Recent(NamedTuple):
    """The latest rounds (run, round, agent): what every pull adds to its model, and its arm."""

    pulls: NDArray[np.float64]
    arms: NDArray[np.int64]


def excess(parts: Parts, task: Task) -> bool:
    """Tell whether a flood is too large: its rounds on the way are at most as many as agents."""
    width = parts.registers(task.problem.num_arms, task.num_features).size
    return 8 * width * task.network.num_agents**2 > MOST_BYTES


def play_linear_flood(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of an index on linear models that are flooded."""
    balls = find_balls(task.network, task.network.num_agents)
    state = LinearRuns(parts, task, runs, tick)
    num_runs, agents = state.shape[:2]
    rows, known = np.zeros(state.shape), np.ones((num_runs, agents, 2))
    known[:, :, 1] = 0.0
    shape = (num_runs, max(1, balls.starts.shape[1] - 1), agents)
    width = state.shape[2] // state.scene.models
    recent = Recent(np.zeros((*shape, width)), np.zeros(shape, dtype=np.int64))
    most = max(1, SPAN_PULLS // agents)
    while state.done < task.horizon:
        rounds = min(most, task.horizon - state.done)
        play_rounds(
            state.world, span(task, state.done, rounds), state.tally, state.scene, rows, known,
            recent, balls.starts, balls.members, state.choice.address, state.numbers, state.memory,
        )  # fmt: skip
        state.played(rounds)
    sent = count_entries(task, state.shape[2], balls.starts.shape[1] - 1)
    return state.finish(np.repeat(sent, num_runs, axis=0))


def count_entries(task: Task, size: int, hops: int) -> NDArray[np.int64]:
    """Return what is sent until every recorded round, (1, round, 4), with so many registers.

    Without faults nothing is random, so the first run speaks for all. Once news has come from as
    many hops away as there are, every entry changes in every round, and all are like the last.
    """
    setup, policy = task.setup, combine(FloodedTotals(), UCB())
    played = min(setup.horizon, hops + SETTLED)
    plain = Setup(GaussianBandit([0.0]), setup.network, played, np.arange(1, played + 1))
    record = play_together(policy.parts, Task(plain, policy), range(1), _ignore)
    links = record.messages[0] // played
    entries = np.diff(record.values[0], prepend=0) - HEADER * links
    entries //= HEADER + policy.parts.registers(1).size
    sent = HEADER * links + (HEADER + size) * entries
    until = np.minimum(setup.rounds, played)
    totals = sent.cumsum()[until - 1] + (setup.rounds - until) * sent[-1]
    values, messages = (np.diff(each, prepend=0) for each in (totals, links * setup.rounds))
    return np.stack([values, messages, messages, np.zeros_like(values)], axis=1)[None]


def _ignore(pulls: int) -> None:
    """Report no progress."""


def play_rounds(
    world: Any, span: Any, tally: Any, scene: Any, rows: Any, known: Any, recent: Any, starts: Any,
    members: Any, address: int, numbers: Any, memory: Any,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread a run."""
    given = (
        world, span, tally, scene, rows, known, recent, starts, members, address, numbers, memory,
    )  # fmt: skip
    launch(_play_run, rows.shape[0], given)


@for_threads(allocates=True)
def _play_run(
    run: int, world: Any, span: Any, tally: Any, scene: Any, all_rows: Any, all_known: Any,
    all_recent: Any, starts: Any, members: Any, address: int, numbers: Any, memory: Any,
) -> None:  # fmt: skip
    rows, known = all_rows[run], all_known[run]
    recent, arms = all_recent.pulls[run], all_recent.arms[run]
    agents, num_arms = rows.shape[0], world.num_arms
    scratch = np.empty(scene.room + agents * num_arms * scene.size)
    means, lasts = np.empty((agents, num_arms)), np.zeros(agents, np.int64)
    contexts = np.ones((agents, CONTEXT))
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        for agent in range(agents):
            behind = known[agent, 1]
            contexts[agent, FACTOR], contexts[agent, TIME] = 1.0, 2.0
            contexts[agent, AGENTS] = known[agent, 0]
            ahead = known[agent, 0] * done / behind if behind > 0.0 else 1.0
            contexts[agent, AHEAD] = max(1.0, ahead)
        look_around(scene, run, done, world.cubics, scratch, means)
        choose(
            address, rows, rows.shape[1], contexts, CONTEXT, world.decision_keys[run], done,
            numbers, 0, memory[run], scratch, lasts, 0, agents, num_arms, scene.size,
        )  # fmt: skip
        now = done % recent.shape[0]
        _pull(
            world, scene, tally, run, slot, done, scratch, means, lasts, rows, recent[now],
            arms[now],
        )  # fmt: skip
        _hear(scene.models, rows, known, recent, arms, starts, members, done)
        if span.stops[slot - span.slot] == r + 1:
            note_regrets(scene, tally, run, world.block, slot)


@inner
def _pull(
    world: Any, scene: Any, tally: Any, run: int, slot: int, done: int, scratch: Any, means: Any,
    lasts: Any, rows: Any, pulls: Any, arms: Any,
) -> None:  # fmt: skip
    """Let all agents pull, and put the pulls down for the others."""
    size, num_arms = scene.size, means.shape[1]
    for agent in range(rows.shape[0]):
        arm = lasts[agent]
        z = variate(True, word_at(world.reward_keys[run, agent], done), world.cubics)
        reward = means[agent, arm] + scene.sigma * z
        at = scene.room + (agent * num_arms + arm) * size
        write_pull(pulls, agent, scratch, at, size, reward)
        add_pull(rows, agent, arm, scene.models, pulls, agent)
        arms[agent] = arm
        book_pull(scene, tally, run, world.block, slot, done, agent, arm, reward, means)


@inner
def _hear(
    models: int, rows: Any, known: Any, recent: Any, arms: Any, starts: Any, members: Any, done: int
) -> None:
    """Let all agents add what reaches them now: from d hops away a pull made d − 1 rounds ago."""
    levels = starts.shape[1] - 1
    for agent in range(rows.shape[0]):
        for level in range(min(levels, done + 1)):
            then = (done - level) % recent.shape[0]
            for place in range(starts[agent, level], starts[agent, level + 1]):
                other = members[place]
                if other != agent:
                    add_pull(rows, agent, arms[then, other], models, recent[then], other)
            if level == done and levels > 0:  # heard of for the first time
                known[agent, 0] += starts[agent, level + 1] - starts[agent, level]
                known[agent, 0] -= level == 0  # the agent itself
        known[agent, 1] += known[agent, 0]

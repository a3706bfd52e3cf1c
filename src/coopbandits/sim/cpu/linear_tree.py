"""Linear models on tree sums: the tree of `tree_rounds`, with other registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.choice_forms import CONTEXT
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.fault_chunks import FaultReader, link_table
from coopbandits.sim.cpu.inner import inner
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
from coopbandits.sim.cpu.tree import look
from coopbandits.sim.cpu.tree_rounds import begin_round, hear, make_tree, send
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick

SPAN_PULLS = 100_000
"""Pulls of one run played between two reports of progress."""


def play_linear_tree(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of an index on linear models that trees add up."""
    state, links = LinearRuns(parts, task, runs, tick), link_table(task.network)
    reader = FaultReader(task, runs)
    tree = make_tree(task, runs, links.senders.size, state.shape[2] + 2)
    counts = np.zeros((len(runs), task.rounds.size, 4), dtype=np.int64)
    most = min(reader.most, max(1, SPAN_PULLS // task.network.num_agents))
    while state.done < task.horizon:
        rounds = min(most, task.horizon - state.done)
        play_runs(
            state.world, span(task, state.done, rounds), state.tally, state.scene, tree, counts,
            reader.read(rounds), links, state.choice.address, state.numbers, state.memory,
        )  # fmt: skip
        state.played(rounds)
    return state.finish(counts)


def play_runs(
    world: Any, span: Any, tally: Any, scene: Any, tree: Any, counts: Any, faults: Any, links: Any,
    address: int, numbers: Any, memory: Any,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread a run."""
    given = (world, span, tally, scene, links, address, numbers)
    launch(_play_run, tree.own.shape[0], given, (tree, counts, faults, memory))


@inner(allocates=True)
def _play_run(
    run: int, world: Any, span: Any, tally: Any, scene: Any, links: Any, address: int,
    numbers: Any, tree: Any, counts: Any, faults: Any, memory: Any,
) -> None:  # fmt: skip
    """Play as `tree._play_run` does."""
    totals, agents, num_arms = tree.totals, world.places.size, world.num_arms
    scratch = np.empty(scene.room + agents * num_arms * scene.size)
    means, lasts = np.empty((agents, num_arms)), np.zeros(agents, np.int64)
    contexts = np.ones((agents, CONTEXT))
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        begin_round(tree, links.indptr, faults.fresh, r, done)
        look(tree, contexts, 0, 1.0, float(done))  # no time is asked for
        look_around(scene, run, done, world.cubics, scratch, means)
        choose(
            address, totals, totals.shape[1], contexts, CONTEXT, world.decision_keys[run], done,
            numbers, 0, memory, scratch, lasts, 0, agents, num_arms, scene.size,
        )  # fmt: skip
        _pull(
            world, scene, tally, run, slot, done, scratch, means, lasts, tree.own, tree.unborn,
            totals, faults.acts[r : r + 1],
        )  # fmt: skip
        if span.stops[slot - span.slot] == r + 1:
            note_regrets(scene, tally, run, world.block, slot)
        send(tree, links, faults.fate[r : r + 1], totals.shape[1], counts[slot], done)
        hear(tree, links, done)


@inner(allocates=True)
def _pull(
    world: Any, scene: Any, tally: Any, run: int, slot: int, done: int, scratch: Any, means: Any,
    lasts: Any, own: Any, unborn: Any, totals: Any, acts: Any,
) -> None:  # fmt: skip
    """Let all agents that act pull."""
    size, num_arms, behind = scene.size, means.shape[1], own.shape[1] - 1
    pulls = np.empty((own.shape[0], (own.shape[1] - 2) // scene.models))
    for agent in range(own.shape[0]):
        if acts.shape[0] > 0 and acts[0, agent] == 0:
            continue
        arm = lasts[agent]
        z = variate(True, word_at(world.reward_keys[run, agent], done), world.cubics)
        reward = means[agent, arm] + scene.sigma * z
        at = scene.room + (agent * num_arms + arm) * size
        write_pull(pulls, agent, scratch, at, size, reward)
        add_pull(own, agent, arm, scene.models, pulls, agent)
        add_pull(totals, agent, arm, scene.models, pulls, agent)
        if own[agent, behind] == 0.0:
            unborn[agent] = float(done)
        elapsed = done + 1.0 - unborn[agent] - own[agent, behind]
        own[agent, behind] += elapsed
        totals[agent, behind] += elapsed
        book_pull(scene, tally, run, world.block, slot, done, agent, arm, reward, means)

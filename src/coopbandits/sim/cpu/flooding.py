"""Single pulls, flooded for up to `hop_limit` hops; one hop reaches the neighbours.

No messages are made here. Without faults and with one pull per round, an agent that chooses for
pull t knows the pulls 0 … t − d of an agent d hops away, for d up to the hop limit. So in every
round each agent adds one pull of every member of its ball, delayed by the hop distance, from a ring
buffer of everyone's latest pulls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate import FloodedPulls
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Parts
from coopbandits.network import Network
from coopbandits.sim.cpu.choice_forms import CONTEXT, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.compiling import for_threads, inner
from coopbandits.sim.cpu.launch import launch_rounds, parts_of_a_run, share_of
from coopbandits.sim.cpu.leaves import (
    count_up_to,
    kernel,
    reward_from_variate,
    segment_of,
    square_place,
    variate,
    word_at,
)
from coopbandits.sim.cpu.runs import Runs
from coopbandits.sim.cpu.world import charge, enter, keep_worst, span
from coopbandits.sim.record import Record, Task, Tick, join

MOST_BYTES = 2_000_000_000
"""Most bytes for balls and for the latest pulls of their members."""

MEMBER_BYTES = 4
LEVEL_BYTES = 20
"""Bytes per agent and level: where it begins, and an arm and a reward in one run's ring."""


class Balls(NamedTuple):
    """All balls: those at distance d + 1 of agent i are members[starts[i, d] : starts[i, d + 1]].

    The agent itself is the first member of its level 0: its own pulls become known as early as its
    neighbours'.
    """

    starts: NDArray[np.int64]
    members: NDArray[np.int32]


def find_balls(network: Network, hop_limit: int) -> Balls:
    """Return the balls of all agents; reject those that are too large."""
    graph, size = network.adjacency, network.num_agents
    hops = min(hop_limit, size)
    most = MOST_BYTES // MEMBER_BYTES
    nothing = Balls(np.zeros((0, 0), dtype=np.int64), np.zeros(0, dtype=np.int32))
    searched, total, depth = search(graph.indptr, graph.indices, hops, most, *nothing)
    needed = size * (total / searched * MEMBER_BYTES + (depth + 1) * LEVEL_BYTES)
    if needed > MOST_BYTES:
        raise InputError(
            f"hop limit {hop_limit} in a network of {size} agents would take about "
            f"{needed / 1e9:.3g} GB to simulate, more than {MOST_BYTES / 1e9:.3g} GB; give a "
            "smaller hop limit or a smaller network"
        )
    starts = np.zeros((size, depth + 1), dtype=np.int64)
    balls = Balls(starts, np.zeros(total, dtype=np.int32))
    search(graph.indptr, graph.indices, hops, most, *balls)
    return balls


@kernel
def search(
    indptr: Any, indices: Any, hops: int, most: int, starts: Any, members: Any
) -> tuple[int, int, int]:
    """Search breadth first from every agent; write the balls unless `starts` is empty.

    Returns how many agents were searched from (the search stops at more than `most` members), the
    number of members found, and the largest number of levels.
    """
    size = indptr.size - 1
    mark, queue = np.empty(size, np.int64), np.empty(size, np.int32)
    total, depth = 0, 1
    for agent in range(size):
        mark[agent] = -1
    for agent in range(size):
        mark[agent], queue[0] = agent, agent
        done, end, level = 0, 1, 0
        while level < hops:
            found = end
            for at in range(done, end):
                for link in range(indptr[queue[at]], indptr[queue[at] + 1]):
                    other = indices[link]
                    if mark[other] != agent:
                        mark[other], queue[found] = agent, other
                        found += 1
            if found == end and level > 0:
                break
            done, end, level = end, found, level + 1
            if starts.size > 0:
                starts[agent, level] = total + end
        if starts.size > 0:
            starts[agent, 0] = total
            for above in range(level, starts.shape[1]):
                starts[agent, above] = total + end
            for at in range(end):
                members[total + at] = queue[at]
        total, depth = total + end, max(depth, level)
        if total > most:
            return agent + 1, total, depth
    return size, total, depth


SPAN_PULLS = 20_000_000
"""Pulls that the agents of one run add up between two reports of progress."""

RING_PULLS = 50_000_000
"""Most pulls in the ring buffers of all runs that are played together."""


def play_neighborhood(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on the pulls of neighbours, without faults: balls of one hop."""
    return play_balls(parts, task, runs, tick, Reach(1, 2))


def play_flooded_pulls(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on pulls flooded over some hops."""
    assert isinstance(parts.aggregation, FloodedPulls)  # noqa: S101  the table of kernels says so
    return play_balls(parts, task, runs, tick, Reach(parts.aggregation.hop_limit, 4))


class Reach(NamedTuple):
    """How many hops a pull travels, and how many values it takes to send."""

    hop_limit: int
    width: int


def play_balls(parts: Parts, task: Task, runs: range, tick: Tick, reach: Reach) -> Record:
    """Play some runs in which agents learn of all pulls within reach."""
    hop_limit, width = reach
    balls = find_balls(task.network, hop_limit)
    at_once = max(1, RING_PULLS // balls.starts.size)
    record = join(
        [
            play_together(parts, task, runs[first : first + at_once], tick, balls)
            for first in range(0, len(runs), at_once)
        ]
    )
    record.values[:] = width * items_sent(task.network, balls, hop_limit, task.rounds)
    record.messages[:] = 2 * task.network.num_edges * task.horizon
    return record


def play_together(parts: Parts, task: Task, runs: range, tick: Tick, balls: Balls) -> Record:
    state = Runs(parts, task, runs, tick)
    rule, numbers = state.rule()
    totals = np.zeros(state.shape)
    ring = (len(runs), balls.starts.shape[1], task.network.num_agents)
    # Row t mod (depth + 1) of the ring holds the pulls of round t.
    arms, rewards = np.zeros(ring, dtype=np.int32), np.zeros(ring)
    last = np.zeros(state.shape[:2], dtype=np.int64)
    in_parts = parts_of_a_run(state.world)
    most = max(1, SPAN_PULLS // balls.members.size)
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        # Every thread plays whole runs, or some agents of each round.
        at_once = rounds if in_parts == 1 else 1
        given = in_parts, span(task, done, rounds), *balls, rule, numbers
        own = state.world, state.tally, state.fresh, totals, arms, rewards, last, state.memory
        launch_rounds(_play, len(runs) * in_parts, rounds, at_once, given, own, in_parts)
        state.played(rounds)
    return state.finish()


def items_sent(
    network: Network, balls: Balls, hop_limit: int, rounds: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many items all agents together have sent after each of some rounds.

    In round r, from 0, an agent sends each neighbour one pull of every agent up to
    min(r, hop limit − 1) hops away, itself included.
    """
    links = 2 * network.num_edges
    per_level = np.diff(network.degrees @ balls.starts)
    per_level[0] -= links  # agents are members of their own balls, at distance 0
    per_distance = np.append(links, per_level)[:hop_limit]
    since = np.maximum(0, rounds[:, None] - np.arange(per_distance.size))
    sent: NDArray[np.int64] = since @ per_distance
    return sent


@for_threads(allocates=True)
def _play(
    task: int, first: int, stop: int, parts: int, span: Any, starts: Any, members: Any, rule: Any,
    numbers: Any, world: Any, tally: Any, fresh: Any, known: Any, told_arms: Any,
    told_rewards: Any, lasts: Any, memory: Any,
) -> None:  # fmt: skip
    _, start, end = share_of(task, parts, world)
    num_arms, squares, scratch = world.num_arms, rule.squares, np.empty(rule.scratch)
    contexts = np.ones((1, CONTEXT))
    for r in range(first, stop):
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        contexts[0, TIME] = max(2.0, float(done))
        for agent in range(start, end):
            _hear(known, agent, num_arms, squares, starts, members, told_arms, told_rewards, done)
        choose(
            rule.address, known, known.shape[1], contexts, 0, world.decision_keys, done, numbers,
            rule.numbers_stride, memory, scratch, lasts, start, end, num_arms, squares,
        )  # fmt: skip
        _pull(
            world, tally, fresh, told_arms, told_rewards, lasts, slot, done, start, end,
            span.stops[slot - span.slot] == r + 1,
        )  # fmt: skip


@inner
def _pull(
    world: Any, tally: Any, fresh: Any, told_arms: Any, told_rewards: Any, lasts: Any, slot: int,
    done: int, start: int, end: int, is_recorded: bool,
) -> None:  # fmt: skip
    num_arms, place = world.num_arms, done % told_arms.shape[0]
    shift = segment_of(world.starts, world.period, done) * num_arms
    for agent in range(start, end):
        arm, block = lasts[agent], agent // world.block
        z = variate(world.is_normal, word_at(world.reward_keys[agent], done), world.cubics)
        row = world.places[agent] + shift + arm
        u = reward_from_variate(world.form_kind, world.tables, row, z)
        told_arms[place, agent], told_rewards[place, agent] = arm, u
        fresh[agent, num_arms + arm] += 1.0
        enter(tally, block, slot, agent, arm, done, done + 1, u)
        charge(world, tally, block, slot, agent, row, 1)
        if is_recorded:
            keep_worst(tally, block, slot, agent)


@inner
def _hear(
    known: Any, agent: int, num_arms: int, squares: int, starts: Any, members: Any, arms: Any,
    rewards: Any, done: int,
) -> None:  # fmt: skip
    """Add the pulls of the ball's members that reach the agent before its pull `done`."""
    depth = starts.shape[1] - 1
    for level in range(min(depth, done)):
        row = (done - level - 1) % (depth + 1)
        for at in range(starts[agent, level], starts[agent, level + 1]):
            other = members[at]
            arm, reward = arms[row, other], rewards[row, other]
            known[agent, arm] += reward
            known[agent, num_arms + arm] += 1.0
            if squares > 0:
                known[agent, square_place(num_arms, squares, arm)] += reward * reward

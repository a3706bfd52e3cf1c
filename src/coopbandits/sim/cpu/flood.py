"""Flooding of totals.

An agent of `core.aggregate.flooded_totals` keeps the totals of every agent. Here one log holds all
pulls of a run, and an entry is just the last pull it covers and the number of pulls up to it, which
is its version. When a newer entry arrives, the pulls in between are added to the agent's totals.
Every pull points to the one before it. An agent that lost its state starts over, and may later
resume from what others remember of it. So the pulls of one agent form a tree, and moving from one
entry to another may mean subtracting some pulls first.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.aggregate.forgetting import decayed_rounds
from coopbandits.core.contract import Vector
from coopbandits.core.policy import Parts
from coopbandits.network.faults import DOWN
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.compiling import for_threads, inner
from coopbandits.sim.cpu.launch import launch_rounds, parts_of_a_run, share_of
from coopbandits.sim.cpu.leaves import (
    count_up_to,
    reward_from_variate,
    segment_of,
    square_place,
    variate,
    word_at,
)
from coopbandits.sim.cpu.runs import FaultReader, Runs, end_span, link_table, most_rounds
from coopbandits.sim.cpu.world import book, charge, enter, keep_worst, span
from coopbandits.sim.record import Record, Task, Tick, join

MOST_BYTES = 2_000_000_000
"""Most bytes for the logs and entries of all runs that are played together."""

SPAN_ENTRIES = 50_000_000
"""Entries of one run that are visited between two reports of progress."""

LAST, VERSION, CHANGED, SOURCE = range(4)
"""The fields of an entry; the first two are −1 and 0 while nothing is known."""

HEARD, ARRIVED = range(2)
"""What is remembered per link; see `FloodedTotals`."""

KNOWN_AGENTS, ROUNDS = range(2)
"""What is known besides totals: the number of agents, and the rounds they have played."""


class Log(NamedTuple):
    """Every pull (run, round, agent): its arm, its reward, and the round of the pull before it.

    That is the previous pull in the same agent's memory, −1 for none.
    """

    arms: NDArray[np.int32]
    rewards: Vector
    before: NDArray[np.int32]


class Fleet(NamedTuple):
    """What the agents know, double-buffered: index round mod 2 is read, the other is written.

    Attributes
    ----------
    entries : int32 of shape (run, 2, 4, agent, agent)
        Entries of every agent on every agent: last pull, version, sender and round of arrival.
    links : int32 of shape (run, 2, 2, link)
        What the receiver of every link remembers of the sender's messages.
    totals : (run, agent, size)
        Registers of all pulls that each agent knows of.
    known : (run, agent, 2)
        The number of agents known of, and the rounds they have played, as they count.
    """

    entries: NDArray[np.int32]
    links: NDArray[np.int32]
    totals: Vector
    known: Vector


class Aged(NamedTuple):
    """What pulls of every round so far count, in the units of a span: see `ageing`.

    Attributes
    ----------
    weights : (rounds,)
        What a pull of each round counts.
    behind : (1 + rounds,)
        What the rounds of an agent count whose last pull was in each; first 0, for none.
    factors : (rounds,)
        What a unit counts in each round of the span.
    passed : (rounds,)
        What all rounds before each round of the span count.
    decays : bool
        Whether pulls are discounted; entries then carry the number of pulls ever made, too.
    """

    weights: Vector
    behind: Vector
    factors: Vector
    passed: Vector
    decays: bool


def aged(discount: float, first: int, rounds: int) -> Aged:
    """Return what pulls count in a span of rounds, and what earlier ones do."""
    ended = np.arange(first + rounds + 1.0)
    weights = discount ** (first - ended[:-1])
    behind = decayed_rounds(discount, ended)
    behind[1:] *= weights
    passed = discount * decayed_rounds(discount, ended[first:-1])
    factors = discount ** (ended[first:-1] - first)
    return Aged(weights, behind, factors, passed, discount != 1.0)


def play_flood(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    at_once = max(1, MOST_BYTES // bytes_of_a_run(task))
    groups = [runs[first : first + at_once] for first in range(0, len(runs), at_once)]
    return join([play_together(parts, task, group, tick) for group in groups])


def bytes_of_a_run(task: Task) -> int:
    """Return the bytes of one run: two times four numbers per pair of agents, and the log."""
    agents = task.network.num_agents
    return 32 * agents**2 + 16 * agents * task.horizon


def excess(task: Task) -> str | None:
    """Return a phrase on how large a run would be, or None if it fits."""
    needed, agents = bytes_of_a_run(task), task.network.num_agents
    if needed <= MOST_BYTES:
        return None
    half = task.horizon / 4  # of 32 agents² + 16 agents × horizon = MOST_BYTES
    fits = int(math.sqrt(half**2 + MOST_BYTES / 32) - half)
    return (
        f" for {agents} agents and {task.horizon} rounds, since it would take {needed / 1e9:.3g} "
        f"GB for the entries of all agents on all agents and for all pulls, more than "
        f"{MOST_BYTES / 1e9:.3g} GB (up to {fits} agents fit at this horizon)"
    )


def play_together(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    state, links = Runs(parts, task, runs, tick), link_table(task.network)
    reader, (rule, numbers) = FaultReader(task, runs), state.rule()
    agents, width = state.shape[1:]
    fleet = make_fleet(len(runs), agents, links.senders.size, width)
    pulls = (len(runs), task.horizon, agents)
    log = Log(np.zeros(pulls, np.int32), np.zeros(pulls), np.zeros(pulls, np.int32))
    counts = np.zeros((len(runs), state.world.num_blocks, task.rounds.size, 4), dtype=np.int64)
    in_parts = parts_of_a_run(state.world)
    most = max(1, SPAN_ENTRIES // (agents * (agents + links.senders.size)))
    most = min(reader.most, most, most_rounds(state.discount))
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        # A round has two steps: pull, then exchange messages. Every thread plays whole runs, or
        # some agents of every run in each step.
        at_once = 2 * rounds if in_parts == 1 else 1
        ageing = aged(state.discount, done, rounds)
        given = in_parts, span(task, done, rounds), links, rule, numbers, ageing
        own = (
            state.world, state.tally, state.fresh, log, fleet, counts, reader.read(rounds),
            state.memory,
        )  # fmt: skip
        launch_rounds(_play, len(runs) * in_parts, 2 * rounds, at_once, given, own, in_parts)
        end_span(state.discount, rounds, fleet.totals, fleet.known[..., ROUNDS])
        state.played(rounds)
    return state.finish(counts.sum(axis=1))


def make_fleet(runs: int, agents: int, links: int, width: int) -> Fleet:
    """Return agents that know only of themselves."""
    entries = np.zeros((runs, 2, 4, agents, agents), dtype=np.int32)
    entries[:, :, LAST] = -1
    known = np.zeros((runs, agents, 2))
    known[:, :, KNOWN_AGENTS] = 1.0
    link_memory = np.zeros((runs, 2, 2, links), dtype=np.int32)
    return Fleet(entries, link_memory, np.zeros((runs, agents, width)), known)


@for_threads(allocates=True)
def _play(
    task: int, first: int, stop: int, parts: int, span: Any, links: Any, rule: Any, numbers: Any,
    aged: Any, world: Any, tally: Any, fresh: Any, log: Any, fleet: Any, counts: Any, faults: Any,
    memory: Any,
) -> None:  # fmt: skip
    """Let some agents of one run pull and receive messages; see `Runs.finish` for `counts`."""
    _, start, end = share_of(task, parts, world)
    scratch, num_agents = np.empty(rule.scratch), world.places.size
    contexts, lasts = np.ones((num_agents, CONTEXT)), np.zeros(num_agents, np.int64)
    for step in range(first, stop):
        r = step // 2
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        if step % 2 == 0:
            if faults.fresh.shape[0] > 0:
                _renew(faults.fresh[r], links, fleet, done, start, end)
            totals, factor, passed = fleet.totals, aged.factors[r], aged.passed[r]
            _look(totals, fleet.known, contexts, rule.num_arms, factor, passed, start, end)
            choose(
                rule.address, totals, totals.shape[1], contexts, CONTEXT, world.decision_keys,
                done, numbers, rule.numbers_stride, memory, scratch, lasts, start, end,
                rule.num_arms, rule.squares,
            )  # fmt: skip
            for agent in range(start, end):
                if faults.acts.shape[0] == 0 or faults.acts[r, agent] > 0:
                    _pull(
                        world, tally, fresh, log, fleet, aged, rule, agent, lasts[agent], slot, done
                    )
            if span.stops[slot - span.slot] == r + 1:
                for agent in range(start, end):
                    keep_worst(tally, agent // world.block, slot, agent)
        else:
            counted = counts[start // world.block, slot]
            fate = faults.fate[r : r + 1]
            _exchange(links, fate, log, fleet, aged, rule, counted, done, start, end)


@inner
def _renew(renewed: Any, links: Any, fleet: Any, done: int, start: int, end: int) -> None:
    """Reset some agents, which then know only of themselves."""
    entries, memory, known = fleet.entries[done % 2], fleet.links[done % 2], fleet.known
    for agent in range(start, end):
        if renewed[agent] > 0:
            for origin in range(entries.shape[1]):
                entries[LAST, agent, origin], entries[VERSION, agent, origin] = -1, 0
            for link in range(links.indptr[agent], links.indptr[agent + 1]):
                memory[HEARD, link] = memory[ARRIVED, link] = 0
            for w in range(fleet.totals.shape[1]):  # whole rows would take a second to compile
                fleet.totals[agent, w] = 0.0
            known[agent, KNOWN_AGENTS], known[agent, ROUNDS] = 1.0, 0.0


@inner
def _look(
    totals: Any, known: Any, contexts: Any, num_arms: int, factor: float, passed: float,
    start: int, end: int,
) -> None:  # fmt: skip
    """Write the time, the number of agents and the anticipation for the choice."""
    for agent in range(start, end):
        agents, rounds, pulls = known[agent, KNOWN_AGENTS], factor * known[agent, ROUNDS], 0.0
        for k in range(num_arms):
            pulls += totals[agent, num_arms + k]
        contexts[agent, FACTOR], contexts[agent, AGENTS] = factor, agents
        contexts[agent, TIME] = max(2.0, factor * pulls)
        contexts[agent, AHEAD] = max(1.0, agents * passed / rounds) if rounds > 0.0 else 1.0


@inner(forceinline=True)  # called, with all these arrays, it makes a round a tenth slower
def _pull(
    world: Any, tally: Any, fresh: Any, log: Any, fleet: Any, aged: Any, rule: Any, agent: int,
    arm: int, slot: int, done: int,
) -> None:  # fmt: skip
    num_arms, entries, block = rule.num_arms, fleet.entries[done % 2], agent // world.block
    z = variate(world.is_normal, word_at(world.reward_keys[agent], done), world.cubics)
    shift = segment_of(world.starts, world.period, done) * num_arms
    row = world.places[agent] + shift + arm
    u = reward_from_variate(world.form_kind, world.tables, row, z)
    _add(fleet.totals, agent, rule, arm, u, aged.weights[done])
    last = entries[LAST, agent, agent]
    log.arms[done, agent], log.rewards[done, agent], log.before[done, agent] = arm, u, last
    fleet.known[agent, ROUNDS] += aged.behind[done + 1] - aged.behind[last + 1]
    entries[LAST, agent, agent] = done
    entries[VERSION, agent, agent] += 1
    entries[CHANGED, agent, agent], entries[SOURCE, agent, agent] = done + 2, -1
    book(fresh, num_arms, agent, arm, 1, u)
    enter(tally, block, slot, agent, arm, done, done + 1, u)
    charge(world, tally, block, slot, agent, row, 1)


@inner
def _exchange(
    links: Any, fate: Any, log: Any, fleet: Any, aged: Any, rule: Any, counts: Any, done: int,
    start: int, end: int,
) -> None:  # fmt: skip
    """Let some agents receive a round's messages, which hold what was known before the round."""
    now, after = fleet.entries[done % 2], fleet.entries[(done + 1) % 2]
    told, tell = fleet.links[done % 2], fleet.links[(done + 1) % 2]
    size, width = now.shape[1], HEADER + fleet.totals.shape[1] + int(aged.decays)
    for agent in range(start, end):
        for what in range(4):
            for origin in range(size):
                after[what, agent, origin] = now[what, agent, origin]
        for link in range(links.indptr[agent], links.indptr[agent + 1]):
            tell[HEARD, link], tell[ARRIVED, link] = told[HEARD, link], told[ARRIVED, link]
            fated = fate[0, link] if fate.shape[0] > 0 else 0
            if fated != DOWN:
                sender, reverse = links.senders[link], links.reverse[link]
                arrived = told[ARRIVED, reverse]
                counts[0] += HEADER + width * _count_sent(now, sender, agent, arrived)
                counts[1] += 1
                counts[2 if fated == 0 else 3] += 1
                if fated == 0:
                    tell[HEARD, link], tell[ARRIVED, link] = done + 1, told[HEARD, reverse]
                    _take(log, fleet, aged, rule, sender, agent, arrived, done)


@inner
def _count_sent(entries: Any, sender: int, agent: int, arrived: int) -> int:
    """Return how many entries the sender does not know the agent to have, without a branch."""
    found = 0
    for origin in range(entries.shape[1]):
        found += int(_is_sent(entries, sender, origin, agent, arrived))
    return found


@inner(forceinline=True)
def _is_sent(entries: Any, sender: int, origin: int, agent: int, arrived: int) -> Any:
    back = (entries[SOURCE, sender, origin] == agent) & (arrived > 0)
    new = (entries[CHANGED, sender, origin] > arrived) & (entries[VERSION, sender, origin] > 0)
    return new & (not back)


@inner
def _take(
    log: Any, fleet: Any, aged: Any, rule: Any, sender: int, agent: int, arrived: int, done: int
) -> None:
    """Take every entry of a message that is newer, or equal to one that came in this round.

    Among entries of the same version the agent's old one wins, then the one that came last.
    """
    now, after, known = fleet.entries[done % 2], fleet.entries[(done + 1) % 2], fleet.known
    weights, behind = aged.weights, aged.behind
    for origin in range(now.shape[1]):
        version, own = now[VERSION, sender, origin], after[VERSION, agent, origin]
        is_newer = version > own or (version == own and own != now[VERSION, agent, origin])
        if is_newer and _is_sent(now, sender, origin, agent, arrived):
            last, old = now[LAST, sender, origin], after[LAST, agent, origin]
            known[agent, KNOWN_AGENTS] += int(own == 0)
            known[agent, ROUNDS] += behind[last + 1] - behind[old + 1]
            after[LAST, agent, origin], after[VERSION, agent, origin] = last, version
            after[CHANGED, agent, origin], after[SOURCE, agent, origin] = done + 2, sender
            while last != old:  # back to the common ancestor: in a tree the deeper one steps first
                forth, back = version >= own, own >= version
                if forth:
                    arm, reward = log.arms[last, origin], log.rewards[last, origin]
                    _add(fleet.totals, agent, rule, arm, reward, weights[last])
                    last, version = log.before[last, origin], version - 1
                if back:
                    arm, reward = log.arms[old, origin], log.rewards[old, origin]
                    _add(fleet.totals, agent, rule, arm, reward, -weights[old])
                    old, own = log.before[old, origin], own - 1


@inner(forceinline=True)
def _add(totals: Any, agent: int, rule: Any, arm: int, reward: float, times: float) -> None:
    totals[agent, arm] += times * reward
    totals[agent, rule.num_arms + arm] += times
    if rule.squares > 0:
        square = square_place(rule.num_arms, rule.squares, arm)
        totals[agent, square] += times * reward * reward

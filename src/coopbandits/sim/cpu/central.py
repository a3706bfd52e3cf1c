"""Central totals: one controller's registers, and the agents pulling in turn."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.core.aggregate import CentralTotals
from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.compiling import for_threads, inner
from coopbandits.sim.cpu.launch import launch
from coopbandits.sim.cpu.leaves import (
    count_up_to,
    reward_from_variate,
    segment_of,
    square_place,
    variate,
    word_at,
)
from coopbandits.sim.cpu.runs import Runs, ageing, end_span, most_rounds
from coopbandits.sim.cpu.world import book, charge, enter, keep_worst, span
from coopbandits.sim.record import Record, Task, Tick

SPAN_PULLS = 2_000_000
"""Pulls of one run played between two reports of progress."""


def play_central(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    state = Runs(parts, task, runs, tick)
    rule, numbers = state.rule()
    assert isinstance(parts.aggregation, CentralTotals)  # noqa: S101  the table of kernels says so
    delay = parts.aggregation.delay
    totals = np.zeros((len(runs), 1, state.shape[2]))
    history = np.zeros((len(runs), 0 if delay is None else delay + 1, state.shape[2]))
    most = min(max(1, SPAN_PULLS // task.network.num_agents), most_rounds(state.discount))
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        given = span(task, done, rounds), rule, numbers, ageing(state.discount, done, rounds)
        own = (state.world, state.tally, state.fresh, totals, history, state.memory)
        launch(_play_run, len(runs), given, own)
        end_span(state.discount, rounds, totals, history)
        state.played(rounds)
    return state.finish()


@for_threads(allocates=True)
def _play_run(
    _run: int, span: Any, rule: Any, numbers: Any, ageing: Any, world: Any, tally: Any, fresh: Any,
    totals: Any, history: Any, memory: Any,
) -> None:  # fmt: skip
    """Play one run; the oldest row of `history` is what the controller sees.

    Where all agents of a round see the same totals and may play the same arms, an index that does
    not draw chooses once.
    """
    num_arms, num_agents, kept = rule.num_arms, world.places.size, history.shape[0]
    scratch, contexts = np.empty(rule.scratch), np.ones((1, CONTEXT))
    contexts[0, AGENTS] = contexts[0, AHEAD] = 1.0
    lasts = np.zeros(num_agents, np.int64)
    alike = kept > 0 and not rule.random and not rule.masked and not rule.stopping
    at_most = num_agents if kept > 0 and rule.random and not (rule.masked or rule.stopping) else 1
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        shift = segment_of(world.starts, world.period, done) * num_arms
        weight, contexts[0, FACTOR] = ageing.weights[r], ageing.factors[r]
        row = done % kept if kept > 0 else 0
        visible = history[row : row + 1] if kept > 0 else totals
        chosen = 0  # agents that have chosen on the present totals
        for agent in range(num_agents):
            if kept == 0:
                chosen = agent
            if agent >= chosen:
                at_once = min(at_most, num_agents - agent)
                _choose(
                    world, rule, numbers, memory, visible, kept, contexts, done, scratch, lasts,
                    agent, agent + at_once,
                )  # fmt: skip
                chosen = agent + at_once
                if alike:
                    for other in range(agent + 1, num_agents):
                        lasts[other] = lasts[agent]
                    chosen = num_agents
            _pull(
                world, tally, fresh, totals, rule.squares, agent, lasts[agent], shift, slot, done,
                weight,
            )  # fmt: skip
        if span.stops[slot - span.slot] == r + 1:
            for agent in range(num_agents):
                keep_worst(tally, agent // world.block, slot, agent)
        if kept > 0:
            for w in range(totals.shape[1]):
                history[row, w] = totals[0, w]


@inner
def _pull(
    world: Any, tally: Any, fresh: Any, totals: Any, squares: int, agent: int, arm: int,
    shift: int, slot: int, done: int, weight: float,
) -> None:  # fmt: skip
    num_arms, block = world.num_arms, agent // world.block
    z = variate(world.is_normal, word_at(world.reward_keys[agent], done), world.cubics)
    row = world.places[agent] + shift + arm
    u = reward_from_variate(world.form_kind, world.tables, row, z)
    totals[0, arm] += weight * u
    totals[0, num_arms + arm] += weight
    if squares > 0:
        totals[0, square_place(num_arms, squares, arm)] += weight * u * u
    book(fresh, num_arms, agent, arm, 1, u)
    enter(tally, block, slot, agent, arm, done, done + 1, u)
    charge(world, tally, block, slot, agent, row, 1)


@inner
def _choose(
    world: Any, rule: Any, numbers: Any, memory: Any, visible: Any, kept: int, contexts: Any,
    done: int, scratch: Any, lasts: Any, start: int, end: int,
) -> None:  # fmt: skip
    """Write into `lasts` the arms that some agents play on the visible totals."""
    num_arms, time = rule.num_arms, 0.0
    for k in range(num_arms):
        playable = not rule.masked or numbers[start, k] > 0.0
        if kept > 1 and playable and visible[0, num_arms + k] == 0.0:
            for agent in range(start, end):
                # Nothing is known yet: every arm in turn.
                lasts[agent] = done % num_arms
                if rule.masked:
                    lasts[agent] = _turn(numbers[start], done, num_arms)
            return
        time += visible[0, num_arms + k]
    contexts[0, TIME] = max(2.0, time * contexts[0, FACTOR])
    choose(
        rule.address, visible, 0, contexts, 0, world.decision_keys, done, numbers,
        rule.numbers_stride, memory, scratch, lasts, start, end, num_arms, rule.squares,
    )  # fmt: skip


@inner
def _turn(flags: Any, done: int, num_arms: int) -> int:
    """Return the arm whose turn it is among those that may be played."""
    playable = 0
    for k in range(num_arms):
        playable += int(flags[k] > 0.0)
    left = done % playable
    for k in range(num_arms):
        if flags[k] > 0.0:
            if left == 0:
                return k
            left -= 1
    return 0  # unreachable: some arm may be played

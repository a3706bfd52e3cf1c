"""Tree sums: every agent adds up what its branches tell; `tree_rounds` has the tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.ageing import ageing, end_span, most_rounds
from coopbandits.sim.cpu.ahead import filed_meanwhile
from coopbandits.sim.cpu.booking import charge, enter, keep_worst
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.fault_chunks import FaultReader, link_table
from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.launch import launch
from coopbandits.sim.cpu.leaves import (
    count_up_to,
    reward_from_variate,
    segment_of,
    square_place,
    variate,
    word_at,
)
from coopbandits.sim.cpu.runs import Rule, Runs
from coopbandits.sim.cpu.tree_rounds import (
    SPAN_PULLS,
    begin_round,
    hear,
    is_believed,
    make_tree,
    send,
)
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick


def play_tree(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on tree sums."""
    state, links = Runs(parts, task, runs, tick), link_table(task.network)
    reader, (rule, numbers) = FaultReader(task, runs), state.rule_without_choice()
    tree = make_tree(task, runs, links.senders.size, state.shape[2] + 2)
    counts = np.zeros((len(runs), task.rounds.size, 4), dtype=np.int64)
    most = min(
        reader.most, max(1, SPAN_PULLS // task.network.num_agents), most_rounds(state.discount)
    )

    def play(rounds: int, rule: Rule) -> None:
        play_runs(
            state.world, span(task, state.done, rounds), state.tally, state.fresh, tree, counts,
            reader.read(rounds), links, rule, numbers, state.memory,
            ageing(state.discount, state.done, rounds), state.discount != 1.0,
        )  # fmt: skip
        for rows in (tree.own, tree.totals, tree.payloads):  # a, the number of agents, stays
            end_span(state.discount, rounds, rows[..., :-2], rows[..., -1:])
        end_span(state.discount, rounds, tree.unborn)
        state.played(rounds)

    with filed_meanwhile(parts.index):
        play(0, rule)  # compiles the kernel, the one that takes longest
    rule, _ = state.rule()
    while state.done < task.horizon:
        play(min(most, task.horizon - state.done), rule)
    return state.finish(counts)


def play_runs(
    world: Any, span: Any, tally: Any, fresh: Any, tree: Any, counts: Any, faults: Any, links: Any,
    rule: Any, numbers: Any, memory: Any, ageing: Any, stamps: bool,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread a run."""
    own = (world, tally, fresh, tree, counts, faults, memory)
    given = (span, links, rule, numbers, ageing, stamps)
    launch(_play_run, tree.own.shape[0], given, own)


@inner(allocates=True)
def _play_run(
    _run: int, span: Any, links: Any, rule: Any, numbers: Any, ageing: Any, stamps: bool,
    world: Any, tally: Any, fresh: Any, tree: Any, counts: Any, faults: Any, memory: Any,
) -> None:  # fmt: skip
    totals, agents = tree.totals, world.places.size
    scratch, contexts = np.empty(rule.scratch), np.ones((agents, CONTEXT))
    lasts, width = np.zeros(agents, np.int64), totals.shape[1] + int(stamps)
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        begin_round(tree, links.indptr, faults.fresh, r, done)
        look(tree, contexts, rule.num_arms, ageing.factors[r], ageing.passed[r])
        choose(
            rule.address, totals, totals.shape[1], contexts, CONTEXT, world.decision_keys, done,
            numbers, rule.numbers_stride, memory, scratch, lasts, 0, agents, rule.num_arms,
            rule.squares,
        )  # fmt: skip
        pull(
            world, tally, tree, fresh, lasts, faults.acts[r : r + 1], rule.squares, slot, done,
            span.stops[slot - span.slot] == r + 1, ageing.weights[r], ageing.behind[r],
        )  # fmt: skip
        send(tree, links, faults.fate[r : r + 1], width, counts[slot], done)
        hear(tree, links, done)


@inner
def look(tree: Any, contexts: Any, num_arms: int, factor: float, passed: float) -> None:
    """Write the time, the number of agents and the anticipation for the choice."""
    totals, size = tree.totals, tree.size
    rounds = totals.shape[1] - 1
    for agent in range(size.size):
        num_agents, pulls = totals[agent, rounds - 1], 0.0
        estimated = max(size[agent], tree.last[agent])
        for k in range(num_arms):
            pulls += totals[agent, num_arms + k]
        if not is_believed(tree, agent, num_agents, estimated):
            num_agents = max(num_agents, estimated)
        recorded = factor * totals[agent, rounds]
        contexts[agent, FACTOR], contexts[agent, AGENTS] = factor, num_agents
        contexts[agent, TIME] = max(2.0, factor * pulls)
        since = passed - factor * tree.unborn[agent]
        contexts[agent, AHEAD] = max(1.0, num_agents * since / recorded) if recorded > 0.0 else 1.0


@inner
def pull(
    world: Any, tally: Any, tree: Any, fresh: Any, lasts: Any, acts: Any, squares: int, slot: int,
    done: int, is_recorded: bool, weight: float, behind: float,
) -> None:  # fmt: skip
    """Let all agents that act pull."""
    own, totals, unborn, num_arms = tree.own, tree.totals, tree.unborn, world.num_arms
    arms, regrets, last = tally.arms, tally.regrets, own.shape[1] - 1
    shift = segment_of(world.starts, world.period, done) * num_arms
    for agent in range(own.shape[0]):
        if acts.shape[0] > 0 and acts[0, agent] == 0:
            if arms.shape[1] > 0:
                arms[agent, done] = -1
            continue
        arm, block = lasts[agent], agent // world.block
        row = world.places[agent] + shift + arm
        z = variate(world.is_normal, word_at(world.reward_keys[agent], done), world.cubics)
        u = reward_from_variate(world.form_kind, world.tables, row, z)
        if own[agent, last] == 0.0:
            unborn[agent] = behind - weight
        elapsed = behind - unborn[agent] - own[agent, last]
        own[agent, arm] += weight * u
        totals[agent, arm] += weight * u
        own[agent, num_arms + arm] += weight
        totals[agent, num_arms + arm] += weight
        if squares > 0:
            square = square_place(num_arms, squares, arm)
            own[agent, square] += weight * u * u
            totals[agent, square] += weight * u * u
        own[agent, last] += elapsed
        totals[agent, last] += elapsed
        fresh[agent, num_arms + arm] += 1.0
        enter(tally.counts[block], tally.rewards[block], arms, agent, slot, arm, done, done + 1, u)
        charge(world.prices, num_arms, row, 1, regrets, agent, tally.costs[block], slot)
    if is_recorded:
        for agent in range(own.shape[0]):
            keep_worst(tally.worst[agent // world.block], slot, regrets[agent])

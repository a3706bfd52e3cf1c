"""Ledger sums: the tree of `tree_rounds`, and the mass of `ledger_books` that moves along it."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.core.aggregate.ledger_sums import HEADER
from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.ageing import ageing
from coopbandits.sim.cpu.ahead import filed_meanwhile
from coopbandits.sim.cpu.choice_forms import CONTEXT
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.fault_chunks import FaultReader, link_table
from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.launch import launch
from coopbandits.sim.cpu.leaves import count_up_to
from coopbandits.sim.cpu.ledger_books import (
    forget,
    hand_on,
    hold,
    keep,
    look,
    make_books,
    note_wobbles,
    take,
    write,
)
from coopbandits.sim.cpu.runs import Rule, Runs
from coopbandits.sim.cpu.tree import pull
from coopbandits.sim.cpu.tree_rounds import SPAN_PULLS, begin_round, hear, make_tree, send
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick


def play_ledger(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of any index on ledger sums."""
    state, links = Runs(parts, task, runs, tick), link_table(task.network)
    reader, (rule, numbers) = FaultReader(task, runs), state.rule_without_choice()
    width = state.shape[2] + 2
    tree = make_tree(task, runs, links.senders.size, width)
    books = make_books(task, runs, links.senders.size, width)
    counts = np.zeros((len(runs), task.rounds.size, 4), dtype=np.int64)
    most = min(reader.most, max(1, SPAN_PULLS // task.network.num_agents))

    def play(rounds: int, rule: Rule) -> None:
        play_runs(
            state.world, span(task, state.done, rounds), state.tally, state.fresh, tree, books,
            counts, reader.read(rounds), links, rule, numbers, state.memory,
            ageing(1.0, state.done, rounds),
        )  # fmt: skip
        state.played(rounds)

    with filed_meanwhile(parts.index):
        play(0, rule)  # compiles the kernel, the one that takes longest
    rule, _ = state.rule(apart=True)
    while state.done < task.horizon:
        play(min(most, task.horizon - state.done), rule)
    return state.finish(counts)


def play_runs(
    world: Any, span: Any, tally: Any, fresh: Any, tree: Any, books: Any, counts: Any, faults: Any,
    links: Any, rule: Any, numbers: Any, memory: Any, ageing: Any,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread a run."""
    own = (world, tally, fresh, tree, books, counts, faults, memory)
    launch(_play_run, tree.own.shape[0], (span, links, rule, numbers, ageing), own)


@inner(allocates=True)
def _play_run(
    _run: int, span: Any, links: Any, rule: Any, numbers: Any, ageing: Any, world: Any, tally: Any,
    fresh: Any, tree: Any, books: Any, counts: Any, faults: Any, memory: Any,
) -> None:  # fmt: skip
    """Play as `tree._play_run` does, and move mass between the steps of a round."""
    agents = world.places.size
    scratch, contexts = np.empty(rule.scratch), np.ones((agents, CONTEXT))
    # What is read, and what is certain.
    lasts, read = np.zeros(agents, np.int64), np.empty((agents, 2 * tree.own.shape[1]))
    width = 3 * tree.own.shape[1] + HEADER
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        begin_round(tree, links.indptr, faults.fresh, r, done)
        if faults.fresh.shape[0] > 0:
            forget(books, links, faults.fresh[r])
        look(tree, books, read, contexts, rule.num_arms, done)
        choose(
            rule.address, read, read.shape[1], contexts, CONTEXT, world.decision_keys, done,
            numbers, rule.numbers_stride, memory, scratch, lasts, 0, agents, rule.num_arms,
            rule.squares,
        )  # fmt: skip
        acts = faults.acts[r : r + 1]
        pull(
            world, tally, tree, fresh, lasts, acts, rule.squares, slot, done,
            span.stops[slot - span.slot] == r + 1, ageing.weights[r], ageing.behind[r],
        )  # fmt: skip
        hold(world, tree.own, books, lasts, acts, rule.squares, done)
        hand_on(tree, books, links, done)
        write(books)
        send(tree, links, faults.fate[r : r + 1], width, counts[slot], done)
        note_wobbles(tree, books)
        hear(tree, links, done)
        take(tree.heard, books, links, done + 1)
        keep(tree, books, links, rule.num_arms, done + 1)

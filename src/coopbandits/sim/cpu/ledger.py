"""Ledger sums: the tree of `sim/cpu/tree.py`, and the mass that moves along it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.extrema import GENERATION
from coopbandits.core.aggregate.ledger_sums import (
    AROUND,
    HEADER,
    LINEAGE_BITS,
    TENURES,
    YOUNG,
)
from coopbandits.core.aggregate.moving_mass import MARKS, SLACK
from coopbandits.core.aggregate.spanning_tree import BOND, CHILD, FAR
from coopbandits.core.aggregate.tree_sums import FEWEST, STEADY
from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.ageing import ageing
from coopbandits.sim.cpu.ahead import filed_meanwhile
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.fault_chunks import FaultReader, link_table
from coopbandits.sim.cpu.gossip import collect_anew
from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.launch import launch
from coopbandits.sim.cpu.leaves import (
    copy_row,
    count_up_to,
    reward_from_variate,
    segment_of,
    set_row,
    table_of,
    variate,
    word_at,
)
from coopbandits.sim.cpu.runs import Rule, Runs
from coopbandits.sim.cpu.tree import (
    BEAT,
    DIST,
    NO_LINK,
    ROOT,
    SPAN_PULLS,
    UNKNOWN,
    _add_up,
    _estimate,
    _pull,
    _renew,
    _send,
    _store,
    _tend,
    make_tree,
)
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.tapes import identity_words

LEAST, MOST = AROUND


class Books(NamedTuple):
    """Mass of all agents (run, agent, …) and of all directed links (run, link, …).

    Fields as in `core.aggregate.ledger_sums` and `moving_mass`. `sent`, `marks` and `acknowledged`
    of a link are its sender's, `taken`, `numbers` and `wobbles` its receiver's. Those that end in
    `_told` are as they stood when a round's messages were written; `behind` are the rounds behind
    the own totals.
    """

    words: NDArray[np.uint64]
    held: NDArray[np.float64]
    behind: NDArray[np.float64]
    sent: NDArray[np.float64]
    taken: NDArray[np.float64]
    numbers: NDArray[np.float64]
    numbers_told: NDArray[np.float64]
    marks: NDArray[np.float64]
    marks_told: NDArray[np.float64]
    acknowledged: NDArray[np.float64]
    wobbles: NDArray[np.float64]
    ledger: NDArray[np.float64]
    ledger_told: NDArray[np.float64]
    lineage: NDArray[np.int64]
    lineage_told: NDArray[np.int64]
    meanwhile: NDArray[np.float64]
    tenure: NDArray[np.int64]
    base: NDArray[np.float64]
    collected: NDArray[np.float64]


def make_books(task: Task, runs: range, links: int, width: int) -> Books:
    """Return the state before the first round."""
    agents = task.network.num_agents
    words = [identity_words(task.seed, run, agents) for run in runs]
    shape = (len(runs), agents)
    rows, wide = np.zeros((*shape, width)), np.zeros((len(runs), links, width))
    per_link, bits = np.zeros((len(runs), links)), np.zeros(shape, dtype=np.int64)
    held = rows.copy()
    held[..., -2] = 1.0
    return Books(
        words=np.array(words, dtype=np.uint64), held=held, behind=np.zeros(shape),
        sent=wide, taken=wide.copy(), numbers=per_link, numbers_told=per_link.copy(),
        marks=per_link.copy(), marks_told=per_link.copy(), acknowledged=per_link.copy(),
        wobbles=per_link.copy(), ledger=rows, ledger_told=rows.copy(), lineage=bits,
        lineage_told=bits.copy(), meanwhile=rows.copy(), tenure=bits.copy(), base=rows.copy(),
        collected=rows.copy(),
    )  # fmt: skip


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
    rule, _ = state.rule()
    while state.done < task.horizon:
        play(min(most, task.horizon - state.done), rule)
    return state.finish(counts)


def play_runs(
    world: Any, span: Any, tally: Any, fresh: Any, tree: Any, books: Any, counts: Any, faults: Any,
    links: Any, rule: Any, numbers: Any, memory: Any, ageing: Any,
) -> None:  # fmt: skip
    """Play a span of rounds, every thread a run."""
    given = (
        world, span, tally, fresh, tree, books, counts, faults, links, rule, numbers, memory,
        ageing,
    )  # fmt: skip
    launch(_play_run, tree.own.shape[0], given)


@inner(allocates=True)
def _play_run(
    run: int, world: Any, span: Any, tally: Any, all_fresh: Any, tree: Any, books: Any,
    all_counts: Any, faults: Any, links: Any, rule: Any, numbers: Any, all_memory: Any,
    ageing: Any,
) -> None:  # fmt: skip
    """Play as `tree._play_run` does."""
    fresh, counts, memory = all_fresh[run], all_counts[run], all_memory[run]
    own, unborn, totals = tree.own[run], tree.unborn[run], tree.totals[run]
    payloads, controls = tree.payloads[run], tree.controls[run]
    ages, gaps, heard, counted = tree.ages[run], tree.gaps[run], tree.heard[run], tree.counted[run]
    born, minima, spare, size = tree.born[run], tree.minima[run], tree.spare[run], tree.size[run]
    last = tree.last[run]
    agents_seen, steady, tag = tree.agents_seen[run], tree.steady[run], tree.tag[run]
    parent, root, beat, dist = tree.parent[run], tree.root[run], tree.beat[run], tree.dist[run]
    still, beat_gap, reign = tree.still[run], tree.beat_gap[run], tree.reign[run]
    held, behind, sent, taken = (
        books.held[run],
        books.behind[run],
        books.sent[run],
        books.taken[run],
    )
    heard_numbers, heard_told = books.numbers[run], books.numbers_told[run]
    marks, marks_told = books.marks[run], books.marks_told[run]
    acknowledged, wobbles = books.acknowledged[run], books.wobbles[run]
    ledger, ledger_told = books.ledger[run], books.ledger_told[run]
    lineage, lineage_told = books.lineage[run], books.lineage_told[run]
    meanwhile, tenure = books.meanwhile[run], books.tenure[run]
    base, collected, words = books.base[run], books.collected[run], books.words[run]
    acts, renewed, fate = faults.acts[run], faults.fresh[run], faults.fate[run]
    scratch, contexts = np.empty(rule.scratch), np.ones((own.shape[0], CONTEXT))
    lasts, read = np.zeros(own.shape[0], np.int64), np.empty(own.shape)
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        if done % GENERATION == 0:
            _estimate(minima, spare, size)  # what arrived in the last round counts for the old
            size[:] = UNKNOWN
        collect_anew(born, minima, spare, last, done)
        if renewed.shape[0] > 0:
            _renew(
                renewed[r], links.indptr, own, totals, payloads, controls, ages, gaps, counted,
                born, spare, last, size, agents_seen, steady, tag, parent, root, beat, dist,
                still, beat_gap, reign, unborn, done,
            )  # fmt: skip
            _forget(
                renewed[r], links.indptr, links.reverse, held, behind, sent, taken, heard_numbers,
                marks, acknowledged, wobbles, ledger, lineage, meanwhile, tenure, base, collected,
            )  # fmt: skip
        _estimate(minima, spare, size)
        _look(
            totals, ledger, meanwhile, read, unborn, steady, size, last, contexts, rule.num_arms,
            done,
        )  # fmt: skip
        choose(
            rule.address, read, read.shape[1], contexts, CONTEXT, world.decision_keys[run],
            done, numbers, rule.numbers_stride, memory, scratch, lasts, 0, own.shape[0],
            rule.num_arms, rule.squares,
        )  # fmt: skip
        shift = segment_of(world.starts, world.period, done) * world.num_arms
        _pull(
            world.form_kind, table_of(world.tables, run), world.is_normal, world.cubics,
            world.reward_keys[run], tally.counts[run], tally.rewards[run], tally.arms[run], fresh,
            own, unborn, totals, lasts, acts[r : r + 1], rule.squares, world.block, slot, done,
            table_of(world.prices, run), world.places, shift, world.num_arms,
            tally.costs[run], tally.regrets[run], tally.worst[run],
            span.stops[slot - span.slot] == r + 1, ageing.weights[r], ageing.behind[r],
        )  # fmt: skip
        _hold(
            world.form_kind, table_of(world.tables, run), world.is_normal, world.cubics,
            world.reward_keys[run], own, behind, held, meanwhile, lasts, acts[r : r + 1],
            rule.squares, world.places, shift, world.num_arms, done,
        )  # fmt: skip
        _hand_on(
            links.indptr, links.reverse, controls, ages, gaps, wobbles,
            acknowledged, root, beat, dist, held, sent, done,
        )  # fmt: skip
        heard_told[:] = heard_numbers
        marks_told[:] = marks
        lineage_told[:] = lineage
        ledger_told[:] = ledger
        _send(
            links.indptr, links.senders, links.reverse, fate[r : r + 1],
            3 * own.shape[1] + HEADER, controls, ages, gaps, heard, minima, spare, size, steady,
            parent, root, beat, dist, counts[slot], done,
        )  # fmt: skip
        for link in range(heard.size):
            if heard[link]:
                wobbles[link] += 0.2 * (abs(ages[link] + 1.0 - gaps[link]) - wobbles[link])
        _store(links.indptr, links.senders, links.reverse, totals, payloads, heard, counted)
        _tend(
            links.indptr, own, controls, ages, gaps, heard, counted, tag, parent, root, beat, dist,
            still, beat_gap, reign, done + 1,
        )  # fmt: skip
        _add_up(links.indptr, own, totals, payloads, counted, agents_seen, steady)
        _take(
            links.indptr, links.reverse, heard, words, held, sent, taken, heard_numbers,
            heard_told, marks, marks_told, acknowledged, done + 1,
        )  # fmt: skip
        _keep(
            links.indptr, links.senders, heard, words, dist, reign, held, ledger, ledger_told,
            lineage, lineage_told, meanwhile, tenure, base, collected, rule.num_arms, done + 1,
        )  # fmt: skip


@inner
def _forget(
    renewed: Any, indptr: Any, reverse: Any, held: Any, behind: Any, sent: Any, taken: Any,
    numbers: Any, marks: Any, acknowledged: Any, wobbles: Any, ledger: Any, lineage: Any,
    meanwhile: Any, tenure: Any, base: Any, collected: Any,
) -> None:  # fmt: skip
    """Reset the mass of some agents, and what they know of their links."""
    for agent in range(held.shape[0]):
        if renewed[agent] == 0:
            continue
        for rows in (held, ledger, meanwhile, base, collected):
            set_row(rows, agent, 0.0)
        held[agent, held.shape[1] - 2] = 1.0
        behind[agent], lineage[agent], tenure[agent] = 0.0, 0, 0
        for link in range(indptr[agent], indptr[agent + 1]):
            back = reverse[link]
            set_row(taken, link, 0.0)
            set_row(sent, back, 0.0)
            numbers[link], wobbles[link] = 0.0, 0.0
            marks[back], acknowledged[back] = 0.0, 0.0


@inner
def _look(
    totals: Any, ledger: Any, meanwhile: Any, read: Any, unborn: Any, steady: Any, size: Any,
    last: Any, contexts: Any, num_arms: int, done: int,
) -> None:  # fmt: skip
    """Choose what is read, and write time, number of agents and anticipation for the choice."""
    rounds = totals.shape[1] - 1
    for agent in range(size.size):
        counted = max(size[agent], last[agent])
        tree, entered = totals[agent, rounds - 1], ledger[agent, rounds - 1]
        credible = tree <= max(entered, 2.0 * counted)
        agents = max(entered, tree if credible else 0.0)
        if steady[agent] >= STEADY and tree >= FEWEST * counted:
            agents = tree
        elif not LEAST * counted <= agents <= MOST * counted:
            agents = counted
        part, pulls = min(1.0, agents / tree), _pulls(totals, agent, num_arms)
        for w in range(rounds + 1):
            read[agent, w] = ledger[agent, w] + meanwhile[agent, w]
        if credible and part * pulls >= _pulls(read, agent, num_arms):
            copy_row(read, agent, totals)
        else:
            part, pulls = 1.0, _pulls(read, agent, num_arms)
        behind = part * read[agent, rounds]
        contexts[agent, FACTOR], contexts[agent, AGENTS] = 1.0, agents
        contexts[agent, TIME] = max(2.0, pulls)
        since = done - unborn[agent]
        contexts[agent, AHEAD] = max(1.0, agents * since / behind) if behind > 0.0 else 1.0


@inner
def _hold(
    kind: int, table: Any, is_normal: bool, cubics: Any, rewards_from: Any, own: Any, behind: Any,
    held: Any, meanwhile: Any, lasts: Any, acts: Any, squares: int, places: Any, shift: int,
    num_arms: int, done: int,
) -> None:  # fmt: skip
    """Let all agents that have pulled hold the pull."""
    last = own.shape[1] - 1
    for agent in range(own.shape[0]):
        if acts.shape[0] > 0 and acts[0, agent] == 0:
            continue
        arm = lasts[agent]
        z = variate(is_normal, word_at(rewards_from[agent], done), cubics)
        u = reward_from_variate(kind, table, places[agent] + shift + arm, z)
        elapsed = own[agent, last] - behind[agent]
        behind[agent] = own[agent, last]
        for mass in (held, meanwhile):
            mass[agent, arm] += u
            mass[agent, num_arms + arm] += 1.0
            if squares >= 0:
                mass[agent, squares] += u * u
            mass[agent, last] += elapsed


@inner
def _hand_on(
    indptr: Any, reverse: Any, controls: Any, ages: Any, gaps: Any, wobbles: Any,
    acknowledged: Any, root: Any, beat: Any, dist: Any, held: Any, sent: Any, done: int,
) -> None:  # fmt: skip
    """Hand all mass on to the neighbour that carries it; the rules are those of `_carrier`."""
    for agent in range(held.shape[0]):
        if dist[agent] == 0.0:
            continue
        best = NO_LINK
        for link in range(indptr[agent], indptr[agent + 1]):
            far, theirs, answer = controls[link, DIST], controls[link, BEAT], reverse[link]
            silence = SLACK + 2.0 * (gaps[link] - 1.0) + wobbles[link]
            if (
                controls[link, ROOT] == root[agent] and far < FAR and controls[link, BOND] != CHILD
                and (theirs > beat[agent] or (theirs == beat[agent] and far < dist[agent]))
                and acknowledged[answer] > 0.0 and ages[link] <= silence
                and done + 1 - acknowledged[answer] - 2 <= silence
            ):  # fmt: skip
                if best == NO_LINK:
                    best = link
                    continue
                rank, least = gaps[link] - theirs, gaps[best] - controls[best, BEAT]
                nearer = rank == least and far < controls[best, DIST]
                if rank < least or nearer:
                    best = link
        if best != NO_LINK:
            to = reverse[best]
            for w in range(held.shape[1]):
                sent[to, w] += held[agent, w]
                held[agent, w] = 0.0


@inner
def _take(
    indptr: Any, reverse: Any, heard: Any, words: Any, held: Any, sent: Any, taken: Any,
    numbers: Any, numbers_told: Any, marks: Any, marks_told: Any, acknowledged: Any, rounds: int,
) -> None:  # fmt: skip
    """Take over what neighbours have handed on since their last message."""
    for agent in range(held.shape[0]):
        for link in range(indptr[agent], indptr[agent + 1]):
            if not heard[link]:
                continue
            mark, back = marks_told[link], reverse[link]
            if mark > 0.0 and mark == numbers[link] % 1.0:
                for w in range(held.shape[1]):
                    held[agent, w] += sent[link, w] - taken[link, w]
            else:
                acknowledged[back] = 0.0
            for w in range(held.shape[1]):
                taken[link, w] = sent[link, w]
            numbers[link] = rounds + mark
            if marks[back] == 0.0:
                bits = word_at(words[agent], MARKS + rounds) >> np.uint64(44)
                marks[back] = (float(bits) + 0.5) * 2.0**-20
            elif numbers_told[back] % 1.0 == marks[back]:
                acknowledged[back] = numbers_told[back] // 1.0


@inner
def _keep(
    indptr: Any, senders: Any, heard: Any, words: Any, dist: Any, reign: Any, held: Any,
    ledger: Any, ledger_told: Any, lineage: Any, lineage_told: Any, meanwhile: Any, tenure: Any,
    base: Any, collected: Any, num_arms: int, rounds: int,
) -> None:  # fmt: skip
    """Keep the largest ledger; a root enters what has reached it."""
    for agent in range(held.shape[0]):
        if dist[agent] != 0.0 and tenure[agent] != 0:
            tenure[agent] = 0
            set_row(base, agent, 0.0)
            set_row(collected, agent, 0.0)
        grown, most = False, _pulls(ledger, agent, num_arms)
        for link in range(indptr[agent], indptr[agent + 1]):
            if heard[link]:
                other = senders[link]
                pulls = _pulls(ledger_told, other, num_arms)
                if pulls > most:
                    grown, most, lineage[agent] = True, pulls, lineage_told[other]
                    for w in range(held.shape[1]):
                        ledger[agent, w], meanwhile[agent, w] = ledger_told[other, w], 0.0
        if dist[agent] == 0.0 and reign[agent] >= YOUNG:
            is_in = grown and lineage[agent] & tenure[agent] == tenure[agent]
            if tenure[agent] == 0 or is_in:
                tenure[agent] = _tenure(words[agent], rounds)
                set_row(collected, agent, 0.0)
                copy_row(base, agent, ledger)
            elif grown:
                copy_row(base, agent, ledger)
            lineage[agent] |= tenure[agent]
            for w in range(held.shape[1]):
                collected[agent, w] += held[agent, w]
                ledger[agent, w] = base[agent, w] + collected[agent, w]
                held[agent, w] = meanwhile[agent, w] = 0.0


@inner(forceinline=True)
def _pulls(mass: Any, agent: int, num_arms: int) -> float:
    found = 0.0
    for k in range(num_arms):
        found += mass[agent, num_arms + k]
    return found


@inner
def _tenure(word: Any, rounds: int) -> Any:
    """Return the bits of a tenure, as `tenure_of`."""
    drawn, found = word_at(word, TENURES + rounds), np.int64(0)
    for k in range(3):
        place = (drawn >> np.uint64(16 * k)) % np.uint64(LINEAGE_BITS)
        found |= np.int64(1) << np.int64(place)
    return found

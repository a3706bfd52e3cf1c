"""Tree sums: agents keep what their neighbours sent, and maintain the tree."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.extrema import EXPONENTIALS, GENERATION
from coopbandits.core.aggregate.spanning_tree import (
    BOND,
    CHILD,
    DEAF,
    FAR,
    HEARS,
    LONGEST,
    NO_ROOT,
    PATIENCE,
    STANDING,
    UNDERCUT,
    tag_of,
)
from coopbandits.core.aggregate.tree_sums import FEWEST, SPREAD, STEADY
from coopbandits.core.policy import Parts
from coopbandits.network.faults import DOWN
from coopbandits.sim.cpu.ageing import ageing, end_span, most_rounds
from coopbandits.sim.cpu.ahead import filed_meanwhile
from coopbandits.sim.cpu.booking import charge, keep_worst
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, TIME
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.fault_chunks import FaultReader, link_table
from coopbandits.sim.cpu.gossip import collect_anew, first_minima, minima_values
from coopbandits.sim.cpu.inner import alone, inner
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
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.tapes import identity_words

SPAN_PULLS = 500_000
"""Pulls of one run played between two reports of progress."""

ROOT, BEAT, DIST = range(3)
"""Positions of the control values before the bond."""

UNKNOWN = 0.0
"""Marks a network size that has to be estimated again."""

NO_LINK = -1
"""The parent of an agent without one; other parents are link numbers."""


class Tree(NamedTuple):
    """State of all agents (run, agent, …) and of all directed links (run, link, …).

    Fields as in `core.aggregate.tree_sums` and `spanning_tree`; a link holds what its receiver
    remembers of its sender. `unborn` are the rounds before an agent's first pull, `totals` is V,
    `heard` whether a message arrived in this round, `counted` whether the receiver counts what it
    has from that link, `size` the estimate of N from `minima`.
    """

    own: NDArray[np.float64]
    unborn: NDArray[np.float64]
    totals: NDArray[np.float64]
    payloads: NDArray[np.float64]
    controls: NDArray[np.float64]
    ages: NDArray[np.float64]
    gaps: NDArray[np.float64]
    heard: NDArray[np.uint8]
    counted: NDArray[np.uint8]
    born: NDArray[np.float64]
    minima: NDArray[np.float64]
    spare: NDArray[np.float64]
    last: NDArray[np.float64]
    size: NDArray[np.float64]
    agents_seen: NDArray[np.float64]
    steady: NDArray[np.int64]
    tag: NDArray[np.float64]
    parent: NDArray[np.int64]
    root: NDArray[np.float64]
    beat: NDArray[np.float64]
    dist: NDArray[np.float64]
    still: NDArray[np.int64]
    beat_gap: NDArray[np.float64]
    reign: NDArray[np.int64]


def make_tree(task: Task, runs: range, links: int, width: int) -> Tree:
    """Return the state before the first round."""
    words = [identity_words(task.seed, run, task.network.num_agents) for run in runs]
    shape = (len(runs), task.network.num_agents)
    born = first_minima(task, runs)
    tag = np.array([[tag_of(word) for word in row] for row in words])
    own = np.zeros((*shape, width))
    own[..., -2] = 1.0
    controls = np.tile([NO_ROOT, 0.0, FAR, DEAF], (len(runs), links, 1))
    return Tree(
        own=own, unborn=np.zeros(shape), totals=own.copy(),
        payloads=np.zeros((len(runs), links, width)), controls=controls,
        ages=np.zeros((len(runs), links)), gaps=np.ones((len(runs), links)),
        heard=np.zeros((len(runs), links), dtype=np.uint8),
        counted=np.zeros((len(runs), links), dtype=np.uint8), born=born, minima=born.copy(),
        spare=born.copy(), last=np.zeros(shape), size=np.zeros(shape), agents_seen=np.ones(shape),
        steady=np.zeros(shape, dtype=np.int64), tag=tag, parent=np.full(shape, NO_LINK),
        root=tag.copy(), beat=np.zeros(shape), dist=np.zeros(shape),
        still=np.zeros(shape, dtype=np.int64), beat_gap=np.ones(shape),
        reign=np.zeros(shape, dtype=np.int64),
    )  # fmt: skip


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
    given = (
        world, span, tally, fresh, tree, counts, faults, links, rule, numbers, memory, ageing,
        stamps,
    )  # fmt: skip
    launch(_play_run, tree.own.shape[0], given)


@inner(allocates=True)
def _play_run(
    run: int, world: Any, span: Any, tally: Any, all_fresh: Any, tree: Any, all_counts: Any,
    faults: Any, links: Any, rule: Any, numbers: Any, all_memory: Any, ageing: Any, stamps: bool,
) -> None:  # fmt: skip
    fresh, counts, memory = all_fresh[run], all_counts[run], all_memory[run]
    own, unborn, totals = tree.own[run], tree.unborn[run], tree.totals[run]
    payloads, controls = tree.payloads[run], tree.controls[run]
    ages, gaps, heard, counted = tree.ages[run], tree.gaps[run], tree.heard[run], tree.counted[run]
    born, minima, spare, size = tree.born[run], tree.minima[run], tree.spare[run], tree.size[run]
    last = tree.last[run]
    agents_seen, steady, tag = tree.agents_seen[run], tree.steady[run], tree.tag[run]
    parent, root, beat, dist = tree.parent[run], tree.root[run], tree.beat[run], tree.dist[run]
    still, beat_gap, reign = tree.still[run], tree.beat_gap[run], tree.reign[run]
    acts, renewed, fate = faults.acts[run], faults.fresh[run], faults.fate[run]
    scratch, contexts = np.empty(rule.scratch), np.ones((own.shape[0], CONTEXT))
    lasts = np.zeros(own.shape[0], np.int64)
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
        _estimate(minima, spare, size)
        _look(
            totals, unborn, size, last, steady, contexts, rule.num_arms, ageing.factors[r],
            ageing.passed[r],
        )  # fmt: skip
        choose(
            rule.address, totals, totals.shape[1], contexts, CONTEXT, world.decision_keys[run],
            done, numbers, rule.numbers_stride, memory, scratch, lasts, 0, own.shape[0],
            rule.num_arms, rule.squares,
        )  # fmt: skip
        _pull(
            world.form_kind, table_of(world.tables, run), world.is_normal, world.cubics,
            world.reward_keys[run], tally.counts[run], tally.rewards[run], tally.arms[run], fresh,
            own, unborn, totals, lasts, acts[r : r + 1], rule.squares, world.block, slot, done,
            table_of(world.prices, run), world.places,
            segment_of(world.starts, world.period, done) * world.num_arms, world.num_arms,
            tally.costs[run], tally.regrets[run], tally.worst[run],
            span.stops[slot - span.slot] == r + 1, ageing.weights[r], ageing.behind[r],
        )  # fmt: skip
        _send(
            links.indptr, links.senders, links.reverse, fate[r : r + 1],
            own.shape[1] + int(stamps), controls,
            ages, gaps, heard, minima, spare, size, steady, parent, root, beat, dist, counts[slot],
            done,
        )  # fmt: skip
        _store(links.indptr, links.senders, links.reverse, totals, payloads, heard, counted)
        _tend(
            links.indptr, own, controls, ages, gaps, heard, counted, tag, parent, root, beat, dist,
            still, beat_gap, reign, done + 1,
        )  # fmt: skip
        _add_up(links.indptr, own, totals, payloads, counted, agents_seen, steady)


@inner
def _renew(
    renewed: Any, indptr: Any, own: Any, totals: Any, payloads: Any, controls: Any, ages: Any,
    gaps: Any, counted: Any, born: Any, spare: Any, last: Any, size: Any, agents_seen: Any,
    steady: Any, tag: Any, parent: Any, root: Any, beat: Any, dist: Any, still: Any, beat_gap: Any,
    reign: Any, unborn: Any, done: int,
) -> None:  # fmt: skip
    """Reset some agents, as if they had heard nothing in all rounds so far."""
    for agent in range(own.shape[0]):
        if renewed[agent] == 0:
            continue
        set_row(own, agent, 0.0)
        own[agent, own.shape[1] - 2] = 1.0
        copy_row(totals, agent, own)
        copy_row(spare, agent, born)
        size[agent], last[agent] = UNKNOWN, 0.0
        agents_seen[agent], steady[agent], parent[agent] = 1.0, done, NO_LINK
        root[agent], beat[agent], dist[agent] = tag[agent], float(done), 0.0
        still[agent], beat_gap[agent], reign[agent], unborn[agent] = 0, 1.0, 0, 0.0
        for link in range(indptr[agent], indptr[agent + 1]):
            set_row(payloads, link, 0.0)
            controls[link, ROOT], controls[link, BEAT] = NO_ROOT, 0.0
            controls[link, DIST], controls[link, BOND] = FAR, DEAF
            ages[link], gaps[link], counted[link] = float(done), 1.0, 0


@inner
def _estimate(minima: Any, spare: Any, size: Any) -> None:
    """Take over new minima, and estimate N from them."""
    for agent in range(size.size):
        if size[agent] == UNKNOWN:
            total = 0.0
            for i in range(EXPONENTIALS):
                minima[agent, i] = spare[agent, i]
                total += minima[agent, i]
            size[agent] = max(1.0, (EXPONENTIALS - 1) / total)


@inner
def _look(
    totals: Any, unborn: Any, size: Any, last: Any, steady: Any, contexts: Any, num_arms: int,
    factor: float, passed: float,
) -> None:  # fmt: skip
    """Write the time, the number of agents and the anticipation for the choice."""
    rounds = totals.shape[1] - 1
    for agent in range(size.size):
        num_agents, pulls = totals[agent, rounds - 1], 0.0
        estimated = max(size[agent], last[agent])
        for k in range(num_arms):
            pulls += totals[agent, num_arms + k]
        if steady[agent] < STEADY or num_agents < FEWEST * estimated:
            num_agents = max(num_agents, estimated)
        recorded = factor * totals[agent, rounds]
        contexts[agent, FACTOR], contexts[agent, AGENTS] = factor, num_agents
        contexts[agent, TIME] = max(2.0, factor * pulls)
        since = passed - factor * unborn[agent]
        contexts[agent, AHEAD] = max(1.0, num_agents * since / recorded) if recorded > 0.0 else 1.0


@inner
def _pull(
    kind: int, table: Any, is_normal: bool, cubics: Any, rewards_from: Any, counts: Any,
    rewards: Any, arms: Any, fresh: Any, own: Any, unborn: Any, totals: Any, lasts: Any, acts: Any,
    squares: int, block: int, slot: int, done: int, prices: Any, places: Any, shift: int,
    num_arms: int, costs: Any, regrets: Any, worst: Any, is_recorded: bool, weight: float,
    behind: float,
) -> None:  # fmt: skip
    """Let all agents that act pull."""
    last = own.shape[1] - 1
    for agent in range(own.shape[0]):
        if acts.shape[0] > 0 and acts[0, agent] == 0:
            if arms.shape[1] > 0:
                arms[agent, done] = -1
            continue
        arm = lasts[agent]
        row = places[agent] + shift + arm
        u = reward_from_variate(
            kind, table, row, variate(is_normal, word_at(rewards_from[agent], done), cubics)
        )
        if own[agent, last] == 0.0:
            unborn[agent] = behind - weight
        elapsed = behind - unborn[agent] - own[agent, last]
        own[agent, arm] += weight * u
        totals[agent, arm] += weight * u
        own[agent, num_arms + arm] += weight
        totals[agent, num_arms + arm] += weight
        if squares >= 0:
            own[agent, squares] += weight * u * u
            totals[agent, squares] += weight * u * u
        own[agent, last] += elapsed
        totals[agent, last] += elapsed
        fresh[agent, num_arms + arm] += 1.0
        counts[agent // block, slot, arm] += 1
        rewards[agent // block, slot] += u
        charge(prices, num_arms, row, 1, regrets, agent, costs[agent // block], slot)
        if arms.shape[1] > 0:
            arms[agent, done] = arm
    if is_recorded:
        for agent in range(own.shape[0]):
            keep_worst(worst[agent // block], slot, regrets[agent])


@inner(forceinline=True)
def is_alive(age: float, gap: float) -> bool:
    """Return whether a neighbour has been heard from recently enough."""
    return age <= 8.0 * gap + 10.0


@inner
def _send(
    indptr: Any, senders: Any, reverse: Any, fate: Any, width: int, controls: Any, ages: Any,
    gaps: Any, heard: Any, minima: Any, spare: Any, size: Any, steady: Any, parent: Any, root: Any,
    beat: Any, dist: Any, counts: Any, done: int,
) -> None:  # fmt: skip
    """Send all messages of a round, and store what arrives except for the sums."""
    begun = done >= GENERATION and done % GENERATION < SPREAD
    for receiver in range(size.size):
        for link in range(indptr[receiver], indptr[receiver + 1]):
            back, sender = reverse[link], senders[link]
            told = fate[0, link] if fate.shape[0] > 0 else 0
            heard[link] = told == 0
            spreads = begun or steady[sender] < STEADY
            if told != DOWN:
                counts[0] += width + 4 + (minima_values(done) if spreads else 0)
                counts[1] += 1
                counts[2 if told == 0 else 3] += 1
            if told == 0:
                bond = HEARS if is_alive(ages[back], gaps[back]) else DEAF
                controls[link, ROOT], controls[link, DIST] = root[sender], dist[sender]
                controls[link, BEAT] = done + 1.0 if dist[sender] == 0.0 else beat[sender]
                controls[link, BOND] = CHILD if parent[sender] == back else bond
                if spreads:
                    size[receiver] = UNKNOWN
                    for i in range(EXPONENTIALS):
                        spare[receiver, i] = min(spare[receiver, i], minima[sender, i])


@alone
def _store(
    indptr: Any, senders: Any, reverse: Any, totals: Any, payloads: Any, heard: Any, counted: Any
) -> None:
    """Store the sums that arrive: the sender's totals minus what it has from the receiver."""
    width = np.uintp(totals.shape[1])  # unsigned: see `averaging`
    for agent in range(np.uintp(totals.shape[0])):
        for link in range(np.uintp(indptr[agent]), np.uintp(indptr[agent + np.uintp(1)])):
            back, other = np.uintp(reverse[link]), np.uintp(senders[link])
            if other > agent:
                continue  # each pair once, since both read the state before the round
            share, share_back = float(counted[link]), float(counted[back])
            if heard[link] and heard[back]:
                for w in range(width):
                    here, there = payloads[link, w], payloads[back, w]
                    payloads[link, w] = totals[other, w] - share_back * there
                    payloads[back, w] = totals[agent, w] - share * here
            elif heard[link]:
                for w in range(width):
                    payloads[link, w] = totals[other, w] - share_back * payloads[back, w]
            elif heard[back]:
                for w in range(width):
                    payloads[back, w] = totals[agent, w] - share * payloads[link, w]


@inner
def _tend(
    indptr: Any, own: Any, controls: Any, ages: Any, gaps: Any, heard: Any, counted: Any, tag: Any,
    parent: Any, root: Any, beat: Any, dist: Any, still: Any, beat_gap: Any, reign: Any,
    rounds: int,
) -> None:  # fmt: skip
    """Maintain the tree; the steps are those of `core.aggregate.spanning_tree`."""
    known = min(rounds / 8, LONGEST)
    for agent in range(parent.size):
        first, end = indptr[agent], indptr[agent + 1]
        for link in range(first, end):
            ages[link] += 1.0
            if heard[link]:
                gaps[link] = min(PATIENCE, gaps[link] + 0.2 * (ages[link] - gaps[link]))
                ages[link] = 0.0
        some_hear = some_heard = False
        for link in range(first, end):
            alive = is_alive(ages[link], gaps[link])
            some_heard |= alive
            some_hear |= alive and controls[link, BOND] != DEAF
        still[agent] += 1
        if dist[agent] == 0.0:
            _improve(root, beat, still, beat_gap, agent, root[agent], float(rounds))
        up = parent[agent]
        if up != NO_LINK:
            if controls[up, ROOT] > root[agent] or not (
                is_alive(ages[up], gaps[up]) and (controls[up, BOND] != DEAF or not some_hear)
            ):
                parent[agent], dist[agent] = NO_LINK, FAR
            else:
                _improve(root, beat, still, beat_gap, agent, controls[up, ROOT], controls[up, BEAT])
                dist[agent] = min(FAR, controls[up, DIST] + 1.0)
        if some_heard and still[agent] > UNDERCUT + 8 * beat_gap[agent] + known:
            root[agent] = tag[agent] + math.floor(root[agent]) - 1.0
            parent[agent], beat[agent], dist[agent] = NO_LINK, float(rounds), 0.0
            still[agent] = 0
        best = NO_LINK
        for link in range(first, end):
            theirs, far = controls[link, ROOT], controls[link, DIST]
            nearer = (
                theirs == root[agent] and far + 1.0 < dist[agent]
                and controls[link, BEAT] > beat[agent]
            )  # fmt: skip
            if (
                is_alive(ages[link], gaps[link]) and (controls[link, BOND] != DEAF or not some_hear)
                and controls[link, BOND] != CHILD and far < FAR
                and (theirs < root[agent] or nearer)
                and (
                    best == NO_LINK or theirs < controls[best, ROOT]
                    or (theirs == controls[best, ROOT] and far < controls[best, DIST])
                )
            ):  # fmt: skip
                best = link
        if best != NO_LINK:
            parent[agent] = best
            _improve(root, beat, still, beat_gap, agent, controls[best, ROOT], controls[best, BEAT])
            dist[agent] = controls[best, DIST] + 1.0
        # In a simulation, whoever hears has pulled before.
        reigns = dist[agent] == 0.0 and own[agent, own.shape[1] - 1] > 0.0
        reign[agent] = reign[agent] + 1 if reigns else 0
        if reign[agent] >= STANDING and reign[agent] & (reign[agent] - 1) == 0:
            root[agent] -= 1.0
        for link in range(first, end):
            related = controls[link, BOND] == CHILD or parent[agent] == link
            counted[link] = related and is_alive(ages[link], gaps[link])


@alone
def _add_up(
    indptr: Any, own: Any, totals: Any, payloads: Any, counted: Any, agents_seen: Any, steady: Any
) -> None:
    """Add up every agent's own registers and those it counts from others."""
    width = np.uintp(own.shape[1])  # unsigned: see `averaging`
    for agent in range(np.uintp(own.shape[0])):
        for w in range(width):
            totals[agent, w] = own[agent, w]
        for link in range(np.uintp(indptr[agent]), np.uintp(indptr[agent + np.uintp(1)])):
            if counted[link]:
                for w in range(width):
                    totals[agent, w] += payloads[link, w]
        agents = totals[agent, width - np.uintp(2)]
        steady[agent] = steady[agent] + 1 if agents == agents_seen[agent] else 0
        agents_seen[agent] = agents


@inner(forceinline=True)
def _improve(
    root: Any, beat: Any, still: Any, beat_gap: Any, agent: int, new_root: float, new_beat: float
) -> None:
    """Take over a root and a beat that are better."""
    if new_root < root[agent]:
        root[agent], beat[agent], still[agent] = new_root, new_beat, 0
    elif new_root == root[agent] and new_beat > beat[agent]:
        gap = beat_gap[agent]
        beat_gap[agent] = min(PATIENCE, gap + 0.2 * (still[agent] - gap))
        beat[agent], still[agent] = new_beat, 0

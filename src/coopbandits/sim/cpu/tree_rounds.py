"""What all kernels on a tree share: agents keep what neighbours sent, and maintain the tree."""

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
from coopbandits.core.aggregate.tree_sums import CERTAIN, FEWEST, SPREAD, STEADY
from coopbandits.network.faults import DOWN
from coopbandits.sim.cpu.gossip import collect_anew, first_minima, minima_values
from coopbandits.sim.cpu.inner import alone, inner
from coopbandits.sim.cpu.leaves import copy_row, set_row
from coopbandits.sim.record import Task
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
    standing: NDArray[np.float64]
    stood: NDArray[np.int64]
    tag: NDArray[np.float64]
    parent: NDArray[np.int64]
    root: NDArray[np.float64]
    beat: NDArray[np.float64]
    dist: NDArray[np.float64]
    still: NDArray[np.int64]
    beat_gap: NDArray[np.float64]
    reign: NDArray[np.int64]
    lived: NDArray[np.int64]


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
        steady=np.zeros(shape, dtype=np.int64), standing=np.ones(shape),
        stood=np.zeros(shape, dtype=np.int64), tag=tag, parent=np.full(shape, NO_LINK),
        root=tag.copy(), beat=np.zeros(shape), dist=np.zeros(shape),
        still=np.zeros(shape, dtype=np.int64), beat_gap=np.ones(shape),
        reign=np.zeros(shape, dtype=np.int64), lived=np.zeros(shape, dtype=np.int64),
    )  # fmt: skip


@inner(forceinline=True)
def begin_round(tree: Any, indptr: Any, renewed: Any, r: int, done: int) -> None:
    """Reset agents that are made anew, and let all estimate N; the tree is that of one run.

    `renewed` (round, agent) tells who is made anew; without rows nobody ever is.
    """
    if done % GENERATION == 0:
        # What arrived in the last round counts for the old generation.
        _estimate(tree.minima, tree.spare, tree.size)
        tree.size[:] = UNKNOWN
    collect_anew(tree.born, tree.minima, tree.spare, tree.last, done)
    if renewed.shape[0] > 0:
        _renew(tree, indptr, renewed[r], done)
    _estimate(tree.minima, tree.spare, tree.size)


@inner(forceinline=True)
def hear(tree: Any, links: Any, done: int) -> None:
    """Let all agents store the sums that arrived, maintain the tree, and add up what they count."""
    _store(
        links.indptr, links.senders, links.reverse, tree.totals, tree.payloads, tree.heard,
        tree.counted,
    )  # fmt: skip
    _tend(tree, links.indptr, done + 1)
    _add_up(
        links.indptr, tree.own, tree.totals, tree.payloads, tree.counted, tree.agents_seen,
        tree.steady, tree.standing, tree.stood, tree.heard,
    )  # fmt: skip


@inner
def _renew(tree: Any, indptr: Any, renewed: Any, done: int) -> None:
    """Reset some agents, as if they had heard nothing in all rounds so far."""
    own, totals, payloads, controls = tree.own, tree.totals, tree.payloads, tree.controls
    for agent in range(own.shape[0]):
        if renewed[agent] == 0:
            continue
        set_row(own, agent, 0.0)
        own[agent, own.shape[1] - 2] = 1.0
        copy_row(totals, agent, own)
        copy_row(tree.spare, agent, tree.born)
        tree.size[agent], tree.last[agent], tree.unborn[agent] = UNKNOWN, 0.0, 0.0
        tree.agents_seen[agent], tree.steady[agent], tree.parent[agent] = 1.0, 0, NO_LINK
        tree.standing[agent], tree.stood[agent], tree.lived[agent] = 1.0, 0, 0
        tree.root[agent], tree.beat[agent], tree.dist[agent] = tree.tag[agent], float(done), 0.0
        tree.still[agent], tree.beat_gap[agent], tree.reign[agent] = 0, 1.0, 0
        for link in range(indptr[agent], indptr[agent + 1]):
            set_row(payloads, link, 0.0)
            controls[link, ROOT], controls[link, BEAT] = NO_ROOT, 0.0
            controls[link, DIST], controls[link, BOND] = FAR, DEAF
            tree.ages[link], tree.gaps[link], tree.counted[link] = float(done), 1.0, 0


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


@inner(forceinline=True)
def is_alive(age: float, gap: float) -> bool:
    """Return whether a neighbour has been heard from recently enough."""
    return age <= 8.0 * gap + 10.0


@inner(forceinline=True)
def is_believed(tree: Any, agent: int, agents: float, counted: float) -> bool:
    """Return whether a(V) is the number of agents, minima having `counted` them."""
    if tree.stood[agent] >= CERTAIN and agents == tree.standing[agent]:
        return True
    return tree.steady[agent] >= STEADY and agents >= FEWEST * counted


@inner
def send(tree: Any, links: Any, fate: Any, width: int, counts: Any, done: int) -> None:
    """Send all messages of a round, and store what arrives except for the sums.

    A message has `width` values besides the tree's own. `fate` (1, link), or (0, link) where all
    messages arrive, is what becomes of them.
    """
    indptr, controls, ages, gaps = links.indptr, tree.controls, tree.ages, tree.gaps
    minima, spare, size, dist = tree.minima, tree.spare, tree.size, tree.dist
    begun = done >= GENERATION and done % GENERATION < SPREAD
    for receiver in range(size.size):
        for link in range(indptr[receiver], indptr[receiver + 1]):
            back, sender = links.reverse[link], links.senders[link]
            told = fate[0, link] if fate.shape[0] > 0 else 0
            tree.heard[link] = told == 0
            spreads = begun or tree.steady[sender] < STEADY
            if told != DOWN:
                counts[0] += width + 4 + (minima_values(done) if spreads else 0)
                counts[1] += 1
                counts[2 if told == 0 else 3] += 1
            if told == 0:
                bond = HEARS if is_alive(ages[back], gaps[back]) else DEAF
                controls[link, ROOT], controls[link, DIST] = tree.root[sender], dist[sender]
                controls[link, BEAT] = done + 1.0 if dist[sender] == 0.0 else tree.beat[sender]
                controls[link, BOND] = CHILD if tree.parent[sender] == back else bond
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


@inner(forceinline=True)
def _best_parent(tree: Any, first: int, end: int, agent: int, some_hear: bool) -> int:
    """Find the link to the neighbour that knows a better root, or a better way to the same."""
    controls, ages, gaps = tree.controls, tree.ages, tree.gaps
    root, beat, dist = tree.root, tree.beat, tree.dist
    best, stalled = NO_LINK, not is_alive(tree.still[agent], tree.beat_gap[agent])
    for link in range(first, end):
        theirs, far = controls[link, ROOT], controls[link, DIST]
        fresher = (
            theirs == root[agent] and controls[link, BEAT] > beat[agent]
            and (stalled or far + 1.0 < dist[agent])
        )  # fmt: skip
        if (
            is_alive(ages[link], gaps[link]) and (controls[link, BOND] != DEAF or not some_hear)
            and controls[link, BOND] != CHILD and far < FAR
            and (theirs < root[agent] or fresher)
            and (
                best == NO_LINK or theirs < controls[best, ROOT]
                or (theirs == controls[best, ROOT] and far < controls[best, DIST])
            )
        ):  # fmt: skip
            best = link
    return best


@inner
def _tend(tree: Any, indptr: Any, rounds: int) -> None:
    """Maintain the tree; the steps are those of `core.aggregate.spanning_tree`."""
    own, controls, ages, gaps, heard = tree.own, tree.controls, tree.ages, tree.gaps, tree.heard
    parent, root, beat, dist = tree.parent, tree.root, tree.beat, tree.dist
    still, beat_gap, reign, lived = tree.still, tree.beat_gap, tree.reign, tree.lived
    for agent in range(parent.size):
        first, end = indptr[agent], indptr[agent + 1]
        for link in range(first, end):
            ages[link] += 1.0
            if heard[link]:
                gaps[link] = min(PATIENCE, gaps[link] + 0.2 * (ages[link] - gaps[link]))
                ages[link] = 0.0
        some_hear = hears = False
        for link in range(first, end):
            hears |= heard[link] != 0
            some_hear |= is_alive(ages[link], gaps[link]) and controls[link, BOND] != DEAF
        has_pulled = own[agent, own.shape[1] - 1] > 0.0  # as has everyone who hears
        lived[agent] += int(has_pulled)
        still[agent] += int(hears)
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
        if still[agent] > UNDERCUT + 8 * beat_gap[agent] + min(lived[agent] / 8, LONGEST):
            root[agent] = tree.tag[agent] + math.floor(root[agent]) - 1.0
            parent[agent], beat[agent], dist[agent] = NO_LINK, float(rounds), 0.0
            still[agent] = 0
        best = _best_parent(tree, first, end, agent, some_hear)
        if best != NO_LINK:
            parent[agent] = best
            _improve(root, beat, still, beat_gap, agent, controls[best, ROOT], controls[best, BEAT])
            dist[agent] = controls[best, DIST] + 1.0
        reign[agent] = reign[agent] + 1 if has_pulled and dist[agent] == 0.0 else 0
        if reign[agent] >= STANDING and reign[agent] & (reign[agent] - 1) == 0:
            root[agent] -= 1.0
        for link in range(first, end):
            related = controls[link, BOND] == CHILD or parent[agent] == link
            tree.counted[link] = related and is_alive(ages[link], gaps[link])


@alone
def _add_up(
    indptr: Any, own: Any, totals: Any, payloads: Any, counted: Any, agents_seen: Any,
    steady: Any, standing: Any, stood: Any, heard: Any,
) -> None:  # fmt: skip
    """Add up every agent's own registers and those it counts from others."""
    width = np.uintp(own.shape[1])  # unsigned: see `averaging`
    for agent in range(np.uintp(own.shape[0])):
        for w in range(width):
            totals[agent, w] = own[agent, w]
        hears = False
        for link in range(np.uintp(indptr[agent]), np.uintp(indptr[agent + np.uintp(1)])):
            hears |= heard[link] != 0
            if counted[link]:
                for w in range(width):
                    totals[agent, w] += payloads[link, w]
        agents = totals[agent, width - np.uintp(2)]
        steady[agent] = steady[agent] + int(hears) if agents == agents_seen[agent] else 0
        agents_seen[agent] = agents
        if steady[agent] >= STEADY:
            stood[agent] = stood[agent] + 1 if agents == standing[agent] else 0
            standing[agent] = agents


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

"""The mass of ledger sums: what agents hold, hand on to a root, and read of its ledger."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.ledger_sums import LINEAGE_BITS, MOST, TENURES, YOUNG
from coopbandits.core.aggregate.moving_mass import LAGS, MARKS, SLACK, UNKNOWN
from coopbandits.core.aggregate.spanning_tree import BOND, CHILD, FAR, PATIENCE
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, FACTOR, TIME
from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.leaves import (
    copy_row,
    reward_from_variate,
    segment_of,
    set_row,
    square_place,
    variate,
    word_at,
)
from coopbandits.sim.cpu.tree_rounds import BEAT, DIST, NO_LINK, ROOT, is_believed
from coopbandits.sim.record import Task
from coopbandits.sim.tapes import identity_words

NO_LAGS = (0.0, UNKNOWN, 0.0)
"""`lags` before the first answer."""


class Books(NamedTuple):
    """Mass of all agents (run, agent, …) and of all directed links (run, link, …).

    Fields as in `core.aggregate.ledger_sums` and `moving_mass`. `sent`, `marks`,
    `acknowledged` and `lags` of a link are its sender's, `taken`, `numbers` and `wobbles` its
    receiver's. Those that end in `_told` are as they stood when a round's messages were written;
    `behind` are the rounds behind the own totals.
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
    lags: NDArray[np.float64]
    wobbles: NDArray[np.float64]
    ledger: NDArray[np.float64]
    ledger_told: NDArray[np.float64]
    lineage: NDArray[np.int64]
    lineage_told: NDArray[np.int64]
    meanwhile: NDArray[np.float64]
    tenure: NDArray[np.int64]
    base: NDArray[np.float64]
    collected: NDArray[np.float64]
    certain: NDArray[np.float64]


def make_books(task: Task, runs: range, links: int, width: int) -> Books:
    """Return the state before the first round."""
    agents = task.network.num_agents
    words = [identity_words(task.seed, run, agents) for run in runs]
    shape = (len(runs), agents)
    rows, wide = np.zeros((*shape, width)), np.zeros((len(runs), links, width))
    per_link, bits = np.zeros((len(runs), links)), np.zeros(shape, dtype=np.int64)
    lags = np.tile(NO_LAGS, (len(runs), links, 1))
    held = rows.copy()
    held[..., -2] = 1.0
    return Books(
        words=np.array(words, dtype=np.uint64), held=held, behind=np.zeros(shape),
        sent=wide, taken=wide.copy(), numbers=per_link, numbers_told=per_link.copy(),
        marks=per_link.copy(), marks_told=per_link.copy(), acknowledged=per_link.copy(),
        lags=lags, wobbles=per_link.copy(), ledger=rows, ledger_told=rows.copy(), lineage=bits,
        lineage_told=bits.copy(), meanwhile=rows.copy(), tenure=bits.copy(), base=rows.copy(),
        collected=rows.copy(), certain=rows.copy(),
    )  # fmt: skip


@inner
def forget(books: Any, links: Any, renewed: Any) -> None:
    """Reset the mass of some agents, and what they know of their links."""
    held = books.held
    for agent in range(held.shape[0]):
        if renewed[agent] == 0:
            continue
        for rows in (held, books.ledger, books.meanwhile, books.base, books.collected):
            set_row(rows, agent, 0.0)
        set_row(books.certain, agent, 0.0)
        held[agent, held.shape[1] - 2] = 1.0
        books.behind[agent], books.lineage[agent], books.tenure[agent] = 0.0, 0, 0
        for link in range(links.indptr[agent], links.indptr[agent + 1]):
            back = links.reverse[link]
            set_row(books.taken, link, 0.0)
            set_row(books.sent, back, 0.0)
            books.numbers[link], books.wobbles[link] = 0.0, 0.0
            books.marks[back], books.acknowledged[back] = 0.0, 0.0
            for w in range(3):
                books.lags[back, w] = NO_LAGS[w]


@inner
def look(tree: Any, books: Any, read: Any, contexts: Any, num_arms: int, done: int) -> None:
    """Choose what is read, and write time, number of agents and anticipation for the choice."""
    totals, size, ledger = tree.totals, tree.size, books.ledger
    rounds = totals.shape[1] - 1
    for agent in range(size.size):
        counted = max(size[agent], tree.last[agent])
        summed, entered = totals[agent, rounds - 1], ledger[agent, rounds - 1]
        credible = summed <= max(entered, 2.0 * counted)
        agents = max(entered, summed if credible else 0.0)
        if is_believed(tree, agent, summed, counted):
            agents = summed
        elif not counted <= agents <= MOST * counted:
            agents = counted
        part, pulls = min(1.0, agents / summed), _pulls(totals, agent, num_arms)
        for w in range(rounds + 1):
            read[agent, w] = ledger[agent, w] + books.meanwhile[agent, w]
            read[agent, rounds + 1 + w] = books.certain[agent, w]
        if credible and part * pulls >= _pulls(read, agent, num_arms):
            for w in range(rounds + 1):
                read[agent, w] = totals[agent, w]
        else:
            part, pulls = 1.0, _pulls(read, agent, num_arms)
        behind = part * read[agent, rounds]
        contexts[agent, FACTOR], contexts[agent, AGENTS] = 1.0, agents
        contexts[agent, TIME] = max(2.0, pulls)
        since = done - tree.unborn[agent]
        contexts[agent, AHEAD] = max(1.0, agents * since / behind) if behind > 0.0 else 1.0


@inner
def hold(world: Any, own: Any, books: Any, lasts: Any, acts: Any, squares: int, done: int) -> None:
    """Let all agents that have pulled hold the pull."""
    behind, num_arms, last = books.behind, world.num_arms, own.shape[1] - 1
    shift = segment_of(world.starts, world.period, done) * num_arms
    for agent in range(own.shape[0]):
        if acts.shape[0] > 0 and acts[0, agent] == 0:
            continue
        arm = lasts[agent]
        z = variate(world.is_normal, word_at(world.reward_keys[agent], done), world.cubics)
        row = world.places[agent] + shift + arm
        u = reward_from_variate(world.form_kind, world.tables, row, z)
        elapsed = own[agent, last] - behind[agent]
        behind[agent] = own[agent, last]
        for mass in (books.held, books.meanwhile, books.certain):
            mass[agent, arm] += u
            mass[agent, num_arms + arm] += 1.0
            if squares > 0:
                mass[agent, square_place(num_arms, squares, arm)] += u * u
            mass[agent, last] += elapsed


@inner
def hand_on(tree: Any, books: Any, links: Any, done: int) -> None:
    """Hand all mass on to the neighbour that carries it; the rules are those of `_carrier`."""
    indptr, reverse, acknowledged, held = (
        links.indptr,
        links.reverse,
        books.acknowledged,
        books.held,
    )
    controls, gaps, root, beat, dist = tree.controls, tree.gaps, tree.root, tree.beat, tree.dist
    for agent in range(held.shape[0]):
        if dist[agent] == 0.0:
            continue
        best = NO_LINK
        for link in range(indptr[agent], indptr[agent + 1]):
            far, theirs, answer = controls[link, DIST], controls[link, BEAT], reverse[link]
            silence = SLACK + 2.0 * (gaps[link] - 1.0) + books.wobbles[link]
            if (
                controls[link, ROOT] == root[agent] and far < FAR and controls[link, BOND] != CHILD
                and (theirs > beat[agent] or (theirs == beat[agent] and far < dist[agent]))
                and acknowledged[answer] > 0.0 and tree.ages[link] <= silence
                and done + 1 - acknowledged[answer] - 2 - books.lags[answer, 0] <= silence
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
                books.sent[to, w] += held[agent, w]
                held[agent, w] = 0.0


@inner
def write(books: Any) -> None:
    """Write down what this round's messages tell."""
    for link in range(books.numbers.size):
        books.numbers_told[link], books.marks_told[link] = books.numbers[link], books.marks[link]
    for agent in range(books.lineage.size):
        books.lineage_told[agent] = books.lineage[agent]
        copy_row(books.ledger_told, agent, books.ledger)


@inner
def note_wobbles(tree: Any, books: Any) -> None:
    """Note how unevenly neighbours are heard, before the tree forgets when they were last."""
    for link in range(tree.heard.size):
        if tree.heard[link]:
            wobble = abs(tree.ages[link] + 1.0 - tree.gaps[link])
            books.wobbles[link] += 0.2 * (wobble - books.wobbles[link])


@inner
def take(heard: Any, books: Any, links: Any, rounds: int) -> None:
    """Take over what neighbours have handed on since their last message."""
    held, sent, taken = books.held, books.sent, books.taken
    numbers, numbers_told, marks = books.numbers, books.numbers_told, books.marks
    for agent in range(held.shape[0]):
        for link in range(links.indptr[agent], links.indptr[agent + 1]):
            if not heard[link]:
                continue
            mark, back = books.marks_told[link], links.reverse[link]
            if mark > 0.0 and mark == numbers[link] % 1.0:
                for w in range(held.shape[1]):
                    held[agent, w] += sent[link, w] - taken[link, w]
            else:
                books.acknowledged[back] = 0.0
            for w in range(held.shape[1]):
                taken[link, w] = sent[link, w]
            numbers[link] = rounds + mark
            if marks[back] == 0.0:
                bits = word_at(books.words[agent], MARKS + rounds) >> np.uint64(44)
                marks[back] = (float(bits) + 0.5) * 2.0**-20
            elif numbers_told[back] % 1.0 == marks[back]:
                books.acknowledged[back] = numbers_told[back] // 1.0
                _note_lag(books.lags[back], rounds + 1 - books.acknowledged[back] - 2)


@inner
def _note_lag(lags: Any, late: float) -> None:
    """Note by how many rounds an answer is late."""
    lag = min(late, PATIENCE)
    lags[0], lags[1], lags[2] = min(lags[0], lag), min(lags[1], lag), lags[2] + 1.0
    if lags[2] == LAGS:
        lags[0], lags[1], lags[2] = lags[1], UNKNOWN, 0.0


@inner
def keep(tree: Any, books: Any, links: Any, num_arms: int, rounds: int) -> None:
    """Keep the largest ledger; a root enters what has reached it."""
    dist, held, ledger, ledger_told = tree.dist, books.held, books.ledger, books.ledger_told
    lineage, meanwhile, tenure = books.lineage, books.meanwhile, books.tenure
    base, collected = books.base, books.collected
    for agent in range(held.shape[0]):
        if dist[agent] != 0.0 and tenure[agent] != 0:
            tenure[agent] = 0
            set_row(base, agent, 0.0)
            set_row(collected, agent, 0.0)
        grown, most = False, _pulls(ledger, agent, num_arms)
        for link in range(links.indptr[agent], links.indptr[agent + 1]):
            if tree.heard[link]:
                other = links.senders[link]
                pulls = _pulls(ledger_told, other, num_arms)
                if pulls > most:
                    grown, most, lineage[agent] = True, pulls, books.lineage_told[other]
                    for w in range(held.shape[1]):
                        ledger[agent, w], meanwhile[agent, w] = ledger_told[other, w], 0.0
        if dist[agent] == 0.0 and tree.reign[agent] >= YOUNG:
            is_in = grown and lineage[agent] & tenure[agent] == tenure[agent]
            if tenure[agent] == 0 or is_in:
                tenure[agent] = _tenure(books.words[agent], rounds)
                set_row(collected, agent, 0.0)
                copy_row(base, agent, ledger)
            elif grown:
                copy_row(base, agent, ledger)
            lineage[agent] |= tenure[agent]
            for w in range(held.shape[1]):
                collected[agent, w] += held[agent, w]
                ledger[agent, w] = base[agent, w] + collected[agent, w]
                held[agent, w] = meanwhile[agent, w] = 0.0
        if _pulls(ledger, agent, num_arms) > _pulls(books.certain, agent, num_arms):
            copy_row(books.certain, agent, ledger)


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

"""What an agent does with entries of a flood: find news, take what is newer, add all up.

`flooded_totals` says what entries are for. They stand in a table in ascending order of numbers, of
which `num_entries` rows are in use. Beside it, row by row, are two more tables: `tags` say when an
entry changed and whom it came from; `marks` follow from entries, and save looking at them.

All functions take the state `s` of an agent, and run both in plain Python and compiled. There an
agent may have thousands of entries, so whatever looks at all of them is an operation on rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from coopbandits.core import rows
from coopbandits.core.aggregate.entries import HEADER, author_of
from coopbandits.core.aggregate.exchange import anticipation
from coopbandits.core.aggregate.fields import AGENTS, AHEAD, TIME
from coopbandits.core.aggregate.forgetting import (
    decayed_rounds,
    keep_totals,
    latest_clock,
    set_factors,
)
from coopbandits.core.aggregate.lazy import has_grown
from coopbandits.core.statistic.site_sums import add_site_pull

if TYPE_CHECKING:
    from coopbandits.core.contract import Vector

CHANGED, SOURCE, DELAY = range(3)
"""Tags: the first message that surely carries an entry as it is, the neighbour that it came from,
and how much older it is than the clock tells."""

TAGS = 3

OWN, NOBODY = -1.0, -2.0
"""The source of what the agent observed itself, and of nothing."""

NUMBER, PULLS, BEHIND, TAKEN, BEFORE = range(5)
"""Marks: the number of an entry, its version, what the rounds behind it count, the round in which
it was last taken, and the rounds behind it before this one where there is a window."""

MARKS = 5


def add_own(s: Any, pull: Vector) -> None:
    """Add one own pull; its round ends those behind the own totals."""
    at, size, ended = s.me.place, s.former.size, s.me.rounds
    own = s.entries[at, HEADER:]
    if s.me.decay != 1.0:  # what was pulled before has aged since the last pull
        ended, size = s.me.clock, size - 1
        set_factors(s, int(age_of(s, at)))
        rows.multiply(own, s.factors)
        rows.multiply(s.former, s.factors)
        s.tags[at, DELAY] = 0.0
        own[size] += 1.0  # the number of pulls ever made
        s.marks[at, BEHIND] = decayed_rounds(s.me.decay, ended + 1.0)
    if s.me.is_site == 1:
        add_site_pull(own, pull)
    else:
        rows.add(own[:size], pull[:size])
    s.entries[at, 1] = ended + 1.0
    s.marks[at, PULLS] += 1.0
    if s.told.size > 0 and not tells(s, own):
        return
    # This round's message may be on its way already: only the next one surely carries it.
    s.tags[at, CHANGED], s.tags[at, SOURCE] = s.me.rounds + 2.0, OWN


def tells(s: Any, own: Any) -> bool:
    """Return whether the own entry has grown enough, and remember it as told if so."""
    grown = False
    for k in range(s.told.size):
        grown = grown or has_grown(own[s.count_at[k]], s.told[k], s.me.lazy)
    if grown:
        for k in range(s.told.size):
            s.told[k] = own[s.count_at[k]]
    return grown


def find_news(s: Any, link: int) -> int:
    """Write which entries a neighbour may not have into `news`, and return how many there are."""
    used, arrived = s.me.num_entries, s.arrived[link]
    besides = s.ends[link] if arrived > 0.0 else NOBODY  # if nothing arrived, its memory is new
    tags = s.tags[:used]
    return rows.find_above(s.news, tags[:, CHANGED], arrived, tags[:, SOURCE], besides)


def is_silent(s: Any, link: int, count: int) -> bool:
    """Return whether a lazy agent says nothing rather than that there is no news."""
    return bool(count == 0 and s.told.size > 0 and s.owed[link] == 0.0)


def write_news(s: Any, link: int, count: int, out: Any) -> int:
    """Write [own number, number heard | entries that are news]."""
    out[0], out[1] = s.me.rounds + 1.0, s.heard[link]
    end = HEADER + count * s.entries.shape[1]
    if count > 0:
        rows.gather(out[HEADER:end], s.entries, s.news[:count])
    return int(end)


def listen(s: Any, link: int, number: float, arrived: float, length: int) -> None:
    """Note which message was heard over a link, and which own one had arrived there."""
    s.heard[link] = number
    # Who tells of a message that was never sent has heard another memory of this agent.
    s.arrived[link] = arrived if arrived <= s.me.rounds else 0.0
    s.owed[link] = 1.0 if length > HEADER else 0.0


def hear(s: Any, told: Any, source: float) -> None:
    """Take every entry that has more pulls than the one at hand.

    Of equal ones that are told in the same round the last one stays.
    """
    width, at, now = s.entries.shape[1], 0, s.me.rounds
    for start in range(0, told.size, width):
        entry = told[start : start + width]
        at = open_entry(s, entry[0], at)
        pulls, known = rows.total_at(entry, s.version_at), s.marks[at, PULLS]
        if pulls > known or (pulls == known and s.marks[at, TAKEN] == now):
            rows.copy(s.entries[at], entry)
            s.tags[at, CHANGED], s.tags[at, SOURCE], s.tags[at, DELAY] = now + 1.0, source, 0.0
            s.marks[at, PULLS], s.marks[at, TAKEN] = pulls, now
            if s.me.decay != 1.0:
                s.marks[at, BEHIND] = decayed_rounds(s.me.decay, entry[1])


def open_entry(s: Any, number: float, near: int) -> int:
    """Return where the entry with a number is; an entry that is new is older than any told one.

    What is told ascends, mostly: it is looked for from the place of the one before.
    """
    used = s.me.num_entries
    at = rows.find(s.marks[:used, NUMBER], number, near)
    if at < used and s.marks[at, NUMBER] == number:
        return int(at)
    author = author_of(number)
    is_known = at > 0 and author_of(s.marks[at - 1, NUMBER]) == author
    is_known = is_known or (at < used and author_of(s.marks[at, NUMBER]) == author)
    s.me.num_agents += 0 if is_known else 1
    rows.open_row(s.entries, at, used)
    rows.open_row(s.tags, at, used)
    rows.open_row(s.marks, at, used)
    rows.fill(s.entries[at], 0.0)
    rows.fill(s.tags[at], 0.0)
    rows.fill(s.marks[at], 0.0)
    s.entries[at, 0] = s.marks[at, NUMBER] = number
    s.marks[at, PULLS] = -math.inf
    if at <= s.me.place:
        s.me.place += 1
    s.me.num_entries += 1
    return int(at)


def age_of(s: Any, at: int) -> Any:
    """Return how old an entry is."""
    return max(0.0, s.me.clock + 1.0 - s.entries[at, 1]) + s.tags[at, DELAY]


def move_clock(s: Any) -> None:
    """Move the clock; where it is set back, entries stay as old as they were."""
    before, latest = s.me.clock, rows.largest(s.entries[: s.me.num_entries, 1]) - 1.0
    s.me.clock = latest_clock(s, int(max(before, latest))) + (1 if s.me.ticks == 0 else 0)
    if s.me.clock < before:
        for at in range(s.me.num_entries):
            ended = before + 1.0 - s.entries[at, 1]
            s.tags[at, DELAY] += max(0.0, ended)
            s.tags[at, DELAY] -= max(0.0, ended + s.me.clock - before)


def add_up(s: Any) -> None:
    """Write the sum of all entries into `sums`, as they count now, and the rounds behind them."""
    used = s.me.num_entries
    table = s.entries[:used]
    if s.me.decay == 1.0:
        rows.add_rows(s.sums, table)
        return
    weights = s.weights[:used]  # γ to the age of every entry
    rows.fill(weights, s.me.clock + 1.0)
    rows.subtract(weights, table[:, 1])
    if s.me.ticks == 1:  # where rounds are counted, no entry is ahead of the clock
        rows.cut(weights, 0.0)
        rows.add(weights, s.tags[:used, DELAY])
    rows.raise_to(weights, s.me.decay)
    rows.add_weighted(s.sums, table, weights)
    if s.me.lasting == 1:
        for w in range(s.fades.size):
            if s.fades[w] == 0.0:
                s.sums[HEADER + w] = rows.total(table[:, HEADER + w])
    s.sums[1] = rows.dot(weights, s.marks[:used, BEHIND])


def begin_round(s: Any) -> None:
    """Count the round that ends, and remember the rounds behind entries where there is a window."""
    s.me.rounds += 1
    if s.past.shape[0] > 0:
        used = s.me.num_entries
        rows.copy(s.marks[:used, BEFORE], s.entries[:used, 1])


def end_round(s: Any) -> None:
    """Move the clock on, and the window, which begins anew where differences say nothing."""
    if s.me.decay != 1.0:
        move_clock(s)
    if s.past.shape[0] > 0:
        add_up(s)
        last = s.past[(s.me.oldest + s.me.kept - 1) % s.past.shape[0]]
        if rows.is_below(s.sums[HEADER:], last[HEADER:], s.count_at) or leaps(s):
            s.me.kept = 0
        keep_totals(s, s.sums)


def leaps(s: Any) -> bool:
    """Return whether an entry has grown by more rounds than a window has, all in one round."""
    if s.tags[s.me.place, SOURCE] != OWN:
        return True  # others told what this agent had pulled before it lost its memory
    rounds = s.past.shape[0] - 1
    for at in range(s.me.num_entries):  # noqa: SIM110  what is compiled has no generators
        if s.entries[at, 1] - s.marks[at, BEFORE] > rounds:
            return True
    return False


def read_all(s: Any, totals: Vector, about: Vector) -> None:
    """Write the totals of all agents heard of, with as many pulls anticipated as are on the way."""
    add_up(s)
    rounds = float(s.me.rounds)
    if s.me.decay != 1.0:
        rounds = s.me.decay * decayed_rounds(s.me.decay, s.me.clock + 0.0)
    elif s.past.shape[0] > 0:
        rows.subtract(s.sums, s.past[s.me.oldest])
        rounds = s.me.kept - 1.0
    rows.copy(totals, s.sums[HEADER : HEADER + totals.size])
    if s.me.decay != 1.0:  # else pulls are counted as they were made
        about[TIME] = max(2.0, rows.total_at(totals, s.count_at))
    about[AGENTS] = s.me.num_agents
    if s.me.common == 1:
        about[AHEAD] = anticipation(about[AGENTS], rounds, s.sums[1])

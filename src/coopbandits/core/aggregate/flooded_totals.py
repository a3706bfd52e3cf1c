"""Flooding of totals: every agent keeps all agents' own totals, and passes on what is newer.

Per known agent there is one entry: its number, the rounds behind its totals, and their registers.
The number of pulls ever only grows, so it is an entry's version, and of two entries the one with
more pulls wins, for the own entry too: an agent that lost its memory hears of its former self.

A message to neighbour j is [number of this message | number of the last one heard from j | entries]
and carries the entries that j is not known to have: those that changed since the last message of
which j told that it arrived, less those that came from j. Messages are numbered by rounds. As every
message carries all since the last one acknowledged, its receiver has all that the sender had: one
number per neighbour is enough, and what is lost is sent again until it is known to have arrived.
With `lazy` the own entry is news only once it has grown enough (`messages`), and where there is
neither news nor anything to acknowledge, nothing is sent at all.

Invariants: idempotent and order-free, so loss, delay and repetition only make entries older. What
is known is exact. Without faults an entry is as old as its agent is far away, and no protocol is
fresher. Memory and messages grow with the number of agents: all registers and 2 values per entry.

**Forgetting.** With a discount γ an entry holds its agent's totals as they counted in the round of
its last pull, which the rounds behind them tell; the reader lets them age since then
(`forgetting`). So entries stay as their author told them, growing old is no news, and messages need
no stamp: the latest round in any entry tells the clock. Counts no longer only grow, so the number
of pulls ever made travels beside them as the version. With a window of w rounds, what was known w
rounds ago is taken off what is known now. It starts again where an entry brings more than w
rounds at once, as after a partition: what is old would count as recent.

**Tables.** Entries stand in a table in ascending order of numbers, of which `num_entries` rows are
in use. Beside it, row by row, are two more tables: `tags` say when an entry changed and where it
came from; `marks` follow from entries, and save looking at them. Functions on fields run both in
plain Python and compiled. An agent may have thousands of entries, so whatever looks at all of them
is an operation on rows. In plain Python tables grow (`FloodedTotalsMachine`), and a fleet asks
about entries (`Attributed`).

*Differs from the paper*: nothing known; it is folklore (anti-entropy, Demers et al. 1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import OWN, ROBUST, MessageSize, moved_rows
from coopbandits.core.aggregate.claims import PartlyImpossibleError
from coopbandits.core.aggregate.entries import (
    HEADER,
    RENUMBER,
    Rows,
    Told,
    as_count,
    author_of,
    check_entries,
    count_authors,
    newest_of,
    order,
    with_rows,
)
from coopbandits.core.aggregate.fields import (
    AGENTS,
    AHEAD,
    TIME,
    Aggregation,
    FieldMachine,
    Sizes,
    anticipation,
    whole,
)
from coopbandits.core.aggregate.forgetting import (
    check_forgetting,
    check_ring,
    decayed_rounds,
    fading_fields,
    keep_totals,
    latest_clock,
    set_factors,
    window_fields,
)
from coopbandits.core.aggregate.messages import all_finite, has_grown, require_lazy
from coopbandits.core.aggregate.pooling import (
    ESTIMATE,
    ESTIMATED,
    Scatter,
    Spread,
    carried,
    pool,
    require_spread,
    scatter_of,
)
from coopbandits.core.checks import require_count
from coopbandits.core.contract import LocalView, Share, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.statistic.arm_sums import add_site_pull

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers, Statistic


CHANGED, SOURCE, DELAY = range(3)
"""Tags: the first message that surely carries an entry as it is, the neighbour that it came from,
and how much older it is than the clock tells."""

TAGS = 3

ITSELF, NOBODY = -1.0, -2.0
"""The source of what the agent observed itself, and of nothing."""

NUMBER, PULLS, BEHIND, TAKEN, BEFORE = range(5)
"""Marks: the number of an entry, its version, what the rounds behind it count, the round in which
it was last taken, and the rounds behind it before this one where there is a window."""

MARKS = 5

SHORT = 256
"""Messages up to this size are read value by value."""

FEW = 4
"""Up to this many entries are taken one by one, in about 10 µs each. Operations on whole tables
take 40 µs, and hardly more for a hundred entries."""

PER_ENTRY = ("entries", "tags", "marks")
"""Tables with a row per entry."""


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
    s.tags[at, CHANGED], s.tags[at, SOURCE] = s.me.rounds + 2.0, ITSELF


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
    """Move the clock on, and the window, which starts again where differences say nothing."""
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
    if s.tags[s.me.place, SOURCE] != ITSELF:
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
    if s.me.discounted == 1:  # else the statistic counts pulls as they were made
        about[TIME] = max(2.0, rows.total_at(totals, s.count_at))
    about[AGENTS] = s.me.num_agents
    if s.me.common == 1:
        about[AHEAD] = anticipation(about[AGENTS], rounds, s.sums[1])


class FloodedTotalsMachine(FieldMachine):
    """One entry per agent known, and what each neighbour is known to have."""

    tables: tuple[str, ...] = PER_ENTRY[:2]
    registered = MappingProxyType({"entries": (HEADER, 0), "past": (HEADER, 0), "former": (0, 0)})
    counted = MappingProxyType({"told": 0})

    def __init__(self, spec: Aggregation, view: LocalView, registers: Registers) -> None:
        super().__init__(spec, view, registers)
        unused = set[str]()
        if not self.state.told.size:
            unused |= {"told", "owed"}
        if not len(self.state.past):
            unused |= {"past", "kept", "oldest"}
        self.fields = tuple(name for name in self.fields if name not in unused)
        self.links = tuple(name for name in self.links if name not in unused)
        self._places: dict[float, int] = {}  # where entries are, by number
        self._read: tuple[Vector, list[Told]] = np.zeros(0), []  # the message read last

    @property
    def number(self) -> int:
        """The number of its own entry."""
        found: int = self.state.me.number
        return found

    @property
    def entries(self) -> Rows:
        """All entries at hand, in ascending order of numbers."""
        found: Rows = self.state.entries[: self.state.me.num_entries]
        return found

    def outgoing(self, neighbor: int) -> Vector | None:
        s, link = self.state, self.places[neighbor]
        count = find_news(s, link)
        if is_silent(s, link, count):
            return None
        message = np.empty(HEADER + count * s.entries.shape[1])
        write_news(s, link, count, message)
        return message

    def receive(self, messages: Mapping[int, Vector]) -> None:
        ordered = [j for j, message in messages.items() if self._check(j, message)]
        number, told = self.state.me.number, dict[int, Vector]()
        for j, message in messages.items():
            if message.size > HEADER:
                told[j] = self._obey(message[HEADER:]) if j in ordered else message[HEADER:]
        s = self.state
        begin_round(s)
        s.owed[:] = 0.0
        for j, message in messages.items():
            listen(s, self.places[j], message.item(0), message.item(1), message.size)
        if s.me.number != number:
            s.heard[:] = 0.0  # this memory need not have what the one before heard
        if told:
            self._take(told)
        end_round(self.state)

    def _take(self, told: Mapping[int, Vector]) -> None:
        """Take what is newer, with operations on whole tables where there is much."""
        room, width = self.state.entries.shape
        used, count = self.state.me.num_entries, sum(map(len, told.values())) // width
        if count > FEW:
            self._take_many(told)
            return
        if used + count > room:
            self.make_room(max(used + count, 2 * room))
        for j, entries in told.items():
            hear(self.state, entries, float(j))

    def _take_many(self, told: Mapping[int, Vector]) -> None:
        """Do for all messages of a round what `hear` does for one after another, in less time."""
        width = self.state.entries.shape[1]
        entries = np.concatenate(list(told.values())).reshape(-1, width)
        pulls, places = self.registers.version(entries[:, HEADER:]), self._open(entries[:, 0])
        s = self.state
        newer = (pulls > s.marks[places, PULLS]).nonzero()[0]
        if not newer.size:
            return
        at = places.take(newer)
        if len(set(at.tolist())) < at.size:
            newest = newest_of(at, pulls.take(newer))
            newer, at = newer.take(newest), at.take(newest)
        sources = [float(j) for j, values in told.items() for _ in range(0, values.size, width)]
        s.entries[at] = entries.take(newer, axis=0)
        s.tags[at, CHANGED] = s.me.rounds + 1.0
        s.tags[at, SOURCE] = [sources[e] for e in newer.tolist()]
        if s.me.ticks == 1:  # else no entry is older than the clock tells
            s.tags[at, DELAY] = 0.0
        s.marks[at, PULLS] = pulls.take(newer)
        if s.me.decay != 1.0:
            s.marks[at, BEHIND] = decayed_rounds(s.me.decay, s.entries[at, 1])

    def _open(self, numbers: Vector) -> NDArray[np.intp]:
        """Return where the entries with these numbers are; there is one of each from now on."""
        s = self.state
        column: Vector = s.marks[: s.me.num_entries, NUMBER]
        places = column.searchsorted(numbers)
        is_new = column.take(places, mode="clip") != numbers
        if np.count_nonzero(is_new):
            new = sorted({*numbers[is_new].tolist()})
            used, room = s.me.num_entries + len(new), len(s.entries)
            if used > room:
                self.make_room(max(used, 2 * room))
            for number in new:
                open_entry(self.state, number, 0)
            column = self.state.marks[:used, NUMBER]
            places = column.searchsorted(numbers)
        return places

    @property
    def _known(self) -> dict[float, int]:
        if len(self._places) != self.state.me.num_entries:
            numbers = self.entries[:, 0].tolist()
            self._places = {number: at for at, number in enumerate(numbers)}
        return self._places

    def _obey(self, told: Vector) -> Vector:
        """Carry out the orders among entries, and return the others."""
        entries = told.reshape(-1, self.state.entries.shape[1])
        for row in entries[entries[:, 1] < 0.0]:
            if row[1] <= RENUMBER:
                self._renumber(int(row[0]), row[HEADER:], RENUMBER - row[1])
            elif row[0] != self.number:
                self._forget(float(row[0]))
        others: Vector = entries[entries[:, 1] >= 0.0].ravel()
        return others

    def _forget(self, number: float) -> None:
        at, s = self._known.get(number), self.state
        if at is None:
            return
        used = s.me.num_entries
        for name in PER_ENTRY:
            table = getattr(s, name)
            table[at : used - 1] = table[at + 1 : used]
            table[used - 1] = 0.0
        s.me.num_entries -= 1
        self._look_up()

    def _look_up(self) -> None:
        """Note what follows from the numbers of entries."""
        self._places, numbers = {}, self.entries[:, 0]
        self.state.me.num_agents = count_authors(numbers)
        self.state.me.place = int(numbers.searchsorted(self.number))

    def _renumber(self, number: int, told: Vector, rounds: float) -> None:
        """Leave registers behind as they were sent in some round; the rest counts under `number`.

        This memory need not have what the previous one heard, nor even what that one sent.
        """
        s = self.state
        if number in self._known:
            return
        if s.me.num_entries == len(s.entries):
            self.make_room(2 * len(s.entries))
            s = self.state
        s.told[:], s.me.kept = 0.0, 0
        old, left, changed = s.me.place, told.copy(), s.me.rounds + 2.0
        fresh = s.entries[old].copy()
        if s.me.decay != 1.0:
            self.registers.age(left, rounds=max(0, int(fresh[1] - rounds)))
        s.entries[old, 1], s.entries[old, HEADER:] = rounds, told
        s.tags[old, CHANGED], s.tags[old, DELAY] = changed, 0.0
        fresh[0], fresh[HEADER:] = number, fresh[HEADER:] - left
        if s.me.decay != 1.0:  # rounding may have left less than nothing
            fresh[HEADER:] = self.registers.clip(fresh[HEADER:])
        s.former[:] += left
        at = open_entry(s, float(number), 0)
        s.entries[at], s.tags[at], s.me.number = fresh, (changed, ITSELF, 0.0), number
        self._look_up()
        self._mark()

    def _mark(self) -> None:
        """Write what follows from every entry."""
        s, entries = self.state, self.entries
        marks = s.marks[: len(entries)]
        marks[:] = 0.0
        marks[:, NUMBER] = entries[:, 0]
        marks[:, PULLS] = self.registers.version(entries[:, HEADER:])
        marks[:, BEHIND] = decayed_rounds(s.me.decay, entries[:, 1])

    def carry(self, totals: Vector, pulls: float, clock: int) -> None:
        """Add pulls that were gathered by another aggregation to the own entry.

        `totals` are the registers of the statistic as they counted at a clock, without the number
        of `pulls` ever made where that travels beside them.
        """
        if not pulls:
            return
        s, size = self.state, totals.size
        at, added = s.me.place, np.zeros(s.former.size)
        added[:size] = totals
        if s.me.decay != 1.0:
            s.me.clock = max(s.me.clock, clock)
            age, added[-1] = int(age_of(s, at)), pulls
            self.registers.age(s.entries[at, HEADER:], s.former, rounds=age)
            self.registers.age(added, rounds=s.me.clock - clock)
            s.tags[at, DELAY] = 0.0
            s.entries[at, 1] = s.me.clock + 1.0
        else:
            s.entries[at, 1] = s.me.rounds + 1.0
        s.entries[at, HEADER:] += added
        s.told[:] = 0.0
        s.tags[at, CHANGED], s.tags[at, SOURCE] = s.me.rounds + 2.0, ITSELF
        self._mark()

    def taken_over(self, state: State, rounds: int) -> State:
        """Return the state of another flood of the same registers as one that fits this one.

        Messages are numbered on from a number of rounds.
        """
        fresh = self.export_state()
        kept = {name: value for name, value in state.items() if name in fresh}
        return fresh | kept | {"rounds": rounds}

    def share(self) -> Share:
        """Return the own totals, also those of former numbers, as they count now."""
        s = self.state
        own = s.entries[s.me.place, HEADER:] + s.former
        if s.me.decay != 1.0:
            self.registers.age(own, rounds=int(age_of(s, s.me.place)))
        return self.registers.share(own)

    def scatter(self, bounded: bool) -> Scatter | None:
        """Return how much sites differ, as all entries tell that hold means of arms for ever."""
        if self.registers.decay != 1.0 or self.registers.num_features:
            return None
        told = [self.registers.share(values) for values in self.entries[:, HEADER:]]
        sums, counts = (np.array(each) for each in zip(*told, strict=True))
        return scatter_of(sums, counts, self.state.me.sigma, bounded)

    def _check(self, sender: int, message: Vector) -> bool:
        """Check that a message has entries of agents; return whether some are orders."""
        if message is self._read[0]:
            return False  # it was looked at before, and has none
        if message.shape != (HEADER,):
            self._check_form(message, f"message from {sender}")
        if not all_finite(message):
            raise InputError(f"message from {sender} has values that are not finite")
        if message.size == HEADER:
            return False
        width = self.state.entries.shape[1]
        agents, rounds = message[HEADER::width], message[HEADER + 1 :: width]
        return check_entries(agents, rounds, f"message from {sender}", orders=True)

    def _held(self, name: str) -> Any:
        found = super()._held(name)
        return found[: self.state.me.num_entries] if name in self.tables else found

    def fit(self, values: State) -> None:
        if len(values["entries"]) > len(self.state.entries):
            self.make_room(len(values["entries"]))
        self.state.me.num_entries = len(values["entries"])

    def restore_state(self, state: State) -> None:
        super().restore_state(state)
        if self.state.me.ticks == 0:  # no entry is older than the clock tells
            self.state.tags[:, DELAY] = 0.0
        self._look_up()
        self._mark()

    def check_state(self, values: State) -> None:
        require_count("state field rounds", values["rounds"], least=0)
        check_ring(values, getattr(self.spec, "window", None))
        agents, rounds = values["entries"][:, 0], values["entries"][:, 1]
        check_entries(agents, rounds, "state field entries")
        is_ordered = (np.diff(agents) > 0).all() and values["number"] in agents
        if len(values["tags"]) != len(agents) or not is_ordered:
            raise InputError(
                "state fields entries and tags must tell of the same agents, the own one among "
                "them, in ascending order; restore what export_state returned"
            )

    # What a fleet asks: see `Attributed`

    def rows(self, message: Vector) -> Rows:
        self._check_form(message, "a message")
        return message[HEADER:].reshape(-1, self.state.entries.shape[1])

    def quickly(self, message: Vector) -> list[Told] | None:
        """Return what a message tells of; None if it is long, or to be looked at closely.

        Several ask for it in turn, so it is read once.
        """
        if self._read[0] is message:
            return self._read[1]
        found = self._read_plain(message)
        if found is not None:
            self._read = message, found
        return found

    def _read_plain(self, message: Vector) -> list[Told] | None:
        width = self.state.entries.shape[1]
        if message.ndim != 1 or not 0 <= message.size - HEADER <= SHORT:
            return None
        values: list[float] = message.tolist()
        if (len(values) - HEADER) % width or not math.isfinite(values[0] + values[1]):
            return None
        found, plain_pulls = [], self.registers.plain_pulls
        for at in range(HEADER, len(values), width):
            number, rounds = values[at], values[at + 1]
            pulls = plain_pulls(values[at + HEADER : at + width])
            # NaN fails this test, too.
            if not (pulls + rounds < math.inf and rounds >= 0.0 <= number and number % 1.0 == 0.0):
                return None
            found.append((number, rounds, pulls))
        return found

    def _check_form(self, message: Vector, what: str) -> None:
        width = self.state.entries.shape[1]
        if message.ndim != 1 or message.size < HEADER or (message.size - HEADER) % width:
            raise InputError(
                f"{what} has shape {np.shape(message)}; it must be one vector of {HEADER} values "
                f"and {width} per agent"
            )

    def translated(self, message: Vector, theirs: Registers, places: Sequence[int]) -> Vector:
        width = HEADER + theirs.size
        if message.size < HEADER or (message.size - HEADER) % width:
            return message  # of no such form, which is told when it is read
        rows = message[HEADER:].reshape(-1, width)
        return with_rows(message, moved_rows(rows, self.registers, theirs, places, (HEADER, 0)))

    def versions(self, rows: Rows) -> list[float]:
        """Return how many pulls are in each entry."""
        if len(rows) <= FEW:
            return [self.registers.version_of(row) for row in rows[:, HEADER:]]
        found: list[float] = self.registers.version(rows[:, HEADER:]).tolist()
        return found

    def entry(self, number: float) -> Vector | None:
        at = self._known.get(number)
        return None if at is None else self.state.entries[at].copy()

    def held(self) -> dict[float, float]:
        """Return the pulls in all entries at hand, by number."""
        return dict(zip(self.entries[:, 0].tolist(), self.versions(self.entries), strict=True))

    def heard_from(self, neighbor: int) -> int:
        return as_count(self.state.heard[self.places[neighbor]])

    def arrived_at(self, neighbor: int) -> int:
        """Return the number of the own message that a neighbour acknowledged last."""
        return as_count(self.state.arrived[self.places[neighbor]])

    def renumbering(self, number: int, left: Vector) -> Vector:
        """Return the order to count under another number, and leave an entry as it was."""
        return order(RENUMBER - left[1], number, left[HEADER:])

    def note(self, neighbor: int, rows: Rows) -> Vector:
        """Return a message that changes nothing about a neighbour, and tells these rows."""
        at = self.places[neighbor]
        return with_rows(np.array([self.state.heard[at], self.state.arrived[at]]), rows)

    def postpone(self, numbers: Vector) -> None:
        """Note that some entries were left out of this round's messages, and belong in the next."""
        places = [self._known[number] for number in numbers.tolist()]
        self.state.tags[places, CHANGED] = self.state.me.rounds + 2.0

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Reject entries of more pulls than their agents can have made; the rest is believed."""
        width = self.state.entries.shape[1]
        if message.size <= HEADER or message.size % width != HEADER % width:
            return  # its form is checked when the round ends
        claims.remember(self.held)
        rows, told = message[HEADER:].reshape(-1, width), self.quickly(message)
        me = self.state.me
        own = me.number, float(self.state.marks[me.place, PULLS])
        if told is None:
            rejections = claims.sift(self.registers, rows, own, now)
        else:
            rejections = [claims.check_entry(each, own, now) for each in told]
        if any(rejections):
            rest = with_rows(message, rows[[not rejection for rejection in rejections]])
            raise PartlyImpossibleError(rest, [rejection for rejection in rejections if rejection])


@dataclass(frozen=True)
class FloodedTotals(Aggregation):
    """Exact totals of all agents heard of, each as stale as its message delay.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds of totals are read; None for all.
    lazy : float
        β: the own totals are told again once the pulls of some arm have grown by this share, and by
        one. 0 tells every pull.
    spread : float, "estimate" or None
        τ, by which the means of sites differ: others' pulls then count in part (`pooling`). None
        pools everything; "estimate" finds τ out, with K + 3 values more in an entry.

    Notes
    -----
    Knows its own number, who its neighbours are, and whether rounds are common (otherwise nothing
    is anticipated). Sends 2 values to each neighbour in every round, and all registers and 2 more,
    or 3 with a discount, for every agent of whom the neighbour may know less.
    """

    discount: float = 1.0
    window: int | None = None
    lazy: float = 0.0
    spread: Spread = None
    name: ClassVar[str] = "flooded-totals"
    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = OWN
    exact: ClassVar[bool] = True
    checks_claims: ClassVar[bool] = True
    keeps_own: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    outlives: ClassVar[bool] = True
    versioned: ClassVar[bool] = True
    stamped: ClassVar[bool] = False
    machine: ClassVar[type[FieldMachine]] = FloodedTotalsMachine
    derived: ClassVar[tuple[str, ...]] = (
        "num_entries", "num_agents", "place", "common", "marks", "ends", "news",
         "sums", "weights", "count_at", "version_at", "own", "is_site", "is_pooled", "lasting",
        "lazy", "spread", "sigma",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_forgetting(self.discount, self.window)
        require_lazy(self.lazy, self.forgets)
        require_spread(self, self.spread)
        if self.lazy or self.spread is not None:
            object.__setattr__(self, "exact", False)
        if self.spread is not None:
            object.__setattr__(self, "totals", False)

    @property
    def certifies(self) -> bool:  # type: ignore[override]  # by settings
        """Yes, where every pull heard of is told as it is made, and counts as one."""
        return not self.uncertified

    @property
    def uncertified(self) -> str:
        if self.spread is not None:
            return "counts the pulls of others in parts"
        # A pull is told once later ones have made the totals grow: its reward has a say in that.
        return "lets rewards decide which pulls are told" if self.lazy else ""

    def carried(self, asked: Statistic) -> Statistic:
        return carried(self.spread, asked)

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        """Return the tables, what links have heard, and room to work in; settings need some."""
        width, room, links = HEADER + sizes.width, sizes.room, sizes.links
        return {
            "entries": (room, width),
            "tags": (room, TAGS),
            "marks": (room, MARKS),
            "num_entries": int,
            "num_agents": int,  # authors heard of: one that has had several memories is one
            "number": int,
            "place": int,  # of the own entry
            "former": sizes.width,  # own pulls that count under former numbers
            "rounds": int,
            "common": int,  # whether all agents count rounds together
            "ends": links,  # who is at the other end
            "arrived": links,  # own messages that each neighbour told of last
            "heard": links,  # its message that was heard last
            "owed": links,  # whom to tell that entries arrived, where that is not always told
            "told": sizes.groups if self.lazy else 0,  # own pulls when they were last news
            "lazy": float,
            **window_fields(self.window, width),
            **fading_fields(sizes.width),
            "is_pooled": int,
            "is_site": int,
            "spread": float,
            "sigma": float,
            "own": sizes.width,
            "sums": width,
            "discounted": int,  # whether pulls count less by a setting, not by the statistic
            "lasting": int,  # whether registers do not fade beside the number of pulls ever made
            "weights": room if sizes.fades else 0,
            "news": whole(room),
            "count_at": whole(sizes.groups),
            "version_at": whole(1 if sizes.fades else sizes.groups),
        }

    def functions(
        self, decay: float, **instead: Callable[..., Any]
    ) -> dict[str, Callable[..., Any]]:
        """Return the functions as they are: entries age as they are read, by their rounds."""
        return super().functions(1.0, **instead)

    def begin(self, s: Any, view: LocalView, registers: Registers) -> None:
        require_lazy(self.lazy, registers.decay != 1.0)
        super().begin(s, view, registers)

    def start(self, s: Any, view: LocalView) -> None:
        s.me.number, s.me.num_entries, s.me.num_agents = view.agent_id, 1, 1
        s.me.common, s.ends[:] = int(view.common_round), sorted(view.neighbor_weights)
        s.entries[0, 0] = s.marks[0, NUMBER] = view.agent_id
        s.tags[0, :2] = 1.0, ITSELF
        s.version_at[:] = HEADER + (s.count_at if s.me.decay == 1.0 else s.former.size - 1)
        s.me.discounted = int(self.discount != 1.0)
        s.me.lasting = int(s.me.decay != 1.0 and not s.fades[:-1].all())
        s.me.kept = int(self.window is not None)  # nothing, before the first round
        s.me.lazy, s.me.sigma = self.lazy, view.sigma
        if self.spread is not None:
            s.me.is_pooled, s.me.is_site = 1, int(self.spread == ESTIMATE)
            s.me.spread = ESTIMATED if self.spread == ESTIMATE else float(self.spread)

    def message_width(self, sizes: Sizes) -> int:
        return HEADER + sizes.room * (HEADER + sizes.width)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        when = f"with news of {max_agents} agents in every round"
        size = self.decaying(registers).size
        return MessageSize(HEADER, HEADER + max_agents * (HEADER + size), when)

    observe = staticmethod(add_own)

    @staticmethod
    def message(s: Any, link: int, out: Vector) -> int:
        """Write [own number, number heard | entries that the neighbour may not have]."""
        count = find_news(s, link)
        return 0 if is_silent(s, link, count) else write_news(s, link, count, out)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Take every entry that is newer than the one at hand."""
        begin_round(s)
        for link in range(lengths.size):
            length = lengths[link]
            s.owed[link] = 0.0
            if length > 0:
                listen(s, link, inbox[link, 0], inbox[link, 1], length)
            if length > HEADER:
                hear(s, inbox[link, HEADER:length], s.ends[link])
        end_round(s)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write the totals of all agents heard of, each pull of which is in one entry."""
        read_all(s, totals, about)
        if s.me.is_pooled == 1:
            rows.add_up(s.own, s.entries[s.me.place, HEADER:], s.former)
            pool(totals, s.own, about, s.count_at.size, s.me.spread, s.me.sigma)
        rows.copy(certain, totals)

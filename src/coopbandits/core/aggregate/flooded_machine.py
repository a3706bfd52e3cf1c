"""The machine of one agent that floods totals: its tables grow, and a fleet asks it about entries.

It plays the functions of `flooded_entries`, and makes room before they need it. `Attributed` says
what a fleet asks.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core.aggregate.arms import moved_rows
from coopbandits.core.aggregate.claims import PartlyImpossibleError
from coopbandits.core.aggregate.entries import (
    HEADER,
    RENUMBER,
    Rows,
    Told,
    as_count,
    check_entries,
    count_authors,
    newest_of,
    order,
    with_rows,
)
from coopbandits.core.aggregate.exchange import all_finite
from coopbandits.core.aggregate.fields import Aggregation, FieldMachine
from coopbandits.core.aggregate.flooded_entries import (
    BEHIND,
    CHANGED,
    DELAY,
    NUMBER,
    OWN,
    PULLS,
    SOURCE,
    age_of,
    begin_round,
    end_round,
    find_news,
    hear,
    is_silent,
    listen,
    open_entry,
    write_news,
)
from coopbandits.core.aggregate.forgetting import check_ring, decayed_rounds
from coopbandits.core.aggregate.pooling import Scatter, scatter_of
from coopbandits.core.checks import require_count
from coopbandits.core.contract import LocalView, Share, State, Vector
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers

SHORT = 256
"""Messages of so many values are read one by one."""

FEW = 4
"""So many entries are taken one by one, in about 10 µs each. Operations on whole tables take 40 µs,
and hardly more for a hundred entries."""

PER_ENTRY = ("entries", "tags", "marks")
"""Tables with a row per entry."""


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
        """Return this round's message to a neighbour, or None for silence."""
        s, link = self.state, self.places[neighbor]
        count = find_news(s, link)
        if is_silent(s, link, count):
            return None
        message = np.empty(HEADER + count * s.entries.shape[1])
        write_news(s, link, count, message)
        return message

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Carry out orders, then take what is newer."""
        ordered = [j for j, message in messages.items() if self._check(j, message)]
        number, told = self.number, dict[int, Vector]()
        for j, message in messages.items():
            if message.size > HEADER:
                told[j] = self._obey(message[HEADER:]) if j in ordered else message[HEADER:]
        s = self.state
        begin_round(s)
        s.owed[:] = 0.0
        for j, message in messages.items():
            listen(s, self.places[j], message.item(0), message.item(1), message.size)
        if self.number != number:
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
        """Drop an entry."""
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
        """Leave registers behind as they were told in some round; the rest counts anew.

        What was heard by the memory of before need not be in this one, not even what it has told.
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
        s.entries[at], s.tags[at], s.me.number = fresh, (changed, OWN, 0.0), number
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
        """Refuse all but a vector of numbers that tell of agents; return if there are orders."""
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
        """Make room for the entries of a state."""
        if len(values["entries"]) > len(self.state.entries):
            self.make_room(len(values["entries"]))
        self.state.me.num_entries = len(values["entries"])

    def restore_state(self, state: State) -> None:
        """Continue from an exported state, or change nothing if it does not fit."""
        super().restore_state(state)
        if self.state.me.ticks == 0:  # no entry is older than the clock tells
            self.state.tags[:, DELAY] = 0.0
        self._look_up()
        self._mark()

    def check_state(self, values: State) -> None:
        """Refuse entries that no agent can have."""
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
        """Return the entries in a message, or refuse one of another form."""
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
            # What is not a number is refused here too.
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
        """Return a message about other arms as one about these."""
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
        """Return the entry at hand."""
        at = self._known.get(number)
        return None if at is None else self.state.entries[at].copy()

    def held(self) -> dict[float, float]:
        """Return the pulls in all entries at hand, by number."""
        return dict(zip(self.entries[:, 0].tolist(), self.versions(self.entries), strict=True))

    def heard_from(self, neighbor: int) -> int:
        """Return the number of a neighbour's last message."""
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
        """Refuse entries of more pulls than their agents can have made; the rest is believed."""
        width = self.state.entries.shape[1]
        if message.size <= HEADER or message.size % width != HEADER % width:
            return  # its form is checked when the round ends
        claims.remember(self.held)
        rows, told = message[HEADER:].reshape(-1, width), self.quickly(message)
        numbers = rows[:, 0].tolist() if told is None else [each[0] for each in told]
        own = self.state.marks[self.state.me.place, PULLS]
        most = float(own) if self.number in numbers else 0.0
        if told is None:
            doubts = claims.sift(self.registers, rows, (self.number, most), now)
        else:
            doubts = [claims.doubt(each, (self.number, most), now) for each in told]
        if any(doubts):
            rest = with_rows(message, rows[[not doubt for doubt in doubts]])
            raise PartlyImpossibleError(rest, [doubt for doubt in doubts if doubt])

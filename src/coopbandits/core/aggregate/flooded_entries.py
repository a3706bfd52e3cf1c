"""Entries of a flood: one per agent, of which the newer wins, and what a fleet asks of them."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.aggregate.aggregation import ContextMachine
from coopbandits.core.aggregate.arms import moved_rows
from coopbandits.core.aggregate.claims import PartlyImpossibleError
from coopbandits.core.aggregate.entries import (
    HEADER,
    RENUMBER,
    Rows,
    Told,
    as_count,
    newest_of,
    order,
    with_rows,
)
from coopbandits.core.aggregate.forgetting import decayed_rounds
from coopbandits.core.aggregate.ticks import ClockedMachine
from coopbandits.core.contract import LocalView, Share, Vector
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers

SHORT = 256
"""Messages of so many values are read one by one."""

FEW = 4
"""So many entries are taken one by one."""

PER_ENTRY = ("entries", "changed", "sources", "delays")
"""What there is one row of per entry; delays only where time is told."""


class FloodedEntries(ClockedMachine, ContextMachine):
    """The entries of all agents heard of, and which messages neighbours have heard.

    `flooded_totals` says what an entry is, and what it means for one to be newer.
    """

    registered = MappingProxyType({"entries": (HEADER, 0), "past": (HEADER, 0), "former": (0, 0)})

    def __init__(self, view: LocalView, registers: Registers) -> None:
        self.number, self.registers = view.agent_id, registers
        self.former = registers.zeros()  # own pulls that count under former numbers
        self.places = {j: at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.rounds = 0
        self.entries = np.zeros((1, HEADER + registers.size))  # ascending by agent
        self.entries[0, 0] = view.agent_id
        self._listed: tuple[Rows, dict[float, int]] = self.entries, {float(view.agent_id): 0}
        self._read: tuple[Vector, list[Told]] = np.zeros(0), []  # the message read last
        self.changed = np.ones(1)  # the first message that surely carries the entry as it is
        self.sources = np.full(1, -1.0)  # the neighbour that each entry came from
        self.arrived = np.zeros(len(self.places))  # own messages that each neighbour told of last
        self.heard = np.zeros(len(self.places))  # its message that was heard last
        self.decays = registers.decay != 1.0
        self._start_clock(view, decays=self.decays)
        self.delays = np.zeros(1)  # how much older entries are than the clock tells
        if self.ticks:
            self.keep_also("delays", is_table=True)

    def _totals(self) -> Vector:
        """Return the sum of all entries, as they count now; in place of rounds those behind it."""
        entries = self.entries
        if self.decays:
            entries, decay = entries.copy(), self.registers.decay
            ages = decay ** self._ages()[:, None]
            self.registers.scale(entries[:, HEADER:], ages)
            entries[:, 1:2] = ages * decayed_rounds(decay, entries[:, 1:2])
        totals: Vector = entries.sum(axis=0)
        return totals

    def _ages(self) -> Vector:
        """Return how old every entry is."""
        ages: Vector = np.maximum(0.0, self.clock + 1.0 - self.entries[:, 1]) + self.delays
        return ages

    def _move_clock(self, now: int) -> None:
        """Move the clock; where it is set back, entries stay as old as they were."""
        ages, back, self.clock = self._ages(), now < self.clock, now
        if back:
            self.delays = self.delays + ages - self._ages()

    @property
    def _known(self) -> dict[float, int]:
        """Where the entries at hand are, by number."""
        if self._listed[0] is not self.entries:
            known = {number: at for at, number in enumerate(self.entries[:, 0].tolist())}
            self._listed = self.entries, known
        return self._listed[1]

    def _place(self, number: float) -> int:
        """Return where an entry is, or belongs."""
        at = self._known.get(number)
        return int(self.entries[:, 0].searchsorted(number)) if at is None else at

    def _own(self) -> Vector:
        own: Vector = self.entries[self._place(self.number), HEADER:]
        return own

    def share(self) -> Share:
        """Return the own totals, also those of former numbers, as they count now."""
        own = self._own() + self.former
        if self.decays:
            self.registers.age(own, rounds=int(self._ages()[self._place(self.number)]))
        return self.registers.share(own)

    def _keep(self, which: NDArray[np.bool_]) -> None:
        for name in PER_ENTRY:
            setattr(self, name, getattr(self, name)[which])

    def _take_known(self, told: Mapping[int, Vector]) -> bool:
        """Do what `_merge` does, in less time, for few entries of known numbers; or nothing."""
        width = self.entries.shape[1]
        found: list[tuple[int, int, Vector]] = []
        for j, values in told.items():
            if len(found) * width + values.size > FEW * width:
                return False
            for begin in range(0, values.size, width):
                at = self._known.get(values.item(begin))
                if at is None:
                    return False
                found.append((at, j, values[begin : begin + width]))
        version = self.registers.version_of
        taken: set[int] = set()
        for at, j, row in found:
            news, known = version(row[HEADER:]), version(self.entries[at, HEADER:])
            if news > known or (news == known and at in taken):  # of equals told, the last one
                self.entries[at], self.changed[at] = row, self.rounds + 1.0
                self.sources[at], self.delays[at] = j, 0.0
                taken.add(at)
        return True

    def _merge(self, told: Mapping[int, Vector]) -> None:
        """Put the newest of all entries into new arrays."""
        width = self.entries.shape[1]
        # Of equals the last one stays, so the own entries come last.
        entries = np.concatenate([*told.values(), self.entries.ravel()]).reshape(-1, width)
        versions = self.registers.version(entries[:, HEADER:])
        newest = newest_of(entries[:, 0], versions)
        senders = [j for j, found in told.items() for _ in range(found.size // width)]
        changed = [self.rounds + 1.0] * len(senders) + self.changed.tolist()
        self.entries = entries.take(newest, axis=0)
        self.changed = np.array(changed).take(newest)
        self.sources = np.array(senders + self.sources.tolist()).take(newest)
        self.delays = np.concatenate([np.zeros(len(senders)), self.delays]).take(newest)

    # What a fleet asks: see `Attributed`

    def rows(self, message: Vector) -> Rows:
        """Return the entries in a message, or refuse one of another form."""
        self._check_form(message, "a message")
        return message[HEADER:].reshape(-1, self.entries.shape[1])

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
        width = self.entries.shape[1]
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
        width = self.entries.shape[1]
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
        return None if at is None else self.entries[at]

    def held(self) -> dict[float, float]:
        """Return the pulls in all entries at hand, by number."""
        return dict(zip(self.entries[:, 0].tolist(), self.versions(self.entries), strict=True))

    def heard_from(self, neighbor: int) -> int:
        """Return the number of a neighbour's last message."""
        return as_count(self.heard[self.places[neighbor]])

    def arrived_at(self, neighbor: int) -> int:
        """Return the number of the own message that a neighbour acknowledged last."""
        return as_count(self.arrived[self.places[neighbor]])

    def renumbering(self, number: int, left: Vector) -> Vector:
        """Return the order to count under another number, and leave an entry as it was."""
        return order(RENUMBER - left[1], number, left[HEADER:])

    def note(self, neighbor: int, rows: Rows) -> Vector:
        """Return a message that changes nothing about a neighbour, and tells these rows."""
        at = self.places[neighbor]
        return with_rows(np.array([self.heard[at], self.arrived[at]]), rows)

    def postpone(self, numbers: Vector) -> None:
        """Note that some entries were left out of this round's messages, and belong in the next."""
        self.changed[[self._known[number] for number in numbers.tolist()]] = self.rounds + 2.0

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse entries of more pulls than their agents can have made; the rest is believed."""
        width = self.entries.shape[1]
        if message.size <= HEADER or message.size % width != HEADER % width:
            return  # its form is checked when the round ends
        claims.remember(self.held)
        rows, told = message[HEADER:].reshape(-1, width), self.quickly(message)
        numbers = rows[:, 0].tolist() if told is None else [each[0] for each in told]
        most = self.registers.version_of(self._own()) if self.number in numbers else 0.0
        if told is None:
            doubts = claims.sift(self.registers, rows, (self.number, most), now)
        else:
            doubts = [claims.doubt(each, (self.number, most), now) for each in told]
        if any(doubts):
            rest = with_rows(message, rows[[not doubt for doubt in doubts]])
            raise PartlyImpossibleError(rest, [doubt for doubt in doubts if doubt])

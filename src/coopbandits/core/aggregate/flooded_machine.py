"""The machine of one agent that floods totals; `flooded_totals` describes the protocol."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.aggregate.entries import (
    HEADER,
    RENUMBER,
    Rows,
    check_entries,
    count_authors,
)
from coopbandits.core.aggregate.exchange import all_finite, anticipation
from coopbandits.core.aggregate.flooded_entries import PER_ENTRY, FloodedEntries
from coopbandits.core.aggregate.forgetting import (
    check_past,
    decayed_rounds,
    follow,
    has_fallen,
)
from coopbandits.core.aggregate.lazy import has_grown
from coopbandits.core.aggregate.pooling import Scatter, Spread, pooled, scatter_of
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, State, Vector
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coopbandits.core.statistic import Registers


class FloodedTotalsMachine(FloodedEntries):
    """One entry per agent known, and what each neighbour is known to have.

    Notes
    -----
    N̂ is the number of authors heard of so far: an agent that has had several memories is one.
    """

    fields: tuple[str, ...] = ("rounds", *PER_ENTRY[:3], "arrived", "heard", "number", "former")
    tables: tuple[str, ...] = PER_ENTRY[:3]
    links: tuple[str, ...] = ("arrived", "heard")
    counted = MappingProxyType({"told": 0})

    def __init__(
        self,
        view: LocalView,
        registers: Registers,
        window: int | None = None,
        lazy: float = 0.0,
        spread: Spread = None,
    ) -> None:
        super().__init__(view, registers)
        self.window, self.lazy, self.spread = window, lazy, spread
        self.sigma, self.common_round = view.sigma, view.common_round
        if window is not None:
            self.past = np.zeros((1, self.entries.shape[1]))  # sums of entries, oldest first
            self.keep_also("past", is_table=True)
        if lazy:
            self.told = registers.share(registers.zeros()).counts  # own pulls when last news
            self.owed = np.zeros(len(self.places))  # whom to tell that entries arrived
            self.keep_also("told")
            self.keep_also("owed", is_link=True)

    def estimate(self) -> Estimate:
        """Return the totals of all agents heard of, with what is on its way anticipated."""
        num_agents, totals = float(count_authors(self.entries[:, 0])), self._totals()
        rounds: float = self.rounds
        if self.decays:
            rounds = self.registers.decay * decayed_rounds(self.registers.decay, self.clock)
        elif self.window is not None:
            totals, rounds = totals - self.past[0], len(self.past) - 1
        ahead = anticipation(num_agents, rounds, totals[1]) if self.common_round else 1.0
        time = max(2.0, float(self.registers.pulls(totals[HEADER:])))
        found = self.registers.read(
            totals[HEADER:], time=time, num_agents=num_agents, anticipation=ahead
        )
        if self.spread is not None:
            return pooled(found, self.share(), self.spread, self.sigma)
        if self.window is not None or self.lazy:
            return found
        return found._replace(certain=self.registers.share(totals[HEADER:]))

    def scatter(self, bounded: bool) -> Scatter | None:
        """Return how much sites differ, as all entries tell that hold means of arms for ever."""
        if self.decays or self.registers.num_features:
            return None
        told = [self.registers.share(values) for values in self.entries[:, HEADER:]]
        sums, counts = (np.array(each) for each in zip(*told, strict=True))
        return scatter_of(sums, counts, self.sigma, bounded)

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull; its round ends those behind the own totals."""
        at = self._place(self.number)
        ended = self.clock if self.decays else self.rounds
        if self.decays:  # what was pulled before has aged since the last pull
            self.registers.age(self.entries[at, HEADER:], self.former, rounds=int(self._ages()[at]))
            self.delays[at] = 0.0
        self.registers.record(self.entries[at, HEADER:], arm, reward, context)
        self.entries[at, 1] = ended + 1
        if self.lazy and not self._tells(at):
            return
        # This round's message may be on its way already: only the next one surely carries it.
        self.changed[at], self.sources[at] = self.rounds + 2, -1.0

    def _tells(self, at: int) -> bool:
        """Return whether the own entry has grown enough, and remember it as told if so."""
        counts = self.registers.share(self.entries[at, HEADER:]).counts
        grown = bool(has_grown(counts, self.told, self.lazy).any())
        if grown:
            self.told = counts
        return grown

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return [own number, number heard | the entries that the neighbour may not have].

        A lazy agent says nothing rather than that there is no news.
        """
        at = self.places[neighbor]
        news = self._news(neighbor, self.arrived.item(at))
        if not news and self.lazy and not self.owed[at]:
            return None
        message = np.empty(HEADER + len(news) * self.entries.shape[1])
        message[0], message[1] = self.rounds + 1.0, self.heard[at]
        if len(news) == 1:
            message[HEADER:] = self.entries[news[0]]
        elif news:
            message[HEADER:] = self.entries.take(news, axis=0).ravel()
        return message

    def _news(self, neighbor: int, arrived: float) -> list[int]:
        """Return which entries a neighbour may not have, if so many messages have arrived there."""
        changed = self.changed.tolist()
        if max(changed) <= arrived:
            return []
        news = [at for at, message in enumerate(changed) if message > arrived]
        if arrived > 0.0:
            sources = self.sources.tolist()
            news = [at for at in news if sources[at] != neighbor]
        return news

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Take every entry that is newer than the one at hand."""
        self._check(messages)
        self.rounds += 1
        if self.lazy:
            self.owed[:] = 0.0
        for j, message in messages.items():
            at, arrived = self.places[j], message.item(1)
            self.heard[at] = message.item(0)
            # Who tells of a message that was never sent has heard another memory of this agent.
            self.arrived[at] = arrived if arrived <= self.rounds else 0.0
            if self.lazy:
                self.owed[at] = float(message.size > HEADER)
        before = self.entries
        told = {j: message[HEADER:] for j, message in messages.items() if message.size > HEADER}
        if told:
            told = {j: self._obey(entries) for j, entries in told.items()}
            # A window compares entries with those of before, which must stay as they are.
            if self.window is not None or not self._take_known(told):
                self._merge(told)
        if self.decays:  # an entry's rounds are its author's clock after its last pull
            self._move_clock(self._next_clock([self.entries[:, 1].max() - 1.0]))
        if self.window is not None:
            totals = self._totals()
            fell = has_fallen(self.registers, self.past[-1, HEADER:], totals[HEADER:])
            if fell or self._leaps(before, self.window):
                self.past = self.past[:0]
            self.past = follow(self.past, totals, self.window)

    def _leaps(self, before: Rows, rounds: int) -> bool:
        """Return whether an entry has grown by more than so many rounds since, or was forgotten."""
        if self.sources[self._place(self.number)] >= 0.0:
            return True  # others told what this agent had pulled before it lost its memory
        known = dict(before[:, :2].tolist())
        return any(now - known.get(j, 0.0) > rounds for j, now in self.entries[:, :2].tolist())

    def _obey(self, told: Vector) -> Vector:
        """Carry out the orders among entries, and return the others."""
        width = self.entries.shape[1]
        if min(told[1::width].tolist()) >= 0.0:
            return told
        rows = told.reshape(-1, width)
        for row in rows[rows[:, 1] < 0.0]:
            if row[1] <= RENUMBER:
                self._renumber(int(row[0]), row[HEADER:], RENUMBER - row[1])
            elif row[0] != self.number:
                self._keep(self.entries[:, 0] != row[0])
        return rows[rows[:, 1] >= 0.0].ravel()

    def _renumber(self, number: int, told: Vector, rounds: float) -> None:
        """Leave registers behind as they were told in some round; the rest counts anew.

        What was heard by the memory of before need not be in this one, not even what it has told.
        """
        if number in self.entries[:, 0]:
            return
        self.heard[:] = 0.0
        if self.lazy:
            self.told[:] = 0.0
        at = self._place(self.number)
        fresh, left = self.entries[at].copy(), told.copy()
        if self.decays:
            self.registers.age(left, rounds=max(0, int(fresh[1] - rounds)))
            self.delays[at] = 0.0
        self.entries[at, 1] = rounds
        fresh[0], fresh[HEADER:] = number, fresh[HEADER:] - left
        if self.decays:  # rounding may have left less than nothing
            fresh[HEADER:] = self.registers.clip(fresh[HEADER:])
        self.entries[at, HEADER:], self.changed[at] = told, self.rounds + 1.0
        self.former, self.number = self.former + left, number
        at = self._place(number)
        self.entries = np.insert(self.entries, at, fresh, axis=0)
        self.changed = np.insert(self.changed, at, self.rounds + 1.0)
        self.sources = np.insert(self.sources, at, -1.0)
        self.delays = np.insert(self.delays, at, 0.0)

    def _check(self, messages: Mapping[int, Vector]) -> None:
        """Refuse all but vectors of numbers that tell of agents."""
        width = self.entries.shape[1]
        for sender, message in messages.items():
            if message is self._read[0]:
                continue  # it was looked at before
            if message.shape != (HEADER,):
                self._check_form(message, f"message from {sender}")
            if not all_finite(message):
                raise InputError(f"message from {sender} has values that are not finite")
            if message.size > HEADER:
                agents, rounds = message[HEADER::width], message[HEADER + 1 :: width]
                what = f"message from {sender}"
                check_entries(agents, rounds, what, orders=True)

    def restore_state(self, state: State) -> None:
        """Set the fields."""
        super().restore_state(state)
        if not self.ticks:
            self.delays = np.zeros(len(self.entries))

    def check_state(self, values: State) -> None:
        """Refuse entries that no agent can have."""
        require_count("state field rounds", values["rounds"], least=0)
        check_past(values, self.window)
        agents, rounds = values["entries"][:, 0], values["entries"][:, 1]
        check_entries(agents, rounds, "state field entries")
        lengths = {len(values[name]) for name in PER_ENTRY if name in values}
        if len(lengths) > 1 or (np.diff(agents) <= 0).any() or values["number"] not in agents:
            raise InputError(
                "state fields entries, changed and sources must tell of the same agents, the own "
                "one among them, in ascending order; restore what export_state returned"
            )

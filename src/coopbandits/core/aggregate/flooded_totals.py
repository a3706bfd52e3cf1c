"""Flooding of totals: everybody keeps everybody's own totals, and passes on what is newer.

Per known agent there is one entry: its number, the rounds behind its totals, and their registers.
The number of pulls ever only grows, so it is an entry's version, and of two entries the one with
more pulls wins, for the own entry too: an agent that lost its memory hears of its former self.

A message to neighbour j is [number of this message | number of the last one heard from j | entries]
and carries the entries that j is not known to have: those that changed since the last message of
which j told that it arrived, less those that came from j. Messages are numbered by rounds. As every
message carries all since the last one acknowledged, whoever got it has all that the sender had: one
number per neighbour is enough, and what is lost is sent again until it is known to have arrived.

Invariants: idempotent and order-free, so loss, delay and repetition only make entries older. What
is known is exact. Without faults an entry is as old as its agent is far away, and no protocol is
fresher. Memory and messages grow with the number of agents: all registers and 2 values per entry.

*Differs from the paper*: nothing known; it is folklore (anti-entropy, Demers et al. 1987).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import (
    OWN,
    ROBUST,
    Aggregation,
    ContextMachine,
    MessageSize,
)
from coopbandits.core.aggregate.claims import PartlyImpossibleError
from coopbandits.core.aggregate.entries import (
    HEADER,
    RENUMBER,
    Rows,
    check_entries,
    count_authors,
    with_rows,
)
from coopbandits.core.aggregate.exchange import all_finite, anticipation
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers


@dataclass(frozen=True)
class FloodedTotals(Aggregation):
    """Exact totals of all agents heard of, each as stale as its message delay.

    Notes
    -----
    Knows its own number, who its neighbours are, and whether rounds are common (otherwise nothing
    is anticipated). Sends 2 values to each neighbour in every round, and all registers and 2 more
    for every agent of whom the neighbour may know less.
    """

    name: ClassVar[str] = "flooded-totals"
    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = OWN
    exact: ClassVar[bool] = True
    checks_claims: ClassVar[bool] = True
    grows: ClassVar[bool] = True

    @property
    def takes_context(self) -> bool:
        """Yes."""
        return True

    def make(self, view: LocalView, registers: Registers) -> FloodedTotalsMachine:
        """Return the machine of one agent."""
        return FloodedTotalsMachine(view, registers)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without news, and with news of everybody."""
        when = f"with news of {max_agents} agents in every round"
        return MessageSize(HEADER, HEADER + max_agents * (HEADER + registers.size), when)


class FloodedTotalsMachine(ContextMachine):
    """One entry per agent known, and what each neighbour is known to have.

    Notes
    -----
    N̂ is the number of authors heard of so far: an agent that has had several memories is one.
    """

    fields = ("rounds", "entries", "changed", "sources", "arrived", "heard", "number", "former")
    tables = ("entries", "changed", "sources")
    links = ("arrived", "heard")

    def __init__(self, view: LocalView, registers: Registers) -> None:
        self.number, self.registers = view.agent_id, registers
        self.former = registers.zeros()  # own pulls that count under former numbers
        self.common_round = view.common_round
        self.places = {j: at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.rounds = 0
        self.entries = np.zeros((1, HEADER + registers.size))  # ascending by agent
        self.entries[0, 0] = view.agent_id
        self.changed = np.ones(1)  # the first message that surely carries the entry as it is
        self.sources = np.full(1, -1.0)  # the neighbour that each entry came from
        self.arrived = np.zeros(len(self.places))  # own messages that each neighbour told of last
        self.heard = np.zeros(len(self.places))  # its message that was heard last

    def estimate(self) -> Estimate:
        """Return the totals of all agents heard of, with what is on its way anticipated."""
        num_agents, totals = float(count_authors(self.entries[:, 0])), self.entries.sum(axis=0)
        ahead = anticipation(num_agents, self.rounds, totals[1]) if self.common_round else 1.0
        time = max(2.0, float(self.registers.version(totals[HEADER:])))
        return self.registers.read(
            totals[HEADER:], time=time, num_agents=num_agents, anticipation=ahead
        )

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull; its round ends those behind the own totals."""
        at = self._place(self.number)
        self.registers.record(self.entries[at, HEADER:], arm, reward, context)
        self.entries[at, 1] = self.rounds + 1
        # This round's message may be on its way already: only the next one surely carries it.
        self.changed[at], self.sources[at] = self.rounds + 2, -1.0

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return [own number, number heard | the entries that the neighbour may not have]."""
        at = self.places[neighbor]
        arrived = self.arrived.item(at)
        header = np.array((self.rounds + 1.0, self.heard.item(at)))
        if max(self.changed.tolist()) <= arrived:
            return header
        news = self.changed > arrived
        if arrived > 0.0:
            news &= self.sources != neighbor
            if not news.any():
                return header
        return np.concatenate([header, self.entries.compress(news, axis=0).ravel()])

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Take every entry that is newer than the one at hand."""
        self._check(messages)
        self.rounds += 1
        for j, message in messages.items():
            heard, arrived = message[:HEADER].tolist()
            self.heard[self.places[j]] = heard
            # Who tells of a message that was never sent has heard another memory of this agent.
            self.arrived[self.places[j]] = arrived if arrived <= self.rounds else 0.0
        told = {j: self._aged(message) for j, message in messages.items() if message.size > HEADER}
        if told:
            self._merge({j: self._obey(entries) for j, entries in told.items()})
        self.registers.age(self.entries[:, HEADER:])

    def _aged(self, message: Vector) -> Vector:
        """Return the entries of a message; what came late has aged on its way."""
        late = self.rounds - int(message[0])
        if self.registers.decay == 1.0 or late <= 0 or not self.common_round:
            return message[HEADER:]
        entries = message[HEADER:].copy()
        self.registers.age(entries.reshape(-1, self.entries.shape[1])[:, HEADER:], rounds=late)
        return entries

    def _obey(self, told: Vector) -> Vector:
        """Carry out the orders among entries, and return the others."""
        rows = told.reshape(-1, self.entries.shape[1])
        if min(rows[:, 1].tolist()) >= 0.0:
            return told
        for row in rows[rows[:, 1] < 0.0]:
            if row[1] == RENUMBER:
                self._renumber(int(row[0]), row[HEADER:])
            elif row[0] != self.number:
                self._keep(self.entries[:, 0] != row[0])
        return rows[rows[:, 1] >= 0.0].ravel()

    def _keep(self, which: NDArray[np.bool_]) -> None:
        for name in self.tables:
            setattr(self, name, getattr(self, name)[which])

    def _renumber(self, number: int, left: Vector) -> None:
        """Leave some registers behind under the number of before; the rest counts anew.

        What was heard by the memory of before need not be in this one, not even what it has told.
        """
        if number in self.entries[:, 0]:
            return
        self.heard[:] = 0.0
        at = self._place(self.number)
        fresh = self.entries[at].copy()
        fresh[0], fresh[HEADER:] = number, fresh[HEADER:] - left
        self.entries[at, HEADER:], self.changed[at] = left, self.rounds + 1.0
        self.former, self.number = self.former + left, number
        at = self._place(number)
        self.entries = np.insert(self.entries, at, fresh, axis=0)
        self.changed = np.insert(self.changed, at, self.rounds + 1.0)
        self.sources = np.insert(self.sources, at, -1.0)

    def _merge(self, told: Mapping[int, Vector]) -> None:
        width = self.entries.shape[1]
        # Of equals the last one stays, so the own entries come last.
        entries = np.concatenate([*told.values(), self.entries.ravel()]).reshape(-1, width)
        versions = self.registers.version(entries[:, HEADER:])
        order = np.lexsort((versions, entries[:, 0]))
        agents = entries[:, 0].take(order)
        last = np.ones(len(agents), dtype=bool)
        np.not_equal(agents[1:], agents[:-1], out=last[:-1])
        newest = order[last]
        senders = [j for j, found in told.items() for _ in range(found.size // width)]
        changed = [self.rounds + 1.0] * len(senders) + self.changed.tolist()
        self.entries = entries.take(newest, axis=0)
        self.changed = np.array(changed).take(newest)
        self.sources = np.array(senders + self.sources.tolist()).take(newest)

    def _check(self, messages: Mapping[int, Vector]) -> None:
        """Refuse all but vectors of numbers that tell of agents."""
        width = self.entries.shape[1]
        for sender, message in messages.items():
            self._check_form(message, f"message from {sender}")
            if not all_finite(message):
                raise InputError(f"message from {sender} has values that are not finite")
            if message.size > HEADER:
                rows = message[HEADER:].reshape(-1, width)
                check_entries(rows, f"message from {sender}", orders=True)

    def _check_form(self, message: Vector, what: str) -> None:
        width = self.entries.shape[1]
        if message.ndim != 1 or message.size < HEADER or (message.size - HEADER) % width:
            raise InputError(
                f"{what} has shape {np.shape(message)}; it must be one vector of {HEADER} values "
                f"and {width} per agent"
            )

    def _place(self, number: float) -> int:
        """Return where an entry is, or belongs."""
        return int(self.entries[:, 0].searchsorted(number))

    def _own(self) -> Vector:
        own: Vector = self.entries[self._place(self.number), HEADER:]
        return own

    def share(self) -> Share:
        """Return the own totals, also those of former numbers."""
        return self.registers.share(self._own() + self.former)

    # What a fleet asks: see `Attributed`

    @property
    def is_lasting(self) -> bool:
        """Whether entries stay as they were told."""
        return self.registers.decay == 1.0

    def rows(self, message: Vector) -> Rows:
        """Return the entries in a message, or refuse one of another form."""
        self._check_form(message, "a message")
        return message[HEADER:].reshape(-1, self.entries.shape[1])

    def versions(self, rows: Rows) -> list[float]:
        """Return how many pulls are in each entry."""
        found: list[float] = self.registers.version(rows[:, HEADER:]).tolist()
        return found

    def entry(self, number: float) -> Vector | None:
        """Return the entry at hand."""
        at = self._place(number)
        here = at < len(self.entries) and self.entries[at, 0] == number
        return self.entries[at] if here else None

    def held(self) -> dict[float, float]:
        """Return the pulls in all entries at hand, by number."""
        return dict(zip(self.entries[:, 0].tolist(), self.versions(self.entries), strict=True))

    def heard_from(self, neighbor: int) -> int:
        """Return the number of a neighbour's last message."""
        return _as_count(self.heard[self.places[neighbor]])

    def arrived_at(self, neighbor: int) -> int:
        """Return the number of the own message that a neighbour acknowledged last."""
        return _as_count(self.arrived[self.places[neighbor]])

    def note(self, neighbor: int, rows: Rows) -> Vector:
        """Return a message that changes nothing about a neighbour, and tells these rows."""
        at = self.places[neighbor]
        return with_rows(np.array([self.heard[at], self.arrived[at]]), rows)

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse entries of more pulls than their agents can have made; the rest is believed."""
        width = self.entries.shape[1]
        if message.size <= HEADER or message.size % width != HEADER % width:
            return  # its form is checked when the round ends
        claims.remember(self.held)
        rows = self.rows(message)
        told = self.number in rows[:, 0].tolist()
        own = float(self.registers.version(self._own())) if told else 0.0
        doubts = claims.sift(self.registers, rows, (self.number, own), now)
        if any(doubts):
            rest = with_rows(message, rows[[not doubt for doubt in doubts]])
            raise PartlyImpossibleError(rest, [doubt for doubt in doubts if doubt])

    def restore_state(self, state: State) -> None:
        """Set the fields; a state of version 0.1 has no number and no former ones."""
        older = {"number": self.number, "former": self.registers.zeros().tolist()}
        super().restore_state(older | state)

    def check_state(self, values: State) -> None:
        """Refuse entries that no agent can have."""
        require_count("state field rounds", values["rounds"], least=0)
        check_entries(values["entries"], "state field entries")
        agents = values["entries"][:, 0]
        lengths = {len(values[name]) for name in self.tables}
        if len(lengths) > 1 or (np.diff(agents) <= 0).any() or values["number"] not in agents:
            raise InputError(
                "state fields entries, changed and sources must tell of the same agents, the own "
                "one among them, in ascending order; restore what export_state returned"
            )


def _as_count(told: float) -> int:
    """Return a number that a neighbour told, which may be anything, as one that there can be."""
    return int(min(max(0.0, told), 2.0**53))

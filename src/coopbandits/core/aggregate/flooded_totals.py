"""Flooding of totals: everybody keeps everybody's own totals, and passes on what is newer.

Per known agent there is one entry: its number, the rounds behind its totals, and their registers.
The number of pulls ever only grows, so it is an entry's version, and of two entries the one with
more pulls wins, for the own entry too: an agent that lost its memory hears of its former self.

A message to neighbour j is [number of this message | number of the last one heard from j | entries]
and carries the entries that j is not known to have: those that changed since the last message of
which j told that it arrived, less those that came from j. Messages are numbered by rounds. As every
message carries all since the last one acknowledged, whoever got it has all that the sender had: one
number per neighbour is enough, and what is lost is sent again until it is known to have arrived.
With `lazy` the own entry is news only once it has grown enough (`core.aggregate.lazy`), and where
there is neither news nor anything to acknowledge, nothing is sent at all.

Invariants: idempotent and order-free, so loss, delay and repetition only make entries older. What
is known is exact. Without faults an entry is as old as its agent is far away, and no protocol is
fresher. Memory and messages grow with the number of agents: all registers and 2 values per entry.

**Forgetting.** With a discount γ an entry holds its agent's totals as they counted in the round of
its last pull, which the rounds behind them tell; whoever reads it lets them age since then
(`forgetting`). So entries stay as their author told them, and growing old is no news. Counts no
longer only grow, so the number of pulls ever made travels beside them as the version. With a window
of w rounds, what was known w rounds ago is taken off what is known now. It begins anew where an
entry brings more than w rounds at once, as after a partition: what is old would count as recent.

*Differs from the paper*: nothing known; it is folklore (anti-entropy, Demers et al. 1987).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import (
    OWN,
    ROBUST,
    Aggregation,
    ContextMachine,
    MessageSize,
)
from coopbandits.core.aggregate.arms import moved_rows
from coopbandits.core.aggregate.claims import PartlyImpossibleError
from coopbandits.core.aggregate.entries import (
    HEADER,
    RENUMBER,
    Rows,
    as_count,
    check_entries,
    count_authors,
    newest_of,
    order,
    with_rows,
)
from coopbandits.core.aggregate.exchange import all_finite, anticipation
from coopbandits.core.aggregate.forgetting import (
    check_forgetting,
    check_past,
    decayed_rounds,
    follow,
    has_fallen,
)
from coopbandits.core.aggregate.lazy import is_news, require_growth, require_lazy
from coopbandits.core.aggregate.pooling import (
    Scatter,
    Spread,
    carried,
    pooled,
    require_spread,
    scatter_of,
)
from coopbandits.core.aggregate.ticks import ClockedMachine
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import VersionedRegisters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers, Statistic

FEW = 4
"""So many entries are taken one by one."""

PER_ENTRY = ("entries", "changed", "sources", "delays")
"""What there is one row of per entry; delays only where time is told."""


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
    takes_time: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    outlives: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse what does not forget in one way, no such share, and no spread."""
        check_forgetting(self.discount, self.window)
        require_lazy(self, self.lazy)
        require_spread(self, self.spread)
        if self.lazy or self.spread is not None:
            object.__setattr__(self, "exact", False)

    @property
    def whole_pulls(self) -> bool:
        """Whether everything is pooled."""
        return self.spread is None

    def carried(self, asked: Statistic) -> Statistic:
        """Return sums of sites where their spread is estimated."""
        return carried(self.spread, asked)

    @property
    def takes_context(self) -> bool:
        """Yes."""
        return True

    def make(self, view: LocalView, registers: Registers) -> FloodedTotalsMachine:
        """Return the machine of one agent."""
        require_growth(self.lazy, registers)
        versioned = self._versioned(registers)
        return FloodedTotalsMachine(view, versioned, self.window, self.lazy, self.spread)

    def _versioned(self, registers: Registers) -> Registers:
        """Return registers whose version only grows, whatever is forgotten."""
        if self.discount == 1.0:
            return registers
        return VersionedRegisters(registers.decaying(self.discount))

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without news, and with news of everybody."""
        when = f"with news of {max_agents} agents in every round"
        size = self._versioned(registers).size
        return MessageSize(HEADER, HEADER + max_agents * (HEADER + size), when)


class FloodedTotalsMachine(ClockedMachine, ContextMachine):
    """One entry per agent known, and what each neighbour is known to have.

    Notes
    -----
    N̂ is the number of authors heard of so far: an agent that has had several memories is one.
    """

    fields: tuple[str, ...] = ("rounds", *PER_ENTRY[:3], "arrived", "heard", "number", "former")
    tables: tuple[str, ...] = PER_ENTRY[:3]
    links: tuple[str, ...] = ("arrived", "heard")
    registered = MappingProxyType({"entries": (HEADER, 0), "past": (HEADER, 0), "former": (0, 0)})
    counted = MappingProxyType({"told": 0})

    def __init__(
        self,
        view: LocalView,
        registers: Registers,
        window: int | None = None,
        lazy: float = 0.0,
        spread: Spread = None,
    ) -> None:
        self.number, self.registers, self.window = view.agent_id, registers, window
        self.spread, self.sigma = spread, view.sigma
        self.former = registers.zeros()  # own pulls that count under former numbers
        self.common_round = view.common_round
        self.places = {j: at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.rounds = 0
        self.entries = np.zeros((1, HEADER + registers.size))  # ascending by agent
        self.entries[0, 0] = view.agent_id
        self._listed: tuple[Rows, dict[float, int]] = self.entries, {float(view.agent_id): 0}
        self.changed = np.ones(1)  # the first message that surely carries the entry as it is
        self.sources = np.full(1, -1.0)  # the neighbour that each entry came from
        self.arrived = np.zeros(len(self.places))  # own messages that each neighbour told of last
        self.heard = np.zeros(len(self.places))  # its message that was heard last
        self.decays = registers.decay != 1.0
        self._start_clock(view, decays=self.decays)
        self.delays = np.zeros(1)  # how much older entries are than the clock tells
        if self.ticks:
            self.keep_also("delays", is_table=True)
        if window is not None:
            self.past = np.zeros((1, self.entries.shape[1]))  # sums of entries, oldest first
            self.keep_also("past", is_table=True)
        self.lazy = lazy
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
        if self.spread is None:
            return found
        return pooled(found, self.share(), self.spread, self.sigma)

    def scatter(self, bounded: bool) -> Scatter | None:
        """Return how much sites differ, as all entries tell that hold means of arms for ever."""
        if self.decays or self.registers.num_features:
            return None
        told = [self.registers.share(values) for values in self.entries[:, HEADER:]]
        sums, counts = (np.array(each) for each in zip(*told, strict=True))
        return scatter_of(sums, counts, self.sigma, bounded)

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
        grown = is_news(counts, self.told, self.lazy)
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
        if news:
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
            self._merge({j: self._obey(entries) for j, entries in told.items()})
        if self.decays:  # an entry's rounds are its author's clock after its last pull
            self._move_clock(self._next_clock([self.entries[:, 1].max() - 1.0]))
        if self.window is not None:
            totals = self._totals()
            fell = has_fallen(self.registers, self.past[-1, HEADER:], totals[HEADER:])
            if fell or self._leaps(before, self.window):
                self.past = self.past[:0]
            self.past = follow(self.past, totals, self.window)

    def _move_clock(self, now: int) -> None:
        """Move the clock; where it is set back, entries stay as old as they were."""
        ages, back, self.clock = self._ages(), now < self.clock, now
        if back:
            self.delays = self.delays + ages - self._ages()

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

    def _keep(self, which: NDArray[np.bool_]) -> None:
        for name in PER_ENTRY:
            setattr(self, name, getattr(self, name)[which])

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
            self.entries[at, 1], self.delays[at] = rounds, 0.0
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
        if self.window is None and self._take_known(told):
            return
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

    def _check(self, messages: Mapping[int, Vector]) -> None:
        """Refuse all but vectors of numbers that tell of agents."""
        width = self.entries.shape[1]
        for sender, message in messages.items():
            if message.shape != (HEADER,):
                self._check_form(message, f"message from {sender}")
            if not all_finite(message):
                raise InputError(f"message from {sender} has values that are not finite")
            if message.size > HEADER:
                agents, rounds = message[HEADER::width], message[HEADER + 1 :: width]
                what = f"message from {sender}"
                check_entries(agents, rounds, what, orders=True, ages=self.decays)

    def _check_form(self, message: Vector, what: str) -> None:
        width = self.entries.shape[1]
        if message.ndim != 1 or message.size < HEADER or (message.size - HEADER) % width:
            raise InputError(
                f"{what} has shape {np.shape(message)}; it must be one vector of {HEADER} values "
                f"and {width} per agent"
            )

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

    # What a fleet asks: see `Attributed`

    @property
    def is_lasting(self) -> bool:
        """Whether entries stay as they were told: they age where they are read."""
        return True

    def rows(self, message: Vector) -> Rows:
        """Return the entries in a message, or refuse one of another form."""
        self._check_form(message, "a message")
        return message[HEADER:].reshape(-1, self.entries.shape[1])

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
        told_in = left[1] if self.decays else 0.0
        return order(RENUMBER - told_in, number, left[HEADER:])

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
        rows = message[HEADER:].reshape(-1, width)
        told = self.number in message[HEADER::width].tolist()
        own = float(self.registers.version(self._own())) if told else 0.0
        doubts = claims.sift(self.registers, rows, (self.number, own), now)
        if any(doubts):
            rest = with_rows(message, rows[[not doubt for doubt in doubts]])
            raise PartlyImpossibleError(rest, [doubt for doubt in doubts if doubt])

    def restore_state(self, state: State) -> None:
        """Set the fields; a state of version 0.1 has no number and no former ones."""
        older = {"number": self.number, "former": self.registers.zeros().tolist()}
        super().restore_state(older | state)
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

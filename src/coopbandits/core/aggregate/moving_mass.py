r"""Pulls that move: mass that agents hand on to each other, none of it lost and none taken twice.

*Mass* is pulls as registers, the agents a that they are of, and the rounds B behind them.

**Handing on.** An agent holds mass H: its own pulls, and what was handed to it. Once a round all of
it goes to one neighbour j that is nearer to the root: S_j ← S_j + H, H ← 0. A message tells S_j,
all that was ever handed over that link, and the receiver adds what is new, S_j − Q_j, Q_j being
what it has taken before. So a lost message is only a delay. Who takes it must tell of the same
root, not be a child or cut off, have a newer beat, or the same and be nearer, and the link must
have worked both ways lately: j was heard within 1 + 2 (g − 1) + v rounds, g the mean gap between
messages from j and v its mean deviation, and told that it heard this agent within as many and u. An
answer may be on its way for long: u is by how many rounds the least late of the last 16 to 32 was
late, up to 100. Where messages take no time that is 0, unless nearly all are lost. Of several the
newest beat counts, less g, then the distance. If there is none, the agent keeps H.

**Lost memories.** Messages are numbered by rounds, modulo `LAP`, and a number's fraction, the mark,
tells one memory of a link from another: it is drawn when the other end is first heard. Nobody is
handed anything before it has acknowledged a number with that mark, and who sees a new mark takes
S_j for Q_j and adds nothing. So an agent that forgets loses what it held and what was on its way to
it, and nothing is taken twice. An agent that was opened again, and whose memory may be an older
one, asks its neighbours first (`doubt`). If it is older, the agent drops what it held, which it may
have handed on since, and begins all links anew.

**Neighbours that go** are not forgotten at once: S_j, Q_j, mark and number of the last 16 are kept,
so that a link that comes back goes on as if it had been silent. Otherwise what was on its way would
be lost with every link that breaks for a moment, and nobody could vouch for an agent that was
started again.

Here is what agents do with mass; what a root does with it is told in `ledger_sums`.

*Differs from the paper*: cumulative sums per link are those of running-sum ratio consensus
(Hadjicostis, Vaidya, Domínguez-García 2016); all else is our own.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.arms import moved_rows
from coopbandits.core.aggregate.claims import MAX_NUMBERS
from coopbandits.core.aggregate.doubt import (
    LAP,
    LEVELS,
    SURE,
    UNHEARD,
    DoubtfulMachine,
    is_later,
)
from coopbandits.core.aggregate.forgetting import age_rows, has_fallen
from coopbandits.core.aggregate.spanning_tree import CHILD, CONTROL, FAR, NOBODY, PATIENCE
from coopbandits.core.aggregate.tree_machine import TreeSumsMachine
from coopbandits.core.draws import words
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.statistic import Registers

SLACK = 1.0
"""Rounds that a link may be silent beyond its usual gaps before nothing is handed over it."""

LAGS = 16
"""Answers after which an agent looks anew how late the earliest of them was."""

FORMER = 16
"""So many neighbours that have gone are remembered."""

FORMER_FIELDS = ("former", "former_sent", "former_taken")

UNKNOWN = 2.0**31
"""The earliest of no answers."""

MARKS = 1 << 40
"""Where the words of marks begin, by round; those before are others' (`extrema`)."""


class MovingMass(DoubtfulMachine, TreeSumsMachine):
    """Mass that is held and handed on along the tree.

    A message begins with `front` rows of mass, of which the first is S_j, and a header that ends in
    its number and the number last heard; then comes the message of tree sums.
    """

    front: ClassVar[int]
    header: ClassVar[int]
    masses: ClassVar[tuple[str, ...]] = (
        "held", "doubted", "sent", "taken", "former_sent", "former_taken",
    )  # fmt: skip
    """All mass, which ages where pulls are forgotten."""

    growing: ClassVar[tuple[str, ...]] = ("held",)
    """Masses to which own pulls are added."""

    dropped: ClassVar[tuple[str, ...]] = ("doubted", "numbers", "marks", "acknowledged")
    """What a memory drops that is older than what it has told."""

    fields: tuple[str, ...] = (
        *TreeSumsMachine.fields, *DoubtfulMachine.doubting, "held", "doubted", "sent", "taken",
        "numbers", "marks", "acknowledged", "wobbles", "receipts", "lags", *FORMER_FIELDS,
    )  # fmt: skip
    tables: tuple[str, ...] = FORMER_FIELDS
    links: tuple[str, ...] = (
        *TreeSumsMachine.links, *DoubtfulMachine.doubting_links, "sent", "taken", "numbers",
        "marks", "acknowledged", "wobbles", "receipts", "lags",
    )  # fmt: skip

    def __init__(self, view: LocalView, registers: Registers) -> None:
        super().__init__(view, registers)
        self.word, width, degree = view.random_word, self.own.size, len(self.places)
        self.start = self.front * width + self.header  # where the part of tree sums begins
        self._start_sure()
        self.levels = np.zeros(degree)
        self.held = self.own.copy()  # H: this agent counts as one with its first pulls
        self.doubted = np.zeros(width)  # what was held when this memory was opened again
        self.sent = np.zeros((degree, width))  # S_j
        self.taken = np.zeros((degree, width))  # Q_j
        self.numbers = np.zeros(degree)  # the number of the last message from j, 0 for none
        self.marks = np.zeros(degree)  # the fraction of numbers told to j, 0 until j is heard
        self.acknowledged = np.zeros(degree)  # the last own number that j told to have heard
        self.wobbles = np.zeros(degree)  # v: mean deviation of gaps
        # An own number, the pulls handed on by then, and those that surely have arrived.
        self.receipts = np.zeros((degree, 3))
        # u; the rounds by which the least late of these answers was late, and how many they are.
        self.lags = np.tile([0.0, UNKNOWN, 0.0], (degree, 1))
        # Of neighbours that have gone, in that order: who it is, the number of its last message,
        # the mark told to it, its level if it is asked, and the pulls that surely have arrived.
        self.former = np.zeros((0, 5))
        self.former_sent, self.former_taken = np.zeros((0, width)), np.zeros((0, width))

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull, and hold it."""
        behind = self.own[-1]
        super().observe(arm, reward, context)
        for mass in (getattr(self, name) for name in self.growing):
            self.registers.record(mass[:-2], arm, reward, context)
            mass[-1] += self.own[-1] - behind

    def _handed_to(self, neighbor: int) -> tuple[Vector, list[float]]:
        """Return S_j as the next message tells it, its number, and the number last heard."""
        at = self.places[neighbor]
        handed = self.sent[at] + self.held if neighbor == self._carrier() else self.sent[at]
        number = (self.rounds + 1.0) % LAP + self.marks[at] if self.is_sure else -float(self.level)
        return handed, [number, float(self.numbers[at])]

    def _exchange(self, messages: Mapping[int, Vector]) -> dict[int, Vector]:
        """Hand on, take what is new, look after the tree; return what was heard, aged."""
        told = {j: message for j, message in messages.items() if not self._is_late(j, message)}
        self._hand_on()
        for j in told:
            at = self.places[j]
            deviation = abs(self.ages[at] + 1.0 - self.gaps[at])
            self.wobbles[at] += 0.2 * (deviation - self.wobbles[at])
        super().receive({j: message[self.start :] for j, message in told.items()})
        if self.stamps:
            told = {j: self._aged(message) for j, message in told.items()}
        if not self.is_sure:
            self._ask(told)
        for j, message in told.items() if self.is_sure else ():
            self._take(self.places[j], message)
        return told

    def _is_late(self, neighbor: int, message: Vector) -> bool:
        """Return whether a later message of the same memory was heard before.

        Without a mark nobody knows of which memory it is, and it hands nothing on.
        """
        number, last = float(message[self.start - 2]), float(self.numbers[self.places[neighbor]])
        has_mark = number > 0.0 and number % 1.0 > 0.0
        return has_mark and number % 1.0 == last % 1.0 and is_later(last, number)

    def _hand_on(self) -> None:
        """Hand all mass at hand to a neighbour, if there is one for it."""
        carrier = self._carrier()
        if carrier != NOBODY:
            self.sent[self.places[carrier]] += self.held
            self.held = np.zeros(self.held.size)

    def _carrier(self) -> int:
        """Return the neighbour to whom mass is handed in this round; `NOBODY` to keep it."""
        found = []
        if self.dist != 0 and self.is_sure:
            controls: list[list[float]] = self.controls.tolist()
            for (j, at), (root, beat, dist, bond) in zip(
                self.places.items(), controls, strict=True
            ):
                nearer = beat > self.beat or (beat == self.beat and dist < self.dist)
                fit = root == self.root and dist < FAR and bond != CHILD and nearer
                if fit and self._works_both_ways(at):
                    found.append((float(self.gaps[at]) - beat, dist, j))
        return min(found)[-1] if found else NOBODY

    def _works_both_ways(self, at: int) -> bool:
        """Return whether a neighbour was heard lately, and told that it heard this agent lately."""
        silence = SLACK + 2.0 * (self.gaps[at] - 1.0) + self.wobbles[at]
        answered = self._lag(at) - self.lags[at, 0]
        return bool(self.acknowledged[at] and self.ages[at] <= silence and answered <= silence)

    def _lag(self, at: int) -> float:
        """Return by how many rounds the last answer of a neighbour is late by now."""
        # A message tells of the round before it, and is heard in the round before this one.
        return float(self.rounds + 1 - self.acknowledged[at] - 2)

    def _take(self, at: int, message: Vector) -> None:
        """Take over what a neighbour has handed on since its last message."""
        handed = message[: self.own.size]
        number, heard = message[self.start - 2 : self.start].tolist()
        if number <= 0.0:  # in doubt: it is heard again later
            self.acknowledged[at] = 0.0
            return
        mark = number % 1.0
        if not mark or mark != self.numbers[at] % 1.0:
            # The first that is heard of this memory: what it tells was handed to another.
            self.acknowledged[at] = 0.0
        elif not self._fell(self.taken[at], handed):
            self.held = self.held + (handed - self.taken[at])
        self.taken[at], self.numbers[at] = handed, number
        if not self.marks[at]:
            self.marks[at] = mark_of(self.word ^ self.nonce, self.rounds)
            self.receipts[at] = 0.0, *[self._pulls(self.sent[at])] * 2
        elif heard % 1.0 == self.marks[at]:
            self.acknowledged[at] = self._round_of(heard // 1.0)
            self._note_lag(at)
            self._note_receipt(at)

    def _round_of(self, number: float) -> float:
        """Return the last round whose message had a number."""
        now = self.rounds + 1.0
        return now - (now - number) % LAP

    def _fell(self, before: Vector, now: Vector) -> bool:
        """Return whether there are fewer pulls than before; where they decay, fewer ever made."""
        if self.stamps:
            return self._pulls(now) < self._pulls(before)
        return has_fallen(self.registers, before[:-2], now[:-2])

    def _note_lag(self, at: int) -> None:
        """Note by how many rounds an answer is late; what is usual is no sign of a broken link."""
        usual, least, count = self.lags[at].tolist()
        lag = min(self._lag(at), PATIENCE)
        usual, least, count = min(usual, lag), min(least, lag), count + 1.0
        self.lags[at] = (least, UNKNOWN, 0.0) if count == LAGS else (usual, least, count)

    def _note_receipt(self, at: int) -> None:
        """Note what has arrived at a neighbour, once it has heard a number noted before."""
        number, arrived, _ = self.receipts[at].tolist()
        if self.acknowledged[at] >= number:
            # This round's message may have been told before the last pulls: the next has them.
            self.receipts[at] = self.rounds + 1.0, self._pulls(self.sent[at]), arrived

    def reopened(self, word: int) -> None:
        """Doubt this memory, unless there is nothing in it."""
        self.nonce = word
        if not self.rounds and not self._pulls(self.own):
            return
        if self.is_sure:
            self._hand_on()  # as the last message told
        is_new = (self.marks == 0.0) & (self.levels >= 0.0) & (not self.is_sure)
        self._begin_doubt()
        self.levels[is_new] = 0.0  # a neighbour since the first of these openings only
        self.former[self.former[:, 3] < LEVELS, 3] = UNHEARD
        self.doubted, self.held = self.doubted + self.held, np.zeros(self.own.size)

    def _ask(self, told: Mapping[int, Vector]) -> None:
        """Look at what neighbours have heard of this memory; go on, begin anew, or wait."""
        right = True
        for j, message in told.items():
            at, (number, heard) = self.places[j], message[self.start - 2 : self.start].tolist()
            right &= self._note_answer(at, number, heard, float(self.marks[at]))
        if right and self._settle() and (self._knows_somebody() or self._has_waited()):
            self.held, self.opened = self.held + self.doubted, SURE
            self.doubted = np.zeros(self.own.size)
        elif not right or self._has_waited():
            self._begin_anew()

    def _knows_somebody(self) -> bool:
        """Return whether this memory has ever heard anybody who could answer."""
        return bool(self.marks.any() or self.former[:, 2].any())

    def _asked(self) -> list[float]:
        """Return the levels of all who are asked, whether they are neighbours now or not."""
        return [*super()._asked(), *self.former[:, 3].tolist()]

    def _begin_anew(self) -> None:
        """Drop what may have been handed on in rounds that this agent no longer knows of."""
        for name in self.dropped:
            setattr(self, name, np.zeros_like(getattr(self, name)))
        for name in self.tables:
            setattr(self, name, getattr(self, name)[:0])
        self.opened = SURE

    def _grow_older(self, stamps: list[float]) -> None:
        """Let all mass age, too."""
        before = self.clock
        super()._grow_older(stamps)
        for name in self.masses:
            age_rows(self.registers, getattr(self, name), self.clock - before)

    def _aged(self, message: Vector) -> Vector:
        """Return a message whose mass has aged since it was written."""
        width, found = self.own.size, message.copy()
        rounds = self.clock - int(message[self.start + width + CONTROL])
        rows = found[: self.front * width].reshape(self.front, width)
        age_rows(self.registers, rows, rounds)
        return found

    def translated(self, message: Vector, theirs: Registers, places: Sequence[int]) -> Vector:
        """Return a message about other arms as one about these."""
        width = theirs.size + 2
        start = self.front * width + self.header
        if message.size < start:
            return message  # of no such form, which is told when it is read
        rows = message[: self.front * width].reshape(self.front, width)
        moved = moved_rows(rows, self.registers, theirs, places, (0, 2)).ravel()
        rest = super().translated(message[start:], theirs, places)
        return np.concatenate([moved, message[self.front * width : start], rest])

    def _pulls(self, mass: Vector) -> float:
        """Return the number of pulls in some mass, as they were made."""
        return float(self.registers.version(mass[:-2]))

    def _count_moving(self) -> tuple[float, float]:
        """Return how many pulls are held, and how many are on links."""
        handed = sum(map(self._pulls, [*self.sent, *self.former_sent]))
        arrived = float(self.receipts[:, 2].sum() + self.former[:, 4].sum())
        return self._pulls(self.held + self.doubted), handed - arrived

    def _check_handed(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse what cannot have been handed on, and a number that no round has."""
        self._check_mass(message[: self.own.size], claims, now)
        number, most = float(message[self.start - 2]), claims.most_rounds(now)
        claims.check_within("a message's number", number, float(-LEVELS), most + 2.0)

    def _check_mass(self, mass: Vector, claims: Claims, now: float) -> None:
        """Refuse mass of more than all agents can have pulled; each may have had many lives."""
        agents, behind = mass[-2:].tolist()
        claims.check_totals(self.registers, mass[:-2], claims.max_agents, now)
        claims.check_within("agents in mass", agents, 0.0, claims.max_agents * MAX_NUMBERS)
        most = claims.max_agents * claims.most_rounds(now)
        claims.check_within("rounds in mass", behind, 0.0, most)

    def parted(self, neighbors: Collection[int]) -> None:
        """Hand nothing to some neighbours: what is held was told to none of them."""
        for j in neighbors:
            self.acknowledged[self.places[j]] = 0.0

    def relinked(self, state: State, neighbors: Sequence[int], own: Sequence[int]) -> State:
        """Remember the links to those who go, and go on with those to others who come back."""
        state = self._told_by(state, neighbors)
        moved, known = super().relinked(state, neighbors, own), _former_links(state)
        for at, j in enumerate(neighbors):
            is_asked = state["levels"][at] == UNHEARD
            if j not in own and (state["marks"][at] or is_asked):  # otherwise it was never heard
                level = LEVELS if state["opened"] == SURE else state["levels"][at]
                row = [j, state["numbers"][at], state["marks"][at], level, state["receipts"][at][2]]
                known[j] = [*map(float, row)], state["sent"][at], state["taken"][at]
        for at, j in enumerate(own):
            if j in known and j not in neighbors:
                (_, number, mark, level, arrived), sent, taken = known.pop(j)
                moved["numbers"][at], moved["marks"][at] = number, mark
                moved["sent"][at], moved["taken"][at] = sent, taken
                moved["levels"][at] = min(level, 0.0)
                moved["receipts"][at] = [0.0, arrived, arrived]
        asked = [link for link in known.values() if link[0][3] < LEVELS]
        others = [link for link in known.values() if link[0][3] == LEVELS]
        for at, name in enumerate(FORMER_FIELDS):
            moved[name] = [link[at] for link in (*others[-FORMER:], *asked)]
        return moved

    def _told_by(self, state: State, neighbors: Sequence[int]) -> State:
        """Return a state after it has handed on as its last message told.

        Without some neighbours others may carry: what one of these was told is not theirs.
        """
        before = copy(self)
        before.places = {j: at for at, j in enumerate(neighbors)}
        for name in self.fields:
            value = state[name]
            is_array = isinstance(value, list)
            setattr(before, name, np.array(value, dtype=np.float64) if is_array else value)
        before._hand_on()
        return before.export_state()

    def check_state(self, values: State) -> None:
        """Refuse marks that are no fractions."""
        super().check_state(values)
        if not ((values["marks"] >= 0.0) & (values["marks"] < 1.0)).all():
            raise InputError(
                f"state field marks is {values['marks'].tolist()}; marks are fractions, from 0 to 1"
            )
        if len({len(values[name]) for name in FORMER_FIELDS}) > 1:
            raise InputError(
                f"state fields {', '.join(FORMER_FIELDS)} must tell of the same neighbours; "
                "restore what export_state returned"
            )


def _former_links(state: State) -> dict[int, tuple[list[float], list[float], list[float]]]:
    """Return what a state remembers of neighbours that have gone, by neighbour."""
    rows = zip(*(state[name] for name in FORMER_FIELDS), strict=True)
    return {int(row[0]): (row, sent, taken) for row, sent, taken in rows}


def mark_of(word: int, rounds: int) -> float:
    """Return a fraction of 20 random bits, never 0; whole numbers may be added exactly."""
    bits = int(words(word, np.array([MARKS + rounds], dtype=np.uint64))[0]) >> 44
    return (bits + 0.5) * 2.0**-20

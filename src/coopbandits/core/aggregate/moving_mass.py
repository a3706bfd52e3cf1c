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

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.arms import moved_rows
from coopbandits.core.aggregate.claims import MAX_NUMBERS
from coopbandits.core.aggregate.doubt import (
    DOUBTING,
    LEVELS,
    SURE,
    UNHEARD,
    DoubtfulMachine,
    in_lap,
    is_later,
)
from coopbandits.core.aggregate.extrema import require_word
from coopbandits.core.aggregate.fields import Sizes, agent_state, whole
from coopbandits.core.aggregate.forgetting import age_rows
from coopbandits.core.aggregate.spanning_tree import (
    BEAT,
    BOND,
    CHILD,
    DIST,
    FAR,
    NOBODY,
    PATIENCE,
    ROOT,
)
from coopbandits.core.aggregate.tree_sums import (
    TreeSumsMachine,
    age_mass,
    age_sums,
    listen,
    note_pull,
    start_summing,
    summing_fields,
)
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.aggregate.fields import Aggregation
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.statistic import Registers

FRONT, HEADER = 2, 3
"""Rows of mass with which a message begins, S_j first; and values behind them, of which the last
are its number and the number last heard. Then comes the message of tree sums."""

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

NUMBER_OF_PULLS = 3
"""Where the number of pulls ever made stands in mass that ages, counted from the end."""


def moving_fields(sizes: Sizes) -> dict[str, Any]:
    """Return the fields of an agent that hands on mass along a tree."""
    links, width = sizes.links, sizes.width + 2
    return {
        **summing_fields(sizes),
        **DOUBTING,
        "held": width,  # H
        "doubted": width,  # what was held when this memory was opened again
        "sent": (links, width),  # S_j
        "taken": (links, width),  # Q_j
        "numbers": links,  # the number of the last message from j, 0 for none
        "marks": links,  # the fraction of numbers told to j, 0 until j is heard
        "acknowledged": links,  # the last own number that j told to have heard
        "wobbles": links,  # v: mean deviation of gaps
        # An own number, the pulls handed on by then, and those that surely have arrived.
        "receipts": (links, 3),
        # u; the rounds by which the least late of these answers was late, and how many they are.
        "lags": (links, 3),
        "count_at": whole(sizes.groups),
        "word": int,  # with a sign, so that compiled code can hold it
        "carrier": int,  # the link over which mass is handed on in this round
    }


def start_moving(s: Any, view: LocalView) -> None:
    """Begin as an agent that holds itself."""
    start_summing(s, view)
    word = require_word(view)
    s.me.word, s.me.opened = word - (word >> 63 << 64), SURE
    s.held[:] = s.own  # this agent counts as one with its first pulls
    s.lags[:] = [0.0, UNKNOWN, 0.0]


def start_of_sums(s: Any) -> int:
    """Return where the message of tree sums begins."""
    return int(FRONT * s.own.size + HEADER)


def pulls_in(s: Any, mass: Any) -> Any:
    """Return the number of pulls in some mass, as they were made."""
    if s.me.decay == 1.0:
        return rows.total_at(mass, s.count_at)
    return mass[mass.size - NUMBER_OF_PULLS]


def add_pull(s: Any, mass: Any, pull: Vector, rounds: float) -> None:
    """Add a pull, and the rounds that are behind own pulls since the one before."""
    size = s.own.size - 2
    if s.me.decay != 1.0:
        size -= 1
        mass[size] += 1.0
    rows.add(mass[:size], pull[:size])
    mass[mass.size - 1] += rounds


def observe_and_hold(s: Any, pull: Vector) -> float:
    """Add an own pull, and hold it; return the rounds that are behind it."""
    last = s.own.size - 1
    before = float(s.own[last])
    add_pull(s, s.own, pull, 0.0)
    note_pull(s)
    rounds = float(s.own[last]) - before
    add_pull(s, s.held, pull, rounds)
    return rounds


def write_handed(s: Any, link: int, out: Any) -> None:
    """Write S_j as the next message tells it."""
    if link == s.me.carrier:
        rows.add_up(out, s.sent[link], s.held)
    else:
        rows.copy(out, s.sent[link])


def write_numbers(s: Any, link: int, out: Any, at: int) -> None:
    """Write the number of the next message, and the number last heard."""
    if s.me.opened == SURE:
        out[at] = in_lap(s.me.rounds + 1.0) + s.marks[link]
    else:
        out[at] = -float(s.me.level)
    out[at + 1] = s.numbers[link]


def fraction(number: float) -> float:
    """Return the mark in a number."""
    return number - math.floor(number)


def exchange(s: Any, inbox: Any, lengths: Any) -> None:
    """Hand on, look after the tree, and drop what is late."""
    start = start_of_sums(s)
    for link in range(lengths.size):
        if lengths[link] > 0 and is_late(s, link, inbox[link, start - 2]):
            lengths[link] = 0
    hand_on(s)
    for link in range(lengths.size):
        if lengths[link] > 0:
            deviation = abs(s.ages[link] + 1.0 - s.gaps[link])
            s.wobbles[link] += 0.2 * (deviation - s.wobbles[link])
    listen(s, inbox, lengths, start)


def is_late(s: Any, link: int, number: float) -> bool:
    """Return whether a later message of the same memory was heard before.

    Without a mark nobody knows of which memory it is, and it hands nothing on.
    """
    if number <= 0.0:
        return False
    mark, last = fraction(number), s.numbers[link]
    return bool(mark > 0.0 and mark == fraction(last) and is_later(last, number))


def hand_on(s: Any) -> None:
    """Hand all mass at hand to a neighbour, if there is one for it."""
    if s.me.carrier != NOBODY:
        rows.add(s.sent[s.me.carrier], s.held)
        rows.fill(s.held, 0.0)


def find_carrier(s: Any) -> int:
    """Return the link over which mass is handed in this round; `NOBODY` to keep it.

    Of several the newest beat counts, less the gap between messages; then the distance.
    """
    best, least, nearest = NOBODY, 0.0, 0.0
    if s.me.dist == 0.0 or s.me.opened != SURE:
        return best
    for link in range(s.ages.size):
        beat, dist = s.controls[link, BEAT], s.controls[link, DIST]
        if s.controls[link, ROOT] != s.me.root or dist >= FAR or s.controls[link, BOND] == CHILD:
            continue
        is_nearer = beat > s.me.beat or (beat == s.me.beat and dist < s.me.dist)
        if not (is_nearer and works_both_ways(s, link)):
            continue
        rank = s.gaps[link] - beat
        if best == NOBODY or rank < least or (rank == least and dist < nearest):
            best, least, nearest = link, rank, dist
    return best


def works_both_ways(s: Any, link: int) -> bool:
    """Return whether a neighbour was heard lately, and told that it heard this agent lately."""
    silence = SLACK + 2.0 * (s.gaps[link] - 1.0) + s.wobbles[link]
    if s.acknowledged[link] == 0.0 or s.ages[link] > silence:
        return False
    return bool(lag(s, link) - s.lags[link, 0] <= silence)


def lag(s: Any, link: int) -> float:
    """Return by how many rounds the last answer of a neighbour is late by now."""
    # A message tells of the round before it, and is heard in the round before this one.
    return float(s.me.rounds + 1 - s.acknowledged[link] - 2)


def take(s: Any, link: int, message: Any) -> None:
    """Take over what a neighbour has handed on since its last message."""
    width, start = s.own.size, start_of_sums(s)
    number, heard = message[start - 2], message[start - 1]
    if number <= 0.0:  # in doubt: it is heard again later
        s.acknowledged[link] = 0.0
        return
    mark, taken, handed = fraction(number), s.taken[link], message[:width]
    is_known = mark > 0.0 and mark == fraction(s.numbers[link])
    if not is_known:
        # The first that is heard of this memory: what it tells was handed to another.
        s.acknowledged[link] = 0.0
    if has_changed(s, taken, handed):
        if is_known and not fell(s, taken, handed):
            rows.add_difference(s.held, 1.0, handed, taken)
        rows.copy(taken, handed)
    s.numbers[link] = number
    if s.marks[link] == 0.0:
        s.marks[link] = mark_of(s.me.word ^ s.me.nonce, s.me.rounds)
        pulls = pulls_in(s, s.sent[link])
        s.receipts[link, 0], s.receipts[link, 1], s.receipts[link, 2] = 0.0, pulls, pulls
    elif fraction(heard) == s.marks[link]:
        now = s.me.rounds + 1.0
        s.acknowledged[link] = now - in_lap(now - math.floor(heard))
        note_lag(s, link)
        if s.acknowledged[link] >= s.receipts[link, 0]:
            # This round's message may have been told before the last pulls: the next has them.
            s.receipts[link, 2] = s.receipts[link, 1]
            s.receipts[link, 0], s.receipts[link, 1] = now, pulls_in(s, s.sent[link])


def has_changed(s: Any, before: Any, now: Any) -> bool:
    """Return whether mass was added to some: over most links there is none.

    It is of more agents then, or has more rounds behind it, since the first pull of a round has
    some; where these decay, more pulls were ever made.
    """
    last = before.size - 1
    grown = last if s.me.decay == 1.0 else before.size - NUMBER_OF_PULLS
    return bool(now[last - 1] != before[last - 1] or now[grown] != before[grown])


def fell(s: Any, before: Any, now: Any) -> bool:
    """Return whether there are fewer pulls than before; where they decay, fewer ever made."""
    if s.me.decay == 1.0:
        return bool(rows.is_below(now, before, s.count_at))
    return bool(pulls_in(s, now) < pulls_in(s, before))


def note_lag(s: Any, link: int) -> None:
    """Note by how many rounds an answer is late; what is usual is no sign of a broken link."""
    late = min(lag(s, link), PATIENCE)
    usual, least = min(s.lags[link, 0], late), min(s.lags[link, 1], late)
    count = s.lags[link, 2] + 1.0
    if count == LAGS:
        usual, least, count = least, UNKNOWN, 0.0
    s.lags[link, 0], s.lags[link, 1], s.lags[link, 2] = usual, least, count


def age_moving(s: Any, factors: Vector, factor: float) -> None:
    """Let what is held and handed on age, and the sums of the tree."""
    age_sums(s, factors, factor)
    age_mass(s.held, factors, factor)
    age_mass(s.doubted, factors, factor)
    for link in range(s.ages.size):
        age_mass(s.sent[link], factors, factor)
        age_mass(s.taken[link], factors, factor)


class MovingMass(DoubtfulMachine, TreeSumsMachine):
    """An agent whose memory may be doubtful, and that remembers neighbours that have gone.

    Attributes
    ----------
    former : array
        Of neighbours that have gone, in that order: who it is, the number of its last message, the
        mark told to it, its level if it is asked, and the pulls that surely have arrived.
    former_sent, former_taken : array
        S_j and Q_j of them.
    """

    registered = MappingProxyType(
        {
            **TreeSumsMachine.registered,
            **dict.fromkeys(("held", "doubted", "sent", "taken", *FORMER_FIELDS[1:]), (0, 2)),
        }
    )
    dropped: tuple[str, ...] = ("doubted", "numbers", "marks", "acknowledged")
    """What a memory drops that is older than what it has told."""

    def __init__(self, spec: Aggregation, view: LocalView, registers: Registers) -> None:
        super().__init__(spec, view, registers)
        width, self.start = self.state.own.size, start_of_sums(self.state)
        self.levels = np.zeros(len(self.neighbors))
        self.former = np.zeros((0, 5))
        self.former_sent, self.former_taken = np.zeros((0, width)), np.zeros((0, width))
        self.keep_also("levels", is_link=True)
        for name in FORMER_FIELDS:
            self.keep_also(name, is_table=True)
        self.functions = spec.functions(registers.decay, receive=self._receive_in_doubt)

    def _book(self, inbox: Any, lengths: Any) -> None:
        """Do with mass what follows the exchange."""
        raise NotImplementedError

    def _receive_in_doubt(self, s: Any, inbox: Any, lengths: Any) -> None:
        """Receive as the aggregation does, but ask first where this memory is in doubt."""
        exchange(s, inbox, lengths)
        if not self.is_sure:
            self._ask({j: inbox[at] for j, at in self.places.items() if lengths[at] > 0})
        self._book(inbox, lengths)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Take in what arrived, and let what is known of former neighbours age."""
        before = self.state.me.clock
        super().receive(messages)
        if len(self.former):
            for table in (self.former_sent, self.former_taken):
                age_rows(self.registers, table, max(0, self.state.me.clock - before))

    def reopened(self, word: int) -> None:
        """Doubt this memory, unless there is nothing in it."""
        s = self.state
        s.me.nonce, self.is_prepared = word, False
        if not s.me.rounds and not pulls_in(s, s.own):
            return
        if self.is_sure:
            self._hand_on()  # as the last message told
        is_new = (s.marks == 0.0) & (self.levels >= 0.0) & (not self.is_sure)
        self._begin_doubt()
        self.levels[is_new] = 0.0  # a neighbour since the first of these openings only
        self.former[self.former[:, 3] < LEVELS, 3] = UNHEARD
        rows.add(s.doubted, s.held)
        rows.fill(s.held, 0.0)

    def _hand_on(self) -> None:
        self.state.me.carrier = find_carrier(self.state)
        hand_on(self.state)
        self.state.me.carrier = NOBODY

    def _ask(self, told: Mapping[int, Vector]) -> None:
        """Look at what neighbours have heard of this memory; go on, begin anew, or wait."""
        right, s = True, self.state
        for j, message in told.items():
            at, (number, heard) = self.places[j], message[self.start - 2 : self.start].tolist()
            right &= self._note_answer(at, number, heard, float(s.marks[at]))
        if right and self._settle() and (self._knows_somebody() or self._has_waited()):
            rows.add(s.held, s.doubted)
            rows.fill(s.doubted, 0.0)
            s.me.opened = SURE
        elif not right or self._has_waited():
            self._begin_anew()

    def _knows_somebody(self) -> bool:
        """Return whether this memory has ever heard anybody who could answer."""
        return bool(self.state.marks.any() or self.former[:, 2].any())

    def _asked(self) -> list[float]:
        """Return the levels of all who are asked, whether they are neighbours now or not."""
        return [*super()._asked(), *self.former[:, 3].tolist()]

    def _begin_anew(self) -> None:
        """Drop what may have been handed on in rounds that this agent no longer knows of."""
        for name in self.dropped:
            getattr(self.state, name)[:] = 0.0
        for name in FORMER_FIELDS:
            setattr(self, name, getattr(self, name)[:0])
        self.state.me.opened = SURE

    def translated(self, message: Vector, theirs: Registers, places: Sequence[int]) -> Vector:
        """Return a message about other arms as one about these."""
        width = theirs.size + 2
        start = FRONT * width + HEADER
        if message.size < start:
            return message  # of no such form, which is told when it is read
        masses = message[: FRONT * width].reshape(FRONT, width)
        moved = moved_rows(masses, self.registers, theirs, places, (0, 2)).ravel()
        rest = super().translated(message[start:], theirs, places)
        return np.concatenate([moved, message[FRONT * width : start], rest])

    def _pulls(self, mass: Vector) -> float:
        """Return the number of pulls in some mass, as they were made."""
        return float(pulls_in(self.state, mass))

    def _count_moving(self) -> tuple[float, float]:
        """Return how many pulls are held, and how many are on links."""
        s = self.state
        handed = sum(map(self._pulls, [*s.sent, *self.former_sent]))
        arrived = float(s.receipts[:, 2].sum() + self.former[:, 4].sum())
        return self._pulls(s.held + s.doubted), handed - arrived

    def _check_handed(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse what cannot have been handed on, and a number that no round has."""
        self._check_mass(message[: self.state.own.size], claims, now)
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
            self.state.acknowledged[self.places[j]] = 0.0
        self.is_prepared = False

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
        if not neighbors:
            return state
        before = agent_state(self.layout, len(neighbors))
        for name in ("sent", "held", "controls", "ages", "gaps", "acknowledged", "wobbles", "lags"):
            getattr(before, name)[...] = state[name]
        for name in ("rounds", "opened", "root", "beat", "dist"):
            setattr(before.me, name, state[name])
        before.me.carrier = find_carrier(before)
        hand_on(before)
        return state | {"sent": before.sent.tolist(), "held": before.held.tolist()}

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
    told = zip(*(state[name] for name in FORMER_FIELDS), strict=True)
    return {int(row[0]): (row, sent, taken) for row, sent, taken in told}


def mark_of(word: int, rounds: int) -> float:
    """Return a fraction of 20 random bits, never 0; whole numbers may be added exactly."""
    return (math.floor(uniform_of(word_at(word, MARKS + rounds)) * 2.0**20) + 0.5) * 2.0**-20

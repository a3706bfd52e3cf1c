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
tells one memory of a link from another: it is drawn when the other end is first heard. No neighbour
is handed anything before it has acknowledged a number with that mark, and who sees a new mark takes
S_j for Q_j and adds nothing. So an agent that forgets loses what it held and what was on its way to
it, and nothing is taken twice. An agent whose state was read back from a disk, and may be older
than what it has told, asks its neighbours first (*Recovery* in `ledger_sums`). If it is older, the
agent drops what it held, which it may have handed on since, and starts all links again.

**Neighbours that go** are not forgotten at once: S_j, Q_j, mark and number of the last 16 are kept,
so that a link that comes back resumes as if it had been silent. Otherwise what was on its way would
be lost with every link that breaks for a moment, and no neighbour could vouch for an agent that was
started again.

Here is what agents do with mass; what a root does with it is told in `ledger_sums`.

*Differs from the paper*: cumulative sums per link are those of running-sum ratio consensus
(Hadjicostis, Vaidya, Domínguez-García 2016); all else is our own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from coopbandits.core import rows
from coopbandits.core.aggregate.extrema import require_word
from coopbandits.core.aggregate.fields import Sizes, whole
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
    age_mass,
    age_sums,
    listen,
    note_pull,
    start_summing,
    summing_fields,
)
from coopbandits.core.draws import uniform_of, word_at

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView, Vector

FRONT, HEADER = 2, 3
"""Rows of mass with which a message begins, S_j first; and values behind them, of which the last
are its number and the number last heard. Then comes the message of tree sums."""

SLACK = 1.0
"""Rounds that a link may be silent beyond its usual gaps before nothing is handed over it."""

LAGS = 16
"""Answers after which an agent looks again how late the earliest of them was."""

UNKNOWN = 2.0**31
"""The earliest of no answers."""

LAP = 2.0**31
"""Messages are numbered by rounds, and from 0 again after each lap, so that a number of 53 bits has
room for a fraction of 21. Of two numbers the one is later that is ahead by less than half a lap."""

RECOVERED = -1
"""The value of `opened` where an agent is not recovering."""

MARKS = 1 << 40
"""Where the words of marks begin, by round; those before are others' (`extrema`)."""

NUMBER_OF_PULLS = 3
"""Where the number of pulls ever made stands in mass that ages, counted from the end."""


def moving_fields(sizes: Sizes) -> dict[str, Any]:
    links, width = sizes.links, sizes.width + 2
    return {
        **summing_fields(sizes),
        "nonce": int,  # the word of this opening: draws words that no earlier life has drawn
        "opened": int,  # the rounds of which a recovering memory is certain; else `RECOVERED`
        "level": int,  # how far around memories have been confirmed
        "held": width,  # H
        "doubted": width,  # what was held when recovery began
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
    s.me.word, s.me.opened = word - (word >> 63 << 64), RECOVERED
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
    if s.me.opened == RECOVERED:
        out[at] = in_lap(s.me.rounds + 1.0) + s.marks[link]
    else:
        out[at] = -float(s.me.level)
    out[at + 1] = s.numbers[link]


def fraction(number: float) -> float:
    return number - rows.floor(number)


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

    Without a mark its memory is unknown, and it hands nothing on.
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
    if s.me.dist == 0.0 or s.me.opened != RECOVERED:
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
    if number <= 0.0:  # recovering: it is heard again later
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
        s.acknowledged[link] = now - in_lap(now - rows.floor(heard))
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


def is_later(number: float, than: float) -> bool:
    """Return whether a number is of a later round than another one."""
    return 0.0 < in_lap(number - than) < LAP / 2.0


def in_lap(number: float) -> float:
    """Return a number of rounds modulo `LAP`: with a power of two this is exact."""
    return number - LAP * rows.floor(number / LAP)


def mark_of(word: int, rounds: int) -> float:
    """Return a fraction of 20 random bits, never 0; whole numbers may be added exactly."""
    return (math.floor(uniform_of(word_at(word, MARKS + rounds)) * 2.0**20) + 0.5) * 2.0**-20

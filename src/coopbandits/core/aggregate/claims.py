"""Plausibility checks on neighbours' messages: reject what cannot have happened.

A neighbour has proved who it is; what it says may still be wrong, by a fault or by intent. Its
claims are checked before the agent sees them, against what was declared for the whole cluster:

- counts are at least 0 and no larger than `rate` allows since the epoch began, for every agent that
  they are made of, and of these there are at most `max_agents`;
- registers are what pulls with rewards and features in the declared ranges can have made of them;
  without a range they are small enough for sums to stay finite;
- numbers of rounds, and what takes rounds to come about, are no larger than `pace` allows, or 200
  rounds a second where that is slower; where agents forget by the time that they are told, their
  clocks are no further ahead than clocks may differ (`ticks`);
- where an agent's own entries can be followed, their pulls grow no faster than that either, and
  no peer knows of more own pulls than the agent itself. Only the entries that break a rule are
  rejected: the rest of a message is believed.

Clocks may differ, and news may be late: `SLACK` seconds are granted, and used up by growth that is
faster than it should be.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coopbandits.core.aggregate.entries import HEADER, Rows, Told, author_of, is_possible
from coopbandits.core.aggregate.forgetting import SKEW
from coopbandits.core.aggregate.messages import FEW, largest
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import Registers

SLACK = 60.0

FASTEST = 200.0
"""Rounds per second that are always believed: the pace may have been another one before a restart,
and every restart begins with a round."""

LARGEST = 1e150
"""The largest value that is believed: sums and squares of such values are finite."""

MAX_NUMBERS = 64
"""Entries that one author may have: one more for every memory that it lost in an epoch."""


class Rejection(NamedTuple):
    """The reason to reject an entry, and whether it may pass with time."""

    sentence: str
    passes: bool = False


class PartlyImpossibleError(InputError):
    """Some entries of a message are rejected.

    Attributes
    ----------
    rest : Vector
        The message without them.
    passes : bool
        Whether they may be believed later, so that the message should not count as arrived.
    """

    def __init__(self, rest: Vector, rejections: Sequence[Rejection]) -> None:
        super().__init__(rejections[0].sentence)
        self.rest, self.passes = rest, any(rejection.passes for rejection in rejections)


@dataclass
class Claims:
    """What can have happened, and what has been believed so far.

    Parameters
    ----------
    bounded : bool
        Whether rewards, as the agent sees them, lie in [0, 1].
    rate : float
        Pulls per second that one agent may make.
    epoch : float
        When learning began.
    max_agents : int
        How many agents there may be.
    pace : float
        Rounds per second.
    tick : float
        Seconds of a tick, where agents forget by the time; else 0.
    largest_feature : float
        No feature of a pull is larger than this, in size.
    """

    bounded: bool
    rate: float
    epoch: float
    max_agents: int
    pace: float = 20.0
    tick: float = 0.0
    largest_feature: float = math.inf
    _seen: dict[float, tuple[float, float, float]] = field(default_factory=dict)
    """By author: the pulls last accepted, when, and how many more could have been."""
    _pulls: dict[float, float] = field(default_factory=dict)
    """The pulls of every entry believed, by number."""
    _totals: dict[float, float] = field(default_factory=dict)
    """The pulls of every author believed."""
    _numbers: Counter[float] = field(default_factory=Counter)
    """How many entries each author has."""

    def most_pulls(self, seconds: float) -> float:
        return self.rate * (max(0.0, seconds) + SLACK)

    def most_rounds(self, now: float) -> float:
        """Return how many rounds an agent can have ended since the epoch began."""
        return max(self.pace, FASTEST) * (max(0.0, now - self.epoch) + SLACK)

    def ticks(self, now: float) -> int:
        """Return the time in ticks since the epoch began; 0 where there are none."""
        return int(max(0.0, now - self.epoch) // self.tick) if self.tick else 0

    def check_clock(self, stamp: float, now: float) -> None:
        """Reject the stamp of a message that cannot have been written yet."""
        if not self.tick:
            self.check_within("a clock", stamp, 0.0, self.most_rounds(now))
        elif not 0.0 <= stamp <= self.ticks(now) + 2 * SKEW:
            raise InputError(self._false_clock(stamp - self.ticks(now)))

    def check_near(self, stamp: float, clock: float) -> None:
        """Reject the stamp of a message whose sender has quite another clock.

        Both ends of a link see the same difference, and so neither hears the other.
        """
        if not (stamp >= 0.0 and abs(stamp - clock) <= 2 * SKEW):
            raise InputError(self._false_clock(stamp - clock))

    def _false_clock(self, ticks: float) -> str:
        way = "ahead of" if ticks > 0.0 else "behind"
        return (
            f"a clock that is {abs(ticks) * self.tick:.0f} s {way} this agent's, and up to "
            f"{2 * SKEW * self.tick:.0f} s are believed; look at both machines' clocks"
        )

    def check_within(self, what: str, value: float, least: float, most: float) -> None:
        if not least <= value <= most:
            raise InputError(
                f"a claim of {what} of {value:g}; by now it is between {least:g} and {most:g}"
            )

    def check_num_agents(self, agents: float) -> None:
        if not 1.0 <= agents <= self.max_agents:
            raise InputError(
                f"a claim of {agents:g} agents; there is at least 1, and at most {self.max_agents}"
            )

    def check_totals(self, registers: Registers, values: Vector, agents: float, now: float) -> None:
        """Reject registers (…, size) that the pulls of `agents` agents cannot have made."""
        most = agents * self.most_pulls(now - self.epoch)
        few = values.size <= FEW and values.ndim == 1
        if few and registers.plain_pulls(values.tolist()) <= min(most, LARGEST):
            return  # all of it is finite and small, then
        pulls = float(registers.version(values).sum())
        if not pulls <= most:
            raise InputError(
                f"a claim of {pulls:g} pulls by {agents:g} agents; it is at most {most:g} since "
                "the epoch began"
            )
        if excess := self._excess(registers, values):
            raise InputError(f"a claim of {excess}")

    def remember(self, held: Callable[[], Mapping[float, float]]) -> None:
        """Take over the pulls of all entries at hand, by number, if nothing is known yet."""
        if not self._pulls:
            for number, pulls in held().items():
                author = author_of(number)
                self._pulls[number] = pulls
                self._numbers[author] += 1
                self._totals[author] = self._totals.get(author, 0.0) + pulls

    def forget(self, number: float) -> None:
        pulls = self._pulls.pop(number, None)
        if pulls is not None:
            author = author_of(number)
            self._totals[author] -= pulls
            self._numbers[author] -= 1
            self._seen.pop(author, None)
            if not self._numbers[author]:
                del self._numbers[author], self._totals[author]

    def sift(
        self, registers: Registers, rows: Rows, own: tuple[float, float], now: float
    ) -> list[Rejection | None]:
        """Return the reason to reject each entry, None to accept it; those are remembered.

        `own` are the number and the pulls of the agent that checks.
        """
        rejections: list[Rejection | None] = []
        values = rows[:, HEADER:]
        pulls, sound = registers.version(values).tolist(), not self._excess(registers, values)
        for at, (number, rounds) in enumerate(rows[:, :HEADER].tolist()):
            excess = "" if sound else self._excess(registers, values[at])
            told = number, rounds, pulls[at]
            rejections.append(
                Rejection(f"a claim of {excess}") if excess else self.check_entry(told, own, now)
            )
        return rejections

    def check_entry(self, told: Told, own: tuple[float, float], now: float) -> Rejection | None:
        """Return the reason to reject an entry whose registers are possible, or None."""
        number, rounds, pulls = told
        if not is_possible(number, rounds):
            return Rejection(f"a claim about agent {number:g} and {rounds:g} rounds")
        if self.tick and rounds > self.ticks(now) + 2 * SKEW + 1:
            return Rejection(self._false_clock(rounds - 1.0 - self.ticks(now)), passes=True)
        if number != own[0]:
            return self._weigh(number, pulls, now)
        if pulls > own[1]:
            return Rejection(f"a claim of {pulls:g} own pulls, more than this agent has made")
        return None

    def _excess(self, registers: Registers, values: Rows) -> str:
        """Return what no pulls can have made of registers, as a phrase; "" for nothing."""
        most = largest(values.ravel())
        if most > LARGEST:
            return f"a sum of {most:g}; up to {LARGEST:g} is believed"
        return (
            registers.excess(values, self.bounded)
            or registers.features_excess(values, self.largest_feature)
            or ("sums that are not finite" if math.isnan(most) else "")
        )

    def _weigh(self, number: float, total: float, now: float) -> Rejection | None:
        """Remember the pulls of an entry, or return the reason to reject them."""
        author, known = author_of(number), self._pulls.get(number)
        pulls, when, spare = 0.0, self.epoch, self.rate * SLACK
        if known is None:
            # When the pulls of a new entry were made is unknown, as after a lost memory.
            if author not in self._numbers and len(self._numbers) >= self.max_agents:
                return Rejection(
                    f"a claim that there are {len(self._numbers) + 1} agents; there are at most "
                    f"{self.max_agents}",
                    passes=True,
                )
            if self._numbers[author] >= MAX_NUMBERS:
                return Rejection(
                    f"a claim of more than {MAX_NUMBERS} entries of agent {author:.0f}"
                )
        elif total <= known:
            return None
        else:
            pulls, when, spare = self._seen.get(author, (pulls, when, spare))
        most = pulls + spare + self.rate * max(0.0, now - when)
        grown = self._totals.get(author, 0.0) + total - (known or 0.0)
        if not grown <= most:
            return Rejection(
                f"a claim of {total:g} pulls by agent {number:.0f}, {known or 0.0:g} known; it "
                f"makes at most {self.rate:g} a second",
                passes=True,
            )
        if known is None:
            self._numbers[author] += 1
        self._pulls[number], self._totals[author] = total, grown
        self._seen[author] = grown, now, min(self.rate * SLACK, most - grown)
        return None

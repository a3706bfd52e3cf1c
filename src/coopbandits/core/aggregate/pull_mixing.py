r"""Pull mixing: an agent moves towards the values that it heard, and stays where it heard nothing.

Per agent one vector x of registers. A pull adds to x; then, with whatever arrived,

    x_i ← x_i + Σ_{heard j} W_ij (x_j − x_i),      W_ij = 1 / (1 + max(d_i, d_j)),

d_i the number of neighbours that agent i heard of in the last `RECENT` rounds: Metropolis weights
of the links that are alive. A message is [x | d_i | Σ m | m], m the minima by which agents are
counted (`extrema`), left out where the neighbour told the same sum. A neighbour that was not alive
when the messages of a round were written is listened to from the next round on, so that both ends
of a link go by the same degrees.

Invariants: weights are positive and sum to less than 1, so x stays within what was heard, whatever
is lost. Where links fail in both directions at once W is symmetric and Σ_i x_i is kept exactly;
under one-way loss it is kept on average. Totals are N̂ x. With a discount γ, x ← γ x in every round,
and a stamp follows x in messages (`forgetting`).

*Differs from the paper* (Xiao, Boyd, Lall 2005, on averaging with Metropolis weights): degrees are
those of links alive, and averages become totals by an estimate of N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import (
    ON_AVERAGE,
    ROBUST,
    Aggregation,
    MessageSize,
)
from coopbandits.core.aggregate.exchange import check_vectors
from coopbandits.core.aggregate.extrema import (
    EXPONENTIALS,
    CountingMachine,
    check_minima,
)
from coopbandits.core.aggregate.forgetting import catch_up, check_forgetting
from coopbandits.core.aggregate.ticks import SKEW, ClockedMachine
from coopbandits.core.contract import Estimate, LocalView, Share, Vector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers

RECENT = 10
"""A neighbour not heard for this many rounds is not counted as one."""


@dataclass(frozen=True)
class PullMixing(Aggregation):
    """Network averages under any failures, and totals from an estimate of N.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.

    Notes
    -----
    Knows who its neighbours are, and a random word of its own. Sends all registers and 2 values to
    each neighbour in every round, a stamp where it forgets, and 33 more as long as the two differ
    about N̂.
    """

    discount: float = 1.0
    name: ClassVar[str] = "pull-mixing"
    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = ON_AVERAGE
    checks_claims: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse what is no discount."""
        check_forgetting(self.discount)

    @property
    def needs(self) -> frozenset[str]:
        """A random word."""
        return frozenset({"random_word"})

    def make(self, view: LocalView, registers: Registers) -> PullMixingMachine:
        """Return the machine of one agent."""
        return PullMixingMachine(view, registers.decaying(self.discount))

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without and with the minima by which agents are counted."""
        del max_agents
        usual = registers.size + 2 + (registers.decay * self.discount != 1.0)
        return MessageSize(usual, usual + EXPONENTIALS + 1, "while agents are being counted")


class PullMixingMachine(CountingMachine, ClockedMachine):
    """Averages x, links alive, and minima."""

    fields = ("mixed", "ages", "told", *CountingMachine.counting)
    links = ("ages", "told")

    def __init__(self, view: LocalView, registers: Registers) -> None:
        self.registers = registers
        self.places = {j: at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.mixed = registers.zeros()
        self.stamps = int(registers.decay != 1.0)  # whether messages tell when they were written
        self._start_clock(view, decays=bool(self.stamps))
        self.ages = np.zeros(len(self.places))  # rounds since each neighbour was heard
        self._start_counting(view)
        self.told = np.zeros(len(self.places))  # the Σ m that each neighbour told last

    def estimate(self) -> Estimate:
        """Return N̂ times the averages."""
        num_agents = self._counted()
        totals = num_agents * self.mixed
        time = max(2.0, float(self.registers.version(totals)))
        return self.registers.read(totals, time=time, num_agents=num_agents)

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull to what the next step mixes."""
        self.registers.add(self.mixed, arm, reward)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return [averages | stamp where they decay | own degree | Σ m | m unless it told that]."""
        part = self._minima_unless(self.told[self.places[neighbor]])
        told = [self.clock] * self.stamps + [sum(self._alive())]
        return np.concatenate([self.mixed, told, part])

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Move towards what was heard."""
        size, least = self.mixed.size, self.mixed.size + self.stamps + 2
        check_vectors(messages, least, least + EXPONENTIALS, least + 1 + EXPONENTIALS)
        check_minima(messages, least - 1, sums=1)
        if self.stamps:
            messages = self._catch_up(messages)
        alive = self._alive()
        degree = sum(alive)
        self.ages = self.ages + 1.0
        moved = self.mixed.copy()
        for j, message in messages.items():
            at = self.places[j]
            if alive[at]:
                weight = 1.0 / (1.0 + max(degree, float(message[size])))
                moved += weight * (message[:size] - self.mixed)
            self.ages[at] = 0.0
            self.told[at] = message[size + 1]
            self._hear_minima(message[size + 2 :])
        self._end_count()
        self.mixed = moved
        if not self.ticks:
            self.registers.age(self.mixed)

    def _catch_up(self, messages: Mapping[int, Vector]) -> dict[int, Vector]:
        """Move the clock on, and let the averages and those heard age; a round ends later.

        Where clocks differ, averages are converted both ways: if one end of a link took the other's
        for older than they are, all would forget a bit in every round. For the same reason both
        ends leave out what goes by quite another clock.
        """
        before, size = self.clock, self.mixed.size
        self.clock = self._next_clock([float(message[size]) for message in messages.values()])
        until = self.clock - (not self.ticks)
        self.registers.age(self.mixed, rounds=max(0, until - before))
        if self.ticks:
            messages = {
                j: message
                for j, message in messages.items()
                if abs(message[size] - until) <= 2 * SKEW
            }
        return catch_up(self.registers, messages, until)

    def _alive(self) -> list[bool]:
        return [age < RECENT for age in self.ages.tolist()]

    def share(self) -> Share:
        """Return the averages: they add up exactly as long as links fail both ways at once."""
        return self.registers.share(self.mixed)

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse averages beyond what one agent can have pulled, and minima that cannot be."""
        size = self.registers.size
        rest = message[size + self.stamps :]
        if rest.size >= 2:
            told = message[:size]
            if self.ticks:
                stamp, here = float(message[size]), max(self.clock, claims.ticks(now))
                claims.check_near(stamp, here)
                told = told * self.registers.decay ** (here - stamp)
            elif self.stamps:
                claims.check_clock(float(message[size]), now)
            claims.check_totals(self.registers, told, 1.0, now)
            claims.check_within("a degree", float(rest[0]), 0.0, float(claims.max_agents))
            self._check_count(rest[2:], claims, now)

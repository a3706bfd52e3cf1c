r"""Running-sum ratio consensus: mass is handed on in cumulative sums, so that none is ever lost.

Every agent holds mass: a vector y of registers and a weight z, 1 at the start. A pull adds to y.
Per round and link i → j, in all components of (y, z) alike, with d the number of neighbours j heard
within the last 2 g_j rounds, g_j being the mean gap between messages from j, so two rounds where
nothing is lost::

    o = (y, z) / (1 + d)                        the share of each, and what is kept
    S_ij ← S_ij + o                             only for those d neighbours
    (y, z) ← o + Σ_{heard j} (S_ji − R_ij),     R_ij ← S_ji

S_ij is all that was ever handed to j and R_ij all that ever arrived from j. A message is
[S_ij | Σ m | m], m the minima by which agents are counted (`extrema`). What is lost in one round
arrives with the next packet; nothing is acknowledged.

Invariant: Σ_i (y, z)_i + Σ_{i→j} (S_ij − R_ji) is what was put in, whatever is lost, late or out of
order. Σ z = N, so y/z tends to averages per agent; totals are N̂ y/z. S only grows in its weight, by
which an old packet is known. Without the gate (only neighbours heard) mass would drain into links
that are down for long; a gate of two rounds under any loss would slow down mixing where much is
lost. The mean gap moves by 0.2 of the difference with every message.

*Differs from the paper* (Hadjicostis, Vaidya, Domínguez-García 2016): S is per link and gated. A
link that works one way for ever still drains: who is heard is not known to hear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import Aggregation, MessageSize
from coopbandits.core.aggregate.exchange import check_vectors
from coopbandits.core.aggregate.extrema import (
    EXPONENTIALS,
    CountingMachine,
    check_minima,
)
from coopbandits.core.contract import Estimate, LocalView, Vector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from coopbandits.core.statistic import Registers

PATIENCE = 2.0
"""A neighbour not heard for this many of its mean gaps is handed nothing."""

LEAST_WEIGHT = 1e-9
"""A weight z up to this is lost in the rounding of sums that have grown for long."""


@dataclass(frozen=True)
class RunningSums(Aggregation):
    """Network averages with all mass accounted for, and totals from an estimate of N.

    Notes
    -----
    Knows who its neighbours are, and a random word of its own. Sends all registers and 2 values to
    each neighbour in every round, and 33 more as long as the two differ about N̂.
    """

    name: ClassVar[str] = "running-sums"

    @property
    def needs(self) -> frozenset[str]:
        """A random word."""
        return frozenset({"random_word"})

    def make(self, view: LocalView, registers: Registers) -> RunningSumsMachine:
        """Return the machine of one agent."""
        return RunningSumsMachine(view, registers)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without and with the minima by which agents are counted."""
        del max_agents
        usual = registers.size + 2
        return MessageSize(usual, usual + EXPONENTIALS + 1, "while agents are being counted")


class RunningSumsMachine(CountingMachine):
    """Mass held, and all that was ever handed on and heard.

    Notes
    -----
    With hardly any weight an agent knows nothing: sums and counts are 0 then. Sums of what was
    handed on grow with the square of time, and so does their rounding: after 10 000 rounds about
    1e-8 pulls.
    """

    fields = ("held", "sent", "heard", "ages", "gaps", "told", *CountingMachine.counting)

    def __init__(self, view: LocalView, registers: Registers) -> None:
        self.registers = registers
        self.places = {j: at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.held = np.append(registers.zeros(), 1.0)  # y, z
        self.sent = np.zeros((len(self.places), self.held.size))  # S_ij
        self.heard = np.zeros((len(self.places), self.held.size))  # R_ij
        self.ages = np.zeros(len(self.places))  # rounds since each neighbour was heard
        self.gaps = np.ones(len(self.places))  # mean rounds between its messages
        self._start_counting(view)
        self.told = np.zeros(len(self.places))  # the Σ m that each neighbour told last

    def estimate(self) -> Estimate:
        """Return N̂ times the ratios y/z."""
        mass, weight, num_agents = self.held[:-1], self.held[-1], self._counted()
        totals = num_agents * mass / weight if weight > LEAST_WEIGHT else np.zeros(mass.size)
        totals = self.registers.clip(totals)  # rounding may leave a count just below 0
        time = max(2.0, float(self.registers.version(totals)))
        return self.registers.read(totals, time=time, num_agents=num_agents)

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull to the mass."""
        self.registers.add(self.held[:-1], arm, reward)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return [all that was ever handed to the neighbour, this round's share included | m]."""
        at = self.places[neighbor]
        part = self._minima_unless(self.told[at])
        return np.concatenate([self._handed_on()[at], part])

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Keep the own share, and take what is new."""
        size = self.held.size
        check_vectors(messages, size + 1, size + 1 + EXPONENTIALS, size + 2 + EXPONENTIALS)
        check_minima(messages, size, sums=1)
        self.sent, self.held = self._handed_on(), self._share()
        self.ages = self.ages + 1.0
        for j, message in messages.items():
            at = self.places[j]
            if message[size - 1] >= self.heard[at, -1]:  # else it is older than what was heard
                self.held = self.held + (message[:size] - self.heard[at])
                self.heard[at] = message[:size]
            self.gaps[at] += 0.2 * (self.ages[at] - self.gaps[at])
            self.ages[at] = 0.0
            self.told[at] = message[size]
            self._hear_minima(message[size + 1 :])
        self._end_count()
        self.registers.age(self.held[:-1], self.sent[:, :-1], self.heard[:, :-1])

    def _alive(self) -> NDArray[np.bool_]:
        return self.ages < PATIENCE * self.gaps

    def _share(self) -> Vector:
        share: Vector = self.held / (1.0 + np.count_nonzero(self._alive()))
        return share

    def _handed_on(self) -> Vector:
        """Return S as it stands once this round's shares are handed on."""
        return self.sent + np.outer(self._alive(), self._share())

"""Running consensus: add the new pull, then average with the neighbours, every round for ever.

Totals per agent follow x ← P(x + y), y the pulls of the round. What is new has hardly travelled, so
estimates are biased towards the neighbourhood; what is old is known well. Each message carries all
registers x + y. A neighbour whose message did not arrive counts as if it had sent the own values:
every step is an average, and what two neighbours both miss of each other changes no total. With a
discount γ, x ← γ P(x + y), and messages end in a stamp (`forgetting`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import (
    MIXED,
    SYNCHRONOUS,
    Aggregation,
    ContextMachine,
    MessageSize,
    told_agents,
)
from coopbandits.core.aggregate.exchange import check_vectors
from coopbandits.core.aggregate.forgetting import catch_up, check_forgetting
from coopbandits.core.contract import Estimate, LocalView, Share, Vector
from coopbandits.core.mixing import weighted_sum

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers


@dataclass(frozen=True)
class RunningConsensus(Aggregation):
    """Network averages as a running consensus; N makes them totals.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.

    Notes
    -----
    Knows its row of P and N. Sends all registers to each neighbour in every round, and a stamp
    where it forgets.
    """

    discount: float = 1.0
    name: ClassVar[str] = "running-consensus"
    mode: ClassVar[str] = SYNCHRONOUS
    shares: ClassVar[str] = MIXED
    checks_claims: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse what is no discount."""
        check_forgetting(self.discount)

    @property
    def needs(self) -> frozenset[str]:
        """N."""
        return frozenset({"num_agents"})

    @property
    def takes_context(self) -> bool:
        """Yes."""
        return True

    def make(self, view: LocalView, registers: Registers) -> RunningConsensusMachine:
        """Return the machine of one agent."""
        decaying = registers.decaying(self.discount)
        return RunningConsensusMachine(view, decaying, told_agents(view, self.name))

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size of the registers, and of a stamp where it forgets."""
        del max_agents
        size = registers.size + (registers.decay * self.discount != 1.0)
        return MessageSize(size, size)


class RunningConsensusMachine(ContextMachine):
    """Averages x, to which own pulls are added.

    Notes
    -----
    The time is the number of pulls behind the counts, N Σ_k n̂^k: with one pull per agent and round
    N times the rounds completed.
    """

    fields = ("mixed",)

    def __init__(self, view: LocalView, registers: Registers, num_agents: int) -> None:
        self.view, self.registers, self.num_agents = view, registers, num_agents
        self.mixed = registers.zeros()
        self.stamps = int(registers.decay != 1.0)  # whether messages tell when they were written
        self.clock = 0
        if self.stamps:
            self.keep_also("clock")
        self.is_average = min(view.own_weight, *view.neighbor_weights.values(), 1.0) >= 0.0
        # Arrays without dimensions, which numpy need not make of them in every round.
        self._own_weight = np.array(view.own_weight)
        self._weights = {j: np.array(weight) for j, weight in view.neighbor_weights.items()}

    def estimate(self) -> Estimate:
        """Return N times the averages."""
        totals = self.num_agents * self.mixed
        time = max(1.0, float(self.registers.version(totals)))
        return self.registers.read(totals, time=time, num_agents=self.num_agents)

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull to what the next step mixes."""
        self.registers.record(self.mixed, arm, reward, context)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return the averages with the pulls of this round, and a stamp where they decay."""
        del neighbor  # all get the same
        return np.append(self.mixed, self.clock) if self.stamps else self.mixed.copy()

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Make one mixing step with whatever arrived."""
        check_vectors(messages, self.mixed.size + self.stamps)
        if self.stamps:
            stamps = [float(message[-1]) for message in messages.values()]
            latest = int(max([self.clock, *stamps]))
            self.registers.age(self.mixed, rounds=latest - self.clock)
            messages, self.clock = catch_up(self.registers, messages, latest), latest + 1
        own = self._own_weight
        if len(messages) < len(self._weights):
            own = own + sum(weight for j, weight in self._weights.items() if j not in messages)
        self.mixed = weighted_sum(own, self.mixed, self._weights, messages)
        self.registers.age(self.mixed)

    def share(self) -> Share:
        """Return the averages, with the pulls of this round."""
        return self.registers.share(self.mixed)

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse averages beyond what one agent can have pulled.

        With negative weights, which no fleet has, averages may be negative on their way: then
        nothing is asked but that they are finite, which `receive` does.
        """
        size = self.registers.size
        if message.size == size + self.stamps and self.is_average:
            claims.check_totals(self.registers, message[:size], 1.0, now)
            if self.stamps:
                claims.check_clock(float(message[size]), now)

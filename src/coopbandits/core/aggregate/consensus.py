"""Running consensus: add the new pull, then average with the neighbours, every round for ever.

Totals per agent follow x ← P(x + y), y the pulls of the round. What is new has hardly travelled, so
estimates are biased towards the neighbourhood; what is old is known well. Each message carries all
registers x + y. A neighbour whose message did not arrive counts as if it had sent the own values:
every step is an average, and what two neighbours both miss of each other changes no total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.aggregate.aggregation import (
    MIXED,
    SYNCHRONOUS,
    Aggregation,
    ContextMachine,
    told_agents,
)
from coopbandits.core.aggregate.exchange import check_vectors
from coopbandits.core.contract import Estimate, LocalView, Share, Vector
from coopbandits.core.mixing import weighted_sum

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers


@dataclass(frozen=True)
class RunningConsensus(Aggregation):
    """Network averages as a running consensus; N makes them totals.

    Notes
    -----
    Knows its row of P and N. Sends all registers to each neighbour in every round.
    """

    name: ClassVar[str] = "running-consensus"
    mode: ClassVar[str] = SYNCHRONOUS
    shares: ClassVar[str] = MIXED
    checks_claims: ClassVar[bool] = True

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
        return RunningConsensusMachine(view, registers, told_agents(view, self.name))


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
        self.is_average = min(view.own_weight, *view.neighbor_weights.values(), 1.0) >= 0.0

    def estimate(self) -> Estimate:
        """Return N times the averages."""
        totals = self.num_agents * self.mixed
        time = max(1.0, float(self.registers.version(totals)))
        return self.registers.read(totals, time=time, num_agents=self.num_agents)

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull to what the next step mixes."""
        self.registers.record(self.mixed, arm, reward, context)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return the averages with the pulls of this round."""
        del neighbor  # all get the same
        return self.mixed.copy()

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Make one mixing step with whatever arrived."""
        check_vectors(messages, self.mixed.size)
        weights = self.view.neighbor_weights
        own = self.view.own_weight
        if len(messages) < len(weights):
            own += sum(weight for j, weight in weights.items() if j not in messages)
        self.mixed = weighted_sum(own, self.mixed, weights, messages)
        self.registers.age(self.mixed)

    def share(self) -> Share:
        """Return the averages, with the pulls of this round."""
        return self.registers.share(self.mixed)

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse averages beyond what one agent can have pulled.

        With negative weights, which no fleet has, averages may be negative on their way: then
        nothing is asked but that they are finite, which `receive` does.
        """
        if message.size == self.registers.size and self.is_average:
            claims.check_totals(self.registers, message, 1.0, now)

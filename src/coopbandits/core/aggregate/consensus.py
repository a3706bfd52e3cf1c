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
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import MIXED, SYNCHRONOUS, told_agents
from coopbandits.core.aggregate.fields import AGENTS, Aggregation, FieldMachine, Sizes
from coopbandits.core.aggregate.forgetting import check_forgetting
from coopbandits.core.aggregate.messages import check_vectors

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import LocalView, Vector


class RunningConsensusMachine(FieldMachine):
    """An agent that checks claims by its weights."""

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Reject averages beyond what one agent can have pulled.

        With negative weights, which no fleet has, averages may be negative on their way: then
        they must only be finite, which `receive` checks.
        """
        size = self.registers.size
        weights = [self.state.me.own_weight, *self.state.weights.tolist(), 1.0]
        if message.size == size + self.stamps and min(weights) >= 0.0:
            claims.check_totals(self.registers, message[:size], 1.0, now)
            if self.stamps:
                claims.check_clock(float(message[size]), now)


class Averages(Aggregation):
    """Network averages of registers in the field `mixed`, to which own pulls are added."""

    shared: ClassVar[str] = "mixed"
    checks_claims: ClassVar[bool] = True
    discount: float

    def __post_init__(self) -> None:
        check_forgetting(self.discount)

    @staticmethod
    def age(s: Any, factors: Vector, factor: float) -> None:
        rows.multiply(s.mixed, factors)

    @staticmethod
    def age_message(s: Any, message: Vector, factors: Vector, factor: float) -> None:
        rows.multiply(message[: s.mixed.size], factors)

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        rows.add(s.mixed, pull)


@dataclass(frozen=True)
class RunningConsensus(Averages):
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
    machine: ClassVar[type[FieldMachine]] = RunningConsensusMachine
    least_time: ClassVar[float] = 1.0
    derived: ClassVar[tuple[str, ...]] = ("moved", "weights", "own_weight", "num_agents")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"num_agents"})

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {
            "mixed": sizes.width,
            "moved": sizes.width,
            "weights": sizes.links,
            "own_weight": float,
            "num_agents": float,
        }

    def start(self, s: Any, view: LocalView) -> None:
        s.me.num_agents, s.me.own_weight = told_agents(view, self.name), view.own_weight
        s.weights[:] = [view.neighbor_weights[j] for j in sorted(view.neighbor_weights)]

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        check_vectors(messages, agent.registers.size)

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        rows.copy(out[: s.mixed.size], s.mixed)
        return int(s.mixed.size)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        own, size = s.me.own_weight, s.mixed.size
        for link in range(lengths.size):
            if lengths[link] == 0:
                own += s.weights[link]
        rows.set_scaled(s.moved, own, s.mixed)
        for link in range(lengths.size):
            if lengths[link] > 0:
                rows.add_scaled(s.moved, s.weights[link], inbox[link, :size])
        rows.copy(s.mixed, s.moved)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        about[AGENTS] = s.me.num_agents
        rows.set_scaled(totals, s.me.num_agents, s.mixed)

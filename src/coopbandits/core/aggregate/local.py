"""No communication: every agent keeps its own sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.aggregate.aggregation import OWN, Aggregation, ContextMachine, MessageSize
from coopbandits.core.contract import Estimate, LocalView, Share, Vector
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coopbandits.core.statistic import Registers


@dataclass(frozen=True)
class LocalSums(Aggregation):
    """Own pulls alone: nothing is sent, nothing is heard."""

    name: ClassVar[str] = "local-sums"
    shares: ClassVar[str] = OWN

    @property
    def takes_context(self) -> bool:
        """Yes."""
        return True

    def make(self, view: LocalView, registers: Registers) -> LocalSumsMachine:
        """Return the machine of one agent."""
        del view
        return LocalSumsMachine(registers)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return that nothing is sent."""
        del registers, max_agents
        return MessageSize(0, 0)


class LocalSumsMachine(ContextMachine):
    """Own totals; the time is the number of own pulls."""

    fields = ("totals",)

    def __init__(self, registers: Registers) -> None:
        self.registers = registers
        self.totals = registers.zeros()

    def estimate(self) -> Estimate:
        """Return the own totals."""
        time = max(2.0, float(self.registers.version(self.totals)))
        return self.registers.read(self.totals, time=time, num_agents=1.0)

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull."""
        self.registers.record(self.totals, arm, reward, context)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Stay silent."""
        del neighbor
        return None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """End the round; nothing may arrive."""
        if messages:
            raise InputError(
                f"messages arrived from {list(messages)}, but this policy does not communicate; "
                "deliver none"
            )
        self.registers.age(self.totals)

    def share(self) -> Share:
        """Return the own totals."""
        return self.registers.share(self.totals)

"""No communication: every agent keeps its own sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.aggregate.aggregation import OWN, Aggregation, ContextMachine, MessageSize
from coopbandits.core.aggregate.forgetting import check_forgetting, check_past, follow
from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coopbandits.core.statistic import Registers


@dataclass(frozen=True)
class LocalSums(Aggregation):
    """Own pulls alone: nothing is sent, nothing is heard.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds a pull counts; None for ever.
    """

    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "local-sums"
    shares: ClassVar[str] = OWN

    def __post_init__(self) -> None:
        """Refuse what does not forget in one way."""
        check_forgetting(self.discount, self.window)

    @property
    def uncertified(self) -> str:
        """Nothing: an agent counts each of its own pulls once."""
        return ""

    @property
    def takes_context(self) -> bool:
        """Yes."""
        return True

    def make(self, view: LocalView, registers: Registers) -> LocalSumsMachine:
        """Return the machine of one agent."""
        del view
        return LocalSumsMachine(registers.decaying(self.discount), self.window)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return that nothing is sent."""
        del registers, max_agents
        return MessageSize(0, 0)


class LocalSumsMachine(ContextMachine):
    """Own totals; the time is the number of own pulls."""

    fields = ("totals",)

    def __init__(self, registers: Registers, window: int | None = None) -> None:
        self.registers, self.window = registers, window
        self.totals = registers.zeros()
        if window is not None:
            self.past = self.totals[None].copy()  # the totals of the last rounds, oldest first
            self.keep_also("past", is_table=True)

    def estimate(self) -> Estimate:
        """Return the own totals."""
        totals = self.totals if self.window is None else self.totals - self.past[0]
        time = max(2.0, float(self.registers.version(totals)))
        found = self.registers.read(totals, time=time, num_agents=1.0)
        if self.window is not None:
            return found
        return found._replace(certain=self.registers.share(totals))

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
        if self.window is not None:
            self.past = follow(self.past, self.totals, self.window)

    def check_state(self, values: State) -> None:
        """Refuse a past that is longer than the window."""
        check_past(values, self.window)

    def share(self) -> Share:
        """Return the own totals."""
        return self.registers.share(self.totals)

"""Central totals: one controller that sees every pull. What cooperation is measured against.

The contract is smaller than an agent's: in every round, for every agent in turn, `choose` and then
`observe`; then `end_round`. A controller that acts on whole rounds reads what it knew at the start.
One that only plays the part of a server is told whose turn it is, and returns what was sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.aggregate.aggregation import forgets
from coopbandits.core.aggregate.forgetting import check_forgetting, follow
from coopbandits.core.checks import require_count
from coopbandits.core.choice import choose_arm
from coopbandits.core.contract import Context, Estimate, LocalView, Vector
from coopbandits.core.spelling import Named
from coopbandits.core.statistic.linear import in_context

if TYPE_CHECKING:
    from coopbandits.core.index import Index
    from coopbandits.core.statistic import Registers, Statistic


class CentralAggregation(Named, ABC):
    """What one controller, who sees every pull, makes of them; `make` returns it."""

    uncertified: ClassVar[str] = "does not certify distinct pulls"

    @property
    def needs(self) -> frozenset[str]:
        """Nothing: a controller sees all."""
        return frozenset()

    @property
    def takes_context(self) -> bool:
        """Yes."""
        return True

    @property
    def forgets(self) -> bool:
        """Whether older pulls count less, or no longer."""
        return forgets(self)

    def carried(self, asked: Statistic) -> Statistic:
        """Return what an index asks for."""
        return asked

    @abstractmethod
    def make(self, index: Index, registers: Registers, sigma: float) -> Controller:
        """Return a controller that plays an index on what it sees."""


@dataclass(frozen=True)
class CentralTotals(CentralAggregation):
    """All pulls of all agents in one place.

    Parameters
    ----------
    delay : int or None
        By how many rounds rewards are late: 0 for what was known when the round began, None for
        everything up to the last pull.
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds a pull counts; None for ever.
    """

    delay: int | None = 0
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "central-totals"
    uncertified: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Refuse a delay that is none."""
        if self.delay is not None:
            require_count("delay", self.delay, least=0)
        check_forgetting(self.discount, self.window)

    def make(self, index: Index, registers: Registers, sigma: float) -> Controller:
        """Return a controller that plays an index on what it sees."""
        delay = -1 if self.delay is None else self.delay
        return Controller(index, registers.decaying(self.discount), sigma, delay, self.window)


class Controller:
    """Pooled totals and an index on what they were `delay` rounds ago; delay −1 is at once."""

    def __init__(
        self,
        index: Index,
        registers: Registers,
        sigma: float,
        delay: int,
        window: int | None = None,
    ) -> None:
        self.index, self.registers, self.window = index, registers, window
        self.numbers = index.numbers(central_view(registers.num_arms, sigma))
        self.totals = registers.zeros()
        self.history = [self.totals.copy() for _ in range(delay + 1)]
        self.past = self.totals[None].copy()  # what was visible in the last rounds, oldest first
        self.rounds = 0

    def choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Context | None = None
    ) -> int:
        """Return the arm for the next agent, one of `allowed` where that is given."""
        if len(self.history) > 1 and context is None:
            arms = range(self.registers.num_arms) if allowed is None else sorted(allowed)
            if not self.registers.share(self.visible()).counts[list(arms)].all():
                return arms[self.rounds % len(arms)]  # nothing to go by yet: every arm in turn
        estimate = self.estimate()
        if context is not None:
            estimate = in_context(estimate, context)
        return choose_arm(self.index, self.numbers, estimate, word, allowed)

    def estimate(self) -> Estimate:
        """Return what is seen now of everybody's totals."""
        visible = self.visible()
        time = max(2.0, float(self.registers.version(visible)))
        found = self.registers.read(visible, time=time, num_agents=1.0)
        if self.window is not None:
            return found
        return found._replace(certain=self.registers.share(visible))

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Take in one reward."""
        self.registers.record(self.totals, arm, reward, context)

    def turn(self, agent: int) -> None:
        """Hear who chooses next, which makes no difference where all is known."""

    def end_round(self) -> Sequence[Vector] | None:
        """Let time pass for what is only seen later; return messages, if there are any."""
        self.rounds += 1
        if self.history:
            self.history = [*self.history[1:], self.totals.copy()]
        self.registers.age(self.totals, *self.history)
        if self.window is not None:
            self.past = follow(self.past, self._arrived(), self.window)
        return None

    def visible(self) -> Vector:
        """Return the totals that the next choice reads."""
        return self._arrived() if self.window is None else self._arrived() - self.past[0]

    def _arrived(self) -> Vector:
        return self.history[0] if self.history else self.totals


def central_view(num_arms: int, sigma: float) -> LocalView:
    """Return the view of a controller: one agent without neighbours."""
    return LocalView(0, 1.0, {}, num_arms, sigma=sigma, num_agents=1)

"""The contract of a source: it turns each reward of an agent into the number that counts.

That number is added up, sent and played on in the reward's place. Sums of such numbers add up as
sums of rewards do, so a source goes with every aggregation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.index import ANY_REWARDS, Support
from coopbandits.core.spelling import Named
from coopbandits.core.state import Stateful

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView


class Source(Named, ABC):
    """What happens to rewards at their source, as a value; its fields are its settings.

    Attributes
    ----------
    keeps_range : bool
        Whether rewards in [0, 1] become numbers in [0, 1].
    """

    keeps_range: ClassVar[bool] = False

    @property
    def support(self) -> Support:
        """The smallest and the largest reward that it is made for."""
        return ANY_REWARDS

    @property
    def needs(self) -> frozenset[str]:
        """What agents must be told, as in `Policy.needs`."""
        return frozenset()

    @abstractmethod
    def make(self, view: LocalView) -> Tap:
        """Return what one agent's rewards pass."""


class Tap(Stateful, ABC):
    """What the rewards of one agent pass."""

    @abstractmethod
    def drawn(self, arm: int, reward: float, estimate: Estimate) -> float:
        """Return what a reward counts; `estimate` is what the agent knew before it."""

    def reopened(self, word: int) -> None:
        """Note that the state may be older than what was sent; see `ReopenedAgent`."""
        del word  # most sources draw no noise that must not be used again

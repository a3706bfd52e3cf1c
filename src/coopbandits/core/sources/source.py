"""The contract of a source: it turns each reward of an agent into the number that counts.

That number is added up, sent and played on in the reward's place. Sums of such numbers add up as
sums of rewards do, so a source goes with every aggregation. As an aggregation is, it is written as
functions on fields (`core.aggregate.fields`): agents call them as they are, and the driver compiles
them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core.aggregate.fields import FieldState, Layout, agent_state, layout_of
from coopbandits.core.index import ANY_REWARDS, Support
from coopbandits.core.spelling import Named

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView, State


class Source(Named, ABC):
    """What happens to rewards at their source, as a value; its settings are those of a dataclass.

    Attributes
    ----------
    keeps_range : bool
        Whether rewards in [0, 1] become numbers in [0, 1].
    derived : tuple of str
        Fields that `start` fills for good: no part of an exported state.
    plain_only : str
        Why only plain Python runs it, in words that follow "has no compiled kernel"; "" where it
        can be compiled.
    most_pulls : float
        How many pulls of an agent it is made for.
    """

    keeps_range: ClassVar[bool] = False
    derived: ClassVar[tuple[str, ...]] = ()
    plain_only: str = ""

    @property
    def support(self) -> Support:
        """The smallest and the largest reward that it is made for."""
        return ANY_REWARDS

    @property
    def needs(self) -> frozenset[str]:
        """What agents must be told, as in `Policy.needs`."""
        return frozenset()

    @property
    def most_pulls(self) -> float:
        """Any number."""
        return math.inf

    def fields(self, num_arms: int) -> Mapping[str, Any]:
        """Return the shape of every field that it remembers, or `int` or `float` for a number.

        They stand among the fields of aggregations, and have other names.
        """
        del num_arms
        return {}

    def start(self, s: Any, view: LocalView) -> None:
        """Fill the fields of one agent, all 0, as it begins."""

    @staticmethod
    @abstractmethod
    def drawn(s: Any, arm: int, reward: float, estimate: Estimate) -> float:
        """Return what a reward counts; `estimate` is what the agent knew before it."""

    def check_pull(self, s: Any, arm: int) -> None:
        """Refuse a pull beyond those that it is made for."""

    def check_state(self, values: State) -> None:
        """Refuse fields that have the right form, but that no agent can hold."""

    def reopened(self, s: Any, word: int) -> None:
        """Note that the state may be older than what was sent; see `ReopenedAgent`."""
        # Most sources draw no noise that must not be used again.

    def layout(self, num_arms: int) -> Layout:
        """Return the fields for some arms."""
        return layout_of(self.spelling, self.fields(num_arms))

    def make(self, view: LocalView) -> Tap:
        """Return what one agent's rewards pass."""
        return Tap(view, self)


class Tap(FieldState):
    """What the rewards of one agent pass: the fields of a source."""

    def __init__(self, view: LocalView, source: Source) -> None:
        self.spec: Source = source
        layout = source.layout(view.num_arms)
        self.state = agent_state(layout, 0)
        self.fields = tuple(name for name in layout.names if name not in source.derived)
        source.start(self.state, view)

    def drawn(self, arm: int, reward: float, estimate: Estimate) -> float:
        """Return what a reward counts; `estimate` is what the agent knew before it."""
        self.spec.check_pull(self.state, arm)
        return self.spec.drawn(self.state, arm, reward, estimate)

    def reopened(self, word: int) -> None:
        """Tell the source that the state may be older than what was sent."""
        self.spec.reopened(self.state, word)

    def check_state(self, values: State) -> None:
        """Ask the source."""
        self.spec.check_state(values)

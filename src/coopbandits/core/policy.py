"""What a policy is: settings that make one agent per LocalView."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.spelling import Named

if TYPE_CHECKING:
    from coopbandits.core.agent import Agent, LocalView


class Policy(Named, ABC):
    """Settings of an algorithm; immutable, compared by value.

    A policy of one's own sets `name` and writes `make_agent`. As a frozen dataclass its fields are
    its settings, and the spelling (``module:Name:setting=value,…``) follows from them.

    Attributes
    ----------
    needs_common_round : bool
        Whether its agents only work where all count rounds together, and not on own clocks.
    """

    needs_common_round: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:
        """What the agents must be told beyond their row of P.

        "num_agents", "lambda_bound", a "random_word", or global knowledge such as
        "epsilon_c:closed".
        """
        return frozenset()

    @abstractmethod
    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent that knows `view` and nothing else."""

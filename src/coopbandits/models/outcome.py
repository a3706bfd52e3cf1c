"""What became of some runs: what every agent lost, and what was sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopbandits.models.coins import Floats

Counts = NDArray[np.int64]

BITS = 64
"""Of one value."""


@dataclass(frozen=True)
class Traffic:
    """What was sent.

    Attributes
    ----------
    messages, values : (run,)
        Messages from one agent to one other, and the numbers in them.
    """

    messages: Counts
    values: Counts

    @property
    def bits(self) -> Counts:
        """Bits sent (run,): 64 per value."""
        return BITS * self.values


@dataclass(frozen=True)
class Outcome(Traffic):
    """Regret and traffic of some runs.

    Attributes
    ----------
    agent_regret : (run, agent)
        Of every agent, against the arm that the model calls best for it: the best arm where all
        agents have the same arms.
    """

    agent_regret: Floats

    @property
    def regret(self) -> Floats:
        """Of all agents together (run,)."""
        total: Floats = self.agent_regret.sum(axis=1)
        return total

    @property
    def worst(self) -> Floats:
        """Of the agent that lost most (run,)."""
        largest: Floats = self.agent_regret.max(axis=1)
        return largest


def silence(runs: int) -> tuple[Counts, Counts]:
    """Return messages and values of agents that do not talk."""
    return np.zeros(runs, dtype=np.int64), np.zeros(runs, dtype=np.int64)

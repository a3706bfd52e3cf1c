"""The array form of an aggregation: all agents of one run at once, row i for agent i.

It is optional, and beside the machines, never instead of them. A simulation without faults then
makes two calls per round, whatever the number of agents. Running consensus, for example::

    def estimate(self):
        totals = self.num_agents * self.mixed
        return RowEstimates(totals, np.maximum(1.0, registers.version(totals)), self.num_agents)

    def exchange(self, pulls):
        self.mixed = self.matrix @ (self.mixed + pulls)

`check_policy` plays both forms side by side and says where they differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
"""Registers of all agents: (N, size)."""

PerAgent = NDArray[np.float64] | float
"""One number per agent, or one for all."""


class RowEstimates(NamedTuple):
    """Network totals as each agent sees them, as `Estimate` is for one of them.

    Attributes
    ----------
    totals : (N, size)
        Registers of the whole network.
    time, num_agents, anticipation : (N,) or float
        As in `Estimate`.
    """

    totals: Rows
    time: PerAgent
    num_agents: PerAgent
    anticipation: PerAgent = 1.0


class AgentRows(ABC):
    """All agents of one run, in rounds in which each pulls once and every message arrives."""

    @abstractmethod
    def estimate(self) -> RowEstimates:
        """Return the network totals as every agent sees them now; only read, never changed."""

    @abstractmethod
    def exchange(self, pulls: Rows) -> None:
        """Add this round's pulls, exchange messages and end the round.

        Row i holds the registers of agent i's pull. The array is a new one in every round.
        """

    def talking(self) -> NDArray[np.bool_] | None:
        """Return which agents send messages in this round; None, as mostly, where all do."""
        return None

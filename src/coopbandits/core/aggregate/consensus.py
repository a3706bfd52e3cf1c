"""Running consensus: add the new pull, then average with the neighbours, every round for ever.

Totals per agent follow x ← P(x + y), y the pulls of the round. What is new has hardly travelled, so
estimates are biased towards the neighbourhood; what is old is known well. Each message carries all
2K values x + y. A neighbour whose message did not arrive counts as if it had sent the own values:
every step is an average, and what two neighbours both miss of each other changes no total.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coopbandits.core.agent import Aggregation, Estimate, LocalView, Vector
from coopbandits.core.aggregate.exchange import add_pull, check_vectors
from coopbandits.core.mixing import weighted_sum


class RunningConsensus(Aggregation):
    """Network averages as a running consensus of (sums, counts), one array of length 2K.

    Parameters
    ----------
    view : LocalView
        What the agent may know.
    num_agents : int
        N, by which averages become totals.

    Notes
    -----
    The time is the number of pulls behind the counts, N Σ_k n̂^k: with one pull per agent and round
    N times the rounds completed.
    """

    fields = ("mixed",)

    def __init__(self, view: LocalView, num_agents: int) -> None:
        self.view = view
        self.num_agents = num_agents
        self.mixed = np.zeros(2 * view.num_arms)

    def estimate(self) -> Estimate:
        """Return N times the averages."""
        sums, counts = self.num_agents * self.mixed.reshape(2, -1)
        return Estimate(sums, counts, max(1.0, float(counts.sum())), self.num_agents)

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull to what the next step mixes."""
        add_pull(self.mixed, arm, reward, 1.0)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return the averages with the pulls of this round."""
        del neighbor  # all get the same
        return self.mixed.copy()

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Make one mixing step with whatever arrived."""
        check_vectors(messages, self.mixed.size)
        weights = self.view.neighbor_weights
        missing = sum(weight for j, weight in weights.items() if j not in messages)
        self.mixed = weighted_sum(self.view.own_weight + missing, self.mixed, weights, messages)

    def share(self) -> Vector:
        """Return the averages, with the pulls of this round."""
        return self.mixed.copy()

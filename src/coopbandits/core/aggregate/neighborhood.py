"""Pulls told to the neighbours: every agent counts its own pulls and those of its neighbours.

A message is the list of pulls since the last round, two values (arm, reward) each. What a
neighbour pulls in one round is known in the next; what others pull is never known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.agent import Aggregation, Estimate, LocalView, State, Vector
from coopbandits.core.aggregate.exchange import add_pull, check_arms, read_items
from coopbandits.core.checks import require_count

if TYPE_CHECKING:
    from collections.abc import Mapping


class NeighborhoodSums(Aggregation):
    """Reward sums and pull counts of the closed neighbourhood.

    Parameters
    ----------
    view : LocalView
        What the agent may know; of the network it uses nothing.

    Notes
    -----
    The time is the number of own pulls, as one agent's without communication. A lost message is
    lost for good, one delivered again counts again, and what is observed between sending and
    receiving is told to nobody.
    """

    fields = ("totals", "num_pulls", "news")
    tables = ("news",)

    def __init__(self, view: LocalView) -> None:
        self.num_arms = view.num_arms
        self.totals = np.zeros(2 * view.num_arms)
        self.num_pulls = 0
        self.news = np.empty((0, 2))  # own pulls of this round: arm, reward

    def estimate(self) -> Estimate:
        """Return the totals of the closed neighbourhood."""
        sums, counts = self.totals.reshape(2, -1)
        return Estimate(sums, counts, max(2.0, float(self.num_pulls)), 1.0)

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull, and put it down for the neighbours."""
        add_pull(self.totals, arm, reward, 1.0)
        self.num_pulls += 1
        self.news = np.vstack([self.news, [arm, reward]])

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return the own pulls of this round, or None if there are none."""
        del neighbor  # all get the same
        return self.news.flatten() if self.news.size else None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Add what the neighbours pulled."""
        heard = [read_items(message, 2, self.num_arms, j) for j, message in messages.items()]
        for arm, reward in (item for items in heard for item in items.tolist()):
            add_pull(self.totals, int(arm), reward, 1.0)
        self.news = np.empty((0, 2))

    def check_state(self, values: State) -> None:
        """Refuse pulls of arms that do not exist."""
        require_count("state field num_pulls", values["num_pulls"], least=len(values["news"]))
        check_arms(values["news"][:, 0], self.num_arms, "state field news")

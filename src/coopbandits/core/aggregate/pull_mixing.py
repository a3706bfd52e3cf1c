r"""Pull mixing: an agent moves towards the values that it heard, and stays where it heard nothing.

Per agent one vector x of reward sums and pull counts (2K values, and one more for the squares of
rewards where an index needs them). A pull adds to x; then, with whatever arrived,

    x_i ← x_i + Σ_{heard j} W_ij (x_j − x_i),      W_ij = 1 / (1 + max(d_i, d_j)),

d_i the number of neighbours that agent i heard of in the last `RECENT` rounds: Metropolis weights
of the links that are alive. A message is [x | d_i | Σ m | m], m the minima by which agents are
counted (`extrema`), left out where the neighbour told the same sum. A neighbour that was not alive
when the messages of a round were written is listened to from the next round on, so that both ends
of a link go by the same degrees.

Invariants: weights are positive and sum to less than 1, so x stays within what was heard, whatever
is lost. Where links fail in both directions at once W is symmetric and Σ_i x_i is kept exactly;
under one-way loss it is kept on average. Totals are N̂ x.

*Differs from the paper* (Xiao, Boyd, Lall 2005, on averaging with Metropolis weights): degrees are
those of links alive, and averages become totals by an estimate of N.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.agent import Aggregation, Estimate, LocalView, Vector
from coopbandits.core.aggregate.exchange import as_estimate, check_vectors, record_pull
from coopbandits.core.aggregate.extrema import (
    EXPONENTIALS,
    check_minima,
    count_agents,
    exponentials,
    extrema_part,
    require_word,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

RECENT = 10
"""A neighbour not heard for so many rounds is not counted as one."""


class PullMixing(Aggregation):
    """Network averages under any failures, and totals from an estimate of N.

    Parameters
    ----------
    view : LocalView
        What the agent may know: who its neighbours are, and a random word.
    squares : bool
        Also carry the sum of squared rewards, one value per message.
    """

    fields = ("mixed", "ages", "minima", "told")
    links = ("ages", "told")

    def __init__(self, view: LocalView, *, squares: bool = False) -> None:
        self.num_arms = view.num_arms
        self.places = {j: at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.mixed = np.zeros(2 * view.num_arms + squares)
        self.ages = np.zeros(len(self.places))  # rounds since each neighbour was heard
        self.minima = exponentials(require_word(view))
        self.told = np.zeros(len(self.places))  # the Σ m that each neighbour told last

    def estimate(self) -> Estimate:
        """Return N̂ times the averages."""
        num_agents = count_agents(self.minima)
        return as_estimate(num_agents * self.mixed, self.num_arms, num_agents)

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull to what the next step mixes."""
        record_pull(self.mixed, self.num_arms, arm, reward)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return [averages | own degree | Σ m | m unless the neighbour told the same sum]."""
        part = extrema_part(self.minima, self.told[self.places[neighbor]])
        return np.concatenate([self.mixed, [sum(self._alive())], part])

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Move towards what was heard."""
        size = self.mixed.size
        check_vectors(messages, size + 2, size + 2 + EXPONENTIALS)
        check_minima(messages, size + 1)
        alive = self._alive()
        degree = sum(alive)
        self.ages = self.ages + 1.0
        moved = self.mixed.copy()
        for j, message in messages.items():
            at = self.places[j]
            if alive[at]:
                weight = 1.0 / (1.0 + max(degree, float(message[size])))
                moved += weight * (message[:size] - self.mixed)
            self.ages[at] = 0.0
            self.told[at] = message[size + 1]
            if message.size > size + 2:
                self.minima = np.minimum(self.minima, message[size + 2 :])
        self.mixed = moved

    def _alive(self) -> list[bool]:
        return [age < RECENT for age in self.ages.tolist()]

    def share(self) -> Vector:
        """Return the averages: they add up exactly as long as links fail both ways at once."""
        return self.mixed[: 2 * self.num_arms].copy()

"""No communication: every agent keeps its own sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.agent import Aggregation, Estimate, LocalView, Vector
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


class LocalSums(Aggregation):
    """Own reward sums and pull counts, nothing sent and nothing received."""

    fields = ("sums", "counts")

    def __init__(self, view: LocalView) -> None:
        self.sums = np.zeros(view.num_arms)
        self.counts = np.zeros(view.num_arms)

    def estimate(self) -> Estimate:
        """Return the own totals; the time is the number of own pulls."""
        return Estimate(self.sums, self.counts, max(2.0, float(self.counts.sum())), 1.0)

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull."""
        self.sums[arm] += reward
        self.counts[arm] += 1.0

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

"""N from the smallest of many random numbers: rough, but it survives any loss and needs no λ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coopbandits.core.aggregate.exchange import check_vectors
from coopbandits.core.aggregate.extrema import (
    check_minima,
    count_agents,
    exponentials,
    require_word,
)
from coopbandits.core.contract import LocalView, Vector
from coopbandits.core.estimate.estimator import Estimator


class ExtremaCount(Estimator):
    """N̂ by extrema propagation (`core/aggregate/extrema.py`).

    A message is the L minima. A lost one is made good by any later one.

    Parameters
    ----------
    view : LocalView
        What the agent may know: who its neighbours are, and a random word.
    spread : int
        Rounds after which it counts as done; without losses the diameter is enough.
    """

    fields = ("rounds", "minima")

    def __init__(self, view: LocalView, spread: int) -> None:
        super().__init__(view)
        self.rounds = 0
        self.spread = spread
        self.minima = exponentials(require_word(view))

    @property
    def done(self) -> bool:
        """Whether enough rounds have passed."""
        return self.rounds >= self.spread

    @property
    def num_agents(self) -> float:
        """N̂, with a relative standard deviation of 1/√(L − 2)."""
        return count_agents(self.minima)

    def outgoing(self, neighbor: int) -> Vector:
        """Return the minima."""
        del neighbor  # all get the same
        return self.minima.copy()

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Keep what is smaller, of whatever arrived."""
        check_vectors(messages, self.minima.size)
        check_minima(messages, 0)
        self.minima = np.minimum.reduce([self.minima, *messages.values()])
        self.rounds += 1

r"""N by tag and mixing, the method of the paper's appendix.

Every agent draws a random tag and starts at y = 1. In each round it adopts the smallest tag heard
and mixes the values that carry it; others count 0, its own included. That is the mixing of e_min,
1 at the agent with the smallest tag and 0 elsewhere, from the first round on: whoever has not heard
of that tag yet would have the value 0. The values tend to 1/N. Accelerated mixing works as well;
the previous value is 0 where the tag is new.

The sum over agents stays 1. So 1/N lies between the smallest and the largest value in the network,
however badly they are mixed, and these two can be spread as minimum and maximum:

    1/max y ≤ N ≤ 1/min y.

The agents stop when a single whole number is left. Values get there after about C rounds; how good
they must be grows with N, so it is ln N rounds and not a number independent of N.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from coopbandits.core.aggregate.extrema import require_word
from coopbandits.core.contract import LocalView, Vector
from coopbandits.core.draws import words
from coopbandits.core.estimate.estimator import Estimator
from coopbandits.core.mixing import LAMBDA_ZERO, chebyshev_step, next_rho, weighted_sum

TOLERANCE = 1e-9
"""Rounding that may blur a whole number, relative to it."""


class TagCount(Estimator):
    """Bounds on N that close in on it, and N once they agree.

    A message has four values per repetition: [tags | values | smallest values | largest values].
    The first `spread` rounds spread the tags. Then, every `spread` rounds, the values of that round
    are taken down, and their smallest and largest are known to everybody when the next are taken.

    Parameters
    ----------
    view : LocalView
        What the agent may know: its row of P and a random word.
    spread : int
        Rounds in which a message can reach everybody: the diameter, or more. At least 1.
    lambda_bound : float
        An upper bound on λ for accelerated mixing; 0 mixes plainly.
    repetitions : int
        How many tags every agent draws. Agents that share the smallest tag make N̂ too small, so
        the largest of the answers is taken.
    """

    fields = (
        "rounds", "tags", "values", "before", "rho", "smallest", "largest", "fewest", "most",
    )  # fmt: skip

    def __init__(
        self, view: LocalView, spread: int, *, lambda_bound: float = 0.0, repetitions: int = 1
    ) -> None:
        super().__init__(view)
        self.rounds = 0
        self.spread, self.lambda_bound = max(1, spread), lambda_bound
        drawn = words(require_word(view), np.arange(repetitions, dtype=np.uint64))
        self.tags = (drawn >> np.uint64(11)).astype(np.float64)
        self.values = np.ones(repetitions)
        self.before = np.zeros(repetitions)
        self.rho = np.zeros(1)
        self.smallest = np.zeros(repetitions)
        self.largest = np.ones(repetitions)
        self.fewest = 1
        self.most = 0  # 0: no bound yet

    @property
    def done(self) -> bool:
        """Whether a single number is left."""
        return 0 < self.most <= self.fewest

    @property
    def num_agents(self) -> tuple[int, int | None]:
        """Bounds on N, the upper one None as long as there is none."""
        return self.fewest, self.most or None

    def outgoing(self, neighbor: int) -> Vector:
        """Return [tags | values | smallest values | largest values]."""
        del neighbor  # all get the same
        return np.concatenate([self.tags, self.values, self.smallest, self.largest])

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Mix the values of the smallest tag; now and then look at how far apart they are."""
        self.check_all(messages, 4 * self.tags.size)
        parts = {j: message.reshape(4, -1) for j, message in messages.items()}
        self._mix(parts)
        self.smallest = np.minimum.reduce([self.smallest, *(part[2] for part in parts.values())])
        self.largest = np.maximum.reduce([self.largest, *(part[3] for part in parts.values())])
        self.rounds += 1
        if self.rounds % self.spread == 0:
            if self.rounds > self.spread:
                self._conclude()
            self.smallest, self.largest = self.values.copy(), self.values.copy()

    def _mix(self, parts: Mapping[int, Vector]) -> None:
        tags = np.minimum.reduce([self.tags, *(part[0] for part in parts.values())])
        kept = self.tags == tags
        carried = {j: np.where(part[0] == tags, part[1], 0.0) for j, part in parts.items()}
        own = np.where(kept, self.values, 0.0)
        mixed = weighted_sum(self.view.own_weight, own, self.view.neighbor_weights, carried)
        if self.lambda_bound >= LAMBDA_ZERO:
            rho = next_rho(self.rho, self.lambda_bound)
            before = np.where(kept, self.before, 0.0)
            mixed = chebyshev_step(mixed, before, self.rho, rho, self.lambda_bound)
            self.rho = rho
        self.tags, self.before, self.values = tags, own, mixed

    def _conclude(self) -> None:
        fewest = [math.ceil(1.0 / high * (1 - TOLERANCE)) for high in self.largest.tolist()]
        self.fewest = max(self.fewest, *fewest)
        if (self.smallest > 0.0).all():
            most = max(math.floor(1.0 / low * (1 + TOLERANCE)) for low in self.smallest.tolist())
            self.most = min(most, self.most or most)

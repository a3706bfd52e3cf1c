r"""Bounds on λ: one that holds for certain, and one that is estimated.

**Guaranteed.** I − P is a Laplacian with the weights P_ij, and lies between w_min and w_max times
that of the graph, whose eigenvalues are at least 4/(N D) apart from the 0 (Mohar 1991; N, if all
know each other) and at most N. And all eigenvalues of P are at least 2 min P_ii − 1 (Gershgorin).
So, with a = 4/(N D), or a = N where D = 1,

    λ ≤ λ̄ = max(1 − w_min a,  −max(2 min P_ii − 1, 1 − w_max N)).

With max-degree weights, w = 1/(δ + 1) and min P_ii = 1/(δ + 1), this is at most
max(1 − 4/(N D (δ + 1)), (δ − 1)/(δ + 1)). It holds for Metropolis weights and others just as well.

**Estimated**, a heuristic: v = (I − P)z with random z has no part along the eigenvalue 1, and
v ← P v shrinks by λ in the long run. With m_s the largest |v_i| after s steps,

    λ̂ = (m_2s/m_s)^{1/s},   s doubled until s (1 − λ̂) ≥ 3,   inflated to 1 − (1 − λ̂)/2.

An agent that lies could keep that from ever coming about. Where λ̄ is known it must have by the time
s (1 − λ̄) = 20: m_2s ≤ √N λ^s m_s. What is not believed by then is given up for λ̄.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coopbandits.core.aggregate.extrema import require_word
from coopbandits.core.contract import LocalView, Vector
from coopbandits.core.draws import normals, words
from coopbandits.core.estimate.estimator import Estimator
from coopbandits.core.mixing import weighted_sum

ROUNDING = 1e-12
"""A vector that has shrunk to this is rounding errors."""

ENOUGH = 3.0
"""s (1 − λ̂) at which an estimate is believed."""

HOPELESS = 20.0
"""s (1 − λ̄) at which none will be."""


def guaranteed_lambda(
    num_agents: int, diameter: int, *, lightest: float, heaviest: float, least_own: float
) -> float:
    """Return λ̄ from N, D, the lightest and heaviest weight of a link and the least own weight."""
    if num_agents == 1:
        return 0.0
    connectivity = num_agents if diameter == 1 else 4.0 / (num_agents * diameter)
    lowest = max(2.0 * least_own - 1.0, 1.0 - heaviest * num_agents)
    return max(0.0, 1.0 - lightest * connectivity, -lowest)


class PowerIteration(Estimator):
    """λ by power iteration: a heuristic, which may be too small.

    Steps of v and the spreading of its largest entry take turns, so that a message is one value:
    z in the first round, then v for 1, 1, 2, 4, … rounds, each time followed by `spread` rounds of
    the largest |v_i| heard of. All agents end in the same round, since all decide by the same
    numbers.

    Parameters
    ----------
    view : LocalView
        What the agent may know: its row of P and a random word.
    spread : int
        Rounds in which a message can reach everybody: the diameter, or more.
    guaranteed : float
        λ̄; 1 where none is known.
    """

    fields = ("rounds", "vector", "steps", "target", "waiting", "norm", "last_norm", "estimate")

    def __init__(self, view: LocalView, spread: int, guaranteed: float = 1.0) -> None:
        super().__init__(view)
        self.spread, self.guaranteed = spread, guaranteed
        self.vector = normals(words(require_word(view), np.array([0], dtype=np.uint64)))
        self.steps = -1  # of v ← P v; −1 before v is made from z
        self.target = 1  # steps after which the norm is asked for
        self.waiting = 0  # rounds in which the norm is still spreading
        self.norm = 0.0
        self.last_norm = 0.0
        self.estimate = -1.0

    @property
    def done(self) -> bool:
        """Whether the estimate is believed."""
        return self.estimate >= 0.0

    @property
    def lambda_bound(self) -> float:
        """The inflated estimate, 0 for a network that averages in one step; not before `done`."""
        return 1.0 - (1.0 - self.estimate) / 2.0 if self.estimate > 0.0 else 0.0

    def outgoing(self, neighbor: int) -> Vector:
        """Return the own entry of z or v, or the largest entry heard of while it spreads."""
        del neighbor  # all get the same
        return np.array([self.norm]) if self.waiting else self.vector.copy()

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Make a step or hear of a larger entry; decide when everybody has."""
        self.check_all(messages, 1)
        self.rounds += 1
        if self.waiting:
            self.norm = max([self.norm, *(float(message[0]) for message in messages.values())])
            self.waiting -= 1
        else:
            view = self.view
            mixed = weighted_sum(view.own_weight, self.vector, view.neighbor_weights, messages)
            self.vector = self.vector - mixed if self.steps < 0 else mixed
            self.steps += 1
            if self.steps < self.target:
                return
            self.norm = float(abs(self.vector[0]))
            self.waiting = self.spread
        if self.waiting == 0:
            self._decide()

    def _decide(self) -> None:
        """Go on to twice as many steps, unless the last doubling told enough."""
        past = self.target // 2
        if self.norm <= ROUNDING:
            # λ² is at most 1e-12 where two steps have come to this, which one plain step bears.
            self.estimate = 0.0 if past <= 1 else ROUNDING ** (1.0 / self.target)
        elif past:
            found = (self.norm / self.last_norm) ** (1.0 / past)
            hopeless = past * (1.0 - self.guaranteed) >= HOPELESS
            if past * (1.0 - found) >= ENOUGH or hopeless:
                self.estimate = min(found, 1.0)
        self.last_norm, self.target = self.norm, 2 * self.target

r"""An estimate of λ by power iteration: a heuristic, which may be too small.

v = (I − P)z with random z has no part along the eigenvalue 1, and v ← P v shrinks by λ in the long
run. With m_s the largest |v_i| after s steps,

    λ̂ = (m_2s/m_s)^{1/s},   s doubled until s (1 − λ̂) ≥ 3,   inflated to 1 − (1 − λ̂)/2.

A lying agent could keep that from ever coming about. Where the guaranteed bound λ̄ (`survey`) is
known, it must have by the time s (1 − λ̄) = 20: m_2s ≤ √N λ^s m_s. An estimate that has not
converged by then is given up for λ̄.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbandits.core.aggregate.extrema import require_word
from coopbandits.core.aggregate.messages import check_vectors
from coopbandits.core.contract import LocalView, Vector
from coopbandits.core.draws import normal_of, word_at
from coopbandits.core.estimate.survey import Estimator, check_complete

ROUNDING = 1e-12
"""A vector that has shrunk to this is rounding errors."""

ENOUGH = 3.0
"""s (1 − λ̂) at which an estimate is believed."""

HOPELESS = 20.0
"""s (1 − λ̄) at which none will be."""


POWER: dict[str, Any] = {
    "vector": float,  # the own entry of z, then of v
    "steps": int,  # of v ← P v; −1 before v is made from z
    "target": int,  # steps after which the norm is asked for
    "waiting": int,  # rounds in which the norm is still spreading
    "norm": float,
    "last_norm": float,
    "iterated_lambda": float,  # −1: not believed yet
    "iterated": int,  # rounds
}
"""Fields of a power iteration beside `weights`, those of the links, and the number `own_weight`."""


def start_power(s: Any, view: LocalView) -> None:
    """Begin with a random entry of z."""
    s.me.vector = normal_of(word_at(require_word(view), 0))
    s.me.steps, s.me.target, s.me.iterated_lambda = -1, 1, -1.0
    s.me.own_weight = view.own_weight
    s.weights[:] = [view.neighbor_weights[j] for j in sorted(view.neighbor_weights)]


def write_power(s: Any, out: Any) -> int:
    """Write the own entry of z or v, or the largest entry heard of while it spreads."""
    out[0] = s.me.norm if s.me.waiting > 0 else s.me.vector
    return 1


def hear_power(s: Any, inbox: Any, lengths: Any, spread: int, guaranteed: float) -> None:
    """Make a step or hear of a larger entry; decide when all agents have."""
    s.me.iterated += 1
    if s.me.waiting > 0:
        for link in range(lengths.size):
            s.me.norm = max(s.me.norm, inbox[link, 0])
        s.me.waiting -= 1
    else:
        mixed = s.me.own_weight * s.me.vector
        for link in range(lengths.size):
            mixed += s.weights[link] * inbox[link, 0]
        s.me.vector = s.me.vector - mixed if s.me.steps < 0 else mixed
        s.me.steps += 1
        if s.me.steps < s.me.target:
            return
        s.me.norm, s.me.waiting = abs(s.me.vector), spread
    if s.me.waiting == 0:
        decide(s, guaranteed)


def decide(s: Any, guaranteed: float) -> None:
    """Double the number of steps, unless the last doubling was enough."""
    past = s.me.target // 2
    if s.me.norm <= ROUNDING:
        # λ² is at most 1e-12 where two steps have come to this, which one plain step bears.
        s.me.iterated_lambda = 0.0 if past <= 1 else ROUNDING ** (1.0 / s.me.target)
    elif past > 0:
        found = (s.me.norm / s.me.last_norm) ** (1.0 / past)
        hopeless = past * (1.0 - guaranteed) >= HOPELESS
        if past * (1.0 - found) >= ENOUGH or hopeless:
            s.me.iterated_lambda = min(found, 1.0)
    s.me.last_norm = s.me.norm
    s.me.target = 2 * s.me.target


def inflated_lambda(s: Any) -> float:
    """Return the inflated estimate, 0 for a network that averages in one step."""
    estimate = s.me.iterated_lambda
    return float(1.0 - (1.0 - estimate) / 2.0 if estimate > 0.0 else 0.0)


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
        Rounds in which a message can reach all agents: the diameter, or more.
    guaranteed : float
        λ̄; 1 where none is known.
    """

    fields = tuple(POWER)

    def __init__(self, view: LocalView, spread: int, guaranteed: float = 1.0) -> None:
        links = len(view.neighbor_weights)
        super().__init__(view, {**POWER, "own_weight": float, "weights": links})
        start_power(self.state, view)
        self.spread, self.guaranteed = spread, guaranteed

    @property
    def rounds(self) -> int:
        return int(self.state.me.iterated)

    @property
    def target(self) -> int:
        return int(self.state.me.target)

    @property
    def estimate(self) -> float:
        """λ̂; not before `done`."""
        return float(self.state.me.iterated_lambda)

    @property
    def done(self) -> bool:
        return self.estimate >= 0.0

    @property
    def lambda_bound(self) -> float:
        """The inflated estimate, 0 for a network that averages in one step; not before `done`."""
        return inflated_lambda(self.state)

    def outgoing(self, neighbor: int) -> Vector:
        # All neighbours get the same.
        out = np.zeros(1)
        write_power(self.state, out)
        return out

    def receive(self, messages: Mapping[int, Vector]) -> None:
        check_complete(self.view, messages)
        check_vectors(messages, 1)
        hear_power(self.state, *self.letters(messages), self.spread, self.guaranteed)

"""Forgetting in kernels: registers in units that shrink, so that nothing has to be multiplied.

With a discount γ a pull counts γ^(m − b), b the rounds ended when it was made and m those ended
now. A kernel adds γ^(s − b) for a pull instead of 1, s being the first round of the span that it
plays, and lets choices read γ^(m − s) times the registers. So forgetting costs one multiplication
per pull, news needs no stamp, and mixing, sums and logs are those of γ = 1. Between spans all
registers are brought to the next s; spans are short enough for weights to stay below `LARGEST`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from coopbandits.core.aggregate.forgetting import decayed_rounds
from coopbandits.core.contract import Vector

LARGEST = 1e100
"""The largest weight of a pull within a span."""

FOREVER = 1 << 62


class Ageing(NamedTuple):
    """What pulls count in a span of rounds.

    Attributes
    ----------
    weights : (rounds,)
        What a pull of each round adds, in units of the span.
    factors : (rounds,)
        What a unit counts in each round: the inverse.
    passed : (rounds,)
        γ + γ² + … over all rounds before each: how much of an agent that pulled in all of them
        counts.
    behind : (rounds,)
        The same in units of the span, for who has just pulled.
    """

    weights: Vector
    factors: Vector
    passed: Vector
    behind: Vector


def ageing(discount: float, first: int, rounds: int) -> Ageing:
    """Return what pulls count in rounds `first` … `first + rounds − 1`."""
    since = np.arange(float(rounds))
    weights = discount**-since
    passed = discount * decayed_rounds(discount, first + since)
    return Ageing(
        weights, discount**since, passed, weights * decayed_rounds(discount, first + since + 1.0)
    )


def most_rounds(discount: float) -> int:
    """Return how many rounds a span may have."""
    if discount == 1.0:
        return FOREVER
    return max(1, int(math.log(LARGEST) / -math.log(discount)))


def end_span(discount: float, rounds: int, *registers: Any) -> None:
    """Bring registers, in place, to the units of the next span."""
    if discount != 1.0:
        for values in registers:
            values *= discount**rounds

"""Extrema propagation: how many agents there are, from the smallest of many random numbers.

Every agent draws L exponential variates, and all keep the smallest value heard of each. The minimum
of N unit exponentials is exponential with rate N, so the L minima m of a network tell

    N̂ = (L − 1) / Σ m,      unbiased, with a relative standard deviation of 1/√(L − 2).

A minimum is the same however often and in whatever order things arrive, so loss is only delay.
Nothing is ever taken back: agents that leave go on being counted.

Where minima travel beside other values, a message ends in the sum Σ m, and in the L minima too as
long as the neighbour has not told the same sum: one value where two neighbours agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.draws import uniforms, words
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coopbandits.core.contract import LocalView, Vector

EXPONENTIALS = 32
"""L; the estimate is within 18 % of N in two of three networks."""


def require_word(view: LocalView) -> int:
    """Return an agent's random word, or say that it was not given one."""
    if not 0 < view.random_word < 2**64:
        raise InputError(
            f"random_word of agent {view.agent_id} is {view.random_word}; this policy needs 64 "
            "random bits of every agent's own, from 1 to 2^64 − 1"
        )
    return view.random_word


def exponentials(word: int) -> Vector:
    """Return L unit exponentials of a random word; its counter 0 is left for other uses."""
    counters = np.arange(1, EXPONENTIALS + 1, dtype=np.uint64)
    values: Vector = -np.log(uniforms(words(word, counters)))
    return values


def count_agents(minima: Vector) -> float:
    """Return N̂ = (L − 1)/Σ m, at least 1."""
    return max(1.0, (minima.size - 1) / float(minima.sum()))


def extrema_part(minima: Vector, told: float) -> Vector:
    """Return what a message says of the minima to a neighbour that told the sum `told` last."""
    total = np.array([minima.sum()])
    return total if told == total[0] else np.concatenate([total, minima])


def check_minima(messages: Mapping[int, Vector], start: int) -> None:
    """Refuse minima, the values from `start` on, that are not positive."""
    for neighbor, message in messages.items():
        if message.size > start and message[start:].min() <= 0.0:
            raise InputError(f"message from {neighbor} has minima that are not positive")

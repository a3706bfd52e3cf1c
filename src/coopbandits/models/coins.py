"""Arms that pay 0 or 1, and the chance behind them: pure functions of the seed and the place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.checks import require_count, require_number
from coopbandits.core.draws import stream_key, uniform_of, uniforms, word_at, words
from coopbandits.core.errors import InputError

Floats = NDArray[np.float64]

PIECE = 2**20
"""Numbers that lie in memory at a time."""


class Dice:
    """Uniform numbers in a row, from one key."""

    def __init__(self, *place: int) -> None:
        self.key, self.drawn = stream_key(*place), 0

    def uniform(self) -> float:
        """Return the next number."""
        self.drawn += 1
        return uniform_of(word_at(self.key, self.drawn - 1))

    def uniforms(self, count: int) -> Floats:
        """Return the next few numbers."""
        counters = np.arange(self.drawn, self.drawn + count, dtype=np.uint64)
        self.drawn += count
        return uniforms(words(self.key, counters))

    def share_below(self, chance: float, count: int) -> float:
        """Return how large a part of the next numbers is below a chance; count them in pieces."""
        below = 0
        for drawn in range(0, count, PIECE):
            below += int(np.count_nonzero(self.uniforms(min(PIECE, count - drawn)) < chance))
        return below / count

    def one_of(self, choices: Sequence[int]) -> int:
        """Return one of some numbers, each as likely."""
        return choices[int(self.uniform() * len(choices))]

    def shuffled(self, count: int) -> list[int]:
        """Return 0 … count − 1 in any order."""
        order: list[int] = np.argsort(self.uniforms(count), kind="stable").tolist()
        return order


def read_means(means: Sequence[float]) -> Floats:
    """Return probabilities of 1, at least two of them, or refuse them."""
    found = np.asarray(means, dtype=np.float64)
    if found.ndim != 1 or found.size < 2 or not ((found >= 0.0) & (found <= 1.0)).all():
        raise InputError(f"means are {means}; give at least two numbers from 0 to 1, one per arm")
    return found


def read_chances(means: ArrayLike) -> Floats:
    """Return an array of reward probabilities, of any shape."""
    try:
        found = np.asarray(means, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "means are not an array of numbers; give numbers from 0 to 1, in rows of equal length"
        ) from None
    outside = found[~((found >= 0.0) & (found <= 1.0))]
    if outside.size:
        raise InputError(f"a mean is {outside[0]:.12g}; give numbers from 0 to 1")
    return found


def read_table(means: ArrayLike) -> Floats:
    """Return a table of reward probabilities, one row per agent and one column per arm."""
    found = read_chances(means)
    if found.ndim != 2 or found.shape[0] < 1 or found.shape[1] < 2:
        raise InputError(
            f"means have shape {found.shape}; give one row per agent with a number for each of at "
            "least two arms"
        )
    return found


def vary(means: Sequence[float], agents: int, spread: float) -> Floats:
    r"""Return a table of means that differ between agents and average to `means`.

    Agent i has :math:`\mu_{ik} = \mu_k + s\cos 2π(i/N + k/K)`, so that agents prefer different
    arms; the cosines of N > 1 agents add up to 0.
    """
    chances = read_means(means)
    require_sizes(agents=agents)
    room = float(min(chances.min(), 1.0 - chances.max()))
    if not 0.0 <= spread <= room + 1e-12:  # 1 − 0.9 is a little less than 0.1
        raise InputError(
            f"spread is {spread}; means plus and minus the spread must stay between 0 and 1, so "
            f"give a number from 0 to {room:.12g}"
        )
    if agents == 1:
        return chances[None, :]
    turns = np.arange(agents)[:, None] / agents + np.arange(chances.size) / chances.size
    table: Floats = np.clip(chances + spread * np.cos(2.0 * np.pi * turns), 0.0, 1.0)
    return table


def require_sizes(**counts: int) -> None:
    """Refuse numbers of players, rounds and runs that are none."""
    for name, value in counts.items():
        require_count(name, value, least=0 if name == "seed" else 1)


def require_chance(name: str, value: float) -> None:
    """Refuse all but numbers between 0 and 1."""
    require_number(name, value, "a number between 0 and 1", 0.0, 1.0)

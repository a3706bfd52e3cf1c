"""ε-greedy: mostly the best arm so far, now and then any arm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.checks import require_positive
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.core.index.index import Floats, Index

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView


def largest_of(values: Floats) -> int:
    """Return the lowest arm within rounding of the largest value, as `best_arm` does."""
    largest = values[0]
    for k in range(1, len(values)):
        largest = max(largest, values[k])
    if abs(largest) < math.inf:
        largest -= 1e-9 * max(1.0, abs(largest))
    for k in range(len(values)):
        if values[k] >= largest:
            return k
    return 0


LOWEST = -1.7976931348623157e308
"""The lowest finite number; −∞ marks arms that must not be picked."""


def any_of(values: Floats, uniform: float, least: float) -> int:
    """Return an arm at random among those whose value reaches a bound."""
    reaching = 0
    for k in range(len(values)):
        reaching += values[k] >= least
    left = int(uniform * reaching)
    for k in range(len(values)):
        if values[k] >= least:
            if left == 0:
                return k
            left -= 1
    return 0


@dataclass(frozen=True)
class EpsilonGreedy(Index):
    r"""ε-greedy with decay (Auer, Cesa-Bianchi, Fischer 2002).

    With probability :math:`ε_s = \min(1, c K/s)` any arm, otherwise the one with the largest mean.

    Parameters
    ----------
    constant : float
        c; the theorem asks for more than 5 over the square of the smallest gap.

    Notes
    -----
    s is the time of the estimate, so agents that share their pulls share exploration as well. An
    arm without information comes before all others. *Differs from the paper*: there c stands over
    the square of a bound on the gap, a second parameter.
    """

    constant: float = 5.0
    name: ClassVar[str] = "epsilon-greedy"
    prepare_reads: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        """Refuse a rate that is no rate."""
        require_positive("constant", self.constant)

    @property
    def bonus_constant(self) -> None:
        """There is no bonus."""
        return

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """c."""
        del view
        return (self.constant,)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Return the mean of one arm."""
        count = estimate.counts[arm]
        if count <= NO_INFORMATION * estimate.num_agents:
            return math.inf
        mean: float = estimate.sums[arm] / count
        return mean

    @staticmethod
    def pick(
        values: Floats, estimate: Estimate, word: int, numbers: Floats, scratch: Floats
    ) -> int:
        """Explore with probability ε_s."""
        best = largest_of(values)
        epsilon = numbers[0] * len(values) / estimate.time
        if values[best] == math.inf or uniform_of(word_at(word, 0)) >= epsilon:
            return best
        return any_of(values, uniform_of(word_at(word, 1)), LOWEST)

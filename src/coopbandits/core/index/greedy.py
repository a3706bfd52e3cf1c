"""Explicit exploration: ε-greedy, and successive elimination."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.checks import require_positive
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.core.index.index import Floats, Index, require_horizon

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
        require_positive("constant", self.constant)

    @property
    def bonus_constant(self) -> None:
        return

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """c."""
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


@dataclass(frozen=True)
class Elimination(Index):
    r"""Successive elimination (Even-Dar, Mannor, Mansour 2006), as in Coop-SE (Barnea et al. 2024).

    With :math:`w_k = \sqrt{2σ^2 \ln(K N T^2)/n_k}` an arm is out while
    :math:`\hat\mu_k + w_k < \max_l(\hat\mu_l - w_l)`; all others are equally likely.

    Parameters
    ----------
    horizon : int or None
        T; None for the time s of the estimate in its place, which is known without it.

    Notes
    -----
    An arm without information comes before all others. Whether an arm is out follows from the
    totals alone, so nothing is remembered; if only arms that are out may be played, the one that is
    nearest to the bound is. *Differs from the paper*, whose agents take turns through the arms that
    are left: here each pull is a draw.
    """

    horizon: int | None = None
    name: ClassVar[str] = "elimination"
    prepare_reads: ClassVar[str] = "arms"

    def __post_init__(self) -> None:
        require_horizon(self.horizon)

    @property
    def bonus_constant(self) -> None:
        return

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """2σ² and T, 0 if it is not known."""
        return 2.0 * view.sigma**2, float(self.horizon or 0)

    def scratch_size(self, num_arms: int) -> int:
        """The level, and the largest lower bound."""
        return 2

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Write 2σ² ln(K N T²), and the largest lower bound."""
        horizon = numbers[1] if numbers[1] > 0.0 else estimate.time
        arms = len(estimate.counts)
        inside = max(1.0, arms * max(1.0, estimate.num_agents)) * max(1.0, horizon) ** 2
        scratch[0] = numbers[0] * math.log(inside)
        scratch[1] = -math.inf
        for k in range(arms):
            count = estimate.counts[k]
            if count > NO_INFORMATION * estimate.num_agents:
                lower = estimate.sums[k] / count - math.sqrt(scratch[0] / count)
                scratch[1] = max(scratch[1], lower)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Return by how much an arm's upper bound exceeds the largest lower bound."""
        count = estimate.counts[arm]
        if count <= NO_INFORMATION * estimate.num_agents:
            return math.inf
        excess: float = estimate.sums[arm] / count + math.sqrt(scratch[0] / count) - scratch[1]
        return excess

    @staticmethod
    def pick(
        values: Floats, estimate: Estimate, word: int, numbers: Floats, scratch: Floats
    ) -> int:
        """Return any arm without information, else any that is not out, else the nearest."""
        largest = values[0]
        for k in range(1, len(values)):
            largest = max(largest, values[k])
        least = largest if largest == math.inf else min(largest, 0.0)
        return any_of(values, uniform_of(word_at(word, 0)), least)

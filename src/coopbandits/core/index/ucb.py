"""Upper confidence bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.checks import require_positive
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.index.index import Floats, Index

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView


def ucb(total: float, count: float, least: float, exploration: float) -> float:
    """Return total/count + sqrt(exploration/count), or +∞ for a count up to `least`."""
    if count <= least:
        return math.inf
    return total / count + math.sqrt(exploration / count)


@dataclass(frozen=True)
class UCB(Index):
    r"""The upper confidence bound of Auer, Cesa-Bianchi and Fischer (2002).

    .. math:: \hat\mu_k + \sqrt{B σ^2 \ln s / n_k}

    Parameters
    ----------
    constant : float
        B. 2 makes it the KL-UCB of Gaussian rewards; policies of papers pass their own.

    Notes
    -----
    s is the time of the estimate: the pulls behind it. *Differs from the paper*: the constant is a
    parameter (there B σ² = 2 for rewards in [0, 1]); an arm without information has index +∞.
    """

    constant: float = 2.0
    name: ClassVar[str] = "ucb"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        """Refuse a bonus that is no bonus."""
        require_positive("constant", self.constant)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """B σ²."""
        return (self.constant * view.sigma**2,)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """B σ² ln s."""
        scratch[0] = numbers[0] * math.log(estimate.time)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Return the upper confidence bound of one arm."""
        least = NO_INFORMATION * estimate.num_agents
        return ucb(estimate.sums[arm], estimate.counts[arm], least, scratch[0])

    @staticmethod
    def bonus(estimate: Estimate, numbers: Floats, scratch: Floats) -> tuple[float, float]:
        """B σ² ln s, and nothing."""
        return scratch[0], 0.0

"""MOSS: a bonus that ends once an arm has had its share of pulls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.checks import require_positive
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.index.index import Floats, Index, require_horizon

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView


@dataclass(frozen=True)
class MOSS(Index):
    r"""MOSS (Audibert, Bubeck 2009), and anytime MOSS (Degenne, Perchet 2016).

    .. math:: \hat\mu_k + \sqrt{B σ^2 \max(0, \ln(s/(K n_k)))/n_k}

    Parameters
    ----------
    horizon : int or None
        s: all pulls of the network together, N T. None for the time of the estimate, which makes
        it anytime.
    constant : float
        B; 4 is the paper's, whose rewards lie in [0, 1] and so have σ = 1/2.

    Notes
    -----
    *Differs from the paper*: an arm without information has index +∞.
    """

    horizon: int | None = None
    constant: float = 4.0
    name: ClassVar[str] = "moss"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        require_horizon(self.horizon)
        require_positive("constant", self.constant)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """B σ², and the horizon or 0."""
        return self.constant * view.sigma**2, float(self.horizon or 0)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Write s/K."""
        time = numbers[1] if numbers[1] > 0.0 else estimate.time
        scratch[0] = time / len(estimate.counts)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Return the bound of one arm."""
        count = estimate.counts[arm]
        if count <= NO_INFORMATION * estimate.num_agents:
            return math.inf
        level = max(0.0, math.log(scratch[0] / count))
        mean: float = estimate.sums[arm] / count
        return mean + math.sqrt(numbers[0] * level / count)

"""Upper confidence bounds: UCB, MOSS, and a bound for rewards with heavy tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.checks import require_moment, require_positive
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.index.index import Floats, Index, require_horizon

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
        least = NO_INFORMATION * estimate.num_agents
        return ucb(estimate.sums[arm], estimate.counts[arm], least, scratch[0])

    @staticmethod
    def bonus(estimate: Estimate, numbers: Floats, scratch: Floats) -> tuple[float, float]:
        """B σ² ln s, and nothing."""
        return scratch[0], 0.0


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
        count = estimate.counts[arm]
        if count <= NO_INFORMATION * estimate.num_agents:
            return math.inf
        level = max(0.0, math.log(scratch[0] / count))
        mean: float = estimate.sums[arm] / count
        return mean + math.sqrt(numbers[0] * level / count)


@dataclass(frozen=True)
class RobustUCB(Index):
    r"""Robust UCB (Bubeck, Cesa-Bianchi, Lugosi 2013) for truncated means.

    .. math:: \hat\mu_k + c\,u^{1/p}\left(\frac{2\ln s}{n_k}\right)^{(p-1)/p}

    Parameters
    ----------
    limit : float
        u, a bound on :math:`E|X|^p`.
    moment : float
        p, above 1 and at most 2.
    constant : float
        c; the theorem takes 4.

    Notes
    -----
    s is the time of the estimate. It knows no σ, which need not exist; its means should come from
    the source `truncated`, with the same u and p. *Differs from the paper* as that does.
    """

    limit: float = 1.0
    moment: float = 2.0
    constant: float = 4.0
    name: ClassVar[str] = "robust-ucb"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        require_positive("limit", self.limit)
        require_moment(self.moment)
        require_positive("constant", self.constant)

    @property
    def bonus_constant(self) -> None:
        return

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """c u^{1/p}, and (p − 1)/p."""
        p = self.moment
        return self.constant * self.limit ** (1.0 / p), (p - 1.0) / p

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """2 ln s."""
        scratch[0] = 2.0 * math.log(estimate.time)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        count = estimate.counts[arm]
        if count <= NO_INFORMATION * estimate.num_agents:
            return math.inf
        value: float = estimate.sums[arm] / count + numbers[0] * (scratch[0] / count) ** numbers[1]
        return value

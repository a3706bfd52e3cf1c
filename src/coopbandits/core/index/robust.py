"""An upper confidence bound for rewards with heavy tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.checks import require_moment, require_positive
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.index.index import Floats, Index

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView


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
        """Refuse settings outside what it is defined for."""
        require_positive("limit", self.limit)
        require_moment(self.moment)
        require_positive("constant", self.constant)

    @property
    def bonus_constant(self) -> None:
        """The bonus has another form."""
        return

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """c u^{1/p}, and (p − 1)/p."""
        del view
        p = self.moment
        return self.constant * self.limit ** (1.0 / p), (p - 1.0) / p

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """2 ln s."""
        scratch[0] = 2.0 * math.log(estimate.time)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Return the upper confidence bound of one arm."""
        count = estimate.counts[arm]
        if count <= NO_INFORMATION * estimate.num_agents:
            return math.inf
        value: float = estimate.sums[arm] / count + numbers[0] * (scratch[0] / count) ** numbers[1]
        return value

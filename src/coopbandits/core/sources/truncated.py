"""Truncation: rewards too large for what is known of their arm count as 0.

For rewards with heavy tails, of which no variance need exist.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.checks import require_number, require_positive
from coopbandits.core.sources.source import Source, Tap

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView

MOMENTS = "a number above 1, and at most 2"


def require_moment(moment: float) -> None:
    """Refuse all but 1 < p ≤ 2."""
    require_number("moment", moment, MOMENTS, 1.0, math.nextafter(2.0, math.inf))


@dataclass(frozen=True)
class Truncated(Source):
    r"""Truncation at the source, for rewards with :math:`E|X|^p \le u`.

    A reward counts as 0 where :math:`|X| > (u\,n_k/\ln s^2)^{1/p}`, with :math:`n_k` the pulls of
    its arm that the agent knows of, this one included, and s all of them (the truncated mean of
    Bubeck, Cesa-Bianchi and Lugosi 2013, its samples in the order in which they are made).

    Parameters
    ----------
    limit : float
        u.
    moment : float
        p, above 1 and at most 2.

    Notes
    -----
    Goes with the index `robust-ucb`, whose bonus needs no variance. *Differs from the paper*, in
    which one agent sees all samples: here each truncates by what it knows when it pulls, so sums
    stay sums, and thresholds lag behind by as long as news takes. No bound is proven for that.
    """

    limit: float
    moment: float = 2.0
    name: ClassVar[str] = "truncated"
    keeps_range: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings outside what it is defined for."""
        require_positive("limit", self.limit)
        require_moment(self.moment)

    def make(self, view: LocalView) -> TruncatingTap:
        """Return what one agent's rewards pass."""
        del view
        return TruncatingTap(self.limit, self.moment)


class TruncatingTap(Tap):
    """Remembers nothing: thresholds follow from the agent's estimate."""

    def __init__(self, limit: float, moment: float) -> None:
        self.limit, self.moment = limit, moment

    def drawn(self, arm: int, reward: float, estimate: Estimate) -> float:
        """Return a reward that is not too large, and else 0."""
        count = float(estimate.counts[arm]) + 1.0
        largest = (self.limit * count / (2.0 * math.log(max(2.0, estimate.time)))) ** (
            1.0 / self.moment
        )
        return reward if abs(reward) <= largest else 0.0

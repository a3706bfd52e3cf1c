"""Truncation: rewards too large for what is known of their arm count as 0.

For rewards with heavy tails, of which no variance need exist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core.checks import require_number, require_positive
from coopbandits.core.sources.source import Source

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
    derived: ClassVar[tuple[str, ...]] = ("limit", "moment")

    def __post_init__(self) -> None:
        """Refuse settings outside what it is defined for."""
        require_positive("limit", self.limit)
        require_moment(self.moment)

    def fields(self, num_arms: int) -> Mapping[str, Any]:
        """Return the settings; thresholds follow from the agent's estimate."""
        del num_arms
        return {"limit": float, "moment": float}

    def start(self, s: Any, view: LocalView) -> None:
        """Note the settings."""
        del view
        s.me.limit, s.me.moment = self.limit, self.moment

    @staticmethod
    def drawn(s: Any, arm: int, reward: float, estimate: Estimate) -> float:
        """Return a reward that is not too large, and else 0."""
        count = estimate.counts[arm] + 1.0
        known = s.me.limit * count / (2.0 * math.log(max(2.0, estimate.time)))
        return reward if abs(reward) <= known ** (1.0 / s.me.moment) else 0.0

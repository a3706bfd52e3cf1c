"""Coop-SE: all agents' totals, and elimination on them.

Barnea, Lancewicki and Mansour, "Individual regret in cooperative stochastic multi-armed bandits",
2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate import FloodedTotals
from coopbandits.core.index import Elimination
from coopbandits.core.policy import Parts, Policy


@dataclass(frozen=True)
class CoopSE(Policy):
    r"""Coop-SE (Barnea, Lancewicki, Mansour 2024): flooded totals × successive elimination.

    Plays any arm that is not out: arm k is out while :math:`\hat\mu_k + w_k < \max_l(\hat\mu_l -
    w_l)`, :math:`w_k = \sqrt{2σ^2 \ln(K N T^2)/n_k}`.

    Parameters
    ----------
    horizon : int or None
        T; None for the number of pulls known, in its place.
    lazy : float
        Totals are sent again once some count has grown by this share; 0 for always.

    Notes
    -----
    Knows who its neighbours are. Sends what `FloodUCB` does.

    *Differs from the paper*, of which only the abstract was available to us: the rule is
    reconstructed, eliminations follow from the totals and are not told beside them, and an agent
    draws one of the arms left instead of taking turns.
    """

    horizon: int | None = None
    lazy: float = 0.0
    name: ClassVar[str] = "coop-se"

    @property
    def parts(self) -> Parts:
        return Parts(FloodedTotals(lazy=self.lazy), Elimination(self.horizon))

r"""Partial pooling: how much the pulls of others tell an agent whose arms may be a bit different.

The model is :math:`\mu_{ik} = \mu_k + τ ξ_{ik}` with standard normal ξ: sites differ by a spread τ.
What others saw of arm k, :math:`n_o` pulls, is then a prior for the own mean, as good as

.. math:: e_k = \frac{c\,n_o\,σ^2}{σ^2 + c\,n_o\,τ^2 (1 + h)}

own pulls of the same average, c being the anticipation and h what the others' own differences add:
:math:`\sum_j n_j^2/n_o^2` over the others where that is known, else 1 / (N̂ − 1) as if they had
pulled equally often. An agent reads its own totals and so much of the others'. With τ = 0 that is
all of it, with τ = ∞ nothing, and in between no more than σ²/τ² pulls however many there are: so an
agent that has pulled more than that goes by what it saw itself. Every index can be played on it.

**The spread estimated.** Where agents also add up :math:`\sum s_{jk}^2/n_{jk}` and
:math:`\sum n_{jk}^2` (`SiteSums`), the scatter of sites about the network's means,
:math:`Q = \sum_{jk} n_{jk}(\bar x_{jk} - \bar x_k)^2`, tells τ by its expectation
:math:`fσ^2 + Dτ^2`, with f the pairs of site and arm less the arms, and
:math:`D = \sum_k (n_k - \sum_j n_{jk}^2/n_k)` (DerSimonian and Laird 1986). Of Q, chance alone is
granted two standard deviations, :math:`2σ^2\sqrt{2f}`: sites that are alike pool everything.

*Differs from the paper*: none has it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coopbandits.core.checks import require_number
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import ArmSums, SiteSums, Statistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coopbandits.core.aggregate.aggregation import Aggregation
    from coopbandits.core.contract import Estimate, Share, Vector

ESTIMATE = "estimate"
"""The spread is to be estimated from what travels."""

CHANCE = 2.0
"""Standard deviations of Q that are put down to chance."""

WARNING = 3.0
"""Standard deviations from which on sites are said to differ."""

Spread = float | str | None


class Scatter(NamedTuple):
    """How much sites differ.

    Attributes
    ----------
    ratio : float
        Q over what chance makes of it, fσ²: about 1 where sites are alike, larger where they are
        not; not a number as long as no two sites have pulled the same arm.
    freedom : float
        f, how many differences there are.
    spread : float
        τ̂, how far their means are apart, in units of reward.
    """

    ratio: float
    freedom: float
    spread: float

    @property
    def differs(self) -> bool:
        """Whether that is more than chance makes of it."""
        return self.ratio > 1.0 + WARNING * math.sqrt(2.0 / max(1.0, self.freedom))


class Sites(NamedTuple):
    """What is added up of all sites: Σ s²/n, Σ n² per arm, pairs of site and arm, all squares."""

    explained: float
    squared_counts: Vector
    pairs: float
    squares: float


def require_spread(spec: Aggregation, spread: Spread) -> None:
    """Refuse all but a spread, "estimate", and None for full pooling."""
    if spread is not None and spec.forgets:
        raise InputError(
            f"spread is {spread} where older pulls are forgotten, and what is left of them does "
            "not tell how sites differ; leave one of them out"
        )
    if spread is None or spread == ESTIMATE or spread == math.inf:
        return
    accepted = 'a number from 0 on, inf, "estimate", or none to pool everything'
    require_number("spread", spread, accepted, -math.ulp(0.0), math.inf)


def carried(spread: Spread, asked: Statistic) -> Statistic:
    """Return what must be added up, for an index that asks for a statistic."""
    if spread is None:
        return asked
    if asked != ArmSums():
        raise InputError(
            f"spread is {spread} for an index that asks for {asked.spelling}, and parts of others' "
            "pulls can only be added to plain sums; tell σ, and take an index without context"
        )
    return SiteSums() if spread == ESTIMATE else asked


def scatter(sums: Vector, counts: Vector, sites: Sites, variance: float) -> Scatter:
    """Return how much sites differ, from the network's totals and the variance of rewards."""
    seen = counts > 0.0
    total, pulls = sums[seen], counts[seen]
    freedom = sites.pairs - pulls.size
    between = max(0.0, sites.explained - float((total**2 / pulls).sum()))
    room = float((pulls - sites.squared_counts[seen] / pulls).sum())
    return _scatter(between, freedom, variance, room)


def _scatter(between: float, freedom: float, variance: float, room: float) -> Scatter:
    """Return what Q, f, σ² and D say."""
    if freedom <= 0.0 or room <= 0.0:
        return Scatter(math.nan, max(0.0, freedom), 0.0)
    chance = variance * (freedom + CHANCE * math.sqrt(2.0 * freedom))
    expected = variance * freedom
    ratio = between / expected if expected > 0.0 else (math.inf if between > 0.0 else 1.0)
    return Scatter(ratio, freedom, math.sqrt(max(0.0, between - chance) / room))


def scatter_of(
    sums: NDArray[np.float64], counts: NDArray[np.float64], sigma: float, bounded: bool = False
) -> Scatter:
    """Return how much sites differ whose totals (site, arm) are all known.

    Rewards in 0 to 1 of mean m have a variance of at most m(1 − m), which is far below σ² where
    successes are rare; arms are then weighed by that.
    """
    total, pulls = sums.sum(axis=0), counts.sum(axis=0)
    means = total / np.where(pulls > 0.0, pulls, 1.0)
    variances = np.full(pulls.size, sigma**2)
    if bounded:
        variances = np.minimum(variances, np.clip(means * (1.0 - means), 0.0, None))
    used = (pulls > 0.0) & (variances > 0.0)
    seen = (counts > 0.0) & used
    freedom = float(seen.sum() - used.sum())
    if not used.any():
        return Scatter(math.nan, 0.0, 0.0)
    deviations = np.where(seen, sums - counts * means, 0.0) ** 2 / np.where(seen, counts, 1.0)
    # As if all arms had the variance of the average pull: a single one takes part in `_scatter`.
    typical = float((variances * pulls)[used].sum() / pulls[used].sum())
    between = float((deviations.sum(axis=0)[used] / variances[used]).sum()) * typical
    room = pulls - (counts**2).sum(axis=0) / np.where(pulls > 0.0, pulls, 1.0)
    return _scatter(
        between, freedom, typical, float((room[used] / variances[used]).sum() * typical)
    )


def within(sites: Sites, pulls: float, sigma: float) -> float:
    """Return the variance of rewards at single sites, as far as enough pulls tell it, else σ²."""
    freedom = pulls - sites.pairs
    if freedom < max(30.0, sites.pairs):
        return sigma**2
    return max(0.0, sites.squares - sites.explained) / freedom


def pooled(estimate: Estimate, own: Share, spread: Spread, sigma: float) -> Estimate:
    """Return an estimate in which others' pulls count as much as sites are alike.

    Parameters
    ----------
    estimate : Estimate
        Everybody's totals, with those of `SiteSums` where the spread is to be estimated.
    own : Share
        The agent's own, which are among them.
    spread : float or "estimate"
        τ.
    sigma : float
        σ, as it was told.
    """
    others = np.maximum(estimate.counts - own.counts, 0.0)
    if isinstance(spread, str):
        *squared_counts, squares, explained, pairs = estimate.extra
        sites = Sites(explained, np.array(squared_counts), pairs, squares)
        variance = within(sites, float(estimate.counts.sum()), sigma)
        known = scatter(estimate.sums, estimate.counts, sites, variance).spread
        squared = np.maximum(sites.squared_counts - own.counts**2, 0.0)
        uneven: Any = squared / np.where(others > 0.0, others, 1.0) ** 2
    else:
        variance, known = sigma**2, float(spread or 0.0)
        uneven = 1.0 / max(1.0, estimate.num_agents - 1.0)
    factor = _factor(others * estimate.anticipation, known, variance, uneven)
    weight = estimate.anticipation * factor
    counts = own.counts + weight * others
    total, mine = float(counts.sum()), float(own.counts.sum())
    return estimate._replace(
        sums=own.sums + weight * (estimate.sums - own.sums),
        counts=counts,
        time=max(2.0, total),
        num_agents=max(1.0, total / mine) if mine > 0.0 else estimate.num_agents,
        anticipation=1.0,
        extra=(),
    )


def _factor(others: Vector, spread: float, variance: float, uneven: Any) -> Vector:
    """Return the share at which others' pulls count."""
    if spread == 0.0:
        return np.ones_like(others)
    if spread == math.inf or variance == 0.0:
        return np.zeros_like(others)
    share: Vector = variance / (variance + others * spread**2 * (1.0 + uneven))
    return share

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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coopbandits.core.checks import require_number
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import ArmSums, SiteSums, Statistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coopbandits.core.aggregate.aggregation import AnyAggregation
    from coopbandits.core.contract import Vector

TIME, AGENTS, AHEAD = range(3)
"""Places in `about`: as in `fields`."""

ESTIMATE, ESTIMATED = "estimate", -1.0
"""The spread is to be estimated from what travels: the setting, and the number for it."""

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


def require_spread(spec: AnyAggregation, spread: Spread) -> None:
    """Check that a spread is a number, "estimate" or None, which pools everything."""
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
            'pulls can only be added to plain sums; set sigma to "known", and use an index without '
            "context"
        )
    return SiteSums() if spread == ESTIMATE else asked


def differences(totals: Vector, arms: int) -> tuple[float, float, float]:
    explained, freedom, room = 0.0, float(totals[3 * arms + 2]), 0.0
    for k in range(arms):
        pulls = totals[arms + k]
        if pulls > 0.0:
            explained += totals[k] ** 2 / pulls
            freedom -= 1.0
            room += pulls - totals[2 * arms + k] / pulls
    return max(0.0, totals[3 * arms + 1] - explained), freedom, room


def spread_of(between: float, freedom: float, variance: float, room: float) -> float:
    if freedom <= 0.0 or room <= 0.0:
        return 0.0
    chance = variance * (freedom + CHANCE * math.sqrt(2.0 * freedom))
    return math.sqrt(max(0.0, between - chance) / room)


def scatter(between: float, freedom: float, variance: float, room: float) -> Scatter:
    spread = spread_of(between, freedom, variance, room)
    if freedom <= 0.0 or room <= 0.0:
        return Scatter(math.nan, max(0.0, freedom), spread)
    expected = variance * freedom
    ratio = between / expected if expected > 0.0 else (math.inf if between > 0.0 else 1.0)
    return Scatter(ratio, freedom, spread)


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
    # As if all arms had the variance of the average pull: a single one takes part in `scatter`.
    typical = float((variances * pulls)[used].sum() / pulls[used].sum())
    between = float((deviations.sum(axis=0)[used] / variances[used]).sum()) * typical
    room = pulls - (counts**2).sum(axis=0) / np.where(pulls > 0.0, pulls, 1.0)
    return scatter(between, freedom, typical, float((room[used] / variances[used]).sum() * typical))


def within(totals: Vector, arms: int, sigma: float) -> float:
    """Return the variance of rewards at single sites, as far as enough pulls tell it, else σ²."""
    pulls = 0.0
    for k in range(arms):
        pulls += totals[arms + k]
    squares, explained, pairs = totals[3 * arms], totals[3 * arms + 1], totals[3 * arms + 2]
    freedom = pulls - pairs
    if freedom < max(30.0, pairs):
        return sigma**2
    return float(max(0.0, squares - explained) / freedom)


def pool(
    totals: Vector, own: Vector, about: Vector, arms: int, spread: float, sigma: float
) -> None:
    """Let others' pulls count as much as sites are alike, in sums and counts and `about` them.

    Parameters
    ----------
    totals : array
        The network's registers, those of `SiteSums` where the spread is to be estimated.
    own : array
        The agent's own, which are among them.
    about : array
        Time, number of agents and anticipation.
    arms : int
        K.
    spread : float
        τ, or `ESTIMATED`.
    sigma : float
        σ, as it was told.
    """
    is_estimated = spread == ESTIMATED
    variance, known, uneven = sigma**2, spread, 1.0 / max(1.0, about[AGENTS] - 1.0)
    if is_estimated:
        variance = within(totals, arms, sigma)
        between, freedom, room = differences(totals, arms)
        known = spread_of(between, freedom, variance, room)
    total = mine = 0.0
    for k in range(arms):
        count = own[arms + k]
        others = max(totals[arms + k] - count, 0.0)
        if is_estimated:
            squared = max(totals[2 * arms + k] - count**2, 0.0)
            uneven = squared / (others if others > 0.0 else 1.0) ** 2
        weight = about[AHEAD] * counted_share(others * about[AHEAD], known, variance, uneven)
        totals[k] = own[k] + weight * (totals[k] - own[k])
        totals[arms + k] = count + weight * others
        total, mine = total + totals[arms + k], mine + count
    about[TIME], about[AHEAD] = max(2.0, total), 1.0
    if mine > 0.0:
        about[AGENTS] = max(1.0, total / mine)


def counted_share(others: float, spread: float, variance: float, uneven: float) -> float:
    """Return the share at which others' pulls count."""
    if spread == 0.0:
        return 1.0
    if spread == math.inf or variance == 0.0:
        return 0.0
    return variance / (variance + others * spread**2 * (1.0 + uneven))

"""Arms whose rewards lie in an interval: Beta, and any distribution with a quantile function."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.errors import InputError
from coopbandits.problems.checks import above_zero, arm_values
from coopbandits.problems.problem import Problem
from coopbandits.problems.quantiles import (
    CELLS,
    Distribution,
    beta_table,
    cell_means,
    cell_table,
    mean_of_table,
)
from coopbandits.problems.rewards import LINEAR, RewardForm

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTERMOST = 1e-12
"""Quantiles are never asked for closer to 0 and 1 than this: at 0 a discrete scipy distribution
returns a number one below its support."""

MEAN_TOLERANCE = 1e-6
"""Largest accepted distance, in units of high − low, between a table's mean and the stated one."""

BETA_TOLERANCE = 1e-8
"""The same for a Beta table's mean and a/(a + b)."""


class BetaBandit(Problem):
    """Arm k pays Beta(a_k, b_k).

    σ² is the largest 1/(4(a + b + 1)) of the arms: every Beta(a, b) is sub-Gaussian with that
    variance proxy, and for a = b it is the variance itself, so no smaller one holds (Marchal and
    Arbel, "On the sub-Gaussianity of the Beta and Dirichlet distributions", 2017). The quantile
    function is tabulated (see `quantiles`); the mean is kept to 1e-8, and to 1e-11 for all but
    extreme parameters, and the proxy stays valid.

    Parameters
    ----------
    a, b : sequence of float
        Shape parameters of each arm, above 0.

    Examples
    --------
    >>> BetaBandit(a=[3.0, 1.0], b=[1.0, 1.0]).means
    array([0.75, 0.5 ])
    """

    family: ClassVar[str] = "bernoulli"
    _by_arm: ClassVar[tuple[str, ...]] = ("a", "b")

    def __init__(self, a: ArrayLike, b: ArrayLike) -> None:
        self.a, self.b = arm_values("a", a), arm_values("b", b)
        if self.a.size != self.b.size:
            raise InputError(
                f"a has {self.a.size} numbers but b has {self.b.size}; pass one of each per arm"
            )
        above_zero("a", self.a)
        above_zero("b", self.b)
        shapes = list(zip(self.a.tolist(), self.b.tolist(), strict=True))
        table = np.stack([_tabulate_beta(k, *shape) for k, shape in enumerate(shapes)])
        sigma = math.sqrt(1 / (4 * (min(x + y for x, y in shapes) + 1)))
        super().__init__([x / (x + y) for x, y in shapes], sigma, RewardForm(LINEAR, table))

    def describe(self) -> dict[str, Any]:
        """Return the shape parameters, and the means where these were moved from theirs."""
        was_moved = bool((self.means != self.a / (self.a + self.b)).any())
        means = {"means": self.means.tolist()} if was_moved else {}
        return {"problem": "beta", "a": self.a.tolist(), "b": self.b.tolist(), **means}


class BoundedBandit(Problem):
    """Arms with any distributions on a common interval [low, high].

    σ is (high − low)/2 (Hoeffding's lemma). Each quantile function is tabulated (see `quantiles`)
    and the table is the arm: `means` are the tables' means. They must agree with what the
    distributions report as their means to 1e-6 of the interval's length. Where a distribution jumps
    from one atom to the next, one cell of 4096 mixes both: use `BernoulliBandit` or `LoggedBandit`
    for arms with few values.

    Parameters
    ----------
    distributions : sequence
        One object per arm with `ppf(array)` and `mean()`, such as `scipy.stats.triang(0.3)`.
    low, high : float
        Interval that holds every reward.

    Examples
    --------
    >>> from scipy import stats
    >>> problem = BoundedBandit([stats.triang(0.2), stats.uniform(0, 1)])
    >>> problem.means.round(6), problem.sigma
    (array([0.4, 0.5]), 0.5)
    """

    def __init__(
        self, distributions: Sequence[Distribution], low: float = 0.0, high: float = 1.0
    ) -> None:
        self.low, self.high = _interval(low, high)
        arms = list(distributions)
        if not arms:
            raise InputError("distributions are empty, so there are no arms; pass at least one")
        table = np.stack([_tabulate(k, arm, self.low, self.high) for k, arm in enumerate(arms)])
        means = [mean_of_table(row) for row in table]
        super().__init__(means, (self.high - self.low) / 2, RewardForm(LINEAR, table))

    def describe(self) -> dict[str, Any]:
        """Return the interval, the means and a digest of the tables, which define the arms."""
        return {
            "problem": "bounded",
            "low": self.low,
            "high": self.high,
            "means": self.means.tolist(),
            "table_sha256": hashlib.sha256(self._form.table.tobytes()).hexdigest(),
        }


def _interval(low: float, high: float) -> tuple[float, float]:
    bounds = arm_values("bounds", [low, high])
    if bounds[0] >= bounds[1]:
        raise InputError(f"low is {low} and high is {high}; low must be below high, so swap them")
    return float(bounds[0]), float(bounds[1])


def _tabulate_beta(arm: int, a: float, b: float) -> NDArray[np.float64]:
    """Return the LINEAR row of Beta(a, b), or refuse parameters beyond double precision."""
    row = beta_table(a, b)
    # Negated, so that NaN is refused too.
    if not abs(mean_of_table(row) - a / (a + b)) <= BETA_TOLERANCE:
        raise InputError(
            f"the quantiles of Beta({a}, {b}), arm {arm}, cannot be computed accurately; "
            "use less extreme parameters, such as 1e-4 to 1e6"
        )
    return row


def _tabulate(arm: int, source: Distribution, low: float, high: float) -> NDArray[np.float64]:
    """Return the LINEAR row of one distribution, or refuse one that does not fit."""
    if not (callable(getattr(source, "ppf", None)) and callable(getattr(source, "mean", None))):
        raise InputError(
            f"distribution of arm {arm} is {type(source).__name__}, which lacks ppf or mean; "
            "pass an object with both, such as scipy.stats.uniform(0, 1)"
        )

    def quantile(chances: NDArray[np.float64]) -> NDArray[np.float64]:
        # scipy.stats.uniform(0.1, 0.2) ends an ulp above 0.3, so allow for rounding.
        values = np.asarray(source.ppf(chances), dtype=np.float64)
        _check_quantiles(arm, values, low, high)
        return np.clip(values, low, high)

    grid = np.clip(np.arange(CELLS + 1) / CELLS, OUTERMOST, 1 - OUTERMOST)
    edges = quantile(grid)
    if (np.diff(edges) < -1e-9 * (high - low)).any():
        raise InputError(f"ppf of arm {arm} decreases somewhere; pass a quantile function")
    row = cell_table(edges, cell_means(quantile, grid, edges))
    _check_mean(arm, mean_of_table(row), float(source.mean()), high - low)
    return row


def _check_quantiles(arm: int, values: NDArray[np.float64], low: float, high: float) -> None:
    slack = 1e-9 * (high - low)
    # Negated, so that NaN is refused too.
    wrong = values[~((values >= low - slack) & (values <= high + slack))]
    if wrong.size:
        raise InputError(
            f"distribution of arm {arm} reaches {wrong.flat[0]}, outside low = {low} to "
            f"high = {high}; widen the interval or truncate the distribution"
        )


def _check_mean(arm: int, table: float, stated: float, length: float) -> None:
    if not abs(table - stated) <= MEAN_TOLERANCE * length:
        raise InputError(
            f"distribution of arm {arm} states mean {stated} but its quantiles have mean {table}; "
            "make ppf and mean describe the same distribution"
        )

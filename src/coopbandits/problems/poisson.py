"""Arms that pay counts."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.errors import InputError
from coopbandits.problems.checks import above_zero, arm_values
from coopbandits.problems.problem import Problem
from coopbandits.problems.proxies import FINEST, smallest_proxy

LARGEST_MEAN = 1e6
"""A table has about 17 √mean entries."""


class PoissonBandit(Problem):
    """Arm k pays a Poisson count with mean_k.

    No σ is a variance proxy of a Poisson distribution. But the tape's uniforms lie between 2⁻⁵³ and
    1 − 2⁻⁵³, so that counts are bounded; σ is that of what is played, 1.93 for the mean 1 and 11.1
    for 100. A smaller `sigma`, such as √mean, explores less and promises nothing.

    Parameters
    ----------
    means : sequence of float
        Expected count of each arm, above 0 and up to 10⁶.
    sigma : float, optional
        Takes the place of the σ above.

    Examples
    --------
    >>> PoissonBandit([1.0, 2.0], sigma=1.5)
    PoissonBandit(means=[1.0, 2.0], sigma=1.5)
    """

    _ragged: ClassVar[bool] = True

    def __init__(self, means: ArrayLike, sigma: float | None = None) -> None:
        rates = arm_values("means", means)
        above_zero("means", rates)
        if rates.max() > LARGEST_MEAN:
            raise InputError(
                f"means of arm {rates.argmax()} is {rates.max():g}; Poisson counts are tabulated "
                f"up to a mean of {LARGEST_MEAN:g}, and beyond, GaussianBandit with sigma = √mean "
                "is as good"
            )
        rows = {rate: _row(rate) for rate in set(rates.tolist())}
        if sigma is None:
            sigma = math.sqrt(max(_proxy(rate, row) for rate, row in rows.items()))
        table = np.ones((rates.size, max(row.size for row in rows.values())))
        for place, rate in enumerate(rates.tolist()):
            table[place, : rows[rate].size] = rows[rate]
        super().__init__(rates, sigma, numbers=table, bounds=(0.0, math.inf))

    def moved(self, change: ArrayLike) -> PoissonBandit:
        """Return counts of other means; a σ that was given stays."""
        other = PoissonBandit(self.means + arm_values("change", change))
        given = self.sigma != PoissonBandit(self.means).sigma
        return PoissonBandit(other.means, self.sigma) if given else other

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        """Return the quantile: the lowest count whose cumulated chance reaches the variate.

        `numbers` are the lowest count that is played, how many there are, and the cumulated chance
        of each.
        """
        low, high = 0, int(numbers[1]) - 1
        while low < high:
            middle = (low + high) // 2
            if numbers[2 + middle] < variate:
                low = middle + 1
            else:
                high = middle
        return float(numbers[0] + low)

    def describe(self) -> dict[str, Any]:
        """Return means and sigma."""
        return {"problem": "poisson", "means": self.means.tolist(), "sigma": self.sigma}


def _row(rate: float) -> NDArray[np.float64]:
    from scipy.special import pdtr

    reach = 9.0 * math.sqrt(rate)
    counts = np.arange(max(0, int(rate - reach - 10.0)), int(rate + reach + 60.0))
    cumulated = pdtr(counts, rate)
    first, last = np.searchsorted(cumulated, [2.0**-FINEST, 1.0 - 2.0**-FINEST])
    played = cumulated[first : last + 1]
    return np.concatenate([[float(counts[first]), played.size], played])


def _proxy(rate: float, row: NDArray[np.float64]) -> float:
    from scipy.special import pdtrc

    counts = row[0] + np.arange(row[1])
    # What lies beyond either end is played as the end, which has one word of the tape at least.
    beyond = np.concatenate([[1.0], pdtrc(counts[:-1], rate), [0.0]])
    chances = np.maximum(-np.diff(beyond), 0.0)
    chances[[0, -1]] = np.maximum(chances[[0, -1]], 2.0 ** (1 - FINEST))
    kept = chances > 0.0
    return smallest_proxy(counts[kept], chances[kept] / chances.sum())

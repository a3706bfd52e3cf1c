"""Arms with exponential rewards, such as waiting times."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coopbandits.problems.checks import above_zero, arm_values
from coopbandits.problems.problem import Problem
from coopbandits.problems.proxies import proxy_of_quantiles


class ExponentialBandit(Problem):
    """Arm k pays an exponential reward with mean_k.

    No σ is a variance proxy of an exponential distribution. But the tape's uniforms end at
    1 − 2⁻⁵³, so that rewards end at 36.7 means; σ is that of what is played, 4.23 of the largest
    mean. A smaller `sigma`, such as the standard deviation, explores less and promises nothing.

    Parameters
    ----------
    means : sequence of float
        Expected reward of each arm, above 0.
    sigma : float, optional
        Takes the place of the σ above.

    Examples
    --------
    >>> ExponentialBandit([1.0, 2.0], sigma=2.0)
    ExponentialBandit(means=[1.0, 2.0], sigma=2.0)
    """

    def __init__(self, means: ArrayLike, sigma: float | None = None) -> None:
        scales = arm_values("means", means)
        above_zero("means", scales)
        proxy = unit_sigma() * float(scales.max())
        sigma = proxy if sigma is None else sigma
        super().__init__(scales, sigma, bounds=(0.0, math.inf))

    def moved(self, change: ArrayLike) -> ExponentialBandit:
        """Return exponential rewards of other means; a σ that was given stays."""
        other = ExponentialBandit(self.means + arm_values("change", change))
        given = self.sigma != unit_sigma() * float(self.means.max())
        return ExponentialBandit(other.means, self.sigma) if given else other

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        """Return the quantile, −μ ln(1 − u)."""
        return float(-numbers[0] * math.log1p(-variate))

    def describe(self) -> dict[str, Any]:
        """Return means and sigma."""
        return {"problem": "exponential", "means": self.means.tolist(), "sigma": self.sigma}


@cache
def unit_sigma() -> float:
    """Return σ of an exponential reward with mean 1, as the tape plays it."""
    return math.sqrt(proxy_of_quantiles(lambda chances: -np.log1p(-chances)))

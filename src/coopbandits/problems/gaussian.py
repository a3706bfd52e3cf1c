"""Arms with normal rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coopbandits.problems.checks import arm_values, positive_number
from coopbandits.problems.problem import Problem
from coopbandits.problems.rewards import LOCATION_SCALE, RewardForm


class GaussianBandit(Problem):
    """Arm k pays N(mean_k, σ²).

    Parameters
    ----------
    means : sequence of float
        Expected reward of each arm.
    sigma : float
        Standard deviation of every arm, which is also the σ of the variance proxy.

    Examples
    --------
    >>> GaussianBandit(means=[1.0] + [0.8] * 16)
    GaussianBandit(means=[1.0, 0.8x16], sigma=1.0)
    """

    def __init__(self, means: ArrayLike, sigma: float = 1.0) -> None:
        locations = arm_values("means", means)
        scale = positive_number("sigma", sigma)
        table = np.column_stack([locations, np.full(locations.size, scale)])
        super().__init__(locations, scale, RewardForm(LOCATION_SCALE, table))

    def describe(self) -> dict[str, Any]:
        """Return means and sigma."""
        return {"problem": "gaussian", "means": self.means.tolist(), "sigma": self.sigma}

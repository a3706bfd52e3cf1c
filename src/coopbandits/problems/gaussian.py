"""Arms with normal rewards."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from coopbandits.problems.checks import arm_values, positive_values
from coopbandits.problems.parse import format_means
from coopbandits.problems.problem import Problem
from coopbandits.problems.rewards import LOCATION_SCALE, RewardForm


class GaussianBandit(Problem):
    """Arm k pays N(mean_k, σ_k²).

    Policies are told one σ, the largest: a variance proxy has to hold for every arm.

    Parameters
    ----------
    means : sequence of float
        Expected reward of each arm.
    sigma : float or sequence of float
        Standard deviation of every arm, or one per arm.

    Attributes
    ----------
    sigmas : array of shape (K,)
        Standard deviation of each arm; not writeable.

    Examples
    --------
    >>> GaussianBandit(means=[1.0] + [0.8] * 16)
    GaussianBandit(means=[1.0, 0.8x16], sigma=1.0)
    >>> GaussianBandit(means=[1.0, 0.8, 0.8], sigma=[2.0, 0.1, 0.1])
    GaussianBandit(means=[1.0, 0.8x2], sigma=[2.0, 0.1x2])
    """

    _by_arm: ClassVar[tuple[str, ...]] = ("sigmas",)

    def __init__(self, means: ArrayLike, sigma: ArrayLike = 1.0) -> None:
        locations = arm_values("means", means)
        self.sigmas = positive_values("sigma", sigma, locations.size)
        table = np.column_stack([locations, self.sigmas])
        super().__init__(locations, float(self.sigmas.max()), RewardForm(LOCATION_SCALE, table))

    def describe(self) -> dict[str, Any]:
        """Return means and sigma: one number where all arms share it."""
        alike = bool((self.sigmas == self.sigma).all())
        sigma = self.sigma if alike else self.sigmas.tolist()
        return {"problem": "gaussian", "means": self.means.tolist(), "sigma": sigma}

    def __repr__(self) -> str:
        sigma = self.describe()["sigma"]
        shown = sigma if isinstance(sigma, float) else f"[{format_means(sigma, most=8)}]"
        means = format_means(self.means, most=8)
        return f"{type(self).__name__}(means=[{means}], sigma={shown})"

"""Arms with heavy tails, cut at a cap.

A heavy-tailed reward has no variance proxy, and often no variance, so no policy that scales its
bonus by σ can be played on it. Cut at a cap it can: the reward is bounded then, its mean is known,
and σ follows. That is also what an application does that counts a latency of an hour as a minute.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from coopbandits.core.errors import InputError
from coopbandits.core.special import tail_point
from coopbandits.problems.checks import above_zero, arm_values, positive_number, positive_values
from coopbandits.problems.problem import Problem
from coopbandits.problems.proxies import proxy_of_quantiles

FEWEST_DEGREES = 2.0


class ParetoBandit(Problem):
    r"""Arm k pays min(X, cap) of a Pareto reward, P(X > x) = (scale/x)^shape for x above the scale.

    The tail falls as x^−shape: up to a shape of 2 the variance of X is infinite, up to 1 its mean.
    The mean of what is paid is finite in any case, scale + ∫ P(X > x) dx from the scale to the cap.
    σ is the smallest that holds for what is paid, at most (cap − scale)/2.

    Parameters
    ----------
    shapes : sequence of float
        Exponent of each arm's tail, above 0; the smaller, the heavier, and the larger the mean.
    scale : float or sequence of float
        The smallest reward of every arm, or one per arm; above 0.
    cap : float
        What larger rewards count as; above every scale. It must be given.
    sigma : float, optional
        Takes the place of the σ above.

    Examples
    --------
    >>> ParetoBandit([1.5, 2.0], cap=100.0).means.round(4)
    array([2.8 , 1.99])
    """

    _by_arm: ClassVar[tuple[str, ...]] = ("shapes", "scales")

    def __init__(
        self,
        shapes: ArrayLike,
        scale: ArrayLike = 1.0,
        *,
        cap: float | None = None,
        sigma: float | None = None,
    ) -> None:
        self.shapes = arm_values("shapes", shapes)
        above_zero("shapes", self.shapes)
        self.scales = positive_values("scale", scale, self.shapes.size)
        self.cap = _required_cap(cap)
        if self.cap <= self.scales.max():
            raise InputError(
                f"cap is {self.cap:g}, and the smallest reward of arm {self.scales.argmax()} is "
                f"{self.scales.max():g}; give a cap above every scale"
            )
        arms = list(zip(self.shapes.tolist(), self.scales.tolist(), strict=True))
        if sigma is None:
            sigma = max(s * _pareto_sigma(shape, self.cap / s) for shape, s in set(arms))
        numbers = np.column_stack([self.shapes, self.scales, np.full(len(arms), self.cap)])
        means = [s * _pareto_mean(shape, self.cap / s) for shape, s in arms]
        bounds = float(self.scales.min()), self.cap
        super().__init__(means, sigma, numbers=numbers, bounds=bounds)

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        """Return the quantile, s (1 − u)^(−1/shape), cut at the cap."""
        return float(min(numbers[1] * (1.0 - variate) ** (-1.0 / numbers[0]), numbers[2]))

    def describe(self) -> dict[str, Any]:
        """Return shapes, scales, cap and sigma."""
        return {
            "problem": "pareto",
            "shapes": self.shapes.tolist(),
            "scale": self.scales.tolist(),
            "cap": self.cap,
            "sigma": self.sigma,
        }


class StudentTBandit(Problem):
    """Arm k pays mean_k plus a Student-t deviation, scaled, and cut at ±cap.

    The tail falls as x^−degrees. The cut is the same on both sides, so means are as given. σ is the
    smallest that holds for what is paid, at most the cap.

    Parameters
    ----------
    means : sequence of float
        Expected reward of each arm.
    degrees : float or sequence of float
        Degrees of freedom of every arm, or one per arm; at least 2.
    scale : float or sequence of float
        What the deviation is multiplied by, for every arm, or one per arm; above 0.
    cap : float
        Largest deviation from the mean. It must be given.
    sigma : float, optional
        Takes the place of the σ above.

    Examples
    --------
    >>> StudentTBandit([1.0, 0.8], cap=20.0, sigma=2.0)
    StudentTBandit(means=[1.0, 0.8], sigma=2.0)
    """

    _by_arm: ClassVar[tuple[str, ...]] = ("degrees", "scales")

    def __init__(
        self,
        means: ArrayLike,
        degrees: ArrayLike = 3.0,
        scale: ArrayLike = 1.0,
        *,
        cap: float | None = None,
        sigma: float | None = None,
    ) -> None:
        locations = arm_values("means", means)
        self.degrees = positive_values("degrees", degrees, locations.size)
        if self.degrees.min() < FEWEST_DEGREES:
            raise InputError(
                f"degrees of arm {self.degrees.argmin()} is {self.degrees.min():g}; give at least "
                "2, or take ParetoBandit for heavier tails"
            )
        self.scales = positive_values("scale", scale, locations.size)
        self.cap = _required_cap(cap)
        arms = list(zip(self.degrees.tolist(), self.scales.tolist(), strict=True))
        if sigma is None:
            sigma = max(s * _student_sigma(degrees, self.cap / s) for degrees, s in set(arms))
        caps = np.full(len(arms), self.cap)
        numbers = np.column_stack([locations, self.degrees, self.scales, caps])
        bounds = float(locations.min()) - self.cap, float(locations.max()) + self.cap
        super().__init__(locations, sigma, numbers=numbers, bounds=bounds)

    def moved(self, change: ArrayLike) -> StudentTBandit:
        """Return the same deviations from other means."""
        means = self.means + arm_values("change", change)
        return StudentTBandit(means, self.degrees, self.scales, cap=self.cap, sigma=self.sigma)

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        """Return the mean and the quantile of the deviation, cut at ±cap."""
        away = numbers[2] * student_quantile(variate, numbers[1])
        return float(numbers[0] + max(-numbers[3], min(numbers[3], away)))

    def describe(self) -> dict[str, Any]:
        """Return means, degrees, scales, cap and sigma."""
        return {
            "problem": "student-t",
            "means": self.means.tolist(),
            "degrees": self.degrees.tolist(),
            "scale": self.scales.tolist(),
            "cap": self.cap,
            "sigma": self.sigma,
        }


def student_quantile(p: float, degrees: float) -> float:
    """Return the quantile of Student's t, for at least 2 degrees of freedom ν.

    If B has the distribution Beta(ν/2, ν/2), then √ν (2B − 1) / (2 √(B(1 − B))) is Student's t.
    """
    x, rest = tail_point(min(p, 1.0 - p), 0.5 * degrees, 0.5 * degrees)
    return math.copysign((x - rest) * math.sqrt(degrees / (x * rest)) / 2.0, p - 0.5)


def _required_cap(cap: float | None) -> float:
    if cap is None:
        raise InputError(
            "cap is not given, and a tail this heavy has no σ without one; pass the size at which "
            "rewards are cut, for example cap=100"
        )
    return positive_number("cap", cap)


def _pareto_mean(shape: float, cap: float) -> float:
    if shape == 1.0:
        return 1.0 + math.log(cap)
    return 1.0 + math.expm1((1.0 - shape) * math.log(cap)) / (1.0 - shape)


@lru_cache
def _pareto_sigma(shape: float, cap: float) -> float:
    return math.sqrt(proxy_of_quantiles(lambda u: np.minimum((1.0 - u) ** (-1.0 / shape), cap)))


@lru_cache
def _student_sigma(degrees: float, cap: float) -> float:
    from scipy.special import stdtrit

    return math.sqrt(proxy_of_quantiles(lambda u: np.clip(stdtrit(degrees, u), -cap, cap)))

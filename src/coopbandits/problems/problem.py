"""The contract of a problem: K arms, the same for every agent.

A problem has no randomness of its own. The driver's tape holds one variate per pull, and the pulled
arm turns it into a reward, so that every policy gets the same luck and every engine the same
rewards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.errors import InputError
from coopbandits.problems.checks import arm_values, distinct_names, frozen, positive_number
from coopbandits.problems.parse import format_means
from coopbandits.problems.rewards import LOCATION_SCALE, RewardForm, rewards_from_variates

Variate = Literal["normal", "uniform"]


class Problem(ABC):
    """K arms whose reward is a deterministic function of (arm, variate).

    A subclass passes its means, σ and reward form to this class and returns the settings that
    identify it from `describe`. Problems are immutable; equal settings make equal problems.

    Parameters
    ----------
    means : sequence of float
        Expected reward of each arm, exactly as the form yields it.
    sigma : float
        σ, the square root of the rewards' variance proxy: E exp(x(X − μ)) ≤ exp(x²σ²/2) for every
        arm and every real x.
    form : RewardForm
        How a variate becomes a reward.

    Attributes
    ----------
    num_arms : int
        K.
    means, gaps : array of shape (K,)
        Expected rewards, and their distances Δ from the largest one; not writeable.
    best_arm : int
        The lowest arm with the largest mean.
    sigma : float
        σ as above.
    arm_names : tuple of str or None
        What `named` calls the arms; None where they have only numbers.
    family : {"gaussian", "bernoulli"}
        The family that suits a policy with such a setting: "bernoulli" where all rewards lie in
        [0, 1], else "gaussian", which uses σ.
    """

    family: ClassVar[str] = "gaussian"
    arm_names: tuple[str, ...] | None = None

    def __init__(self, means: ArrayLike, sigma: float, form: RewardForm) -> None:
        self.means = arm_values("means", means)
        self.sigma = positive_number("sigma", sigma)
        self.num_arms = self.means.size
        self.best_arm = int(np.argmax(self.means))
        self.gaps = frozen(self.means[self.best_arm] - self.means)
        self._form = RewardForm(form.kind, frozen(form.table))

    def named(self, arm_names: Sequence[str]) -> Self:
        """Return the same problem with one name per arm, which results then show."""
        named = copy(self)
        named.arm_names = distinct_names(arm_names, self.num_arms)
        return named

    @property
    def variate(self) -> Variate:
        """What the tape must hold: standard normals, or uniforms in (0, 1)."""
        return "normal" if self._form.kind == LOCATION_SCALE else "uniform"

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the settings that identify this problem, as plain data for JSON."""

    def rewards(self, arms: ArrayLike, variates: ArrayLike) -> NDArray[np.float64]:
        """Return the reward of every pull.

        Parameters
        ----------
        arms : array of int
            Pulled arms, 0 … K−1.
        variates : array of float, same shape
            One number of the tape per pull, of the kind `variate` names.
        """
        pulled = np.asarray(arms)
        drawn = np.asarray(variates, dtype=np.float64)
        self._check_pulls(pulled, drawn)
        return rewards_from_variates(self._form, pulled, drawn)

    def kernel_form(self) -> RewardForm:
        """Return the rewards as plain data, for `reward_from_variate` in a compiled kernel."""
        return self._form

    def _check_pulls(self, arms: NDArray[Any], variates: NDArray[np.float64]) -> None:
        if arms.shape != variates.shape:
            raise InputError(
                f"arms have shape {arms.shape} but variates {variates.shape}; "
                "pass one variate per pull"
            )
        if arms.dtype.kind not in "iu":
            raise InputError(f"arms have type {arms.dtype}; pass whole numbers as an integer array")
        if arms.size and not (arms.min() >= 0 and arms.max() < self.num_arms):
            wrong = arms[(arms < 0) | (arms >= self.num_arms)].flat[0]
            raise InputError(
                f"arm {wrong} does not exist; arms are numbered 0 to {self.num_arms - 1}"
            )

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        same_names = self.arm_names == other.arm_names
        return same_names and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash((type(self), self.sigma, self.means.tobytes()))

    def __repr__(self) -> str:
        means = format_means(self.means, most=8)
        return f"{type(self).__name__}(means=[{means}], sigma={self.sigma})"

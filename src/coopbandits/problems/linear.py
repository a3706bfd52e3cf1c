"""Arms whose rewards depend on the context, as a linear function of its features."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.problems.checks import float_array, frozen, positive_number
from coopbandits.problems.context_log import fit_models, read_context_log, with_intercept
from coopbandits.problems.features import Features, make_features
from coopbandits.problems.parse import parse_means
from coopbandits.problems.problem import Problem
from coopbandits.problems.rewards import LOCATION_SCALE, RewardForm

NO_SINGLE = ("means", "gaps", "best_arm")
"""What a plain problem has once, and here every context has its own."""


class LinearBandit(Problem):
    """A pull of an arm with features x pays N(θᵀx, σ²).

    Every agent sees other features in every round, drawn for it alone. Regret is counted against
    the arm that is best in the context of the pull.

    Parameters
    ----------
    theta : array of shape (d,) or (K, d)
        θ: one for all arms, which differ by their features; or one per arm, and then all arms have
        the same features, those of the context.
    num_arms : int, optional
        K, where θ does not tell; 10 by default.
    features : {"sphere", "gaussian"} or array
        Points on the unit sphere, or independent standard normals; or contexts, of which one is
        drawn for every choice, each equally likely: an array of shape (contexts, d), or
        (contexts, K, d) with a row per arm. With one θ and an array of shape (contexts, d), every
        arm draws its own row.
    sigma : float
        Standard deviation of rewards.

    Attributes
    ----------
    theta : array
        θ as given; not writeable.
    num_features : int
        d.

    Examples
    --------
    >>> LinearBandit([0.6, 0.8], num_arms=5, sigma=0.5)
    LinearBandit(5 arms, 2 features (sphere), one model, sigma=0.5)
    >>> LinearBandit([[1, 0], [0, 1]], features=[[1, 0], [1, 1]])
    LinearBandit(2 arms, 2 features (2 contexts), a model per arm, sigma=1.0)
    """

    _unread = frozenset({"reward", "expected"})

    def __init__(
        self,
        theta: ArrayLike,
        num_arms: int | None = None,
        *,
        features: str | ArrayLike = "sphere",
        sigma: float = 1.0,
    ) -> None:
        # Not the base class's: there is no mean per arm.
        self.theta = frozen(_coefficients(theta))
        self.sigma = positive_number("sigma", sigma)
        self.num_arms = _arms(self.theta, num_arms)
        rows = 1 if self.one_context else self.num_arms
        self.features: Features = make_features(features, rows, self.theta.shape[-1])
        self._variate, self._bounds = "normal", None
        noise = np.tile([0.0, self.sigma], (self.num_arms, 1))
        self._form = RewardForm(LOCATION_SCALE, frozen(noise))

    @classmethod
    def from_log(
        cls,
        table: Any,
        context: Sequence[str],
        *,
        arm: str = "arm",
        reward: str = "reward",
        ridge: float = 1.0,
        sigma: float | None = None,
    ) -> LinearBandit:
        """Fit a model per arm to logged choices, so that a log becomes a simulation.

        Contexts are drawn from those of the log. The first feature is an intercept, always 1.

        Parameters
        ----------
        table : DataFrame, dict of columns, or path
            One row per choice: of pandas or polars, or a `.csv` or `.parquet` file.
        context : sequence of str
            The columns that are features; text becomes one feature per category.
        arm, reward : str
            The columns of what was played, by number or by name, and of what it paid.
        ridge : float
            How strongly models are shrunk towards the average reward, in pulls.
        sigma : float, optional
            Standard deviation of rewards; what the models leave unexplained unless given.

        Examples
        --------
        >>> log = {"code": [0, 0, 1, 1], "arm": ["a", "b", "a", "b"], "reward": [1, 0, 0.2, 0.9]}
        >>> LinearBandit.from_log(log, ["code"], sigma=0.3)
        LinearBandit(2 arms, 2 features (4 contexts), a model per arm, sigma=0.3)
        """
        log, _ = read_context_log(table, context, arm, reward)
        theta, noise = fit_models(log.features, log.arms, log.rewards, log.arm_names, ridge)
        if sigma is None and not noise > 0.0:
            raise InputError(
                "the models explain every logged reward, so the log does not tell how much rewards "
                "vary; give sigma"
            )
        contexts = with_intercept(log.features)
        found = cls(theta, features=contexts, sigma=noise if sigma is None else sigma)
        found.arm_names = log.arm_names
        return found

    def __getattr__(self, name: str) -> NoReturn:
        if name in NO_SINGLE:
            raise InputError(
                f"a LinearBandit has no {name}, since rewards depend on the context; "
                "expected(features) says what arms pay in one"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def num_features(self) -> int:
        """How many features there are."""
        return self.features.size

    @property
    def one_context(self) -> bool:
        """Whether all arms have the same features, and each its own θ."""
        return self.theta.ndim == 2

    def expected(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what every arm pays on average (…, K), in contexts (…, K, d) or (…, 1, d)."""
        return expected(self.theta, features)

    @property
    def levels(self) -> NDArray[np.float64]:
        """What drifts and differs between sites: θ."""
        return self.theta

    def read_levels(self, owner: str, given: Any) -> NDArray[np.float64]:
        """Return another θ, or refuse it."""
        told = parse_means(given) if isinstance(given, str) else given
        theta = _coefficients(told)
        if theta.shape != self.theta.shape:
            raise InputError(
                f"{owner} has coefficients of shape {theta.shape}, and theta has "
                f"{self.theta.shape}; give as many"
            )
        return theta

    def moved(self, change: ArrayLike) -> Self:
        """Return the same contexts with another θ, changed by as many numbers as it has."""
        other = copy(self)
        other.theta = frozen(_coefficients(self.theta + np.asarray(change, dtype=np.float64)))
        return other

    def turned(self, places: NDArray[np.int64]) -> Self:
        """Return the same problem with the models of arms in other places."""
        if not self.one_context:
            raise InputError(
                "switch_every moves arms on, and with one theta for all arms these differ by their "
                "features alone; give steps or a ramp to another theta"
            )
        return self.moved(self.theta[places] - self.theta)

    def describe(self) -> dict[str, Any]:
        """Return θ, K, where features come from, and σ."""
        return {
            "problem": "linear",
            "theta": self.theta.tolist(),
            "num_arms": self.num_arms,
            "features": self.features.describe(),
            "sigma": self.sigma,
        }

    def __hash__(self) -> int:
        return hash((type(self), self.sigma, self.num_arms, self.theta.tobytes()))

    def __repr__(self) -> str:
        kind, table = self.features.kind, self.features.table
        drawn = f"{len(table)} contexts" if kind == "table" else kind
        models = "a model per arm" if self.one_context else "one model"
        return (
            f"{type(self).__name__}({self.num_arms} arms, {self.num_features} features ({drawn}), "
            f"{models}, sigma={self.sigma})"
        )


def expected(theta: NDArray[np.float64], features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what every arm pays on average (…, K), in contexts (…, K, d) or (…, 1, d)."""
    if theta.ndim == 1:
        return np.asarray(features @ theta)
    if features.shape[-2] == 1:
        return np.asarray(features[..., 0, :] @ theta.T)
    return np.asarray((features * theta).sum(axis=-1))


def _coefficients(theta: ArrayLike) -> NDArray[np.float64]:
    found = float_array("theta", theta, "a list of coefficients, or one list per arm")
    if found.ndim not in (1, 2) or not found.size or not np.isfinite(found).all():
        raise InputError(
            f"theta is {theta!r}; give one finite coefficient per feature, or such a list per arm"
        )
    return found


def _arms(theta: NDArray[np.float64], num_arms: int | None) -> int:
    if num_arms is not None:
        require_count("num_arms", num_arms)
    if theta.ndim == 2 and num_arms not in (None, len(theta)):
        raise InputError(
            f"num_arms is {num_arms}, but theta has coefficients of {len(theta)} arms; leave it out"
        )
    return len(theta) if theta.ndim == 2 else int(num_arms or 10)

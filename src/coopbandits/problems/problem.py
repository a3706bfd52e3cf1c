"""The contract of a problem: K arms, the same for every agent.

A problem has no randomness of its own. The driver's tape holds one variate per pull, and the pulled
arm turns it into a reward, so that every policy gets the same luck and every engine the same
rewards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.problems.checks import (
    arm_values,
    distinct_names,
    frozen,
    positive_number,
    within,
)
from coopbandits.problems.own import Reward, arm_numbers, check_reward
from coopbandits.problems.parse import format_means, parse_means
from coopbandits.problems.rewards import (
    LOCATION_SCALE,
    OWN,
    THRESHOLD,
    RewardForm,
    moved_table,
    reward_bounds,
    reward_from_variate,
    rewards_from_variates,
)
from coopbandits.problems.tables import Blocks, Tables, stack

Variate = Literal["normal", "uniform"]

VARIATES: tuple[Variate, ...] = ("normal", "uniform")


class Problem(ABC):
    """K arms whose reward is a deterministic function of (arm, variate).

    A subclass passes its means and σ to this class, and either a reward form or the numbers that a
    static function of its own, ``reward(numbers, variate)``, turns into rewards. It returns the
    settings that identify it from `describe`. Problems are immutable; equal settings make equal
    problems.

    Parameters
    ----------
    means : sequence of float
        Expected reward of each arm, exactly as the form or the function yields it.
    sigma : float
        σ, the square root of the rewards' variance proxy: E exp(x(X − μ)) ≤ exp(x²σ²/2) for every
        arm and every real x.
    form : RewardForm, optional
        How a variate becomes a reward, where a table of ours can tell.
    numbers : array of shape (K, M) or (K,), optional
        What `reward` is told of each arm; its mean if left out.
    variate : {"uniform", "normal"}
        What `reward` is handed: a uniform in (0, 1), or a standard normal.
    bounds : pair of float, optional
        The smallest and the largest reward of `reward`, if there are; ±∞ where there is no end.

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
    num_features : int
        How many features a context has; 0 where rewards depend on none.
    family : {"gaussian", "bernoulli"}
        What ``family="auto"`` of a policy stands for: "bernoulli" where all rewards lie in [0, 1],
        else "gaussian", which uses σ.
    reward : function or None
        The static function of a subclass. The reference engine calls it, and compiled engines are
        made of it, so it keeps to what numba compiles: floats, ints, loops, `math`, and functions
        that do the same. It sees its arguments alone, and `numbers` must not be changed.
    """

    family: ClassVar[str] = "gaussian"
    _ragged: ClassVar[bool] = False
    """Whether rows of numbers say themselves how long they are, so that more may follow."""
    _by_arm: ClassVar[tuple[str, ...]] = ()
    """Settings with one number per arm, which go where the arms go."""
    _unread: ClassVar[frozenset[str]] = frozenset()
    """What a subclass must not write, since engines know rewards without asking for it."""
    reward: ClassVar[Any] = None
    arm_names: tuple[str, ...] | None = None

    @property
    def num_features(self) -> int:
        """How many features a context has: none."""
        return 0

    @property
    def one_context(self) -> bool:
        """Whether all arms have the same features."""
        return False

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse a class whose rewards engines would not play."""
        super().__init_subclass__(**more)
        if cls.rewards is not Problem.rewards:
            raise InputError(
                f"{cls.__name__} overrides rewards(), which no engine calls; write a static "
                "function reward(numbers, variate) instead, which all of them play"
            )
        written: set[str] = set()  # by this class, and by all that are asked before a parent
        for parent in cls.__mro__:
            for name in vars(parent).get("_unread", frozenset()) & written:
                raise InputError(
                    f"{cls.__name__} overrides {name}, and no engine asks {parent.__name__}s for "
                    "it; derive from cb.Problem, and write a static function reward(numbers, "
                    "variate)"
                )
            written |= vars(parent).keys()
        writers = [vars(each) for each in cls.__mro__]
        own = next(each["reward"] for each in writers if "reward" in each)
        if own is not None and not isinstance(own, staticmethod):
            raise InputError(
                f"reward of {cls.__name__} is no static function; write @staticmethod above "
                "reward(numbers, variate)"
            )
        first = next(each for each in writers if "reward" in each or "family" in each)
        if own is not None and "family" not in first:
            cls.family = Problem.family  # what a parent declared was about other rewards

    def __init__(
        self,
        means: ArrayLike,
        sigma: float,
        form: RewardForm | None = None,
        *,
        numbers: ArrayLike | None = None,
        variate: Variate = "uniform",
        bounds: tuple[float, float] | None = None,
    ) -> None:
        self.means = arm_values("means", means)
        self.sigma = positive_number("sigma", sigma)
        self.num_arms = self.means.size
        self.best_arm = int(np.argmax(self.means))
        self.gaps = frozen(self.means[self.best_arm] - self.means)
        if variate not in VARIATES:
            raise unknown_name("variate", str(variate), VARIATES)
        self._variate: Variate = variate
        if form is not None and numbers is not None:
            raise InputError("a reward form was given, and numbers besides; pass one of the two")
        if form is None:
            self._form = RewardForm(OWN, frozen(self._own_numbers(numbers)))
        else:
            self._variate = "normal" if form.kind == LOCATION_SCALE else "uniform"
            kind = form.kind if self.reward_function() is None else OWN
            self._form = RewardForm(kind, frozen(form.table))
        self._bounds = bounds
        self.check_rows(self._form.table, self.means)

    def check_rows(self, table: NDArray[np.float64], means: NDArray[np.float64]) -> None:
        """Refuse rows for which a function of one's own fails, or does not have these means."""
        reward = self.reward_function()
        # Tests hold ours to their means.
        if reward is None or reward.__module__.startswith("coopbandits."):
            return
        check_reward(
            type(self).__name__, reward, table, means, self.sigma, self._bounds,
            is_normal=self._variate == "normal",
        )  # fmt: skip

    def _own_numbers(self, numbers: ArrayLike | None) -> NDArray[np.float64]:
        if self.reward_function() is None:
            raise InputError(
                f"{type(self).__name__} has neither a reward form nor a function of its own; write "
                "a static function reward(numbers, variate)"
            )
        return arm_numbers(self.means if numbers is None else numbers, self.num_arms)

    def named(self, arm_names: Sequence[str]) -> Self:
        """Return the same problem with one name per arm, which results then show."""
        named = copy(self)
        named.arm_names = distinct_names(arm_names, self.num_arms)
        return named

    @property
    def variate(self) -> Variate:
        """What the tape must hold: standard normals, or uniforms in (0, 1)."""
        return self._variate

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest reward, ±∞ where there is no end; None if nobody said."""
        return self._bounds or reward_bounds(self._form)

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
        return self.paid(self.kernel_form().table, pulled, drawn)

    def paid(
        self, table: NDArray[np.float64], rows: NDArray[Any], variates: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the reward of every pull, of these rows of a table."""
        if self.reward_function() is None:
            return rewards_from_variates(RewardForm(self.kernel_form().kind, table), rows, variates)
        paid = list(map(self.payer(table), rows.ravel().tolist(), variates.ravel().tolist()))
        return np.array(paid, dtype=np.float64).reshape(rows.shape)

    def kernel_form(self) -> RewardForm:
        """Return the rewards as plain data, for `reward_from_variate` in a compiled kernel."""
        return self._form

    def reward_function(self) -> Reward | None:
        """Return the function that reads the numbers of an arm; None where a table says it all."""
        reward: Reward | None = type(self).reward
        return reward

    def payer(self, table: NDArray[np.float64] | None = None) -> Callable[[int, float], float]:
        """Return what a pull pays, as a function of a table's row and the variate."""
        form, reward = self.kernel_form(), self.reward_function()
        table = form.table if table is None else frozen(table)
        if reward is None:
            return partial(reward_from_variate, form.kind, table)
        rows = list(table)
        return lambda row, variate: float(reward(rows[row], float(variate)))

    def moved(self, change: ArrayLike) -> Problem:
        """Return the same problem with other means, changed by one number per arm.

        Rewards keep their shape: normal ones their σ, tables are shifted, and chances end at 0 and
        1. An own function is handed the new means, if those are all its numbers; a class with
        others writes this method itself.
        """
        by = arm_values("change", change)
        if by.size != self.num_arms:
            raise InputError(f"change has {by.size} numbers for {self.num_arms} arms; give each")
        if self.reward_function() is None:
            table = moved_table(self._form, by)
            is_chance = self._form.kind == THRESHOLD
            return self._like(table[:, 0] if is_chance else self.means + by, table)
        if not np.array_equal(self._form.table, self.means[:, None]):
            raise InputError(
                f"{type(self).__name__} has more numbers than its means, so it cannot be moved; "
                "give one problem per group or segment instead, or write its method moved(change)"
            )
        return self._like(self.means + by, (self.means + by)[:, None])

    @property
    def levels(self) -> NDArray[np.float64]:
        """What drifts and differs between sites: the means."""
        return self.means

    def read_levels(self, owner: str, given: Any) -> NDArray[np.float64]:
        """Return other means, which may be given as text, or refuse them."""
        told = parse_means(given) if isinstance(given, str) else given
        means = arm_values(f"means of {owner}", told)
        if means.size != self.num_arms:
            raise InputError(
                f"{owner} has {means.size} means for {self.num_arms} arms; give one per arm"
            )
        if self._form.kind == THRESHOLD:  # only what a spread makes of chances ends at 0 and 1
            within(f"in {owner}, the mean", means, 0.0, 1.0)
        return means

    def turned(self, places: NDArray[np.int64]) -> Self:
        """Return the same problem with arms in other places."""
        other = self._like(self.means[places], self._form.table[places])
        for name in self._by_arm:
            setattr(other, name, frozen(getattr(self, name)[places]))
        return other

    def _like(self, means: NDArray[np.float64], table: NDArray[np.float64]) -> Self:
        """Return the same problem with other means and rows, which must belong together."""
        other = copy(self)
        other.means, other._form = frozen(means), RewardForm(self._form.kind, frozen(table))
        other.best_arm = int(np.argmax(means))
        other.gaps = frozen(means[other.best_arm] - means)
        return other

    def reward_tables(self, agents: Sequence[Any]) -> Tables:
        """Return the rewards of agents with these labels, by group and segment: one of each."""
        return stack(Blocks([[self]], np.zeros(len(agents), dtype=np.int64)))

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

r"""What a linear model of rewards is fitted to: sums of r x, of x xᵀ, and the number of pulls.

A pull with features x and reward r adds r x to b, x xᵀ to A and 1 to n. With one model for all arms
there are [b | upper triangle of A, row by row | n], that is d(d + 3)/2 + 1 registers. With a model
per arm a pull adds to those of its arm, and there are K times as many, arm after arm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_count, require_flag
from coopbandits.core.contract import Context, Estimate, Share, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.statistic.statistic import Registers, Statistic

NO_FEATURES = np.zeros((0, 0))

ROUNDING = 1e-9
"""By how much sums may be beyond what is possible."""


class Model(NamedTuple):
    """What an estimate of linear sums holds besides b (models, d) and n (models,).

    Attributes
    ----------
    outer : array of shape (models, d(d + 1)/2)
        Upper triangles of A.
    features : array of shape (K, d)
        The arms in the context of the choice.
    open_outer : array of shape (models, d(d + 1)/2) or None
        The same as `outer` of pulls whose rewards are not known yet; None where there are none.
    """

    outer: Any
    features: Any = NO_FEATURES
    open_outer: Any = None


@dataclass(frozen=True)
class LinearSums(Statistic):
    """Sums for linear models.

    Parameters
    ----------
    disjoint : bool
        One model per arm, instead of one for all.
    features : int
        d, how many features there are; 0 until it is told.
    """

    disjoint: bool = False
    features: int = 0
    name: ClassVar[str] = "linear-sums"
    takes_context: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_flag("disjoint", self.disjoint)
        require_count("features", self.features, least=0)

    def with_features(self, num_features: int) -> LinearSums:
        return replace(self, features=num_features)

    def registers(self, num_arms: int) -> Registers:
        if not self.features:
            raise InputError(
                "a linear model needs features, and how many there are was not told; play it on a "
                "problem that has some, such as cb.LinearBandit"
            )
        return _registers(num_arms, self.features, self.disjoint)


class LinearRegisters(Registers):
    """[b | upper triangle of A | n] of every model."""

    def __init__(self, num_arms: int, num_features: int, disjoint: bool) -> None:
        self.num_arms, self.num_features, self.one_context = num_arms, num_features, disjoint
        self.models = num_arms if disjoint else 1
        rows, columns = np.triu_indices(num_features)
        self.places = rows * num_features + columns  # of the upper triangle in a square
        self.diagonal = rows == columns
        features = np.arange(num_features)
        self.left = np.concatenate([features, rows, [-1]]) + 2  # of reward, 1, features
        self.right = np.concatenate([np.full(num_features, -2), columns, [-1]]) + 2
        # Of the same entries in the lower triangle of a matrix with b as one more column before A.
        self.bordered = (columns + 1) * (num_features + 1) + rows + 1
        self.width = num_features + rows.size + 1
        self.size = self.models * self.width
        pairs = [f"{i}·{j}" for i, j in zip(rows.tolist(), columns.tolist(), strict=True)]
        each = [*(f"reward·{j}" for j in range(num_features)), *pairs, "pulls"]
        whose = [f" of arm {k}" for k in range(num_arms)] if disjoint else [""]
        self.names = tuple(name + arm for arm in whose for name in each)

    def add(self, values: Vector, arm: int, reward: float, weight: float = 1.0) -> None:
        """Reject a pull without features."""
        self.record(values, arm, reward, None, weight)

    def record(
        self,
        values: Vector,
        arm: int,
        reward: float,
        context: Vector | None = None,
        weight: float = 1.0,
    ) -> None:
        if context is None:
            raise InputError(f"the pull of arm {arm} has no features; tell its context")
        # All registers of a model are products of two of these, (reward, 1, features).
        factors = np.empty(self.num_features + 2)
        factors[0], factors[1], factors[2:] = reward, 1.0, context
        added = factors.take(self.left)
        if weight != 1.0:
            added *= weight
        added *= factors.take(self.right)
        start = arm * self.width if self.models > 1 else 0
        values[start : start + self.width] += added

    def read(
        self, values: Vector, *, time: float, num_agents: float, anticipation: float = 1.0
    ) -> Estimate:
        """Return b as sums, n as counts, and A."""
        rows, d = values.reshape(self.models, self.width), self.num_features
        return Estimate(
            sums=rows[:, :d],
            counts=rows[:, -1],
            time=time,
            num_agents=num_agents,
            anticipation=anticipation,
            extra=Model(rows[:, d:-1]),
        )

    def outer(self, values: Vector) -> NDArray[np.float64]:
        """Return the upper triangles of all models."""
        return values.reshape(self.models, self.width)[:, self.num_features : -1]

    def share(self, values: Vector) -> Share:
        """Return copies of b and n, model after model."""
        rows = values.reshape(self.models, self.width)
        return Share(rows[:, : self.num_features].flatten(), rows[:, -1].copy())

    def version(self, values: NDArray[np.float64]) -> Any:
        """Return the number of pulls: it only grows."""
        if self.models == 1:
            return values[..., -1]
        return values[..., self.width - 1 :: self.width].sum(axis=-1)

    @cached_property
    def nonnegative(self) -> NDArray[np.bool_]:
        """The diagonal of A, and n."""
        one = np.concatenate([np.zeros(self.num_features, dtype=bool), self.diagonal, [True]])
        return np.tile(one, self.models)

    def by_arm(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the registers of one model per column: that of every arm, or the only one."""
        rows = values.reshape(*values.shape[:-1], self.models, self.width)
        return rows.swapaxes(-1, -2)

    def excess(self, values: NDArray[np.float64], bounded: bool) -> str:
        """Neither pulls nor squares of features are negative, and |b| is at most √(n A_jj)."""
        if not (values[..., self.nonnegative] >= 0.0).all():
            return "pulls or squared features below 0, which they never are"
        if not np.isfinite(values).all():
            return "sums that are not finite"
        rows = values.reshape(-1, self.width)
        sums = abs(rows[:, : self.num_features])
        squares = rows[:, self.num_features : -1][:, self.diagonal]
        # Cauchy and Schwarz: rewards in 0 to 1 weigh no feature more than this.
        most = np.sqrt(rows[:, -1:] * squares)
        if bounded and not (sums <= most + ROUNDING * (1.0 + most)).all():
            return (
                f"rewards times features of up to {sums.max():g}, where features of so many pulls "
                f"allow {most.max():g}"
            )
        if not self._is_sum_of_squares(rows, bounded):
            return "products of features that no pulls have together"
        return ""

    def _is_sum_of_squares(self, rows: NDArray[np.float64], bounded: bool) -> bool:
        """Return whether A has no negative eigenvalue, nor [[n, bᵀ], [b, A]] where r is 0 to 1.

        That matrix is at least the sum of (r, x)(r, x)ᵀ then, since r² adds up to at most n.
        """
        size = self.num_features + 1
        square = np.zeros((len(rows), size, size))
        square.reshape(len(rows), -1)[:, self.bordered] = rows[:, self.num_features : -1]
        square[:, 0, 0] = rows[:, -1]
        if bounded:
            square[:, 1:, 0] = rows[:, : self.num_features]
        diagonal = square.reshape(len(rows), -1)[:, :: size + 1]
        diagonal += ROUNDING * (1.0 + diagonal.sum(axis=1, keepdims=True))
        try:
            np.linalg.cholesky(square)  # which looks at the lower triangle alone
        except np.linalg.LinAlgError:
            return False
        return True

    def features_excess(self, values: NDArray[np.float64], largest: float) -> str:
        """Return whether squares of features add up to more than so many pulls allow."""
        if largest == math.inf:
            return ""
        rows = values.reshape(-1, self.width)
        squares = rows[:, self.num_features : -1][:, self.diagonal]
        most = rows[:, -1:] * largest**2
        if not (squares <= most + ROUNDING * (1.0 + most)).all():
            return (
                f"squared features of up to {squares.max():g}, where features up to {largest:g} of "
                f"so many pulls allow {most.max():g}"
            )
        return ""


def in_context(
    estimate: Estimate, features: Context, open_outer: NDArray[np.float64] | None = None
) -> Estimate:
    """Return an estimate for a choice among arms with these features (K, d)."""
    return estimate._replace(extra=Model(estimate.extra.outer, features, open_outer))


@cache
def _registers(num_arms: int, num_features: int, disjoint: bool) -> LinearRegisters:
    return LinearRegisters(num_arms, num_features, disjoint)  # shared: it holds no state

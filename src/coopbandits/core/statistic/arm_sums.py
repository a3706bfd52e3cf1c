"""Reward sums and pull counts per arm, and the sum of squared rewards where an index asks for it.

The registers are [K reward sums | K pull counts | squares].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import le
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_flag
from coopbandits.core.contract import Estimate, Share, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.statistic.statistic import Layout, Registers, Statistic

ROUNDING = 1e-9


@dataclass(frozen=True)
class ArmSums(Statistic):
    """Sums and counts per arm.

    Parameters
    ----------
    squares : bool
        Also add up the squares of all rewards, in one register.
    """

    squares: bool = False
    name: ClassVar[str] = "arm-sums"

    def __post_init__(self) -> None:
        """Refuse all but true and false."""
        require_flag("squares", self.squares)

    def registers(self, num_arms: int) -> Registers:
        """Return 2K registers, and one more for squares."""
        return _registers(num_arms, self.squares)


class ArmRegisters(Registers):
    """[K reward sums | K pull counts | squares]."""

    def __init__(self, num_arms: int, squares: bool) -> None:
        self.num_arms = num_arms
        self.size = 2 * num_arms + squares
        self.names = (
            *(f"reward sum of arm {k}" for k in range(num_arms)),
            *(f"pulls of arm {k}" for k in range(num_arms)),
            *(("sum of squared rewards",) if squares else ()),
        )
        if type(self) is ArmRegisters:  # kernels do not know what a subclass adds or reads
            self.layout = Layout(self.size, num_arms, 2 * num_arms if squares else -1)
        self._counts = slice(num_arms, 2 * num_arms)

    def add(self, values: Vector, arm: int, reward: float, weight: float = 1.0) -> None:
        """Add one pull, in place."""
        if self.size > 2 * self.num_arms:
            values[2 * self.num_arms] += weight * _square(reward)
        values[arm] += weight * reward
        values[self.num_arms + arm] += weight

    def read(
        self, values: Vector, *, time: float, num_agents: float, anticipation: float = 1.0
    ) -> Estimate:
        """Return network totals."""
        has_squares = self.size > 2 * self.num_arms
        return Estimate(
            sums=values[: self.num_arms],
            counts=values[self._counts],
            time=time,
            num_agents=num_agents,
            anticipation=anticipation,
            squares=float(values[2 * self.num_arms]) if has_squares else 0.0,
        )

    def share(self, values: Vector) -> Share:
        """Return copies of sums and counts."""
        copied = values.copy()  # once: that is sooner done than twice half of it
        return Share(copied[: self.num_arms], copied[self._counts])

    def version(self, values: NDArray[np.float64]) -> Any:
        """Return the number of pulls: counts only grow."""
        return np.add.reduce(values[..., self._counts], axis=-1)

    def version_of(self, values: Vector) -> float:
        """Return the number of pulls in one vector."""
        counts: list[float] = values[self._counts].tolist()
        return sum(counts)

    def plain_pulls(self, values: list[float]) -> float:
        """Return the pulls if no reward sum is negative or above its count, and nothing is NaN."""
        sums, counts = values[: self.num_arms], values[self.num_arms :]
        if len(counts) == len(sums) and min(sums) >= 0.0 and all(map(le, sums, counts)):
            return sum(counts)
        return math.nan

    @cached_property
    def nonnegative(self) -> NDArray[np.bool_]:
        """Counts and squares."""
        return np.arange(self.size) >= self.num_arms

    def by_arm(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sums and counts as two rows."""
        pairs = values[..., : 2 * self.num_arms]
        return pairs.reshape(*values.shape[:-1], 2, self.num_arms)

    def moved(
        self, values: NDArray[np.float64], source: Registers, places: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return registers of other arms as these; squares belong to no arm."""
        found = super().moved(values, source, places)
        found[..., 2 * self.num_arms :] = values[..., 2 * source.num_arms :]
        return found

    def of_no_arm(self, values: Vector) -> Vector:
        """Return the squares."""
        return values[2 * self.num_arms :]

    def excess(self, values: NDArray[np.float64], bounded: bool) -> str:
        """Counts are never negative; rewards in 0 to 1 add up to at most their number."""
        sums, counts = values[..., : self.num_arms], values[..., self._counts]
        if _least(counts) < 0.0:
            return f"pulls {counts.tolist()}, which are never negative"
        room = -ROUNDING * (1.0 + np.add.reduce(counts, axis=None))
        if bounded and _least(np.minimum(sums, counts - sums)) < room:
            return (
                f"rewards {sums.tolist()} for {counts.tolist()} pulls; each reward, scaled by its "
                "range, lies in 0 to 1"
            )
        if self.size == 2 * self.num_arms:
            return ""
        squares = values[..., 2 * self.num_arms :]
        most = sums.sum(axis=-1, keepdims=True) - room if bounded else math.inf
        if not ((squares >= 0.0) & (squares <= most)).all():
            return (
                f"squared rewards {squares.tolist()} for rewards {sums.tolist()}; squares are "
                "never negative, and of rewards in 0 to 1 never above their sum"
            )
        return ""


def _least(values: NDArray[np.float64]) -> Any:
    return np.minimum.reduce(values, axis=None)  # as `min`, without a call through Python


@cache
def _registers(num_arms: int, squares: bool) -> ArmRegisters:
    return ArmRegisters(num_arms, squares)  # shared: it holds no state


def _square(reward: float) -> float:
    square = reward * reward
    if square == math.inf:
        raise InputError(
            f"reward {reward:g} is too large for sums of squares; scale rewards, or tell sigma"
        )
    return square

"""Sums and counts per arm: plain, with squared rewards, or with the differences between sites.

The registers are [K reward sums | K pull counts | squares]: none, one over all arms, or K.
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

from coopbandits.core.contract import Estimate, Share, Vector
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.statistic.statistic import Layout, Registers, Statistic

ROUNDING = 1e-9

SQUARES = ("none", "pooled", "arms")


@dataclass(frozen=True)
class ArmSums(Statistic):
    """Sums and counts per arm.

    Parameters
    ----------
    squares : {"none", "pooled", "arms"}
        Whether to add up squared rewards as well: in one register over all arms, which is enough
        for one σ, or in one per arm, for variances of arms. Each register is one value more in
        every message.
    """

    squares: str = "none"
    name: ClassVar[str] = "arm-sums"

    def __post_init__(self) -> None:
        if self.squares not in SQUARES:
            raise unknown_name("setting of squares", str(self.squares), SQUARES)

    def registers(self, num_arms: int) -> Registers:
        """Return 2K registers, and those of squares."""
        return _registers(num_arms, self.squares)


class ArmRegisters(Registers):
    """[K reward sums | K pull counts | squares]."""

    def __init__(self, num_arms: int, squares: str = "none") -> None:
        self.num_arms = num_arms
        num_squares = {"none": 0, "pooled": 1, "arms": num_arms}[squares]
        self.size = 2 * num_arms + num_squares
        per_arm = [f"sum of squared rewards of arm {k}" for k in range(num_arms)]
        self.names = (
            *(f"reward sum of arm {k}" for k in range(num_arms)),
            *(f"pulls of arm {k}" for k in range(num_arms)),
            *(per_arm if squares == "arms" else ["sum of squared rewards"] * num_squares),
        )
        if type(self) is ArmRegisters:  # kernels do not know what a subclass adds or reads
            self.layout = Layout(self.size, num_arms, num_squares)
        self._counts = slice(num_arms, 2 * num_arms)
        self._of_arms = (3 if squares == "arms" else 2) * num_arms

    def add(self, values: Vector, arm: int, reward: float, weight: float = 1.0) -> None:
        if self.size > 2 * self.num_arms:
            place = arm if self._of_arms == self.size else 0
            values[2 * self.num_arms + place] += weight * _square(reward)
        values[arm] += weight * reward
        values[self.num_arms + arm] += weight

    def read(
        self, values: Vector, *, time: float, num_agents: float, anticipation: float = 1.0
    ) -> Estimate:
        has_squares = self.size > 2 * self.num_arms
        return Estimate(
            sums=values[: self.num_arms],
            counts=values[self._counts],
            time=time,
            num_agents=num_agents,
            anticipation=anticipation,
            squares=values[2 * self.num_arms :] if has_squares else (),
        )

    def share(self, values: Vector) -> Share:
        """Return copies of sums and counts."""
        copied = values.copy()  # once: that is sooner done than twice half of it
        return Share(copied[: self.num_arms], copied[self._counts])

    def version(self, values: NDArray[np.float64]) -> Any:
        """Return the number of pulls: counts only grow."""
        return np.add.reduce(values[..., self._counts], axis=-1)

    def version_of(self, values: Vector) -> float:
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
        """Return sums and counts as two rows, and squares per arm as a third."""
        of_arms = values[..., : self._of_arms]
        return of_arms.reshape(*values.shape[:-1], self._of_arms // self.num_arms, self.num_arms)

    def moved(
        self, values: NDArray[np.float64], source: Registers, places: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return registers of other arms as these; pooled squares belong to no arm."""
        assert isinstance(source, ArmRegisters)  # noqa: S101  of the same policy
        found = super().moved(values, source, places)
        found[..., self._of_arms :] = values[..., source._of_arms :]
        return found

    def of_no_arm(self, values: Vector) -> Vector:
        """Return pooled squares."""
        return values[self._of_arms :]

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
        squares, most = values[..., 2 * self.num_arms :], math.inf
        if bounded:
            per_arm = self._of_arms == self.size
            most = (sums if per_arm else sums.sum(axis=-1, keepdims=True)) - room
        if not ((squares >= 0.0) & (squares <= most)).all():
            return (
                f"squared rewards {squares.tolist()} for rewards {sums.tolist()}; squares are "
                "never negative, and of rewards in 0 to 1 never above their sum"
            )
        return ""


def _least(values: NDArray[np.float64]) -> Any:
    return np.minimum.reduce(values, axis=None)  # as `min`, without a call through Python


@cache
def _registers(num_arms: int, squares: str) -> ArmRegisters:
    return ArmRegisters(num_arms, squares)  # shared: it holds no state


def sums_of(values: Any) -> Any:
    """Return the reward sums of `ArmSums()` registers, in plain Python and compiled."""
    return values[: values.size // 2]


def counts_of(values: Any) -> Any:
    """Return the numbers of pulls of `ArmSums()` registers, in plain Python and compiled."""
    return values[values.size // 2 :]


def add_pull(row: Any, arms: int, arm: int, reward: float, weight: float) -> None:
    """Add one pull to registers of sums per arm; a plain function, for those that are compiled."""
    row[arm] += weight * reward
    row[arms + arm] += weight
    if row.size > 2 * arms:  # squares, of all arms together or of each
        row[2 * arms + (arm if row.size == 3 * arms else 0)] += weight * (reward * reward)


def _square(reward: float) -> float:
    square = reward * reward
    if square == math.inf:
        raise InputError(
            f"reward {reward:g} is too large for sums of squares; scale rewards, or tell sigma"
        )
    return square


# Site sums: the registers are
# [K reward sums | K pull counts | K squared counts | squares | Σ s²/n | pairs], the last being the
# number of arms that were pulled. The latter three kinds are not sums over pulls: they are
# functions of one agent's own totals, renewed with every pull. So they add up over agents, where
# each keeps its own totals in one place, and over nothing else: floods, trees and own sums.


MOST_PAIRS = 2.0**53


@dataclass(frozen=True)
class SiteSums(Statistic):
    """Sums and counts per arm, with what the differences between sites are estimated from."""

    name: ClassVar[str] = "site-sums"

    def registers(self, num_arms: int) -> Registers:
        """Return 3K + 3 registers."""
        return _site_registers(num_arms)


class SiteRegisters(ArmRegisters):
    """[K reward sums | K pull counts | K squared counts | squares | Σ s²/n | pairs]."""

    def __init__(self, num_arms: int) -> None:
        super().__init__(num_arms)
        self.size = 3 * num_arms + 3
        self.names = (
            *self.names,
            *(f"squared pulls of arm {k}" for k in range(num_arms)),
            "sum of squared rewards",
            "sum of squared means times pulls",
            "arms pulled",
        )
        self.adds_arms = False
        if type(self) is SiteRegisters:  # sums of squares are none that an index reads
            self.layout = Layout(self.size, num_arms, 0)

    def add(self, values: Vector, arm: int, reward: float, weight: float = 1.0) -> None:
        """Add one pull, in place, and renew what depends on all own pulls."""
        values[arm] += weight * reward
        values[self.num_arms + arm] += weight
        values[-3] += weight * reward * reward
        renew(values, self.num_arms)

    def read(
        self, values: Vector, *, time: float, num_agents: float, anticipation: float = 1.0
    ) -> Estimate:
        """Return network totals, with all beyond sums and counts as extra."""
        read = super().read(values, time=time, num_agents=num_agents, anticipation=anticipation)
        return read._replace(squares=values[-3:-2], extra=values[2 * self.num_arms :])

    def plain_pulls(self, values: list[float]) -> float:
        """Return NaN: more than sums and counts has to be checked."""
        return math.nan

    @property
    def nonnegative(self) -> NDArray[np.bool_]:
        """All but the reward sums."""
        return np.arange(self.size) >= self.num_arms

    def moved(
        self, values: NDArray[np.float64], source: Registers, places: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return registers of other arms as these: squared counts go with their arms."""
        there, here = source.num_arms, self.num_arms
        found = np.zeros((*values.shape[:-1], self.size))
        self.by_arm(found)[..., list(places)] = source.by_arm(values)
        found[..., [2 * here + place for place in places]] = values[..., 2 * there : 3 * there]
        found[..., 3 * here :] = values[..., 3 * there :]
        return found

    def of_no_arm(self, values: Vector) -> Vector:
        """Return the last three; squared counts follow from counts."""
        return values[3 * self.num_arms :]

    def excess(self, values: NDArray[np.float64], bounded: bool) -> str:
        """As for plain sums; the rest is what the totals of one agent, or of several, can make it.

        With (Σn)² ≥ Σn², and Σs²/n ≤ Σr² by Cauchy and Schwarz, whatever agents there are.
        """
        k = self.num_arms
        if phrase := _registers(k, "none").excess(values[..., : 2 * k], bounded):
            return phrase
        sums, counts, squared = (values[..., at * k : (at + 1) * k] for at in range(3))
        squares, explained, pairs = (values[..., 3 * k + at] for at in range(3))
        most = sums.sum(axis=-1) if bounded else np.inf
        within = (
            _is_within(squared, counts**2),
            _is_within(squares, most),
            _is_within(explained, squares),
            _is_within(pairs, MOST_PAIRS),
        )
        return "" if all(within) else f"squares {values[..., 2 * k :].tolist()} that no sites have"

    def follows(self, values: Vector) -> bool:
        """Return whether squared counts are those of the counts, as in the totals of one agent."""
        squared = values[2 * self.num_arms : 3 * self.num_arms]
        return bool((squared == values[self._counts] ** 2).all())


def renew(values: Vector, num_arms: int) -> None:
    """Renew what depends on all own pulls: squared counts, Σ s²/n, and the arms pulled."""
    explained = pairs = 0.0
    for k in range(num_arms):
        count = values[num_arms + k]
        values[2 * num_arms + k] = count**2
        if count > 0.0:
            explained += values[k] ** 2 / count
            pairs += 1.0
    values[3 * num_arms + 1], values[3 * num_arms + 2] = explained, pairs


def add_site_pull(values: Vector, pull: Vector) -> None:
    """Add the sums and counts of one pull to an agent's own totals, and renew what depends on all.

    Of the pull no other registers are read.
    """
    num_arms = (pull.size - 3) // 3
    for k in range(num_arms):
        values[k] += pull[k]
        values[num_arms + k] += pull[num_arms + k]
        values[3 * num_arms] += pull[k] ** 2
    renew(values, num_arms)


def _is_within(values: NDArray[np.float64], most: NDArray[np.float64] | float) -> bool:
    return bool(((values >= 0.0) & (values <= most + ROUNDING * (1.0 + most))).all())


@cache
def _site_registers(num_arms: int) -> SiteRegisters:
    return SiteRegisters(num_arms)  # shared: it holds no state

"""The contract of a statistic: a vector of registers to which every pull adds.

Aggregations sum, scale, mix, send and store such vectors without knowing what stands where. All
they rely on is that the registers of two sets of pulls add up to the registers of both together.
Where each number stands, and what it means, is known to the statistic alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Estimate, Share, Vector
from coopbandits.core.spelling import Named


class Statistic(Named, ABC):
    """What is added up, as a value: frozen, spelled, without a number of arms.

    Attributes
    ----------
    takes_context : bool
        Whether a pull counts with the features that it was made with.
    """

    takes_context: ClassVar[bool] = False

    def with_features(self, num_features: int) -> Statistic:
        """Return the statistic for so many features; the same where it looks at none."""
        return self

    @abstractmethod
    def registers(self, num_arms: int) -> Registers:
        """Return the registers for so many arms."""


class Layout(NamedTuple):
    """Where compiled kernels find reward sums, counts and sums of squares in a row of registers.

    Sums stand at 0 … K−1, counts from `counts` on, and behind them `squares` sums of squares: 0,
    1 over all arms, or K.
    """

    size: int
    counts: int
    squares: int


class Registers(ABC):
    """A statistic for a given number of arms.

    Attributes
    ----------
    num_arms : int
        K.
    size : int
        How many registers there are.
    names : tuple of str
        What each register holds, for people.
    decay : float
        What everything counts after one more round; 1 for ever the same. Aggregations with a
        discount set it (`decaying`).
    num_features : int
        How many features a pull has; 0 where they do not count.
    one_context : bool
        Whether all arms may have the same features.
    adds_arms : bool
        Whether registers of several arms add up to those of one with all their pulls.
    layout : Layout or None
        For kernels that know reward sums and counts; None for any other statistic, subclasses
        included, which is then played by engines that use this class.
    """

    num_arms: int
    size: int
    names: tuple[str, ...]
    decay: float = 1.0
    num_features: int = 0
    one_context: bool = False
    adds_arms: bool = True
    layout: Layout | None = None

    def decaying(self, discount: float) -> Self:
        """Return these registers, in which everything counts `discount` times after a round."""
        if discount == 1.0:
            return self
        found = copy(self)
        found.decay = self.decay * discount
        return found

    def zeros(self) -> Vector:
        """Return the registers of no pull at all."""
        return np.zeros(self.size)

    @abstractmethod
    def add(self, values: Vector, arm: int, reward: float, weight: float = 1.0) -> None:
        """Add one pull, in place."""

    def record(
        self,
        values: Vector,
        arm: int,
        reward: float,
        context: Vector | None = None,
        weight: float = 1.0,
    ) -> None:
        """Add one pull, in place, with the features of its arm where they count."""
        self.add(values, arm, reward, weight)

    @abstractmethod
    def read(
        self, values: Vector, *, time: float, num_agents: float, anticipation: float = 1.0
    ) -> Estimate:
        """Return network totals as an index reads them."""

    @abstractmethod
    def share(self, values: Vector) -> Share:
        """Return reward sums and numbers of pulls per arm."""

    @abstractmethod
    def version(self, values: NDArray[np.float64]) -> Any:
        """Return the number of pulls added; of many registers (…, size) one number each.

        As long as nothing decays it only grows, so of two states of one agent the one with more
        pulls is newer.
        """

    def pulls(self, values: NDArray[np.float64]) -> Any:
        """Return the number of pulls as they count now: the time of an estimate."""
        return self.version(values)

    def scale(self, values: NDArray[np.float64], factor: Any) -> None:
        """Let everything in registers (…, size) count `factor` times, in place.

        The factor is a number, or one per vector as an array (…, 1).
        """
        values *= factor

    def age(self, *vectors: NDArray[np.float64], rounds: int = 1) -> None:
        """Let some rounds pass for registers (…, size), in place."""
        if self.decay != 1.0:
            for values in vectors:
                self.scale(values, self.decay**rounds)

    def clip(self, values: Vector) -> Vector:
        """Return registers without the impossible values that rounding may leave."""
        return np.where(self.nonnegative, np.maximum(values, 0.0), values)

    def version_of(self, values: Vector) -> float:
        """Return the version of one vector as Python's own float, which may take less time."""
        return float(self.version(values))

    def plain_pulls(self, values: list[float]) -> float:
        """Return the number of pulls if there is nothing to object to registers, in any case.

        A quick answer for few registers, as Python's own floats; not a number where somebody has to
        look closer, with `version` and `excess`.
        """
        return math.nan

    @property
    @abstractmethod
    def nonnegative(self) -> NDArray[np.bool_]:
        """Which registers can never be negative."""

    @abstractmethod
    def by_arm(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a view (…, registers per arm, K) of what belongs to single arms."""

    def moved(
        self, values: NDArray[np.float64], source: Registers, places: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return registers (…, size) of other arms as these: arm k of `source` is `places[k]`.

        Arms that have one place are added up there.
        """
        found = np.zeros((*values.shape[:-1], self.size))
        columns, told = self.by_arm(found), source.by_arm(values)
        if len(set(places)) == len(places):
            columns[..., list(places)] = told
        else:
            for at, place in enumerate(places):
                columns[..., place] += told[..., at]
        return found

    def of_no_arm(self, values: Vector) -> Vector:
        """Return what belongs to no single arm, and does not follow from what does."""
        return values[:0]

    def follows(self, values: Vector) -> bool:
        """Return whether what follows from other registers, in one agent's own totals, does so.

        Nobody signs that, or sends it in another order of arms.
        """
        return True

    @abstractmethod
    def excess(self, values: NDArray[np.float64], bounded: bool) -> str:
        """Return what no pulls can have made of registers (…, size), as a phrase; "" for nothing.

        `bounded` tells that every reward lies in 0 to 1.
        """

    def features_excess(self, values: NDArray[np.float64], largest: float) -> str:
        """Return what no pulls with features up to `largest`, in size, can have made, or "".

        It is asked of registers that `excess` has nothing to say against.
        """
        return ""


class VersionedRegisters(Registers):
    """[registers of any statistic | pulls ever made], for aggregations that forget by age.

    With decay the counts no longer only grow, so they cannot tell which of two states of an agent
    is newer. The extra register counts all pulls and does not decay.
    """

    def __init__(self, inner: Registers) -> None:
        self.inner, self.decay = inner, inner.decay
        self.num_arms, self.size = inner.num_arms, inner.size + 1
        self.num_features, self.one_context = inner.num_features, inner.one_context
        self.adds_arms = inner.adds_arms
        self.names = (*inner.names, "pulls ever made")

    def add(self, values: Vector, arm: int, reward: float, weight: float = 1.0) -> None:
        self.record(values, arm, reward, None, weight)

    def record(
        self,
        values: Vector,
        arm: int,
        reward: float,
        context: Vector | None = None,
        weight: float = 1.0,
    ) -> None:
        self.inner.record(values[:-1], arm, reward, context, weight)
        values[-1] += weight

    def read(
        self, values: Vector, *, time: float, num_agents: float, anticipation: float = 1.0
    ) -> Estimate:
        return self.inner.read(
            values[:-1], time=time, num_agents=num_agents, anticipation=anticipation
        )

    def share(self, values: Vector) -> Share:
        return self.inner.share(values[:-1])

    def version(self, values: NDArray[np.float64]) -> Any:
        """Return the number of pulls ever made."""
        return values[..., -1]

    def pulls(self, values: NDArray[np.float64]) -> Any:
        return self.inner.pulls(values[..., :-1])

    def scale(self, values: NDArray[np.float64], factor: Any) -> None:
        """Let all but the number of pulls ever made count `factor` times."""
        self.inner.scale(values[..., :-1], factor)

    @property
    def nonnegative(self) -> NDArray[np.bool_]:
        """As of the statistic, and the number of pulls."""
        return np.append(self.inner.nonnegative, True)

    def by_arm(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.inner.by_arm(values[..., :-1])

    def moved(
        self, values: NDArray[np.float64], source: Registers, places: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return registers of other arms as these, with as many pulls ever made."""
        assert isinstance(source, VersionedRegisters)  # noqa: S101  of the same policy
        inner = self.inner.moved(values[..., :-1], source.inner, places)
        return np.concatenate([inner, values[..., -1:]], axis=-1)

    def of_no_arm(self, values: Vector) -> Vector:
        """Return that of the statistic, and the pulls ever made."""
        return np.append(self.inner.of_no_arm(values[:-1]), values[-1])

    def follows(self, values: Vector) -> bool:
        """Return whether what follows from other registers of the statistic does so."""
        return self.inner.follows(values[:-1])

    def excess(self, values: NDArray[np.float64], bounded: bool) -> str:
        """Reject what the statistic rejects, and more pulls than were ever made."""
        made, left = values[..., -1], self.inner.pulls(values[..., :-1])
        if not (left - made <= 1e-9 * made + 1e-9).all():  # more than all of it may overflow
            return f"pulls that count {left}, of {made} ever made"
        return self.inner.excess(values[..., :-1], bounded)

    def features_excess(self, values: NDArray[np.float64], largest: float) -> str:
        return self.inner.features_excess(values[..., :-1], largest)

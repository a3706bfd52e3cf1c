"""Two statistics of one's own, and an index for each: no aggregation knows of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.core import Estimate, Index, Registers, Share, Statistic, Vector


@dataclass(frozen=True)
class PowerSums(Statistic):
    """Sums of three powers of the reward, and counts, per arm: 4K registers."""

    name: ClassVar[str] = "power-sums"

    def registers(self, num_arms: int) -> Registers:
        return PowerRegisters(num_arms)


class PowerRegisters(Registers):
    """[K counts | K sums | K sums of squares | K sums of cubes], counts first for a change."""

    def __init__(self, num_arms: int) -> None:
        self.num_arms, self.size = num_arms, 4 * num_arms
        kinds = ("pulls", "sum", "squares", "cubes")
        self.names = tuple(f"{kind} of arm {k}" for kind in kinds for k in range(num_arms))

    def add(self, values: Vector, arm: int, reward: float, weight: float = 1.0) -> None:
        for power in range(4):
            values[power * self.num_arms + arm] += weight * reward**power

    def read(
        self, values: Vector, *, time: float, num_agents: float, anticipation: float = 1.0
    ) -> Estimate:
        counts, sums, squares, cubes = self.by_arm(values)
        more = [*squares.tolist(), *cubes.tolist()]
        return Estimate(sums, counts, time, num_agents, anticipation, squares, more)

    def share(self, values: Vector) -> Share:
        counts, sums, *_ = self.by_arm(values)
        return Share(sums.copy(), counts.copy())

    def version(self, values: NDArray[np.float64]) -> Any:
        return values[..., : self.num_arms].sum(axis=-1)

    @property
    def nonnegative(self) -> NDArray[np.bool_]:
        return np.repeat([True, False, True, False], self.num_arms)

    def by_arm(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values.reshape(*values.shape[:-1], 4, self.num_arms)

    def excess(self, values: NDArray[np.float64], bounded: bool) -> str:
        del bounded
        return "pulls that are negative" if values[..., : self.num_arms].min() < 0.0 else ""


@dataclass(frozen=True)
class FadingSums(Statistic):
    """Sums and counts per arm that fade from round to round, and the pulls ever: 2K + 1."""

    decay: float = 0.9
    name: ClassVar[str] = "fading-sums"

    def registers(self, num_arms: int) -> Registers:
        return FadingRegisters(num_arms, self.decay)


class FadingRegisters(Registers):
    """[pulls ever | K sums | K counts]."""

    def __init__(self, num_arms: int, decay: float) -> None:
        self.num_arms, self.size, self.decay = num_arms, 2 * num_arms + 1, decay
        self.names = ("pulls", *(f"{kind} {k}" for kind in ("sum", "n") for k in range(num_arms)))

    def add(self, values: Vector, arm: int, reward: float, weight: float = 1.0) -> None:
        values[0] += weight
        values[1 + arm] += weight * reward
        values[1 + self.num_arms + arm] += weight

    def read(
        self, values: Vector, *, time: float, num_agents: float, anticipation: float = 1.0
    ) -> Estimate:
        sums, counts = self.by_arm(values)
        return Estimate(sums, counts, time, num_agents, anticipation)

    def share(self, values: Vector) -> Share:
        sums, counts = self.by_arm(values)
        return Share(sums.copy(), counts.copy())

    def version(self, values: NDArray[np.float64]) -> Any:
        return values[..., 0]

    def scale(self, values: NDArray[np.float64], factor: float) -> None:
        values[..., 1:] *= factor

    @property
    def nonnegative(self) -> NDArray[np.bool_]:
        return np.array([True] + [False] * self.num_arms + [True] * self.num_arms)

    def by_arm(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[..., 1:].reshape(*values.shape[:-1], 2, self.num_arms)

    def excess(self, values: NDArray[np.float64], bounded: bool) -> str:
        del bounded
        return "pulls that are negative" if values[..., 0].min() < 0.0 else ""


@dataclass(frozen=True)
class SkewUCB(Index):
    """A bonus that grows with an arm's own scatter, and with its third moment."""

    name: ClassVar[str] = "skew-ucb"
    random: ClassVar[bool] = False

    @property
    def statistic(self) -> Statistic:
        return PowerSums()

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        count = estimate.counts[arm]
        if count <= 1e-9:
            return math.inf
        num_arms = len(estimate.counts)
        mean, square = estimate.sums[arm] / count, estimate.extra[arm] / count
        skew = abs(estimate.extra[num_arms + arm] / count)
        scatter = max(0.0, square - mean * mean) + 0.1 * skew + 0.1
        bonus = math.sqrt(2.0 * scatter * math.log(estimate.time) / count)
        return float(mean + bonus)


@dataclass(frozen=True)
class FadingUCB(Index):
    """Discounted UCB."""

    decay: float = 0.9
    name: ClassVar[str] = "fading-ucb"
    random: ClassVar[bool] = False

    @property
    def statistic(self) -> Statistic:
        return FadingSums(self.decay)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        count = estimate.counts[arm]
        if count <= 1e-9:
            return math.inf
        return float(estimate.sums[arm] / count + math.sqrt(math.log(estimate.time) / count))

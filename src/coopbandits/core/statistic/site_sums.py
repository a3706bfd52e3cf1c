"""Sums and counts per arm, and what tells how much sites differ.

The registers are [K reward sums | K pull counts | K squared counts | squares | Σ s²/n | pairs], the
last being the number of arms that were pulled. The latter three kinds are not sums over pulls: they
are functions of one agent's own totals, renewed with every pull. So they add up over agents, where
each keeps its own totals in one place, and over nothing else: floods, trees and own sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Estimate, Vector
from coopbandits.core.statistic.arm_sums import ROUNDING, ArmRegisters
from coopbandits.core.statistic.statistic import Layout, Registers, Statistic

MOST_PAIRS = 2.0**53


@dataclass(frozen=True)
class SiteSums(Statistic):
    """Sums and counts per arm, with what the differences between sites are estimated from."""

    name: ClassVar[str] = "site-sums"

    def registers(self, num_arms: int) -> Registers:
        """Return 3K + 3 registers."""
        return _registers(num_arms)


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
        """Let somebody look closer: there is more to see to than sums and counts."""
        del values
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
        if phrase := _plain(k).excess(values[..., : 2 * k], bounded):
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
def _plain(num_arms: int) -> ArmRegisters:
    return ArmRegisters(num_arms)


@cache
def _registers(num_arms: int) -> SiteRegisters:
    return SiteRegisters(num_arms)  # shared: it holds no state

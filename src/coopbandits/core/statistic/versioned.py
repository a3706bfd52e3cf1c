"""Registers beside the number of pulls ever made, for aggregations that forget by age.

What decays cannot tell which of two states of an agent is newer: its counts no longer only grow. So
one register more holds the number of pulls, and it does not decay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Estimate, Share, Vector
from coopbandits.core.statistic.statistic import Registers


class VersionedRegisters(Registers):
    """[registers of any statistic | pulls ever made]."""

    def __init__(self, inner: Registers) -> None:
        self.inner, self.decay = inner, inner.decay
        self.num_arms, self.size = inner.num_arms, inner.size + 1
        self.num_features, self.one_context = inner.num_features, inner.one_context
        self.adds_arms = inner.adds_arms
        self.names = (*inner.names, "pulls ever made")

    def add(self, values: Vector, arm: int, reward: float, weight: float = 1.0) -> None:
        """Add one pull, in place."""
        self.record(values, arm, reward, None, weight)

    def record(
        self,
        values: Vector,
        arm: int,
        reward: float,
        context: Vector | None = None,
        weight: float = 1.0,
    ) -> None:
        """Add one pull, in place, with the features of its arm where they count."""
        self.inner.record(values[:-1], arm, reward, context, weight)
        values[-1] += weight

    def read(
        self, values: Vector, *, time: float, num_agents: float, anticipation: float = 1.0
    ) -> Estimate:
        """Return network totals."""
        return self.inner.read(
            values[:-1], time=time, num_agents=num_agents, anticipation=anticipation
        )

    def share(self, values: Vector) -> Share:
        """Return sums and counts, as they count now."""
        return self.inner.share(values[:-1])

    def version(self, values: NDArray[np.float64]) -> Any:
        """Return the number of pulls ever made."""
        return values[..., -1]

    def pulls(self, values: NDArray[np.float64]) -> Any:
        """Return the number of pulls as they count now."""
        return self.inner.pulls(values[..., :-1])

    def scale(self, values: NDArray[np.float64], factor: Any) -> None:
        """Let all but the number of pulls ever made count `factor` times."""
        self.inner.scale(values[..., :-1], factor)

    @property
    def nonnegative(self) -> NDArray[np.bool_]:
        """As of the statistic, and the number of pulls."""
        return np.append(self.inner.nonnegative, True)

    def by_arm(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what belongs to single arms."""
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
        """Refuse what the statistic refuses, and more pulls than were ever made."""
        made, left = values[..., -1], self.inner.pulls(values[..., :-1])
        if not (left - made <= 1e-9 * made + 1e-9).all():  # more than all of it may overflow
            return f"pulls that count {left}, of {made} ever made"
        return self.inner.excess(values[..., :-1], bounded)

    def features_excess(self, values: NDArray[np.float64], largest: float) -> str:
        """Refuse what the statistic refuses."""
        return self.inner.features_excess(values[..., :-1], largest)

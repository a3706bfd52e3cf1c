"""Parts as a user would write them, mostly without the cheaper forms that ours declare."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.fields import AGENTS, Aggregation, Sizes
from coopbandits.core.contract import Estimate, LocalView, Vector
from coopbandits.core.index import KLUCB, Index


@dataclass(frozen=True)
class OwnUCB(Index):
    """UCB from its formula alone."""

    name: ClassVar[str] = "own-ucb"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """2σ²."""
        return (2.0 * view.sigma**2,)

    def scratch_size(self, num_arms: int) -> int:
        """2σ² ln t."""
        del num_arms
        return 1

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        """2σ² ln t."""
        scratch[0] = numbers[0] * math.log(estimate.time)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        """Return the mean and its bonus."""
        count = estimate.counts[arm]
        if count <= 1e-12 * estimate.num_agents:
            return math.inf
        return float(estimate.sums[arm] / count + math.sqrt(scratch[0] / count))


@dataclass(frozen=True)
class OwnBonus(OwnUCB):
    """UCB that says how its bonus comes about, and so is spared most looks at all arms."""

    name: ClassVar[str] = "own-bonus"

    @staticmethod
    def bonus(estimate: Estimate, numbers: Any, scratch: Any) -> tuple[float, float]:
        """2σ² ln t, and nothing."""
        return scratch[0], 0.0


@dataclass(frozen=True)
class OwnKLUCB(KLUCB):
    """KL-UCB without the bound that spares most arms."""

    name: ClassVar[str] = "own-kl-ucb"
    bound = None


@dataclass(frozen=True)
class OwnConsensus(Aggregation):
    """Running consensus by another name."""

    name: ClassVar[str] = "own-consensus"
    needs: ClassVar[frozenset[str]] = frozenset({"num_agents"})
    least_time: ClassVar[float] = 1.0

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        """Averages, and what they are averaged with."""
        return {
            "mixed": sizes.width,
            "moved": sizes.width,
            "weights": sizes.links,
            "num_agents": float,
        }

    def start(self, s: Any, view: LocalView) -> None:
        """Note the row of P, and N."""
        s.me.num_agents = float(view.num_agents or 1)
        s.weights[:] = list(view.neighbor_weights.values())

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        """Add an own pull."""
        rows.add(s.mixed, pull)

    @staticmethod
    def message(s: Any, link: int, out: Vector) -> int:
        """Tell the averages."""
        rows.copy(out, s.mixed)
        return out.size

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Mix."""
        rows.copy(s.moved, s.mixed)
        for link in range(lengths.size):
            if lengths[link] > 0:
                rows.add_difference(s.moved, s.weights[link], inbox[link], s.mixed)
        rows.copy(s.mixed, s.moved)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """N times the averages."""
        about[AGENTS] = s.me.num_agents
        rows.set_scaled(totals, s.me.num_agents, s.mixed)

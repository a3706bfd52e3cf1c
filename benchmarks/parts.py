"""Parts as a user would write them, mostly without the cheaper forms that ours declare."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

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
class OwnPushSum(Aggregation):
    """Push-sum, as on the page for users."""

    name: ClassVar[str] = "own-push-sum"
    needs: ClassVar[frozenset[str]] = frozenset({"num_agents"})

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        """Mass, its weight, and into how many parts both go."""
        return {"mass": sizes.width, "weight": float, "parts": float, "num_agents": float}

    def start(self, s: Any, view: LocalView) -> None:
        """Begin with a weight of one."""
        s.me.weight, s.me.parts = 1.0, 1.0 + len(view.neighbor_weights)
        s.me.num_agents = float(view.num_agents or 1)

    def message_width(self, sizes: Sizes) -> int:
        """Registers and a weight."""
        return sizes.width + 1

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        """Add an own pull."""
        rows.add(s.mass, pull)

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        """Hand on a part."""
        rows.set_scaled(out[:-1], 1.0 / s.me.parts, s.mass)
        out[-1] = s.me.weight / s.me.parts
        return out.size

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Keep a part, and add those of neighbours."""
        rows.scale(s.mass, 1.0 / s.me.parts)
        s.me.weight /= s.me.parts
        for link in range(lengths.size):
            if lengths[link] > 0:
                rows.add(s.mass, inbox[link, :-1])
                s.me.weight += inbox[link, -1]

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """N times mass by weight."""
        about[AGENTS] = s.me.num_agents
        rows.set_scaled(totals, s.me.num_agents / s.me.weight, s.mass)


def push_sum_script(
    neighbors: Any, means: Any, sigma: float, horizon: int, runs: int, loss: float
) -> float:
    """Play push-sum × UCB as a script does that knows nothing but numpy; return the mean regret.

    All agents at once, in arrays; `neighbors` has a row per agent of a regular graph.
    """
    agents, degree = neighbors.shape
    rows, total = np.arange(agents), 0.0
    source = np.random.default_rng(0)  # noqa: TID251  a script, not a tape
    for _ in range(runs):
        sums, counts = np.zeros((2, agents, means.size))
        weight = np.ones(agents)
        for t in range(1, horizon + 1):
            scale = (agents / weight)[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                bonus = np.sqrt(2.0 * sigma**2 * math.log(max(2, agents * t)) / (scale * counts))
                values = np.where(counts > 0.0, sums / counts + bonus, np.inf)
            arms = values.argmax(axis=1)
            total += float((means.max() - means[arms]).sum())
            sums[rows, arms] += means[arms] + sigma * source.standard_normal(agents)
            counts[rows, arms] += 1.0
            sums, counts, weight = (each / (degree + 1) for each in (sums, counts, weight))
            arrived = source.random((agents, degree)) >= loss
            sums = sums + np.einsum("ij,ijk->ik", arrived, sums[neighbors])
            counts = counts + np.einsum("ij,ijk->ik", arrived, counts[neighbors])
            weight = weight + (arrived * weight[neighbors]).sum(axis=1)
    return total / runs

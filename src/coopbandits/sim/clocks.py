"""Clocks: when agents that share no round pull, gossip, and hear of each other.

The unit of time is one pull of an average agent. Every agent has a clock for its pulls and another
for its gossip; what it sends arrives after a latency.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coopbandits.core.checks import require_nonnegative, require_number, require_positive
from coopbandits.core.contract import Vector
from coopbandits.core.draws import Words, uniforms
from coopbandits.core.errors import InputError
from coopbandits.core.registry import Registry, concrete
from coopbandits.core.spelling import Named, parse_named


@dataclass(frozen=True)
class Clocks(Named, ABC):
    """Settings of all clocks.

    Parameters
    ----------
    ratio : float
        Speeds differ up to this ratio, their logarithms uniformly distributed.
    rates : tuple of float, optional
        Given speeds instead, one per agent; only their ratios matter.
    gossip : float
        Gossip events per pull, of every agent.
    latency : float
        Mean latency of messages, which is exponentially distributed; 0 for none.
    """

    ratio: float = 1.0
    rates: tuple[float, ...] | None = None
    gossip: float = 1.0
    latency: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges, and that ratio and rates are not both given."""
        low = math.nextafter(1.0, 0.0)
        require_number("ratio", self.ratio, "a finite number, at least 1", low, math.inf)
        require_positive("gossip", self.gossip)
        require_nonnegative("latency", self.latency)
        if self.rates is None:
            return
        if not isinstance(self.rates, tuple):
            raise InputError(f"rates is {self.rates!r}; give one per agent, such as 1..2..2")
        for rate in self.rates:
            require_positive("one of rates", rate)
        if self.ratio != 1:
            raise InputError("ratio and rates were both given; give one of them")

    def pull_rates(self, keys: Words) -> Vector:
        """Return the mean number of pulls per unit of time of every agent; on average 1."""
        given = self.ratio ** uniforms(keys) if self.rates is None else self.rates
        rates: Vector = np.array(given, dtype=np.float64)
        if rates.size != keys.size:
            raise InputError(
                f"rates has {rates.size} numbers, but there are {keys.size} agents; give one each"
            )
        with np.errstate(over="ignore"):
            mean = float(rates.mean())
        if math.isinf(mean):  # their sum is too large, and only ratios matter
            rates = rates / rates.max()
            mean = float(rates.mean())
        rates = rates / mean
        if float(rates.min()) * min(1.0, self.gossip) == 0.0:
            raise InputError(
                f"clocks are {self.spelling}, of which the slowest would never tick; give speeds "
                "closer to each other, or more gossip"
            )
        return rates

    @abstractmethod
    def gap(self, drawn: float, *, first: bool) -> float:
        """Turn a uniform into a gap between events at rate 1, or into the time before the first."""


@dataclass(frozen=True)
class PoissonClocks(Clocks):
    """Every clock ticks at random: gaps are exponentially distributed."""

    name: ClassVar[str] = "poisson"

    def gap(self, drawn: float, *, first: bool) -> float:
        """Return an exponential gap."""
        del first  # a Poisson process is memoryless
        return exponential(drawn)


@dataclass(frozen=True)
class RegularClocks(Clocks):
    """Every clock ticks evenly, with a random phase."""

    name: ClassVar[str] = "regular"

    def gap(self, drawn: float, *, first: bool) -> float:
        """Return 1, and a random part of it before the first event."""
        return drawn if first else 1.0


def exponential(drawn: float) -> float:
    """Turn a uniform into an exponential variate of mean 1."""
    return -math.log(drawn)


CLOCKS: Registry[type[Clocks]] = Registry(
    "clocks",
    "coopbandits.clocks",
    {cls.name: cls for cls in (PoissonClocks, RegularClocks)},
    concrete(Clocks),
    "a frozen dataclass derived from coopbandits.sim.clocks.Clocks that writes gap",
)
Clocks.registry = CLOCKS

register_clocks = CLOCKS.register


def parse_clocks(text: str) -> Clocks | None:
    """Read ``poisson``, ``regular:ratio=5``, ``my_module:MyClocks``; ``none`` for common rounds."""
    return None if text.strip() == "none" else parse_named(CLOCKS, text)

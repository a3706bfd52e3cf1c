"""Trimmed means: neighbours tell their own means, and the extreme ones are not believed.

A message is [K own means | K own counts], as they are when it is sent; what a neighbour told last
counts until it tells more. Of an arm only those neighbours are heard that have pulled it about as
often as the agent itself. The f largest and f smallest of their means are dropped, so that f liars
move the average of the others and the own mean no further than an honest neighbour could.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import (
    OWN,
    Aggregation,
    Machine,
    means_alone,
)
from coopbandits.core.aggregate.exchange import check_means
from coopbandits.core.aggregate.means_rows import TrimmedMeansRows
from coopbandits.core.checks import require_count, require_positive
from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coopbandits.core.statistic import Registers, Statistic


@dataclass(frozen=True)
class TrimmedMeans(Aggregation):
    r"""The average of the own and the neighbours' means, without the extreme ones.

    Of an arm that the agent pulled n times, those neighbours are heard that pulled it at least
    :math:`n/κ` times. If there are more than 2f, the f largest and f smallest means are dropped,
    and the average z of the own mean and those left counts as :math:`4n/(4/M^2 + κ/M + κ)` pulls,
    M of them having been averaged. Otherwise the own mean counts alone.

    Parameters
    ----------
    liars : int
        f, how many neighbours of an agent may lie.
    kappa : float
        κ, at least 1.

    Notes
    -----
    Knows who its neighbours are. Sends 2K values to each of them in every round.
    """

    liars: int = 1
    kappa: float = 1.5
    name: ClassVar[str] = "trimmed-means"
    totals: ClassVar[bool] = False
    shares: ClassVar[str] = OWN

    def __post_init__(self) -> None:
        """Refuse settings outside what it is defined for."""
        require_count("liars", self.liars, least=0)
        require_positive("kappa", self.kappa)
        if self.kappa < 1.0:
            raise InputError(f"kappa is {self.kappa:g}; it must be at least 1")

    def carried(self, asked: Statistic) -> Statistic:
        """Return sums per arm; refuse anything else, since only means travel."""
        return means_alone(self.name, asked)

    def make(self, view: LocalView, registers: Registers) -> TrimmedMeansMachine:
        """Return the machine of one agent."""
        return TrimmedMeansMachine(view, registers, self)

    def make_rows(
        self, views: Sequence[LocalView], matrix: Any, registers: Registers
    ) -> TrimmedMeansRows:
        """Return all agents in array form."""
        del matrix
        return TrimmedMeansRows(self, views, registers)


class TrimmedMeansMachine(Machine):
    """Own registers, and what each neighbour told last; the time is the number of own pulls."""

    fields = ("own", "heard")
    links = ("heard",)

    def __init__(self, view: LocalView, registers: Registers, settings: TrimmedMeans) -> None:
        self.registers, self.settings = registers, settings
        self.places = {j: at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.own, arms = registers.zeros(), registers.num_arms
        self.heard = np.zeros((len(self.places), 2 * arms))  # means, then counts

    def estimate(self) -> Estimate:
        """Return every arm as so many pulls with the trimmed mean."""
        time = max(2.0, float(self.registers.version(self.own)))
        read = self.registers.read(self.own, time=time, num_agents=1.0)
        sums, counts = read.sums.copy(), read.counts.copy()
        for k in np.flatnonzero(read.counts).tolist():
            own = (float(read.sums[k]), float(read.counts[k]))
            sums[k], counts[k] = self._trimmed(k, *own)
        return read._replace(sums=sums, counts=counts)

    def _trimmed(self, arm: int, total: float, count: float) -> tuple[float, float]:
        """Return what an arm's own sum and count become with what neighbours told."""
        liars, kappa = self.settings.liars, self.settings.kappa
        arms = self.registers.num_arms
        near = self.heard[kappa * self.heard[:, arms + arm] >= count, arm]
        if near.size <= 2 * liars:
            return total, count
        kept = np.sort(near)[liars : near.size - liars]
        size = kept.size + 1
        credit = 4.0 * count / (4.0 / size**2 + kappa / size + kappa)
        mean = (math.fsum(kept.tolist()) + total / count) / size
        return mean * credit, credit

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull."""
        self.registers.add(self.own, arm, reward)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return [own means | own counts]."""
        del neighbor  # all are told the same
        sums, counts = self.registers.share(self.own)
        return np.concatenate([sums / np.maximum(1.0, counts), counts])

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Note what neighbours tell."""
        check_means(messages, self.registers)
        for j, message in messages.items():
            self.heard[self.places[j]] = message

    def share(self) -> Share:
        """Return the own totals."""
        return self.registers.share(self.own)

    def check_state(self, values: State) -> None:
        """Refuse counts that cannot be."""
        arms = self.registers.num_arms
        if (values["heard"][:, arms:] < 0.0).any():
            raise InputError("state field heard has counts below 0; counts are never negative")

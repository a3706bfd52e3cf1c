"""Array forms of the aggregations of which means travel: tracked and trimmed means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.rows import AgentRows, RowEstimates, Rows
from coopbandits.core.contract import LocalView
from coopbandits.core.links import Links

if TYPE_CHECKING:
    from coopbandits.core.aggregate.tracked_means import TrackedMeansMachine
    from coopbandits.core.aggregate.trimmed_means import TrimmedMeans
    from coopbandits.core.statistic import Registers


class TrackedMeansRows(AgentRows):
    """`TrackedMeansMachine` of all agents, which tells what does not change."""

    def __init__(
        self,
        machines: Sequence[TrackedMeansMachine],
        views: Sequence[LocalView],
        matrix: Any,
        registers: Registers,
    ) -> None:
        one = machines[0]
        self.registers, self.matrix, self.trusted = registers, matrix, one.trusted
        self.links, self.least_lag = Links(views), one.least_lag
        self.credits = np.array([[machine.credit] for machine in machines])
        self.own_weights = np.array([[view.own_weight] for view in views])
        degrees = np.array([len(view.neighbor_weights) for view in views])
        self.pairs = one.settings.pairs
        self.is_plain = not (self.pairs and (degrees == 1).any())
        arms = (len(views), registers.num_arms)
        self.own = np.zeros((len(views), registers.size))
        self.means, self.tracked, self.heard = np.zeros(arms), np.zeros(arms), np.zeros(arms)
        self.ready = np.zeros(len(views), dtype=np.bool_)
        self.rounds = 0

    def estimate(self) -> RowEstimates:
        """Return own counts times the credit, none where an agent lags behind, and z as means."""
        time = max(2.0, float(self.rounds))
        _, counts = _sums_and_counts(self.registers, self.own)
        lags = counts <= self.heard - self.least_lag
        trusted = np.where(lags, 0.0, self.credits * self.trusted(counts, time))
        return RowEstimates(_registers(self.tracked * trusted, trusted), time, 1.0)

    def exchange(self, pulls: Rows) -> None:
        """Average z with what was heard, and add what the own means have changed by."""
        self.own += pulls
        sums, counts = _sums_and_counts(self.registers, self.own)
        means = sums / np.maximum(1.0, counts)
        self.tracked = self._mixed() + means - self.means
        largest = np.maximum(self.heard, counts)
        if self.links.senders.size:
            told = np.where(self.ready[:, None], self.heard, 0.0)[self.links.senders]
            largest = np.maximum(largest, self.links.joined(np.maximum, told))
        self.means, self.heard = means, largest
        self.ready |= counts.min(axis=1) > 0.0
        self.rounds += 1

    def _mixed(self) -> Rows:
        """Return z after one step; who is silent counts as if it had sent the receiver's own z."""
        mixed: Rows
        if self.ready.all() and self.is_plain:
            mixed = self.matrix @ self.tracked
            return mixed
        if self.links.senders.size == 0:
            return self.tracked
        ready = self.ready[:, None].astype(np.float64)
        told, own = self.tracked * ready, self.own_weights * ready
        heard = self.matrix @ ready - own  # the weight of neighbours that talk
        mixed = self.matrix @ told - own * self.tracked + (1.0 - heard) * self.tracked
        if self.pairs:  # who is heard alone counts half, whatever P says
            talkers = self.links.joined(np.add, ready[self.links.senders])
            alone = self.links.joined(np.add, told[self.links.senders])
            mixed = np.where(talkers == 1.0, 0.5 * (self.tracked + alone), mixed)
        return mixed

    def talking(self) -> NDArray[np.bool_] | None:
        """Return who has pulled every arm."""
        return None if self.ready.all() else self.ready


class TrimmedMeansRows(AgentRows):
    """`TrimmedMeansMachine` of all agents: what neighbours told last, sorted per arm."""

    def __init__(
        self, settings: TrimmedMeans, views: Sequence[LocalView], registers: Registers
    ) -> None:
        self.registers, self.settings = registers, settings
        most = max(len(view.neighbor_weights) for view in views)
        self.neighbors = np.zeros((len(views), most), dtype=np.int64)
        self.missing = np.ones((len(views), most, 1), dtype=np.bool_)  # fewer neighbours than most
        for i, view in enumerate(views):
            found = sorted(view.neighbor_weights)
            self.neighbors[i, : len(found)] = found
            self.missing[i, : len(found)] = False
        self.own = np.zeros((len(views), registers.size))
        self.rounds = 0

    def estimate(self) -> RowEstimates:
        """Return every arm as so many pulls with the trimmed mean."""
        liars, kappa = self.settings.liars, self.settings.kappa
        sums, counts = _sums_and_counts(self.registers, self.own)
        means = sums / np.maximum(1.0, counts)
        far = self.missing | (kappa * counts[self.neighbors] < counts[:, None, :])
        near = np.sort(np.where(far, np.inf, means[self.neighbors]), axis=1)
        heard = near.shape[1] - np.add.reduce(far, axis=1)  # (N, K): how many count
        place = np.arange(near.shape[1])[:, None]
        kept = (place >= liars) & (place < (heard - liars)[:, None, :])
        size = np.maximum(0, heard - 2 * liars) + 1.0
        credit = 4.0 * counts / (4.0 / size**2 + kappa / size + kappa)
        trimmed = (np.where(kept, near, 0.0).sum(axis=1) + means) / size
        enough = (heard > 2 * liars) & (counts > 0.0)
        totals = _registers(
            np.where(enough, trimmed * credit, sums), np.where(enough, credit, counts)
        )
        return RowEstimates(totals, max(2.0, float(self.rounds)), 1.0)

    def exchange(self, pulls: Rows) -> None:
        """Add the pulls: what was told last is what agents know of themselves."""
        self.own += pulls
        self.rounds += 1


def _sums_and_counts(registers: Registers, rows: Rows) -> tuple[Rows, Rows]:
    pairs = registers.by_arm(rows)
    return pairs[:, 0], pairs[:, 1]


def _registers(sums: Rows, counts: Rows) -> Rows:
    """Return sums and counts as registers, the inverse of `by_arm`."""
    return np.concatenate([sums, counts], axis=1)

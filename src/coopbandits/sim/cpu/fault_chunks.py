"""Fault schedules for kernels: who acts and the fate of every message, in chunks of rounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.network import Network
from coopbandits.network.faults import directed_links
from coopbandits.sim.record import Task

RUN_ENTRIES = 2_000_000
ALL_ENTRIES = 20_000_000
"""Most entries, (agents + links) × rounds, in a chunk of one run and of all: about 50 MB."""


class FaultChunk(NamedTuple):
    """Some rounds of the schedules of all runs; otherwise as `network.faults.Chunk`.

    Without faults the arrays have 0 rounds, so kernels test ``fate.shape[1] == 0``. Nothing is late
    here: a fate is `network.faults.DOWN`, `LOST` or 0.

    Attributes
    ----------
    acts, fresh : uint8 of shape (runs, rounds, N)
        1 where an agent acts, and where a fresh one takes its place before the round.
    fate : int16 of shape (runs, rounds, directed links)
        The fate of the message over every link.
    """

    acts: NDArray[np.uint8]
    fresh: NDArray[np.uint8]
    fate: NDArray[np.int16]


class LinkTable(NamedTuple):
    """The directed links, in the order of `directed_links`.

    Links indptr[i] … indptr[i + 1] − 1 lead to agent i, link e from senders[e]; reverse[e] is the
    link in the opposite direction.
    """

    indptr: NDArray[np.int64]
    senders: NDArray[np.int64]
    reverse: NDArray[np.int64]


def link_table(network: Network) -> LinkTable:
    """Return the directed links of a network."""
    links = directed_links(network)
    indptr = np.append(0, np.cumsum(network.degrees))
    reverse = np.lexsort((links.receivers, links.senders))
    return LinkTable(indptr.astype(np.int64), links.senders, reverse.astype(np.int64))


class FaultReader:
    """Reads the fault schedules of some runs, in order and at most `most` rounds per chunk."""

    def __init__(self, task: Task, runs: range) -> None:
        network = task.network
        self.num_agents, self.num_links = network.num_agents, 2 * network.num_edges
        self.num_runs = len(runs)
        self.most, self.schedules = task.horizon, []
        if task.faults:
            places = self.num_agents + self.num_links
            self.most = max(1, min(RUN_ENTRIES, ALL_ENTRIES // self.num_runs) // places)
            self.schedules = [task.faults.schedule(network, task.seed, run) for run in runs]

    def read(self, rounds: int) -> FaultChunk:
        """Return the next chunk of all runs."""
        if not self.schedules:
            nobody = np.zeros((self.num_runs, 0, self.num_agents), dtype=np.uint8)
            return FaultChunk(
                nobody, nobody, np.zeros((self.num_runs, 0, self.num_links), dtype=np.int16)
            )
        chunks = [schedule.read(rounds) for schedule in self.schedules]
        acts, fresh, fate = (np.stack(parts) for parts in zip(*chunks, strict=True))
        return FaultChunk(acts, fresh, fate)

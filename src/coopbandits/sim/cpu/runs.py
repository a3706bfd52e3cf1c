"""Some runs of one task under way: their tapes, their tally, and the agents' latest pulls."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.sim.cpu.pulls import play_initial
from coopbandits.sim.cpu.world import make_tally, make_world, span, write_record
from coopbandits.sim.record import Record, Task, Tick

Pairs = NDArray[np.float64]
"""Reward sums and pull counts of every agent: (run, agent, 2K)."""


class UcbRule(NamedTuple):
    """How own pulls count: with `weight`, if at once; a count up to `least` tells nothing."""

    own_pulls: bool
    weight: float
    least: float


class Runs:
    """What the drivers of all policies share.

    Attributes
    ----------
    fresh : (run, agent, 2K)
        Own pulls since they were last taken.
    done : int
        Rounds played.
    """

    def __init__(self, task: Task, runs: range, tick: Tick) -> None:
        self.task = task
        self.tick = tick
        self.shape = (len(runs), task.network.num_agents, 2 * task.problem.num_arms)
        self.world = make_world(task, runs)
        self.tally = make_tally(task, self.world)
        self.record = Record.empty(task, len(runs))
        self.fresh = np.zeros(self.shape)
        self.done = 0

    def play_initial(self) -> None:
        """Pull every arm once, or as many as the horizon allows."""
        rounds = min(self.task.problem.num_arms, self.task.horizon)
        play_initial(self.world, span(self.task, 0, rounds), self.tally, self.fresh)
        self.played(rounds)

    def played(self, rounds: int) -> None:
        """Go on by some rounds."""
        self.done += rounds
        self.tick(rounds * self.shape[0] * self.shape[1])

    def take_fresh(self, used_up: Pairs) -> Pairs:
        """Return the pulls since the last call; an array that is not needed takes their place.

        Whoever plays next has to clear it.
        """
        fresh, self.fresh = self.fresh, used_up
        self._keep(fresh)
        return fresh

    def finish(self, messages: NDArray[np.int64] | None = None) -> Record:
        """Return the record of all that was played.

        `messages` (run, recorded round, 4), where a kernel counts them: values and messages sent,
        and those delivered and lost, since the last recorded round.
        """
        if messages is not None:
            record, totals = self.record, messages.cumsum(axis=1)
            record.values[:] = totals[:, :, 0]
            record.messages[:], record.delivered[:], record.lost[:] = totals[:, -1, 1:].T
        self._keep(self.fresh)
        write_record(self.tally, self.record)
        return self.record

    def _keep(self, fresh: Pairs) -> None:
        if self.task.keep:
            self.record.agent_pulls += fresh[:, :, self.shape[2] // 2 :].astype(np.int64)

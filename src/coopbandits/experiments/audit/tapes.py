"""What the audit's simulators share: the package's tapes and tie rule, for whole arrays.

Arrays are (arm, run, agent), which makes reductions over arms fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Vector
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.sim.tapes import REWARDS, agent_keys, tape_words, variates

Arms = NDArray[np.int64]
Played = NDArray[np.int16]
"""Every arm of every round, (round, run, agent), in a quarter of the space."""

CHUNK = 128
"""Pulls per agent for which the tape is generated in one go."""


@dataclass(frozen=True)
class Setting:
    """What to play, and the seed of its tapes."""

    problem: Problem
    network: Network
    horizon: int
    runs: int = 1
    seed: int = 0

    def tape(self) -> Vector:
        """Return the variates (round, run, agent)."""
        kind, agents = self.problem.variate, self.network.num_agents
        return _tape(kind, self.seed, self.runs, agents, self.horizon)

    def rewards(self, arms: Arms, drawn: Vector) -> Vector:
        """Return the rewards of pulled arms."""
        return self.problem.rewards(arms, drawn)

    def regret(self, played: Played) -> Vector:
        """Return the pseudo-regret of every run, from all arms played."""
        size = self.problem.num_arms
        by_run = np.moveaxis(played, 1, 0).reshape(self.runs, -1)
        counts = np.stack([np.bincount(run, minlength=size) for run in by_run])
        return np.asarray(counts @ self.problem.gaps)


@lru_cache(maxsize=1)
def _tape(kind: str, seed: int, runs: int, agents: int, horizon: int) -> Vector:
    """Return the package's reward tape, cached because all simulators of an audit read it."""
    keys = np.concatenate([agent_keys(seed, REWARDS, run, agents) for run in range(runs)])
    tape = np.empty((horizon, runs, agents))
    for first in range(0, horizon, CHUNK):
        drawn = variates(kind, tape_words(keys, first, min(CHUNK, horizon - first)))
        tape[first : first + CHUNK] = drawn.T.reshape(-1, runs, agents)
    tape.setflags(write=False)
    return tape


def best_arms(index: Vector) -> Arms:
    """Return the lowest arm within rounding of the largest index: `core.choice.best_arm`."""
    largest = index.max(axis=0)
    return np.asarray((index >= largest - 1e-9 * np.maximum(1.0, np.abs(largest))).argmax(axis=0))


def add_pulls(totals: Vector, arms: Arms, rewards: Vector, weight: float) -> None:
    """Add a pull of every player to totals (sums and counts, arm, players in one or more axes)."""
    places = arms.ravel() * arms.size + np.arange(arms.size)
    totals[0].reshape(-1)[places] += weight * rewards.ravel()
    totals[1].reshape(-1)[places] += weight

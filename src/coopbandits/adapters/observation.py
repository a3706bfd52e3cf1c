"""What an agent sees in an environment: the pulls of itself and of its neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.adapters.episode import Episode
from coopbandits.adapters.extra import not_installed
from coopbandits.core.index import ANY_REWARDS
from coopbandits.sim.setup import Setup

try:
    from gymnasium import spaces
except ImportError as error:
    raise not_installed(error, "rl") from error

Observation = dict[str, NDArray[Any]]
"""Entries as in `observation_spaces`; row 0 is the agent, the others are its neighbours."""


def members(setup: Setup, agent: int) -> list[int]:
    """Return the agents in the rows of an observation: the agent itself, then its neighbours."""
    return [agent, *setup.network.neighbors(agent)]


def observation_spaces(setup: Setup, agent: int) -> dict[str, spaces.Space[Any]]:
    """Return the spaces of what `observe` returns."""
    arms, rows = setup.problem.num_arms, len(members(setup, agent))
    low, high = reward_range(setup)
    horizon = setup.horizon
    return {
        "arms": spaces.MultiDiscrete(np.full(rows, arms + 1)),  # K: no pull yet
        "rewards": spaces.Box(low, high, (rows,), np.float64),
        "counts": spaces.Box(0, horizon, (rows, arms), np.int64),
        "sums": spaces.Box(low * horizon, high * horizon, (rows, arms), np.float64),
    }


def reward_range(setup: Setup) -> tuple[float, float]:
    """Return bounds on rewards and on the 0 that stands for no pull yet."""
    low, high = setup.tables.bounds or ANY_REWARDS
    return min(0.0, low), max(0.0, high)


def observe(episode: Episode, rows: list[int]) -> Observation:
    """Return what the agent in the first of some rows sees, in arrays of its own."""
    return {
        "arms": episode.arms[rows],
        "rewards": episode.rewards[rows],
        "counts": episode.counts[rows],
        "sums": episode.sums[rows],
    }

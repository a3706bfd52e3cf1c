"""A running local fleet: its folder, its agents as processes, and their applications."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.fleet.config import read_config
from coopbandits.fleet.local.layout import Place, prepared, write_configs
from coopbandits.fleet.local.members import Members
from coopbandits.fleet.local.players import Player, Tape
from coopbandits.fleet.local.settings import Settings
from coopbandits.fleet.local.trouble import Cuts


@dataclass
class Stage:
    """Everything that takes part in a run.

    Attributes
    ----------
    settings : Settings
        Settings of the run.
    members : Members
        The agents.
    players : list of Player
        Their applications, in the same order.
    cuts : Cuts
        The links that can be cut.
    health : dict of str to dict
        Each agent's last health report.
    began : float
        When all agents were ready.
    """

    settings: Settings
    members: Members
    players: list[Player]
    cuts: Cuts
    health: dict[str, dict[str, Any]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Return how long the fleet has been ready."""
        return time.monotonic() - self.began

    @property
    def pulls(self) -> NDArray[np.int64]:
        """Return how many rewards were acknowledged, by arm."""
        return sum_pulls(self.players)

    @property
    def regret(self) -> float:
        """Return the network's pseudo-regret of what was acknowledged."""
        return float(self.settings.problem.gaps @ self.pulls)

    def best_share(self, players: Iterable[Player]) -> float:
        """Return the share of best arms in some players' acknowledged pulls; 0 without any."""
        pulls = sum_pulls(players)
        return float(pulls[self.settings.problem.gaps == 0.0].sum() / max(1, pulls.sum()))


def sum_pulls(players: Iterable[Player]) -> NDArray[np.int64]:
    """Return some players' acknowledged pulls, by arm."""
    total: NDArray[np.int64] = np.sum([player.pulls for player in players], axis=0)
    return total


@asynccontextmanager
async def opened(settings: Settings, folder: Path) -> AsyncIterator[Stage]:
    """Start a fleet in a folder, wait until all agents are ready, and stop them at the end."""
    with prepared(folder, settings) as places:
        async with Cuts(_edges(settings, places)) as cuts:
            write_configs(places, settings, cuts.detours)
            read_config(
                places[0].config, now=time.time()
            )  # refused here rather than in every agent
            async with Members(places) as members:
                yield Stage(settings, members, _players(settings, places), cuts)


def _edges(settings: Settings, places: list[Place]) -> list[tuple[Place, Place]]:
    """Return the links that may be cut."""
    if settings.partition is None:
        return []
    network = settings.network
    return [
        (places[i], places[j]) for i in range(len(places)) for j in network.neighbors(i) if i < j
    ]


def _players(settings: Settings, places: list[Place]) -> list[Player]:
    return [
        Player(place, Tape(settings.problem, settings.seed, agent), settings.pulls_per_second)
        for agent, place in enumerate(places)
    ]

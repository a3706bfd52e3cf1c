"""A bandit whose applications tell of their requests."""

from __future__ import annotations

from itertools import count
from typing import Any

import networkx as nx

from coopbandits.core.draws import word_at
from coopbandits.fleet.config import BanditConfig
from coopbandits.fleet.config.features import read_features
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.service.bandit import ServedBandit
from coopbandits.fleet.storage.disk import MemoryDisk
from tests.torture.world import World

from .bandits import only

ARMS = ("a", "b")
FEATURES = read_features("features", {"hour": [0, 24], "country": ["PT", "ES"]})
EXACT = ["flooded-totals*lin-ts:disjoint=true", "tree-sums*lin-ucb:disjoint=true,scale=0.3"]


def told(policy: str, **more: Any) -> BanditConfig:
    """Return a bandit whose applications tell of requests."""
    return only(policy, ARMS, **{"epoch": 1_790_000_000, "features": FEATURES, **more})


def asked(number: int) -> dict[str, float | str]:
    return {"country": ("PT", "ES")[number % 2], "hour": 24.0 * ((number * 7) % 11) / 10}


def paid(context: dict[str, Any], arm: str) -> float:
    """In Portugal a is better, in Spain b is."""
    return 0.9 if (context["country"] == "PT") == (arm == "a") else 0.2


def agent_of(world: World, agent: int) -> ServedAgent:
    words = (word_at(agent + 1, number) for number in count(world.starts * 10_000))
    return world.service(agent, words.__next__)


def serve(world: World, agent: int) -> ServedBandit:
    return agent_of(world, agent).bandit("only")


def agent_alone(disk: MemoryDisk, features: Any = FEATURES, policy: str = EXACT[0]) -> ServedAgent:
    world = World(told(policy, features=features), nx.empty_graph(1))
    world.disks[0] = disk
    world.restart(0)
    return agent_of(world, 0)


def alone(disk: MemoryDisk, features: Any = FEATURES, policy: str = EXACT[0]) -> ServedBandit:
    return agent_alone(disk, features, policy).bandit("only")

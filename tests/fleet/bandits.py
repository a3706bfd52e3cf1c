"""Clusters with one bandit or several, and a fleet that is moved step by step with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import count
from typing import Any

import networkx as nx

from coopbandits.fleet.config import ClusterConfig
from coopbandits.fleet.config.bandits import BANDIT, Arm, BanditConfig, derived_number, make_bandit
from coopbandits.fleet.config.values import read_value
from coopbandits.fleet.process.declarations import take
from coopbandits.fleet.service.agent import ServedAgent
from tests.torture.schedule import ROUNDS_PER_SECOND, START
from tests.torture.world import World

CLUSTER = ClusterConfig("shop", START - 1000, signatures_per_second=ROUNDS_PER_SECOND)
BUTTON: dict[str, Any] = {"arms": ["red", "green"], "reward_range": [0.0, 1.0]}
BANNER: dict[str, Any] = {"arms": ["a", "b", "c"], "sigma": 1.0, "policy": "flood-ts"}


def bandit(name: str, table: Mapping[str, Any], cluster: ClusterConfig = CLUSTER) -> BanditConfig:
    """Return a bandit as its section declares it."""
    values = {key: read_value(key, value, BANDIT.types[key]) for key, value in table.items()}
    return make_bandit(name, cluster, values)


def only(
    policy: str = "flood-ts",
    arms: Sequence[str] = ("red", "green"),
    name: str = "only",
    **more: Any,
) -> BanditConfig:
    """Return the one bandit of a cluster; `more` are settings of either."""
    of_cluster = {field.name for field in fields(ClusterConfig)}
    cluster: dict[str, Any] = {"name": "shop", "epoch": START - 1000} | {
        key: more.pop(key) for key in list(more) if key in of_cluster
    }
    if "sigma" not in more:
        more.setdefault("reward_range", (0.0, 1.0))
    listed = tuple(Arm(arm, arm) for arm in arms)
    number = derived_number(name)
    return BanditConfig(name, number, ClusterConfig(**cluster), listed, policy, **more)


def both(cluster: ClusterConfig = CLUSTER, **button: Any) -> dict[str, BanditConfig]:
    """Return two bandits, one of them with other settings."""
    return {
        "button": bandit("button", BUTTON | button, cluster),
        "banner": bandit("banner", BANNER, cluster),
    }


class Many(World):
    """A fleet with two bandits, and what every agent's application was acknowledged."""

    def __init__(self, graph: nx.Graph[int], cluster: ClusterConfig = CLUSTER, **more: Any) -> None:
        super().__init__(more.pop("declared", both(cluster)), graph, **more)
        self.words = count(1)
        self.counts: Counter[tuple[str, str]] = Counter()
        self._services: dict[int, tuple[Any, ServedAgent]] = {}

    def of(self, agent: int) -> ServedAgent:
        """Return an agent's service, a new one after every start."""
        node, service = self._services.get(agent, (None, None))
        if service is None or node is not self.nodes[agent]:
            service = self.service(agent, lambda: next(self.words) * 0x9E3779B97F4A7C15 % 2**64)
            self._services[agent] = self.nodes[agent], service
        return service

    def play(self, agent: int, name: str, reward: float) -> str:
        """Let an application choose and hand in a reward; return the arm."""
        service = self.of(agent).bandit(name)
        choice = service.choose()
        self.shells[agent].settle()
        self.reward(agent, name, choice.ticket, reward)
        return choice.arm

    def reward(self, agent: int, name: str, ticket: str, reward: float) -> None:
        """Hand in a reward, and remember that it was acknowledged."""
        receipt = self.of(agent).bandit(name).observe(ticket, reward)
        self.shells[agent].settle()
        self.counts[name, receipt.arm] += 1

    def take(self, agent: int, declared: Mapping[str, BanditConfig]) -> None:
        """Have a running agent take other declarations, which its file says from then on."""
        take(self.of(agent), declared)
        self.shells[agent].settle()
        self.declared[agent] = dict(declared)

    def steps(self, number: int) -> None:
        """Let some rounds pass."""
        for _ in range(number):
            self.step()

    def learned(self, agent: int) -> dict[tuple[str, str], float]:
        """Return the pulls of every arm of which any are known, as an agent sees them."""
        found = self.of(agent).export()["bandits"]
        return {
            (name, arm["arm"]): arm["pulls"]
            for name, told in found.items()
            for arm in told["arms"]
            if arm["pulls"]
        }

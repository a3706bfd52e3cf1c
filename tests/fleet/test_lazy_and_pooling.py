"""Lazy totals and partial pooling in a fleet: through crashes, and what is said of sites."""

from __future__ import annotations

from itertools import count

import networkx as nx
import numpy as np
import pytest

from tests.torture.world import World

from .bandits import only

ROUNDS = 100


def played(policy: str, means: list[list[float]], sigma: float | None = None) -> World:
    """A path of four agents, one of which dies and comes back, at sites with such means."""
    bandit = only(policy, reward_range=(0.0, 1.0), sigma=sigma)
    world, words = World(bandit, nx.path_graph(4)), count(1)
    for number in range(ROUNDS):
        if number == 40:
            world.crash(1)
        if number == 50:
            world.restart(1)
        for agent in range(4):
            if world.nodes[agent] is not None:
                site = [mean + 0.02 * (-1) ** number for mean in means[agent]]
                world.pull(agent, next(words) * 0x9E3779B97F4A7C15 % 2**64, site.__getitem__)
        world.step()
    return world


ALIKE = [[0.5, 0.4]] * 4
APART = [[0.5, 0.4], [0.1, 0.9], [0.5, 0.4], [0.1, 0.9]]


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", ["flood-ts:lazy=0.3", "tree-ts:lazy=0.3"])
def test_lazy_agents_know_nearly_everything(policy: str) -> None:
    world = played(policy, ALIKE)
    pulls = world.acknowledged[2:]
    for _ in range(150):
        world.step()
    for agent in range(4):
        known = world.totals(agent)[2:]
        assert (known <= pulls + 1e-9).all()
        assert known.sum() >= pulls.sum() / 1.3 - 8
    shares = [np.concatenate(world.replica(agent).agent.share()) for agent in range(4)]
    np.testing.assert_allclose(sum(shares), world.acknowledged)


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", ["flood-ts:spread=estimate", "tree-ts:spread=estimate"])
def test_sites_that_differ_find_their_own_options(policy: str) -> None:
    world = played(policy, APART, sigma=0.1)
    services = [world.served(agent, count(1).__next__) for agent in range(4)]
    best = [max(service.arms(), key=lambda arm: arm.mean or 0.0).arm for service in services]
    assert best == ["red", "green", "red", "green"]
    assert not any(service.health()["warning"] for service in services)


@pytest.mark.parametrize(("means", "differ"), [(ALIKE, False), (APART, True)])
def test_a_fleet_says_whether_its_sites_differ(means: list[list[float]], differ: bool) -> None:
    world = played("flood-ts", means, sigma=0.1)
    agent = world.service(0, count(1).__next__)
    service = agent.bandit(world.bandit.name)
    warning = service.health()["warning"]
    assert ("sites differ" in warning) == differ
    assert ("spread=estimate" in warning) == differ
    found = {metric.name: metric.samples for metric in agent.metrics()}
    ((label, ratio),) = found["site_ratio"]
    assert label == {"bandit": world.bandit.name}
    ((_, spread),) = found["site_spread"]
    assert (ratio > 2.0) == differ
    assert (spread > 0.1) == differ


def test_who_sees_sums_alone_does_not_know() -> None:
    world = played("tree-ts", APART)
    agent = world.service(0, count(1).__next__)
    service = agent.bandit(world.bandit.name)
    assert service.health()["warning"] == ""
    found = {metric.name: metric.samples for metric in agent.metrics()}
    assert found["site_ratio"] == found["site_spread"] == []

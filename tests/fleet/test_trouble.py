"""Crashes, cuts, torn writes and lost bytes in any order: nothing is lost, nothing counts twice."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.draws import words
from coopbandits.fleet.config import BanditConfig
from coopbandits.fleet.storage.disk import MemoryDisk
from tests.torture.world import World

from .bandits import only

pytestmark = pytest.mark.plays

ARMS = ("a", "b", "c")
ROBUST = ("flood-ts", "tree-ts", "flood-ucb", "tree-ucb")
SYNCHRONOUS = ("dducb", "dec-ts", "coop-ucb2:gamma=1.01")
EXACT = 1e-9
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))]


def told(policy: str) -> BanditConfig:
    return only(
        policy,
        ARMS,
        sigma=1.0,
        num_agents=6 if policy in SYNCHRONOUS else None,
        lambda_bound=0.9 if policy == "dducb" else None,
    )


def dice(seed: int, size: int) -> list[int]:
    return [int(word) for word in words(seed * 2**20 + 7, np.arange(size, dtype=np.uint64))]


def make_trouble(world: World, seed: int, steps: int) -> None:
    """Pull, crash, restart, cut and heal as the dice fall; deliver everything, or only a part."""
    size = len(world.graph)
    edges = list(world.graph.edges)
    for word in dice(seed, steps):
        kind, agent, rest = word % 16, (word >> 4) % size, word >> 12
        if kind == 0:
            world.crash(agent, rest % 40 if world.nodes[agent] else 0)
        elif kind in (1, 2) and world.nodes[agent] is None:
            world.restart(agent)
        elif kind == 3:
            world.cut_link(*edges[rest % len(edges)])
        elif kind == 4:
            world.cut.clear()
        else:
            for other in range(size):
                world.pull(other, rest + other, (rest % 7 - 3) / 4)
        world.step(deliver=10**9 if kind % 2 else rest % 9)


def settle(world: World, steps: int = 120) -> None:
    world.heal()
    for _ in range(steps):
        world.step()


@pytest.mark.covering(2)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", ROBUST)
def test_robust_fleets_end_with_exact_totals(policy: str, seed: int) -> None:
    world = World(told(policy), nx.cycle_graph(6))
    make_trouble(world, seed, 150)
    settle(world)
    for agent in world.graph:
        np.testing.assert_allclose(world.totals(agent), world.acknowledged, rtol=EXACT, atol=EXACT)


@pytest.mark.covering(3)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", SYNCHRONOUS)
def test_synchronous_fleets_keep_all_mass_and_go_on(policy: str, seed: int) -> None:
    world = World(told(policy), nx.cycle_graph(6))
    make_trouble(world, seed, 150)
    world.heal()
    for _ in range(3):
        world.step()
    rounds = [world.replica(agent).rounds for agent in world.graph]
    settle(world, 30)
    assert min(world.replica(agent).rounds for agent in world.graph) > max(rounds) + 10
    np.testing.assert_allclose(world.shares(), world.acknowledged, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("durability", ["process", "power"])
def test_own_totals_are_those_acknowledged_after_every_crash(durability: str) -> None:
    world = World(told("flood-ts"), nx.path_graph(3), durability=durability)
    for word in dice(5, 60):
        world.pull(1, word, 0.5)
        world.step()
        world.crash(1, torn=30)
        world.restart(1)
    assert world.replica(1).own_counts.sum() == 60
    assert world.replica(1).own_sums.sum() == 30.0


def test_a_dead_neighbour_slows_nobody_in_robust_mode() -> None:
    world = World(told("tree-ts"), nx.cycle_graph(6))
    for _ in range(20):
        world.step()
    world.crash(2)
    before = [node.bandits.rounds for node in world.nodes if node]
    for _ in range(50):
        world.step()
    assert [
        node.bandits.rounds - r for node, r in zip(filter(None, world.nodes), before, strict=True)
    ] == [50] * 5


def test_a_dead_neighbour_stops_mixing_but_never_choosing_in_synchronous_mode() -> None:
    world = World(told("dec-ts"), nx.cycle_graph(6))
    for _ in range(20):
        world.step()
    world.crash(2)
    for _ in range(20):
        world.step()
    stalled = [node.bandits.rounds for node in world.nodes if node]
    for word in dice(1, 30):
        assert world.pull(0, word, 0.5) is not None
        world.step()
    assert [node.bandits.rounds for node in world.nodes if node] == stalled
    known = world.replica(0).agent.estimate().counts.sum()
    assert known > 0, "own rewards count at once, also while nothing is mixed"
    settle(world, 20)
    assert min(world.replica(agent).rounds for agent in world.graph) > max(stalled) + 10
    np.testing.assert_allclose(world.shares(), world.acknowledged, rtol=EXACT, atol=EXACT)


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts"])
def test_parts_of_a_partition_go_on_by_themselves_and_join_again(policy: str) -> None:
    world = World(told(policy), nx.cycle_graph(6))
    for _ in range(30):
        world.step()
    world.cut_link(0, 5)
    world.cut_link(2, 3)
    for word in dice(3, 60):
        for agent in world.graph:
            world.pull(agent, word + agent, 0.5)
        world.step()
    for _ in range(60):
        world.step()
    known = {round(world.totals(agent)[3:].sum()) for agent in world.graph}
    assert known == {180}, "each part knows its own 3 × 60 pulls"
    settle(world)
    for agent in world.graph:
        np.testing.assert_allclose(world.totals(agent), world.acknowledged, rtol=EXACT, atol=EXACT)


def lose_memory(world: World, agent: int) -> None:
    """Let an agent start with an empty disk."""
    world.crash(agent)
    world.disks[agent] = MemoryDisk()
    world.identity_words[agent] += 1 << 40
    world.restart(agent)


def test_an_agent_that_lost_its_journal_adds_to_what_its_former_self_told() -> None:
    world = World(told("flood-ts"), nx.cycle_graph(6))
    for _ in range(2):
        for word in dice(4, 20):
            world.pull(2, word, 0.5)
            world.step()
        settle(world, 20)
        lose_memory(world, 2)
    settle(world, 20)
    assert world.replica(2).own_counts.sum() == 0
    for agent in world.graph:
        np.testing.assert_allclose(world.totals(agent), world.acknowledged, rtol=EXACT, atol=EXACT)
    estimate = world.replica(0).agent.estimate()
    assert estimate.num_agents == 6, "one memory more is no agent more"


def test_a_synchronous_fleet_stands_still_when_one_has_lost_its_journal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(told("dec-ts"), nx.cycle_graph(6))
    settle(world, 20)
    lose_memory(world, 2)
    settle(world, 20)
    assert "begin a new epoch" in caplog.text
    assert max(world.replica(agent).rounds for agent in world.graph) < 30
    assert world.pull(3, 7, 0.5) is not None, "choices and rewards go on"


def test_writes_that_did_not_survive_stay_as_they_were_told() -> None:
    """As after a loss of power with durability "process", or with an older copy of a journal."""
    world = World(told("flood-ts"), nx.cycle_graph(6))
    settle(world, 20)
    copy = bytes(world.disks[2].data)
    for word in dice(6, 5):
        world.pull(2, word, 1.0)
        world.step()
    settle(world, 20)
    world.crash(2)
    world.disks[2] = MemoryDisk(copy)
    world.restart(2)
    settle(world, 20)
    for word in dice(7, 6):
        world.pull(2, word, 1.0)
        world.step()
    settle(world, 20)
    assert world.replica(2).own_counts.sum() == 6
    for agent in world.graph:
        assert world.totals(agent)[3:].sum() == 11, "what was told, and what came since"


@pytest.mark.covering(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_signed_fleets_end_with_exact_totals(seed: int, certificates: Path) -> None:
    world = World(told("flood-ts"), nx.cycle_graph(6), certificates=certificates)
    make_trouble(world, seed, 150)
    settle(world)
    for agent in world.graph:
        np.testing.assert_allclose(world.totals(agent), world.acknowledged, rtol=EXACT, atol=EXACT)
        assert not world.node(agent).refusals

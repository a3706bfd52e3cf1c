"""When a liar is revoked its effect ends, for good and without a restart."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.aggregate.entries import entry_number
from coopbandits.fleet.storage.disk import MemoryDisk
from tests.torture.world import World

from .test_entries import BANDIT, MOST, machine, number, settle, tell

LIAR, HONEST = 1, (0, 2, 3)
WORST, BEST = 0, 1


@pytest.fixture
def revoked(tmp_path: Path) -> Path:
    path = tmp_path / "revoked.txt"
    path.write_text("# nobody\n")
    return path


def play(world: World, rounds: int) -> None:
    """Let the honest pull: arm 1 pays, arm 0 does not."""
    for word in range(rounds):
        for agent in HONEST:
            world.pull(agent, word * 0x9E3779B97F4A7C15 % 2**64, float)
        world.step()


def lie(world: World, *pulls: float) -> None:
    """Let the liar say that arm 0 pays, and arm 1 does not, under some of its numbers."""
    for generation, count in enumerate(pulls):
        said = [entry_number(LIAR, generation), 5.0, count / 2, 0.0, count / 2, count / 2]
        for victim in (0, 2):
            tell(world, victim, said)
        world.step()


def exact(world: World) -> bool:
    return all(np.allclose(world.totals(agent), world.acknowledged) for agent in HONEST)


def test_the_effect_of_a_liar_ends_when_it_is_revoked(certificates: Path, revoked: Path) -> None:
    """A graph in which the honest stay connected without the liar."""
    graph = nx.complete_graph(4)
    world = World(BANDIT, graph, certificates=certificates, revoked=revoked)
    play(world, 5)
    lie(world, 0.5 * MOST, 0.4 * MOST)
    play(world, 5)
    settle(world)
    for agent in HONEST:
        shift = np.abs(world.totals(agent) - world.acknowledged).sum()
        assert 0.5 * MOST < shift <= 2 * MOST, "as many pulls and rewards as it may have made"
    revoked.write_text("n1  # lies\n")
    for _ in range(60):
        world.step()
    assert exact(world)
    assert all(not world.node(agent).peers["n1"].met for agent in HONEST)
    for agent in HONEST:
        world.crash(agent)
    settle(world)
    lie(world, 0.5 * MOST)
    play(world, 20)
    settle(world)
    assert exact(world), "also after restarts, and whoever tells of it"
    last = [world.pull(agent, 5, 1.0) for agent in HONEST]
    assert last == [BEST] * 3


def test_what_a_neighbour_still_tells_of_a_revoked_agent_is_refused(
    certificates: Path, revoked: Path, tmp_path: Path
) -> None:
    """One agent has not heard of the revocation yet, and passes on what the liar said."""
    world = World(BANDIT, nx.path_graph(4), certificates=certificates, revoked=revoked)
    play(world, 3)
    lie(world, 0.5 * MOST)
    settle(world)
    world.revoked = tmp_path / "other.txt"
    world.revoked.write_text("n1")
    world.crash(3)
    world.disks[3] = MemoryDisk()
    world.identity_words[3] += 99 << 16
    world.restart(3)
    settle(world)
    held = machine(world, 3).held()
    assert not [each for each in held if each in (number(world, 1), entry_number(1, 0))]
    assert world.node(3).refusals["revoked"] > 0
    assert number(world, 2) in held, "the rest of the message is believed"
    assert number(world, 0) in held


def test_a_list_that_cannot_be_read_revokes_whom_it_did_before(
    certificates: Path, revoked: Path, caplog: pytest.LogCaptureFixture
) -> None:
    revoked.write_text("n1\n")
    world = World(BANDIT, nx.complete_graph(4), certificates=certificates, revoked=revoked)
    settle(world)
    revoked.write_text("no id!\n")
    settle(world)
    assert "line 1" in caplog.text
    assert not world.node(0).peers["n1"].met
    revoked.write_text("n3\n")
    settle(world)
    assert world.node(0).peers["n1"].met, "who is taken off the list is heard again"
    assert not world.node(0).peers["n3"].met


def test_a_revoked_agents_own_memory_is_its_own(certificates: Path, revoked: Path) -> None:
    world = World(BANDIT, nx.complete_graph(4), certificates=certificates, revoked=revoked)
    world.pull(1, 1, 1.0)
    settle(world)
    revoked.write_text("n1\n")
    settle(world)
    assert world.replica(1).own_counts.sum() == 1
    assert number(world, 1) in machine(world, 1).held()

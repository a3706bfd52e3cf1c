"""Memories that are lost or put back: what was told stays, and what is told counts once more."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.draws import words
from coopbandits.fleet.protocol.frames import DATA
from coopbandits.fleet.storage.disk import DiskError, MemoryDisk
from tests.torture.world import World

from ..bandits import only

BANDIT = only(arms=("a", "b", "c"), sigma=1.0)
VICTIM = 2
KIND = 3
"""Where a frame says what it is."""


def dice(seed: int, size: int) -> list[int]:
    return [int(word) for word in words(seed * 2**20 + 3, np.arange(size, dtype=np.uint64))]


def pull(world: World, seed: int, count: int, *agents: int) -> None:
    for word in dice(seed, count):
        for agent in agents or world.graph:
            world.pull(agent, word + agent, (word % 7 - 3) / 4)
        world.step()


def settle(world: World, steps: int = 40) -> None:
    world.heal()
    for _ in range(steps):
        world.step()


def settle_after_word_of(world: World, agent: int) -> None:
    """Let an agent acknowledge what it has heard before, and then all go on."""
    world.heal()
    world.now += 0.05
    world.connect()
    world.deliver()
    world.shells[agent].tick()
    world.deliver()
    settle(world)


def put_back(world: World, agent: int, disk: MemoryDisk) -> None:
    world.crash(agent)
    world.disks[agent] = disk
    world.restart(agent)


def lose(world: World, agent: int) -> None:
    world.identity_words[agent] += 12345 << 16
    put_back(world, agent, MemoryDisk())


def everybody_knows(world: World, *, rtol: float = 1e-9) -> None:
    for agent in world.graph:
        np.testing.assert_allclose(world.totals(agent), world.acknowledged, rtol=rtol, atol=1e-9)


def numbers(world: World, agent: int = 0) -> int:
    machine = world.replica(agent).agent.machine  # type: ignore[attr-defined]  # flooded totals
    return len(machine.held())


@pytest.mark.covering(3)
@pytest.mark.parametrize("seed", range(8))
def test_in_a_quiet_fleet_others_tell_an_agent_what_it_has_lost(seed: int) -> None:
    """Whoever acknowledged a message had it once, but perhaps in another life."""
    world = World(BANDIT, nx.cycle_graph(4))
    pull(world, seed, 5)
    settle(world)
    lose(world, VICTIM)
    for word in dice(seed, 12):  # messages meet on their way, and some agents are slower
        world.now += 0.05
        world.connect()
        world.deliver(word % 5)
        for agent in world.graph:
            if word >> (8 + agent) & 1:
                world.shells[agent].tick()
    settle(world)
    everybody_knows(world)
    assert world.replica(VICTIM).own_counts.sum() == 0


def test_an_older_journal_makes_a_new_number_and_what_was_told_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(BANDIT, nx.cycle_graph(4))
    pull(world, 1, 5)
    settle(world)
    copy = bytes(world.disks[VICTIM].data)
    pull(world, 2, 5)
    settle(world)
    put_back(world, VICTIM, MemoryDisk(copy))
    settle(world)
    everybody_knows(world)
    assert numbers(world) == 5
    assert caplog.text.count("the journal is older than what neighbours hold") == 1
    pull(world, 3, 3)
    settle(world)
    everybody_knows(world)
    world.crash(VICTIM)
    settle(world)
    everybody_knows(world)
    assert numbers(world) == 5, "a restart makes no new one"


@pytest.mark.covering(2)
@pytest.mark.parametrize("more", [1, 5, 9])
def test_pulls_between_a_rollback_and_the_first_link_are_kept(more: int) -> None:
    """Also if they are as many as were lost, or more."""
    world = World(BANDIT, nx.cycle_graph(4))
    pull(world, 1, 5)
    settle(world)
    copy = bytes(world.disks[VICTIM].data)
    pull(world, 2, 5)
    settle(world)
    for other in world.graph.neighbors(VICTIM):
        world.cut_link(VICTIM, other)
    put_back(world, VICTIM, MemoryDisk(copy))
    pull(world, 3, more, VICTIM)
    for _ in range(300):  # rounds enough to pass those of before
        world.step()
    settle(world)
    everybody_knows(world)
    assert numbers(world) == 5


@pytest.mark.parametrize("more", [0, 3])
@pytest.mark.parametrize("graph", [nx.cycle_graph(4), nx.path_graph(3)], ids=["ring", "path"])
def test_an_older_journal_is_noticed_also_by_whoever_is_linked_later(
    graph: nx.Graph[int], more: int
) -> None:
    """The one neighbour that is there at first has lost its memory, and knows nothing of it."""
    world = World(BANDIT, graph)
    pull(world, 1, 5)
    settle(world)
    copy = bytes(world.disks[VICTIM].data)
    pull(world, 2, 5)
    settle(world)
    for one, other in graph.edges:
        if {one, other} != {1, VICTIM}:
            world.cut_link(one, other)
    lose(world, 1)
    put_back(world, VICTIM, MemoryDisk(copy))
    pull(world, 3, more, VICTIM)
    for _ in range(100):
        world.step()
    assert world.totals(1)[3:].sum() == 5 * len(graph) + more, "what the older memory has"
    settle(world)
    everybody_knows(world)
    assert numbers(world) == len(graph) + 2
    quiet = [world.replica(agent).agent.outgoing(1) for agent in graph.neighbors(1)]
    assert [message is not None and message.size for message in quiet] == [HEADER] * len(quiet)


def post_but_messages_of(world: World, silent: int, sender: int, to: int, data: bytes) -> bool:
    lost = sender == silent and data[KIND] == DATA
    return lost or World.post(world, sender, to, data)


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("rewards", [(0.25, 0.75), (0.75, 0.25)])
def test_of_two_lives_that_told_of_as_many_pulls_everybody_takes_the_same(
    rewards: tuple[float, float],
    arrives: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who knows of the one life was not linked when the other began to tell."""
    world = World(BANDIT, nx.cycle_graph(4))
    pull(world, 1, 5)
    settle(world)
    copy = bytes(world.disks[VICTIM].data)
    for reward, told, other in zip(rewards, (1, 3), (3, 1), strict=True):
        world.heal()
        world.cut_link(VICTIM, other)
        world.cut_link(0, told)
        put_back(world, VICTIM, MemoryDisk(copy))
        for _ in range(20):
            world.step()
        if told == 3 and not arrives:
            monkeypatch.setattr(world, "post", partial(post_but_messages_of, world, VICTIM))
        world.pull(VICTIM, 7, reward)
        for _ in range(20):
            world.step()
    settle(world, 5)
    monkeypatch.undo()
    settle(world, 100)
    totals = [world.totals(agent).tolist() for agent in world.graph]
    assert totals == totals[:1] * 4
    assert numbers(world) == 5
    # Where the second life's outranks it, what the first one told is lost, as without a word.
    assert sum(totals[0][3:]) == (22 if rewards[0] > rewards[1] else 21)


def test_restarts_alone_make_no_new_number() -> None:
    world = World(BANDIT, nx.cycle_graph(4))
    for seed in range(6):
        pull(world, seed, 2)
        world.crash(seed % 4)
        pull(world, seed, 2)
        world.restart(seed % 4)
    settle(world)
    for agent in world.graph:
        world.crash(agent)
    settle(world)
    everybody_knows(world)
    assert numbers(world) == 4


@pytest.mark.parametrize("order", [(VICTIM, 1), (1, VICTIM)], ids=["it first", "it last"])
def test_after_a_start_neighbours_tell_an_agent_everything(order: tuple[int, int]) -> None:
    """Its memory may lack its own last pulls alone, and then it has heard all that it says."""
    world = World(BANDIT, nx.cycle_graph(4))
    pull(world, 1, 5)
    settle(world)
    neighbor = world.replica(1).agent.machine  # type: ignore[attr-defined]  # flooded totals
    assert neighbor.arrived_at(VICTIM) > 0
    assert neighbor.rows(neighbor.outgoing(VICTIM)).shape[0] == 0
    world.crash(VICTIM)
    world.restart(VICTIM)
    for agent in order:
        world.now += 0.05
        world.connect()
        world.deliver()
        world.shells[agent].tick()
        world.deliver()
    assert neighbor.rows(neighbor.outgoing(VICTIM)).shape[0] == 4
    settle(world)
    assert neighbor.rows(neighbor.outgoing(VICTIM)).shape[0] == 0
    assert numbers(world) == 4


def test_a_journal_lost_time_and_again_makes_a_number_each_time() -> None:
    world = World(BANDIT, nx.cycle_graph(4))
    for seed in range(5):
        pull(world, seed, 2)
        settle(world)
        lose(world, VICTIM)
    settle(world)
    everybody_knows(world)
    assert numbers(world) == 9


def test_an_older_journal_of_a_neighbour_is_told_everything_again() -> None:
    """What the older memory has heard is less than what it acknowledged."""
    world = World(BANDIT, nx.path_graph(3))
    settle(world)
    copy = bytes(world.disks[1].data)
    pull(world, 1, 4, 0)
    settle(world)
    world.crash(2)
    put_back(world, 1, MemoryDisk(copy))
    settle(world)
    everybody_knows(world)


def test_a_pull_is_told_although_a_message_of_its_number_was_heard_before() -> None:
    """A loss of power takes rounds, and numbers are given again to messages with other pulls."""
    world = World(BANDIT, nx.path_graph(2))
    pull(world, 1, 3)
    settle(world)
    copy = bytes(world.disks[1].data)
    settle(world)
    put_back(world, 1, MemoryDisk(copy))
    world.pull(1, 12345, 0.5)
    settle_after_word_of(world, 0)
    everybody_knows(world)


@pytest.mark.parametrize("again", [False, True], ids=["started once", "started twice"])
def test_news_are_passed_on_although_a_message_of_their_number_was_heard_before(
    again: bool,
) -> None:
    """Also by an agent that has passed these numbers since, and has perhaps started once more."""
    world = World(BANDIT, nx.path_graph(3))
    pull(world, 1, 3)
    settle(world)
    copy = bytes(world.disks[1].data)
    settle(world)
    world.cut_link(1, 2)
    put_back(world, 1, MemoryDisk(copy))
    pull(world, 2, 3, 0)
    for _ in range(60):
        world.step()
    if again:
        world.crash(1)
        world.restart(1)
    settle_after_word_of(world, 2)
    everybody_knows(world)


def test_a_signed_entry_outlives_its_author_and_everybodys_restart(certificates: Path) -> None:
    """Proofs are in the journal: a newcomer learns what somebody said who is no more."""
    world = World(BANDIT, nx.path_graph(3), certificates=certificates)
    world.crash(2)
    pull(world, 1, 4, 0)
    for _ in range(20):
        world.step()
    world.crash(0)
    world.crash(1)
    world.restart(1)
    world.restart(2)
    for _ in range(20):
        world.step()
    np.testing.assert_allclose(world.totals(2), world.acknowledged)


def end_a_round_in_vain(world: World, agent: int) -> None:
    """Have an agent's disk fail while a round ends."""

    def full(data: bytes) -> None:
        raise DiskError("no space")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.disks[agent], "append", full)
        world.now += 0.05
        world.shells[agent].tick()
    assert world.node(agent).trouble == "no space"


def hear_a_pull_of(world: World, one: int, other: int) -> None:
    """Let a pull arrive at a neighbour, whose round has not ended yet."""
    world.pull(one, 7, 1.0)
    inbox = world.session(other).inbox  # type: ignore[attr-defined]  # of a flood
    while one not in inbox or inbox[one].size <= HEADER:
        world.now += 0.05
        world.shells[one].tick()
        world.deliver()


def test_what_was_heard_outlasts_a_disk_that_fails_while_a_round_ends() -> None:
    """The snapshot after the trouble has it, though the neighbour is away by then."""
    world = World(BANDIT, nx.path_graph(2))
    settle(world)
    hear_a_pull_of(world, 1, 0)
    end_a_round_in_vain(world, 0)
    world.cut_link(0, 1)
    for _ in range(40):
        world.step()
    assert not world.node(0).trouble
    everybody_knows(world)
    world.crash(0)
    world.restart(0)
    everybody_knows(world)


def test_what_was_heard_in_a_round_that_is_not_on_disk_is_told_again_after_a_crash() -> None:
    """It was not acknowledged."""
    world = World(BANDIT, nx.path_graph(2))
    settle(world)
    hear_a_pull_of(world, 1, 0)
    end_a_round_in_vain(world, 0)
    world.deliver()
    world.crash(0)
    settle(world)
    everybody_knows(world)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_disk_that_fails_while_a_round_ends_takes_no_greeting_along(restarts: bool) -> None:
    world = World(BANDIT, nx.path_graph(2))
    pull(world, 1, 5)
    settle(world)
    if restarts:
        world.crash(0)
        world.restart(0)
    lose(world, 1)
    world.connect()
    world.deliver()
    end_a_round_in_vain(world, 0)
    settle(world)
    everybody_knows(world)

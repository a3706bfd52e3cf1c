"""Hundreds of agents that find each other: what holds through deaths, cuts and liars."""

from __future__ import annotations

import pytest

from tests.torture.overlay import LyingWorld, OverlayWorld, grow

pytestmark = pytest.mark.plays

DEGREE = 5
SEEDS = ("a0", "a1", "a2")


def grown(seed: int, agents: int, seeds: tuple[str, ...] = SEEDS) -> OverlayWorld:
    world = OverlayWorld(seed, DEGREE, seeds)
    grow(world, agents)
    return world


def check_deaths(seed: int, agents: int) -> None:
    """Kill 30 % at once; within 20 rounds all others are connected, and stay so."""
    world = grown(seed, agents)
    assert world.is_connected
    assert world.is_symmetric()
    world.kill(world.chance.sample(list(world.agents), 3 * agents // 10))
    world.play(20)
    assert world.is_connected
    assert world.is_symmetric()
    degrees = world.degrees()
    assert max(len(agent.active) for agent in world.agents.values()) <= DEGREE + 2
    assert degrees[0] >= 1
    assert sum(degree < DEGREE for degree in degrees) < 0.2 * len(degrees)


@pytest.mark.parametrize("seed", range(5))
def test_agents_are_connected_again_after_many_have_died(seed: int) -> None:
    check_deaths(seed, 200)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_a_thousand_agents_are_connected_again_after_many_have_died(seed: int) -> None:
    check_deaths(seed, 1000)


def test_all_join_by_one_address() -> None:
    world = grown(1, 60, seeds=("a0",))
    assert world.is_connected
    assert world.degrees()[0] >= DEGREE - 2
    assert world.degrees()[-1] <= DEGREE + 2


def test_a_network_that_was_cut_in_two_grows_together_again_without_its_seeds() -> None:
    world = grown(1, 60)
    world.cut(lambda name: int(name[1:]) % 2)
    world.play(200)
    world.kill(SEEDS)
    assert not world.is_connected
    world.side = lambda _: 0
    world.play(150)
    assert world.is_connected


def test_who_leaves_in_order_is_not_called_any_more() -> None:
    world = grown(1, 40)
    neighbors = [name for name in world.agents if "a7" in world.agents[name].active]
    world.leave("a7")
    assert len(neighbors) >= 3
    assert all("a7" not in world.agents[name].active for name in neighbors)
    assert all("a7" not in world.agents[name].lost for name in neighbors)
    world.play(10)
    assert world.is_connected


def test_a_fifth_that_lies_leaves_honest_agents_connected() -> None:
    world = LyingWorld(1, DEGREE, SEEDS)
    grow(world, 80)
    others = [name for name in world.agents if name not in SEEDS]
    world.corrupt(world.chance.sample(others, 16))
    world.play(40)
    share, eclipsed, connected = world.exposure()
    assert 0.3 < share < 0.6, "they have more than their part"
    assert eclipsed <= 3
    assert connected >= 61


def test_the_same_seed_plays_the_same() -> None:
    one, other = grown(3, 40), grown(3, 40)
    assert one.bytes_sent == other.bytes_sent > 0
    assert {name: list(agent.active) for name, agent in one.agents.items()} == {
        name: list(agent.active) for name, agent in other.agents.items()
    }

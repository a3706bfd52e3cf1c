"""Arms of a bandit that an agent hears of from others, before it has declared them or never."""

from __future__ import annotations

import networkx as nx
import pytest

from coopbandits.fleet.protocol.arms import MOST_UNNAMED, pack_arms
from coopbandits.fleet.protocol.frames import Greeting, Stamp, encode_greeting
from coopbandits.fleet.protocol.sessions import PLACE_SECONDS

from .bandits import CLUSTER, Many, both


def pulls_of(fleet: Many, agent: int) -> dict[str, float]:
    """Return how many pulls an agent knows of, also of arms that are not declared there."""
    found, node = both(), fleet.node(agent)
    return {
        name: float(sum(node.bandits.replicas[found[name].number].agent.estimate().counts))
        for name in found
    }


@pytest.mark.covering(2)
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "ledger-ts"])
def test_made_up_arms_keep_nobody_from_others(policy: str) -> None:
    declared = both(policy=policy)
    fleet = Many(nx.complete_graph(3), declared=declared)
    number, liar = declared["button"].number, fleet.node(1)
    fleet.steps(40)
    for victim, first in ((0, 1000), (2, 2000)):
        arms = [*liar.bandits.replicas[number].arms, *range(first, first + MOST_UNNAMED)]
        greeting = Greeting("button", declared["button"].digest, pack_arms(arms), 1)
        told = Stamp(len(arms), CLUSTER.epoch, 0, liar.settings.incarnation, number)
        fleet.shells[victim].received("n1", encode_greeting(told, greeting))
    fleet.steps(40)
    fleet.crash(1)
    for agent in (0, 2):
        fleet.play(agent, "button", 0.5)
    fleet.steps(200)
    assert fleet.learned(0) == fleet.learned(2) == fleet.counts
    assert not fleet.node(0).refusals["bandit"]


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "ledger-ts"])
def test_pulls_of_many_arms_pass_through_an_agent_that_has_not_declared_them(policy: str) -> None:
    declared = both(policy=policy)
    fleet = Many(nx.path_graph(3), declared=declared)
    fleet.steps(20)
    wide = both(policy=policy, arms=["red", "green", *(f"arm-{at}" for at in range(40))])
    for agent in (0, 2):
        fleet.take(agent, wide)
    for _ in range(60):
        fleet.play(0, "button", 0.5)
        fleet.steps(2)
    fleet.steps(300)
    assert len(fleet.counts) > 30
    assert fleet.learned(2) == fleet.counts


def test_a_neighbour_with_many_new_arms_keeps_its_link() -> None:
    fleet = Many(nx.path_graph(2))
    fleet.steps(5)
    wide = both(arms=["red", "green", *(f"arm-{at}" for at in range(400))])
    fleet.take(1, wide)
    for _ in range(3):
        fleet.play(1, "button", 1.0)
        fleet.play(1, "banner", 1.0)
        fleet.now += round(1e6 * PLACE_SECONDS)
        fleet.steps(10)
    assert pulls_of(fleet, 0) == {"button": 3.0, "banner": 3.0}
    for _ in range(3 * MOST_UNNAMED):
        fleet.play(1, "button", 1.0)
    fleet.play(1, "banner", 1.0)
    for _ in range(4):
        fleet.steps(10)
        fleet.now += round(1e6 * PLACE_SECONDS)
    fleet.steps(10)
    assert fleet.node(0).peers["n1"].met
    assert fleet.node(0).refusals.keys() == {"arms"}
    assert pulls_of(fleet, 0) == {"button": 3.0, "banner": 4.0}, "for later, not for ever"
    fleet.take(0, wide)
    fleet.steps(5)
    assert fleet.learned(0) == fleet.counts


def test_of_two_arms_that_had_one_name_the_declared_one_is_active() -> None:
    fleet = Many(nx.path_graph(2))
    fleet.play(0, "button", 1.0)
    fleet.take(0, both(arms=[{"name": "red", "id": "red-2"}, "green"]))
    found = fleet.of(0).bandit("button").export()["arms"]
    assert [(arm["arm"], arm["id"], arm["state"]) for arm in found] == [
        ("red", "red", "removed"),
        ("green", "green", "active"),
        ("red", "red-2", "active"),
    ]

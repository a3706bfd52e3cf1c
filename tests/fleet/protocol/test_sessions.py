"""What a neighbour may say of bandits: strange ones, strange arms, too many of them, too early."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.fleet.protocol import gossip
from coopbandits.fleet.protocol.arms import (
    MOST_LISTED,
    MOST_UNNAMED,
    PeerArms,
    pack_arms,
    unpack_arms,
)
from coopbandits.fleet.protocol.frames import (
    BanditFrame,
    Decoder,
    FrameError,
    Greeting,
    Stamp,
    encode_data,
    encode_greeting,
    encode_plain,
    plain_form,
)
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.protocol.sessions import MOST_GREETINGS, PLACE_SECONDS
from coopbandits.fleet.storage.records import Declared

from ..bandits import CLUSTER, Many, both


def two() -> tuple[Many, Node]:
    """Two agents that have met, and the first of them."""
    fleet = Many(nx.path_graph(2))
    fleet.steps(5)
    return fleet, fleet.node(0)


def stamp(node: Node, bandit: int, arms: int, round_: int = 10**6) -> Stamp:
    return Stamp(arms, CLUSTER.epoch, round_, node.peers["n1"].incarnation, bandit)


def greet(fleet: Many, arms: list[int], name: str = "button", memory: int = 0) -> None:
    bandit = both()["button"]
    greeting = Greeting(name, bandit.digest, pack_arms(arms), memory)
    said = stamp(fleet.node(0), bandit.number, len(arms), 0)
    fleet.shells[0].received("n1", encode_greeting(said, greeting))


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_message_about_an_unknown_bandit_is_counted_and_changes_nothing(is_plain: bool) -> None:
    fleet, node = two()
    before = {number: each.export() for number, each in node.bandits.replicas.items()}
    if is_plain:  # as by an agent with the one bandit in its [cluster]
        fleet.shells[0].received("n1", encode_plain(plain_form(stamp(node, 0, 0)), 7, np.ones(8)))
    else:
        fleet.shells[0].received("n1", encode_data(stamp(node, 99, 2), np.ones(8)))
    assert node.refusals["bandit"] == 1
    assert node.peers["n1"].met
    fleet.shells[0].tick()
    assert {number: each.export() for number, each in node.bandits.replicas.items()} == before
    fleet.play(1, "button", 1.0)
    fleet.steps(5)
    assert fleet.learned(0) == fleet.counts


def test_a_message_about_another_number_of_arms_than_greeted_is_refused() -> None:
    fleet, node = two()
    number = both()["button"].number
    fleet.shells[0].received("n1", encode_data(stamp(node, number, 3), np.ones(2)))
    assert node.refusals["arms"] == 1


def test_arms_made_up_are_taken_up_to_a_bound_and_declared_ones_in_any_case() -> None:
    fleet, node = two()
    known = [arm.number for arm in both()["button"].arms]
    greet(fleet, [*known, *range(MOST_UNNAMED)])
    replica = node.bandits.replicas[both()["button"].number]
    assert len(replica.arms) == 2 + MOST_LISTED
    greet(fleet, [*known, 777_777])
    assert not node.refusals, "nobody is refused for the arms that it lists"
    assert len(replica.arms) == 2 + MOST_LISTED
    assert node.sessions.by_number[both()["button"].number].peers[node.peers["n1"].number].met
    fleet.take(0, both(arms=["red", "green", "blue"]))
    assert len(replica.arms) == 3 + MOST_LISTED
    assert {fleet.play(0, "button", 0.5) for _ in range(40)} == {"red", "green", "blue"}
    fleet.crash(0)
    fleet.declared[0] = both(arms=["red", "green", "blue"])
    fleet.restart(0)
    assert fleet.learned(0) == fleet.counts


def test_few_greetings_are_worked_on_and_the_last_of_many_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet, node = two()
    made: list[int] = []

    def counted(*given: Any) -> PeerArms:
        made.append(1)
        return PeerArms(*given)

    monkeypatch.setattr(gossip, "PeerArms", counted)
    fleet.now += 2_000_000
    arms = [arm.number for arm in both()["button"].arms][::-1]
    for _ in range(100):
        greet(fleet, arms, memory=1)
    assert len(made) == 1, "an unchanged one does nothing"
    for memory in range(2, 102):
        greet(fleet, arms, memory=memory)
    assert len(made) == MOST_GREETINGS
    assert node.refusals["bandit"] == 101 - MOST_GREETINGS - 1
    fleet.play(1, "button", 1.0)
    stale = node.peers["n1"].frames["stale"]
    number = both()["button"].number
    fleet.shells[0].received("n1", encode_data(stamp(node, number, 2), np.zeros(2)))
    assert node.peers["n1"].frames["stale"] == stale + 1, "its order of arms is not known yet"
    greet(fleet, arms, memory=MOST_GREETINGS)  # the last that was worked on, and again the last
    greet(fleet, arms, memory=101)
    fleet.now += 2_000_000
    fleet.shells[0].tick()
    peer = node.sessions.by_number[number].peers[node.peers["n1"].number]
    assert peer.memory == 101
    assert len(made) == MOST_GREETINGS + 1
    for memory in range(20):
        unknown = Greeting("other", "", b"", memory)
        fleet.shells[0].received("n1", encode_greeting(stamp(node, 99, 0, memory), unknown))
    assert node.refusals["bandit"] == 103 - MOST_GREETINGS - 1 + 20 - MOST_GREETINGS


@pytest.mark.covering(2)
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "ledger-ts"])
def test_arms_without_pulls_give_their_places_to_others_and_that_is_replayed(policy: str) -> None:
    fleet = Many(nx.path_graph(3), declared=both(policy=policy))
    fleet.steps(5)
    for agent in (0, 2):
        fleet.take(agent, both(policy=policy, arms=["red", "green", "blue"]))
    fleet.crash(1)
    fleet.restart(1)
    node = fleet.node(1)
    number = both()["button"].number
    replica = node.bandits.replicas[number]
    known = replica.declared
    made_up = dict.fromkeys(range(MOST_UNNAMED - 1), "")
    replica.declare(Declared(known.name, known.shared, made_up))
    node.sessions.take(session.bandit for session in node.sessions.by_number.values())
    fleet.steps(40)
    fleet.now += round(2e6 * PLACE_SECONDS)
    while not fleet.counts["button", "blue"]:
        fleet.play(0, "button", 0.5)
    fleet.steps(60)
    assert len(replica.arms) == 2 + MOST_UNNAMED
    assert fleet.learned(2) == fleet.counts
    before = replica.export()
    fleet.crash(1)
    fleet.restart(1)
    assert fleet.node(1).bandits.replicas[number].arms == replica.arms
    assert before["own_counts"] == fleet.node(1).bandits.replicas[number].export()["own_counts"]
    fleet.steps(40)
    fleet.play(0, "button", 0.5)
    fleet.steps(40)
    assert fleet.learned(2) == fleet.counts


def test_one_arm_twice_and_bytes_that_are_no_ids_are_refused() -> None:
    fleet, node = two()
    greet(fleet, [1, 1])
    assert node.refusals["bandit"] == 1
    bandit = both()["button"]
    odd = Greeting("button", bandit.digest, b"123")
    with pytest.raises(FrameError, match=r"3 bytes.* 1 arms"):
        Decoder(1000).feed(encode_greeting(stamp(node, bandit.number, 1), odd))


def test_what_is_said_before_a_greeting_is_stale() -> None:
    fleet, node = two()
    greet(fleet, [arm.number for arm in both()["button"].arms], name="bottom")
    assert node.refusals["bandit"] == 1
    fleet.play(1, "button", 1.0)
    fleet.steps(3)
    assert node.peers["n1"].frames["stale"] > 0
    assert not fleet.learned(0)


def test_greetings_read_back() -> None:
    greeting = Greeting("button", "0" * 16, pack_arms([5, 2**63]), 7, (1, 2, 3), 2, ask=True)
    made = Stamp(2, 1, 4, 5, 6)
    assert Decoder(1000).feed(encode_greeting(made, greeting)) == [BanditFrame(made, greeting)]
    assert unpack_arms(greeting.arms) == [5, 2**63]

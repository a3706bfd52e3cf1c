"""The protocol: who is greeted, what is believed, and what is refused and counted."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import networkx as nx
import numpy as np
import pytest

from coopbandits.fleet.config import BanditConfig
from coopbandits.fleet.protocol.arms import pack_arms
from coopbandits.fleet.protocol.eventlog import MOST, SUBJECTS, EventLog
from coopbandits.fleet.protocol.frames import (
    HEADER,
    MAGIC,
    OPTIONAL,
    VERSION,
    Greeting,
    Hello,
    Stamp,
    encode_beat,
    encode_bye,
    encode_data,
    encode_greeting,
    encode_hello,
)
from coopbandits.fleet.protocol.gossip import RobustSession
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.storage.disk import DiskError
from tests.torture.world import World

from .. import own_parts
from ..bandits import only

TREE = only("tree-ts", sigma=1.0)
SYNCHRONOUS = replace(TREE, policy="dec-ts", num_agents=3)
FLOOD = replace(TREE, policy="flood-ts")
OWN = replace(TREE, policy=f"{own_parts.__name__}:Neighbors*ucb")


def quiet(bandit: BanditConfig = TREE) -> World:
    """Return a world in which agent 0 has met its neighbour 1, and nothing is under way."""
    world = World(bandit, nx.path_graph(3))
    for _ in range(3):
        world.step()
    if bandit is TREE:
        inbox(world).clear()
    return world


def inbox(world: World) -> dict[int, Any]:
    """Return what agent 0 has heard since its last round."""
    session = world.session(0)
    assert isinstance(session, RobustSession)
    return session.inbox


def state(world: World) -> dict[str, Any]:
    return world.replica(0).agent.export_state()


def stamp(world: World, **changes: int) -> Stamp:
    right = {
        "num_arms": 2,
        "epoch": world.cluster.epoch,
        "round": world.replica(1).rounds + 1,
        "incarnation": world.replica(1).incarnation,
        "bandit": world.bandit.number,
    }
    return Stamp(**(right | changes))


def hello(world: World) -> Hello:
    return Hello("n1", world.cluster.name, world.cluster.hash)


def greeting(world: World, **changes: Any) -> Greeting:
    right: dict[str, Any] = {
        "name": world.bandit.name,
        "digest": world.bandit.digest,
        "arms": pack_arms(arm.number for arm in world.bandit.arms),
        "degree": 2,
    }
    return Greeting(**(right | changes))


def good_values(world: World) -> Any:
    values = world.replica(1).agent.outgoing(0)
    assert values is not None
    return values.copy()


def relinked(world: World) -> None:
    """Let the link between agents 0 and 1 come up again, and nothing be said on it yet."""
    for one, other in ((0, "n1"), (1, "n0")):
        world.shells[one].link_down(other, "test")
        world.shells[one].link_up(other)
    world.queue.clear()


def refused(node: Node, reason: str) -> int:
    assert node.peers["n1"].frames["refused"] == sum(node.refusals.values())
    return node.refusals[reason]


@pytest.mark.parametrize(
    ("changes", "value", "reason"),
    [
        ({"epoch": 5}, None, "epoch"),
        ({"num_arms": 3}, None, "arms"),
        ({"incarnation": 4}, None, "replayed"),
        ({"round": 1}, None, "replayed"),
        ({}, np.nan, "not finite"),
        ({}, np.inf, "not finite"),
        ({}, 1e30, "impossible"),
    ],
)
def test_bad_messages_are_counted_and_never_touch_the_state(
    changes: dict[str, int], value: float | None, reason: str
) -> None:
    world = quiet()
    node, values = world.node(0), good_values(world)
    if value is not None:
        values[2] = value
    before = state(world)
    world.shells[0].received("n1", encode_data(stamp(world, **changes), values))
    assert refused(node, reason) == 1
    assert not inbox(world)
    assert state(world) == before
    world.shells[0].received("n1", encode_data(stamp(world), good_values(world)))
    assert list(inbox(world)) == [1]


def test_a_message_of_the_wrong_length_is_refused_when_the_round_ends() -> None:
    world = quiet()
    node = world.node(0)
    world.shells[0].received("n1", encode_data(stamp(world), good_values(world)[:-3]))
    world.now += 1.0
    before = world.replica(0).rounds
    world.shells[0].tick()
    assert refused(node, "impossible") == 1
    assert world.replica(0).rounds == before + 1


def test_the_same_message_again_is_refused() -> None:
    world = quiet()
    node, data = world.node(0), encode_data(stamp(world), good_values(world))
    world.shells[0].received("n1", data)
    world.shells[0].received("n1", data)
    assert refused(node, "replayed") == 1


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n" + bytes(40), bytes(100)])
def test_bytes_that_are_no_frames_end_the_link(data: bytes) -> None:
    world = quiet()
    world.shells[0].received("n1", data)
    assert refused(world.node(0), "malformed") == 1
    assert world.broken[0][:2] == (0, 1)


@pytest.mark.parametrize(
    ("said", "changes", "match"),
    [
        ({"node": "n2"}, {}, "id 'n2', but n0 expects 'n1'"),
        ({"cluster": "other"}, {}, "cluster 'other', but n0 expects 'shop'"),
        ({}, {"epoch": 7}, "epoch 7"),
        ({"configuration": "abc"}, {}, "configuration 'abc'"),
        ({}, {"incarnation": 3}, "an older process still runs"),
    ],
)
def test_a_wrong_hello_is_refused_with_a_sentence_on_both_sides(
    said: dict[str, str],
    changes: dict[str, int],
    match: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = quiet()
    relinked(world)
    with caplog.at_level(logging.WARNING):
        world.shells[0].received(
            "n1",
            encode_hello(stamp(world, **changes), msgspec.structs.replace(hello(world), **said)),
        )
        assert match in caplog.text
        assert refused(world.node(0), "hello") == 1
        caplog.clear()
        sender, receiver, data = world.queue.pop()
        assert (sender, receiver) == (0, 1)
        world.shells[1].received("n0", data)
        assert "it refuses this agent" in caplog.text
        assert match in caplog.text
    assert {(0, 1), (1, 0)} <= {broken[:2] for broken in world.broken}
    assert not world.node(0).peers["n1"].met


def test_nothing_counts_before_the_hello() -> None:
    world = quiet()
    node = world.node(0)
    world.shells[0].link_down("n1", "test")
    world.shells[0].link_up("n1")
    world.shells[0].received("n1", encode_data(stamp(world), good_values(world)))
    assert refused(node, "hello") == 1


def test_bytes_after_the_end_of_a_link_are_nothing() -> None:
    world = quiet()
    node = world.node(0)
    world.shells[0].link_down("n1", "test")
    world.shells[0].received("n1", b"rest")
    assert not node.refusals
    assert node.peers["n1"].reason == "test"


@pytest.mark.parametrize("at_once", [True, False])
def test_frames_behind_a_farewell_are_not_read(
    at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = quiet()
    node = world.node(0)
    if at_once:  # otherwise the link goes down later, as those of real transports do
        monkeypatch.setattr(world.shells[0].transport, "drop", world.shells[0].link_down)
    bye = encode_bye(stamp(world), "no more")
    world.shells[0].received("n1", bye + encode_data(stamp(world), good_values(world)))
    world.shells[0].received("n1", encode_hello(stamp(world), hello(world)))
    assert not inbox(world)
    assert not node.peers["n1"].met


UNEXPECTED: dict[str, Callable[[World, dict[str, int]], bytes]] = {
    "message": lambda world, changes: encode_data(stamp(world, **changes), good_values(world)),
    "silence": lambda world, changes: encode_data(stamp(world, **changes), None),
    "beat": lambda world, changes: encode_beat(stamp(world, **changes)),
    "second hello": lambda world, changes: encode_hello(stamp(world, **changes), hello(world)),
    "greeting": lambda world, changes: encode_greeting(stamp(world, **changes), greeting(world)),
    "unknown kind": lambda world, changes: (
        HEADER.pack(MAGIC, VERSION, 99, OPTIONAL, 2, 3, 0, 0, 0, 0) + b"abc"
    ),
}


STATES: tuple[tuple[str, dict[str, int]], ...] = (
    ("before", {}),
    ("met", {"epoch": 5}),
    ("met", {"incarnation": 4}),
    ("met", {"bandit": 1}),
    ("met", {"num_arms": 3}),
    ("closing", {}),
    ("down", {}),
)
HARMLESS = {
    ("second hello", "before"),
    ("beat", "bandit"),
    ("beat", "num_arms"),
    ("greeting", "num_arms"),
}
"""What is expected, read of no frame of this kind, or ends the link: see `test_sessions`."""

CASES = [
    (what, when, changes)
    for what in UNEXPECTED
    for when, changes in STATES
    if HARMLESS.isdisjoint({(what, when), *((what, key) for key in changes)})
]


def picture(world: World) -> Any:
    """Return all that a message to agent 0 may change, without counters."""
    session = world.session(0)
    gossip = {
        name: repr(value)
        for name, value in vars(session).items()
        if name in ("inbox", "inboxes", "degrees", "next_tick", "spoke_at")
    }
    known = [
        (peer.met, peer.incarnation) for peer in (world.node(0).peers["n1"], session.peers[1])
    ] + [(world.node(0).peers["n1"].closing, session.peers[1].heard_round)]
    return state(world), world.replica(0).rounds, bytes(world.disks[0].data), gossip, known


@pytest.mark.covering(51)
@pytest.mark.parametrize("bandit", [TREE, SYNCHRONOUS, FLOOD], ids=lambda each: each.policy)
@pytest.mark.parametrize(("what", "when", "changes"), CASES, ids=lambda given: "".join(given))
def test_an_unexpected_message_changes_nothing_but_counters(
    bandit: BanditConfig, what: str, when: str, changes: dict[str, int]
) -> None:
    world = quiet(bandit)
    node = world.node(0)
    data = UNEXPECTED[what](world, changes)
    if when != "met":
        relinked(world)
    if when == "closing":
        world.shells[0].received("n1", encode_bye(stamp(world), "no more"))
    elif when == "down":
        world.shells[0].link_down("n1", "test")
    before, queue = picture(world), list(world.queue)
    for _ in range(3):
        world.shells[0].received("n1", data)
    assert picture(world) == before
    assert list(world.queue) == queue, "and nothing is answered"
    if when in ("before", "met"):
        counts = node.peers["n1"].frames
        assert counts["skipped" if what == "unknown kind" else "refused"] == 3


def test_who_never_says_hello_is_given_up() -> None:
    world = quiet()
    relinked(world)
    for _ in range(7):
        world.now += 1.0
        world.shells[0].received("n1", encode_beat(stamp(world)))
    world.shells[0].beat()
    assert world.broken[0] == (0, 1, "nothing heard for 5 s")


@pytest.mark.parametrize(("version", "where"), [(VERSION - 1, "there"), (VERSION + 1, "here")])
def test_another_version_is_refused_and_told_what_to_upgrade(
    version: int, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Even where its header is shorter than ours."""
    world = quiet()
    relinked(world)
    world.shells[0].received("n1", struct.pack("<HBB", MAGIC, version, 1) + bytes(20))
    assert refused(world.node(0), "version") == 1
    assert f"speaks version {version}" in caplog.text
    assert f"upgrade coopbandits {where}" in caplog.text
    assert world.broken[0][:2] == (0, 1)


def test_a_silent_neighbour_is_given_up_and_signs_of_life_are_sent() -> None:
    world = quiet()
    world.queue.clear()
    world.now += 2.0
    world.shells[0].beat()
    assert [item[:2] for item in world.queue] == [(0, 1)]
    world.deliver()
    assert world.node(1).peers["n0"].last_heard == world.now
    world.now += 10.0
    world.shells[0].beat()
    assert world.broken[0] == (0, 1, "nothing heard for 5 s")


def test_many_strangers_are_counted_and_few_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = quiet()
    node = world.node(0)
    for port in range(2252):
        world.shells[0].refused(f"10.0.0.9:{port}", "no certificate")
    assert node.strangers == 2252
    assert caplog.text.count("refused peer=10.0.0.9:") == 5
    assert caplog.text.count("more strangers are only counted for 60 s") == 1
    world.now += 61.0
    world.shells[0].refused("10.0.0.9:1", "no certificate")
    assert "2247 more strangers were not logged" in caplog.text
    assert len(caplog.records) == 5 + 1 + 1 + 1
    assert len(node.events._logged) == 0


def test_a_neighbour_that_is_refused_is_logged_beside_all_strangers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = quiet()
    for port in range(100):
        world.shells[0].refused(f"10.0.0.9:{port}", "no certificate")
        world.shells[0].refused("n1", "its certificate has expired")
    assert caplog.text.count('refused peer=n1 kind=stranger reason="its certificate has') == 1


def test_a_full_disk_stops_gossip_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = quiet()
    node = world.node(0)

    def full(data: bytes) -> None:
        raise DiskError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(world.disks[0], "append", full)
        patch.setattr(world.disks[0], "prepare", full)
        world.replica(0).tickets.add(0, -1e10)
        world.now += 1.0
        world.queue.clear()
        world.shells[0].tick()
        assert node.trouble == "no space"
        assert not world.queue, "nothing is sent that is not on disk"
        world.shells[0].beat()
        assert not world.queue
    world.now += 2.0
    world.shells[0].beat()
    assert node.trouble == ""
    assert world.queue, "the snapshot has what the messages tell"


def test_messages_of_rounds_behind_and_far_ahead() -> None:
    world = quiet(SYNCHRONOUS)
    node = world.node(0)
    this = world.replica(0).rounds + 1
    world.shells[0].received("n1", encode_data(stamp(world, round=this - 1), np.zeros(4)))
    assert node.peers["n1"].frames["stale"] == 1
    world.shells[0].received("n1", encode_data(stamp(world, round=this + 2), np.zeros(4)))
    assert node.refusals["replayed"] == 1
    for _ in range(2):
        world.shells[0].received("n1", encode_data(stamp(world, round=this + 1), np.zeros(4)))
    assert node.peers["n1"].frames["duplicate"] == 1


@pytest.mark.parametrize("values", [[0.0] * 5, [np.nan] * 4, [np.inf, 0.0, 0.0, 0.0]])
def test_a_bad_message_of_a_synchronous_round_is_asked_for_again(values: list[float]) -> None:
    world = quiet(SYNCHRONOUS)
    node = world.node(0)
    world.now += 1.0
    world.shells[0].tick()
    rounds, before = world.replica(0).rounds, state(world)
    assert world.replica(0).spoken
    world.shells[0].received("n1", encode_data(stamp(world, round=rounds + 1), np.array(values)))
    assert refused(node, "impossible") == 1
    assert (world.replica(0).rounds, state(world)) == (rounds, before)
    assert world.broken[0][:2] == (0, 1)
    for _ in range(5):
        world.step()
    assert world.replica(0).rounds > rounds


@pytest.mark.parametrize(
    ("degree", "rounds", "match"),
    [(3, 0, "has 3 neighbours now and had 2"), (2, 99, "has lost its memory")],
)
def test_a_synchronous_neighbour_that_cannot_follow_is_refused(
    degree: int, rounds: int, match: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = quiet(SYNCHRONOUS)
    node = world.node(0)
    relinked(world)
    now = world.replica(0).rounds
    world.shells[0].received("n1", encode_hello(stamp(world), hello(world)))
    said = greeting(world, degree=degree)
    world.shells[0].received("n1", encode_greeting(stamp(world, round=now + rounds), said))
    assert match in caplog.text
    assert refused(node, "bandit") == 1
    assert not world.session(0).peers[1].met


@pytest.mark.parametrize("bandit", [TREE, replace(SYNCHRONOUS, num_agents=1)])
def test_an_agent_alone_gossips_with_nobody(bandit: BanditConfig) -> None:
    world = World(bandit, nx.empty_graph(1))
    for word in range(5):
        world.pull(0, word, 0.5)
        world.step()
    assert world.replica(0).rounds >= 4
    assert world.totals(0)[2:].sum() == 5


@pytest.mark.parametrize("values", [np.zeros(1), np.zeros(7)], ids=["short", "long"])
def test_own_parts_that_trip_over_a_message_refuse_it(values: Any) -> None:
    world = quiet(OWN)
    node, before = world.node(0), state(world)
    world.shells[0].received("n1", encode_data(stamp(world, round=10**6), values))
    world.now += 1.0
    world.shells[0].tick()
    assert refused(node, "impossible") == 1
    assert state(world) == before
    world.crash(0)
    world.restart(0)  # its journal is no harder to read for it
    assert state(world) == before


def test_claims_are_checked_in_synchronous_rounds_too() -> None:
    world = quiet(replace(OWN, policy=f"{own_parts.__name__}:Waiting*ucb"))
    node, before = world.node(0), world.replica(0).rounds
    world.now += 1.0
    world.shells[0].tick()
    claim = np.array([0.0, 0.0, 1e30, 1e30])
    world.shells[0].received("n1", encode_data(stamp(world, round=before + 1), claim))
    assert refused(node, "impossible") == 1
    assert world.replica(0).rounds == before
    assert [broken[:2] for broken in world.broken] == [(0, 1)], "so that it is sent again"


# What an agent remembers of what happened to it, whoever makes it happen and how often.


def texts(node: Node, kind: str) -> list[str]:
    return [note.text for note in node.events.notes if note.kind == kind]


def world() -> World:
    made = World(only(), nx.path_graph(2))
    made.step()
    return made


def test_links_come_and_go() -> None:
    made = world()
    node = made.node(0)
    assert texts(node, "started") == ["started, after 0 rounds"]
    assert texts(node, "link-up") == ["link to n1 is up"]
    for _ in range(3):  # a neighbour that is away is dialled again and again
        made.shells[0].link_down("n1", "connection refused")
        made.now += 2.0
    assert texts(node, "link-down") == ["link to n1 is down: connection refused"]


def test_numbers_grow_over_restarts() -> None:
    made = world()
    before = made.node(0).events.notes[-1].seq
    made.crash(0)
    made.restart(0)
    made.step()
    notes = made.node(0).events.since(before)
    assert [note.kind for note in notes] == ["started", "link-up"]
    assert notes[-1].seq < 2**53  # exact in JavaScript too


def test_trouble_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    node = made.node(0)

    def full(data: bytes) -> None:
        raise DiskError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(made.disks[0], "append", full)
        patched.setattr(made.disks[0], "prepare", full)
        made.pull(0, 1, 1.0)
        for _ in range(5):
            made.now += 1.0
            made.shells[0].beat()
    made.shells[0].beat()
    assert texts(node, "trouble") == ["the disk is full"]
    assert texts(node, "settled") == ["the journal is writable again"]


def test_refusals_without_end_are_few_notes() -> None:
    made = world()
    node = made.node(0)
    for at in range(5000):
        made.shells[0].refused(f"stranger-{at}", "no certificate")
        made.shells[0].refused("n1", "an expired certificate")
        made.now += 0.01
    assert len(texts(node, "refused")) == 2
    assert len(node.events.notes) <= MOST


def test_revocations_are_noted() -> None:
    made = world()
    node = made.node(0)
    node.revoke(frozenset({"n1"}), made.now)
    assert texts(node, "revoked") == ["no longer believed: n1"]


def test_a_list_is_bounded_and_printable() -> None:
    time = [0.0]
    events = EventLog(lambda: time[0], 1)
    for at in range(3 * SUBJECTS):
        events.note("refused", "a\nb\u202e" + "x" * 1000, about=str(at))
    assert len(events.notes) == MOST
    assert len(events._last) <= SUBJECTS + 1
    assert events.notes[0].text.startswith("a b x")
    assert len(events.notes[0].text) == 500
    assert events.since(events.notes[-2].seq) == [events.notes[-1]]


def test_the_same_is_noted_again_after_a_while() -> None:
    time = [0.0]
    events = EventLog(lambda: time[0], 1)
    for now in (0.0, 0.5, 0.9, 1.0, 1.5, 2.1):
        time[0] = now
        events.note("link-up", "up", "n1")
    assert [note.t for note in events.notes] == [0.0, 1.0, 2.1]

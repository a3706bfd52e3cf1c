"""What an agent remembers of what happened to it, whoever makes it happen and how often."""

from __future__ import annotations

import networkx as nx
import pytest

from coopbandits.fleet.protocol.eventlog import MOST, SUBJECTS, EventLog
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.storage.disk import DiskError
from tests.torture.world import World

from ..bandits import only


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

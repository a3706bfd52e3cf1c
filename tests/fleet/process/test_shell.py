"""The shell: what a node asks for is done in order, and after the journal has what led to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

import networkx as nx
import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.names import Revoked
from coopbandits.fleet.identity.notary import Notary
from coopbandits.fleet.process.shell import MOST_UNSENT, Done, GroupCommit, Shell
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import UnavailableError
from coopbandits.fleet.storage.disk import DiskError, MemoryDisk
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.records import Observed
from coopbandits.fleet.transport import (
    Action,
    Arrival,
    CloseLink,
    DialAgent,
    LinkEvents,
    LookUpSeeds,
    MovePeer,
    SendBytes,
    Transport,
)

from ..bandits import Many

PLACE = Address("127.0.0.1", 1)
BOTH = ["process", "power"]
Log = list[tuple[Any, ...]]


class Disk(MemoryDisk):
    """Logs what is written, and can be full."""

    def __init__(self, log: Log, durability: str = "process") -> None:
        super().__init__(durability=durability)
        self.log, self.full = log, False

    def append(self, data: bytes) -> None:
        self._require_room()
        self.log.append(("write",))
        super().append(data)

    def prepare(self, data: bytes) -> None:
        self._require_room()
        super().prepare(data)

    def switch(self, tail: bytes) -> None:
        super().switch(tail)
        self.log.append(("snapshot",))

    def _require_room(self) -> None:
        if self.full:
            raise DiskError("no space")


class Links(Transport):
    """Logs what it is asked for; calls and seeds are answered by hand."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.failed: Callable[[str], None] = lambda why: None
        self.found: Callable[[list[Address]], None] = lambda places: None

    async def start(self, events: LinkEvents) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    def send(self, peer: str, data: bytes) -> bool:
        self.log.append(("send", peer, data))
        return True

    def drop(self, peer: str, reason: str) -> None:
        self.log.append(("drop", peer, reason))

    def move(self, peer: str, address: Address) -> None:
        self.log.append(("move", peer, address))

    def call(
        self, peer: str, address: Address, cause: object, failed: Callable[[str], None]
    ) -> None:
        self.log.append(("call", peer, address, cause))
        self.failed = failed

    def look_up(self, places: Iterable[Address], found: Callable[[list[Address]], None]) -> None:
        self.log.append(("look up", places))
        self.found = found

    def arrival_of(self, peer: str) -> Arrival:
        return Arrival(f"cause of {peer}", f"host of {peer}")


class Bandits(NamedTuple):
    """A state that is nothing."""

    journal: Journal

    def export(self) -> dict[str, Any]:
        return {}


class Asking:
    """A node that asks for what a test says, and logs what it is told."""

    def __init__(self, journal: Journal) -> None:
        self.bandits = Bandits(journal)
        self.actions: list[Action] = []
        self.told: Log = []
        self.trouble = ""

    def take_actions(self) -> list[Action]:
        actions, self.actions = self.actions, []
        return actions

    def note_trouble(self, trouble: str) -> None:
        self.trouble = trouble

    def beat(self, now: float) -> None:
        """Do nothing."""

    def __getattr__(self, event: str) -> Callable[..., None]:
        return lambda *about: self.told.append((event, *about))


class ByHand:
    """A worker whose steps a test takes one by one."""

    def __init__(self) -> None:
        self.steps: deque[Callable[[], None]] = deque()

    def soon(self, call: Callable[[], None]) -> None:
        self.steps.append(call)

    def run(self, work: Callable[[], None], done: Done) -> None:
        def step() -> None:
            try:
                work()
            except DiskError as error:
                failure: DiskError | None = error
            else:
                failure = None
            self.steps.append(lambda: done(failure))

        self.steps.append(step)

    async def rest(self) -> None:
        """Do nothing."""

    def go(self, steps: int = 10**6) -> None:
        while self.steps and steps:
            self.steps.popleft()()
            steps -= 1


class Scene:
    """A shell around a node that asks for what a test says."""

    def __init__(self, durability: str = "process", revoked: Path | None = None) -> None:
        self.log: Log = []
        self.disk, self.links, self.worker = Disk(self.log, durability), Links(self.log), ByHand()
        self.journal = Journal(self.disk, {"node": "n0"}, {"word": 1, "number": 7})
        self.journal.compact({})
        self.log.clear()
        self.node = Asking(self.journal)
        self.notary = Counted()
        self.shell = Shell(
            cast("Node", self.node),
            self.links,
            lambda: 7.0,
            Revoked(revoked),
            cast("Notary", self.notary),
        )
        if durability == "power":
            GroupCommit(self.shell, self.worker, _escape)

    def happen(self, *actions: Action, events: int = 1) -> None:
        """Let something happen that leaves events in the journal, and leads to actions."""
        for number in range(events):
            self.journal.append(Observed(number, 0.5), 7)
        self.node.actions += actions
        self.shell.settle()

    def waiting(self) -> list[str | None]:
        """Wait for all so far; return the answer once there is one."""
        answers: list[str | None] = []

        def answer(error: UnavailableError | None) -> None:
            answers.append(None if error is None else str(error))

        self.shell.wait(answer)
        return answers


class Counted:
    """A notary that counts how often its files are looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def refresh(self) -> None:
        self.looks += 1


def _escape(where: str, error: Exception) -> None:
    del where
    raise error


@pytest.mark.parametrize("durability", BOTH)
def test_actions_are_carried_out_in_order_and_after_the_write(durability: str) -> None:
    scene = Scene(durability)
    scene.happen(
        SendBytes("n1", b"a"), SendBytes("n2", b"b"), CloseLink("n1", "bye"), SendBytes("n2", b"c"),
        events=2,
    )  # fmt: skip
    if durability == "power":
        assert scene.log == []
        scene.worker.go()
    assert scene.log == [
        ("write",), ("send", "n1", b"a"), ("send", "n2", b"b"), ("drop", "n1", "bye"),
        ("send", "n2", b"c"),
    ]  # fmt: skip
    scene.happen(SendBytes("n1", b"d"), events=0)
    assert scene.log[-1] == ("send", "n1", b"d"), "there was nothing to write"
    assert scene.log.count(("write",)) == 1


def test_a_message_waits_for_the_sync_of_what_led_to_it_and_no_longer() -> None:
    scene = Scene("power")
    scene.happen(SendBytes("n1", b"a"))
    scene.worker.go(1)  # the batch leaves
    scene.happen(SendBytes("n1", b"b"))
    scene.happen(SendBytes("n1", b"c"), events=0)
    scene.worker.go(1)
    assert scene.log == [("write",)]
    scene.worker.go(1)  # it has landed
    assert scene.log == [("write",), ("send", "n1", b"a")]
    scene.worker.go()
    assert scene.log[2:] == [("write",), ("send", "n1", b"b"), ("send", "n1", b"c")]


def test_what_tells_no_peer_anything_does_not_wait() -> None:
    scene = Scene("power")
    asked = MovePeer("n1", PLACE), DialAgent("n2", PLACE, "join"), LookUpSeeds((PLACE,))
    scene.happen(SendBytes("n1", b"a"), *asked)
    assert scene.log == [
        ("move", "n1", PLACE), ("call", "n2", PLACE, "join"), ("look up", (PLACE,)),
    ]  # fmt: skip
    scene.links.failed("nobody is there")
    scene.links.found([PLACE])
    assert scene.node.told == [
        ("call_failed", "join", "nobody is there", 7.0), ("found_seeds", [PLACE], 7.0),
    ]  # fmt: skip


def test_a_link_that_comes_up_where_agents_find_each_other_is_told_with_its_cause() -> None:
    scene = Scene()
    scene.shell.link_up("n1")
    assert scene.node.told == [
        ("link_up", "n1", 7.0, Arrival("cause of n1", "host of n1")),
    ]


def test_a_link_with_nothing_to_send_is_closed_at_once() -> None:
    scene = Scene("power")
    scene.happen(SendBytes("n2", b"a"), CloseLink("n2", "later"), CloseLink("n1", "now"))
    assert scene.log == [("drop", "n1", "now")]
    scene.worker.go()
    assert scene.log[1:] == [("write",), ("send", "n2", b"a"), ("drop", "n2", "later")]


def test_a_peer_for_which_a_thousand_messages_wait_is_dropped_with_them() -> None:
    scene = Scene("power")
    sent = [SendBytes("n1", b"%d" % at) for at in range(MOST_UNSENT)]
    scene.happen(*sent, SendBytes("n2", b"other"))
    assert scene.log == []
    scene.happen(SendBytes("n1", b"one more"), events=0)
    assert scene.log == [("drop", "n1", f"{MOST_UNSENT} messages wait for the disk")]
    scene.worker.go()
    assert scene.log[1:] == [("write",), ("send", "n2", b"other")]


def test_what_waits_is_not_sent_over_the_next_link() -> None:
    scene = Scene("power")
    scene.happen(SendBytes("n1", b"old"), CloseLink("n1", "over"), SendBytes("n2", b"other"))
    scene.shell.link_down("n1", "gone")
    scene.shell.link_up("n1")
    scene.happen(SendBytes("n1", b"new"), events=0)
    scene.worker.go()
    assert scene.log == [("write",), ("send", "n2", b"other"), ("send", "n1", b"new")]


def test_what_took_effect_before_a_bug_is_written_when_the_link_is_given_up() -> None:
    scene, bug = Scene(), ZeroDivisionError()

    def received(peer: str, data: bytes, now: float) -> None:
        scene.journal.append(Observed(1, 0.5), 7)
        scene.node.actions.append(SendBytes("n2", b"news"))
        raise bug

    scene.node.__dict__["received"] = received
    with pytest.raises(ZeroDivisionError):
        scene.shell.received("n1", b"")
    assert scene.log == []
    scene.shell.give_up("n1", bug)
    assert scene.node.told == [("give_up", "n1", bug, 7.0)]
    assert scene.log == [("write",), ("send", "n2", b"news")]


@pytest.mark.parametrize("durability", BOTH)
def test_trouble_keeps_messages_back_until_a_snapshot(durability: str) -> None:
    scene = Scene(durability)
    scene.disk.full = True
    scene.happen(SendBytes("n1", b"a"), SendBytes("n2", b"b"))
    scene.worker.go()
    assert scene.journal.trouble == "no space"
    scene.happen(SendBytes("n1", b"c"), events=0)
    with pytest.raises(DiskError, match="no space"):
        scene.happen()
    for _ in range(3):
        scene.shell.beat()
        scene.worker.go()
    assert scene.node.trouble == "no space"
    assert scene.log == []
    scene.happen(CloseLink("n2", "bye"), events=0)
    assert scene.log == [("drop", "n2", "bye")], "what cannot be sent delays nothing"
    scene.disk.full = False
    scene.shell.beat()
    scene.worker.go()
    assert scene.log[1:] == [("snapshot",), ("send", "n1", b"a"), ("send", "n1", b"c")]
    scene.shell.beat()
    assert not scene.node.trouble
    scene.happen(SendBytes("n1", b"d"))
    scene.worker.go()
    assert scene.log[4:] == [("write",), ("send", "n1", b"d")]


def test_trouble_is_noted_where_it_comes_up() -> None:
    scene = Scene()
    scene.disk.full = True
    scene.happen()
    assert scene.node.trouble == "no space"


def test_a_beat_looks_at_files_and_shortens_the_journal(tmp_path: Path) -> None:
    revoked = tmp_path / "revoked.txt"
    revoked.write_text("")
    scene = Scene(revoked=revoked)
    scene.journal.long_bytes, scene.journal.long_growth = 1000, 1
    scene.shell.beat()
    assert (scene.node.told, scene.notary.looks, scene.log) == ([], 1, [])
    revoked.write_text("n1\n")
    scene.happen(events=100)
    scene.shell.beat()
    assert scene.node.told == [("revoke", frozenset({"n1"}), 7.0)]
    assert (scene.notary.looks, scene.log) == (2, [("write",), ("snapshot",)])


@pytest.mark.parametrize("durability", BOTH)
def test_who_waits_is_answered_after_the_write_or_with_the_reason(durability: str) -> None:
    scene = Scene(durability)
    assert scene.waiting() == [None]
    scene.journal.append(Observed(1, 0.5), 7)
    answers = scene.waiting()
    assert answers == ([] if durability == "power" else [None])
    assert scene.log == ([] if durability == "power" else [("write",)])
    scene.worker.go()
    assert (answers, scene.log) == ([None], [("write",)])
    scene.disk.full = True
    scene.journal.append(Observed(2, 0.5), 7)
    answers = scene.waiting()
    scene.worker.go()
    reason = "no space; ask again, a reward counts once"
    assert answers == [reason]
    assert scene.waiting() == [reason], "as long as it is not on disk"
    scene.disk.full = False
    scene.shell.beat()
    scene.worker.go()
    assert scene.waiting() == [None]


def test_answers_and_messages_of_one_batch_fail_and_those_before_it_do_not() -> None:
    scene = Scene("power")
    scene.happen(SendBytes("n1", b"a"))
    first = scene.waiting()
    scene.worker.go(1)
    scene.happen(SendBytes("n1", b"b"))
    second = scene.waiting()
    scene.worker.go(1)  # the first batch is written, and the second is not
    scene.disk.full = True
    scene.worker.go()
    assert (first, second) == ([None], ["no space; ask again, a reward counts once"])
    assert scene.log == [("write",), ("send", "n1", b"a")]


@pytest.mark.parametrize("full", [False, True])
def test_the_rounds_of_all_bandits_are_one_write_and_told_after_it(full: bool) -> None:
    fleet = Many(nx.path_graph(2))
    log: Log = []
    fleet.disks[0] = disk = Disk(log)
    fleet.restart(0)
    fleet.steps(40)
    for name in ("button", "banner"):
        fleet.play(0, name, 0.5)
    rounds = {number: each.rounds for number, each in fleet.node(0).bandits.replicas.items()}
    fleet.shells[0].transport = Links(log)
    log.clear()
    disk.full = full
    fleet.now += 1.0
    fleet.shells[0].tick()
    for number, each in fleet.node(0).bandits.replicas.items():
        assert each.rounds == rounds[number] + 1
    assert [entry[:2] for entry in log] == ([] if full else [("write",), ("send", "n1")])
    disk.full = False
    fleet.shells[0].beat()
    assert ("send", "n1") in [entry[:2] for entry in log]

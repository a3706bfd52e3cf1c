"""Two agents that talk, one step of a virtual clock after the other.

`tests/recorded/record_fleet.py` keeps what the first of them says, and its journal; the tests let
the second one, as it is today, hear it again. So nothing here may follow the package's defaults:
settings, steps and words stay as they were recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from coopbandits.fleet.address import Address
from coopbandits.fleet.config import ClusterConfig, NodeConfig
from coopbandits.fleet.config.bandits import Arm, BanditConfig, derived_number
from coopbandits.testing.torture.files import VirtualFiles
from coopbandits.testing.torture.process import Process, VirtualClock
from coopbandits.testing.torture.process import Wire as VirtualWire
from coopbandits.testing.torture.words import words_of

EPOCH = 1_799_999_000
ARMS = ("best", "good", "poor")
STEP = 50_000
"""Microseconds between two steps, and between two rounds."""
STEPS = 60
BEAT_STEPS = 20
PULL_STEPS = range(5, 45, 4)
LATER = 10_000_000
RESTART = 30
"""The step before which the recorded agent dies, and starts again."""

RECORDED, OTHER = "n0", "n1"
PORT = 7400


@dataclass(frozen=True)
class Fleet:
    """What the two agents are."""

    policy: str
    settings: tuple[tuple[str, Any], ...] = ()
    bandits: bool = False
    auto: bool = False

    def cluster(self) -> ClusterConfig:
        """Return what both share."""
        return ClusterConfig(
            "recorded", EPOCH, ARMS, policy=self.policy, reward_range=(0.0, 1.0),
            rounds_per_second=20.0, max_pulls_per_second=50.0, max_agents=64,
            **dict(self.settings),
        )  # fmt: skip

    def config(self, name: str) -> NodeConfig:
        """Return the configuration of one of them."""
        cluster, (other,) = self.cluster(), {RECORDED, OTHER} - {name}
        declared = {}
        if self.bandits:
            for bandit in ("main", "side"):
                arms = tuple(Arm(arm, arm) for arm in ARMS)
                number = derived_number(bandit)
                declared[bandit] = BanditConfig(bandit, number, cluster, arms)
        return NodeConfig(
            replace(cluster, arms=()) if declared else cluster,
            name,
            Path("/virtual"),
            {} if self.auto else {other: Address("127.0.0.1", 1)},
            declared=declared,
            auto=self.auto,
            degree=3,
            seeds=(Address(OTHER, PORT),) if self.auto and name == RECORDED else (),
        )


FLEETS = {
    "flood-ts": Fleet("flood-ts", (("signed", True),)),
    "flood-ts-half-life": Fleet("flood-ts", (("signed", False), ("half_life", 3600.0))),
    "tree-ts": Fleet("tree-ts"),
    "ledger-ts": Fleet("ledger-ts"),
    "gossip-ts": Fleet("gossip-ts"),
    "dec-ts": Fleet("dec-ts", (("num_agents", 2),)),
    "bandits": Fleet("flood-ts", (("signed", True),), bandits=True),
    "auto": Fleet("tree-ts", auto=True),
}


class Wire(VirtualWire):
    """One agent's end of the only link; what is sent waits until it is taken."""

    address = Address("127.0.0.1", PORT)

    def __init__(self) -> None:
        super().__init__(self._keep, self._note)
        self.sent: list[bytes] = []
        self.dropped: list[str] = []
        self.cause: object = None
        self.wishes: list[object] = []

    def _keep(self, peer: str, data: bytes) -> bool:
        del peer
        self.sent.append(data)
        return True

    def _note(self, peer: str, reason: str) -> None:
        self.dropped.append(f"{peer}: {reason}")

    def call(
        self, peer: str, address: Address, cause: object, failed: Callable[[str], None]
    ) -> None:
        """Note that somebody is called; there is one other agent only."""
        del peer, address, failed
        self.wishes.append(cause)

    def cause_of(self, peer: str) -> object:
        """Return why the other one was called; None if it has called."""
        del peer
        return self.cause

    def host_of(self, peer: str) -> str:
        """Return where an agent is."""
        return peer

    def look_up(self, places: Iterable[Address], found: Callable[[list[Address]], None]) -> None:
        """Find the same addresses."""
        found(list(places))


class Seat:
    """One agent, with its disk and clock; one with a journal begins later."""

    def __init__(self, fleet: Fleet, name: str, journal: dict[str, str] | None = None) -> None:
        self.fleet, self.name, self._began = fleet, name, LATER if journal else 0
        self.now = self._began
        (self.other,) = {RECORDED, OTHER} - {name}
        self.files = VirtualFiles(int(name[1:]))
        if journal:
            self.files.put_back({file: bytes.fromhex(data) for file, data in journal.items()})
        self.clock = VirtualClock(lambda: self.now, 1_000_000)
        self.words = words_of(100 + int(name[1:])).__next__
        self.start()

    def start(self) -> None:
        """Start a process from what is on the disk."""
        self.wire, self._later = Wire(), list[tuple[int, Callable[[], None]]]()
        self.process = Process(self.fleet.config(self.name), self.files, self.clock, self.words)
        self.process.connect(self.wire, self._plan, frozenset)

    def _plan(self, delay: int, call: Callable[[], None]) -> None:
        self._later.append((self.now + delay, call))

    def die(self) -> None:
        """End the process."""
        self.files.process_died()

    def link_up(self, cause: object = None) -> None:
        """Have a link with the other agent."""
        self.wire.cause = cause
        self.process.node.link_up(self.other)

    def link_down(self) -> None:
        """Lose it."""
        self.process.node.link_down(self.other, "it died")

    def step(self, step: int, heard: Iterable[bytes]) -> None:
        """Hear what was said in the last step, and do what is due."""
        self.now = self._began + (step + 1) * STEP
        for data in heard:
            self.process.node.received(self.other, data)
        if step in PULL_STEPS:
            self._pull(step)
        due = [call for at, call in self._later if at <= self.now]
        self._later = [each for each in self._later if each[0] > self.now]
        for call in due:
            call()
        self.process.node.tick()
        if step % BEAT_STEPS == 0:
            self.process.beat()

    def _pull(self, step: int) -> None:
        choice, option = self.process.choose(step << 5)
        self.process.observe(choice.ticket, 0.25 * (step % 5), option)

    def taken(self) -> list[bytes]:
        """Return what was said since the last call."""
        said, self.wire.sent = self.wire.sent, []
        return said

    def journal(self) -> dict[str, str]:
        """Return what is on its disk."""
        return {file: data.hex() for file, data in sorted(self.files.copy().items())}

    def own(self) -> list[list[float]]:
        """Return pulls and rewards of its own, by option."""
        counts, sums = self.process.own_totals()
        return [list(map(float, counts)), sums]


def converse(first: Any, second: Seat, *, restart: bool = True) -> None:
    """Let two agents talk; `first` may be a record of one, with the same methods."""
    said: tuple[list[bytes], list[bytes]] = [], []
    for step in range(STEPS):
        if restart and step == RESTART:
            first.die()
            second.link_down()
            first.start()
            said = [], []
        for cause in first.callings(step, restart=restart):
            first.link_up(cause)
            second.link_up()
        first.step(step, said[1])
        second.step(step, said[0])
        said = first.taken(), second.taken()


class Speaking(Seat):
    """The agent that is recorded: it also says when it begins a link, and keeps what it says."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.said: list[list[str]] = []
        self.linked: list[int] = []

    def callings(self, step: int, *, restart: bool) -> list[object]:
        """Return why a link begins before this step; nothing if none does."""
        if self.fleet.auto:
            causes, self.wire.wishes = self.wire.wishes[:1], []
        else:
            causes = [None] if step == 0 or (restart and step == RESTART) else []
        self.linked += [step] * len(causes)
        return causes

    def taken(self) -> list[bytes]:
        """Return what was said, and keep it."""
        said = super().taken()
        self.said.append([data.hex() for data in said])
        return said


class Record:
    """What an agent of another version has said, in place of that agent."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told, self._at = told, 0
        self.heard: list[bytes] = []
        self.die = self.start = lambda: None
        self.link_up = partial(lambda cause: None)

    def callings(self, step: int, *, restart: bool) -> list[object]:
        """Return whether a link begins before this step."""
        del restart
        return [None] * self.told["linked"].count(step)

    def step(self, step: int, heard: Iterable[bytes]) -> None:
        """Listen."""
        self._at = step
        self.heard += heard

    def taken(self) -> list[bytes]:
        """Return what was said in this step."""
        return [bytes.fromhex(data) for data in self.told["said"][self._at]]

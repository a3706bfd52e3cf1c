"""What several bandits in one agent cost, beside one bandit with as many arms in total.

Two agents in one process, linked without sockets, so that what is measured is the bandits' own: all
that a link costs by itself is the same for both. Every bandit of both has news in every round. Each
shape is played in a process of its own, since memory is that of a process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.fleet.processes import resident_megabytes
from benchmarks.fleet.rows import Row
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import ClusterConfig, NodeConfig
from coopbandits.fleet.config.bandits import Arm, BanditConfig, derived_number
from coopbandits.fleet.process.assemble import make_shell, open_bandits
from coopbandits.fleet.process.shell import Shell
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.storage.disk import FileDisk
from coopbandits.fleet.transport import LinkEvents, Transport

COST = 60.0
"""Target microseconds per bandit with news."""

TIMES = 1.5
"""Target bytes and memory, times those of one bandit with as many arms."""

START = 1_800_000_000
NAMES = ("a", "b")
QUIET, WINDOWS = 2000, 3
"""Rounds without news, and windows with news of which the cheapest counts.

Some systems tell CPU time in steps of milliseconds, so single rounds are not timed.
"""

SETTLING = 60
"""Rounds until links are up and nothing is held back any more."""


class Shape(NamedTuple):
    """How many bandits there are, how many arms each has, and how many rounds are measured."""

    bandits: int = 200
    arms: int = 10
    rounds: int = 30

    @property
    def words(self) -> str:
        """The shape as the table shows it."""
        return f"{self.bandits} bandits of {self.arms} arms"


class Cost(NamedTuple):
    """CPU in microseconds and bytes of one agent and round, without news and with, and MB."""

    idle: float
    busy: float
    sent: float
    memory: float


class _Line(Transport):
    """An end of a link in memory."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    async def start(self, events: LinkEvents) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    def send(self, peer: str, data: bytes) -> bool:
        """Keep bytes until they are taken."""
        del peer
        self.sent.append(data)
        return True

    def drop(self, peer: str, reason: str) -> None:
        """Never drop a link of the benchmark."""
        raise RuntimeError(f"the link to {peer} broke: {reason}")


class _Pair:
    """Two agents that know the same bandits."""

    def __init__(self, shape: Shape, folder: Path, stack: ExitStack) -> None:
        self.now, self.lines = float(START), [_Line(), _Line()]
        self.shells: list[Shell] = []
        self.services: list[ServedAgent] = []
        cluster = ClusterConfig("bench", START - 1000)
        declared = {each.name: each for each in _bandits(shape, cluster)}
        words = count(1)
        for own, other, line in zip(NAMES, NAMES[::-1], self.lines, strict=True):
            places = {other: Address("127.0.0.1", 1)}
            config = NodeConfig(cluster, own, folder / own, places, bandits=declared)
            disk = FileDisk(config.journal)
            stack.callback(disk.close)
            bandits = open_bandits(config, disk, self._clock, words.__next__)
            shell = make_shell(config, bandits, line, self._clock)
            self.shells.append(shell)
            self.services.append(
                ServedAgent(config, shell.node, words.__next__, self._clock, shell.wait)
            )
        for shell, other in zip(self.shells, NAMES[::-1], strict=True):
            shell.link_up(other)

    def _clock(self) -> float:
        return self.now

    def pull(self) -> None:
        """Let every bandit of both have a reward."""
        for service in self.services:
            for each in service.services.values():
                each.observe(each.choose().ticket, 1.0)
        for shell in self.shells:
            shell.settle()

    def round(self) -> int:
        """Let a round pass; return the bytes that one agent sends."""
        self.now += 0.051
        size = 0
        for shell in self.shells:
            shell.tick()
        for line, other, name in zip(self.lines, self.shells[::-1], NAMES, strict=True):
            unread, line.sent = line.sent, []
            for data in unread:
                other.received(name, data)
                size += len(data)
        return size // 2


def _bandits(shape: Shape, cluster: ClusterConfig) -> Iterator[BanditConfig]:
    for at in range(shape.bandits):
        name = f"bandit-{at}"
        arms = tuple(Arm(f"arm-{k}", f"arm-{k}") for k in range(shape.arms))
        yield BanditConfig(name, derived_number(name), cluster, arms, reward_range=(0.0, 1.0))


def play(shape: Shape) -> Cost:
    """Measure a shape, in this process."""
    with TemporaryDirectory(prefix="coopbandits-") as folder, ExitStack() as stack:
        pair = _Pair(shape, Path(folder), stack)
        for _ in range(SETTLING):
            pair.round()
        began = time.process_time()
        for _ in range(QUIET):
            pair.round()
        idle = (time.process_time() - began) / QUIET
        windows, sent = [], 0
        for _ in range(WINDOWS):
            spent = 0.0
            for _ in range(shape.rounds):
                pair.pull()
                began = time.process_time()
                sent = pair.round()
                spent += time.process_time() - began
            windows.append(spent / shape.rounds)
        memory = resident_megabytes(os.getpid())
    return Cost(1e6 * idle / 2, 1e6 * min(windows) / 2, sent, memory)


def time_bandits(shape: Shape) -> list[Row]:
    """Return the rows of several bandits."""
    both = shape, Shape(1, shape.bandits * shape.arms, shape.rounds)
    costs = []
    for each in both:
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            costs.append(alone.submit(play, each).result())
    many, one = costs
    what, over = shape.words, f"over one with {shape.bandits * shape.arms}"
    cost = (many.busy - many.idle) / shape.bandits
    return [
        Row(f"{what}: computing per bandit with news and round", "none", cost, "µs", COST),
        Row(f"{what}: computing per round without news", "none", many.idle, "µs"),
        Row(
            f"{what}: bytes per round and neighbour, {over}",
            "none",
            many.sent / one.sent,
            "",
            TIMES,
        ),
        Row(f"{what}: memory of two agents", "none", many.memory, "MB"),
        Row(f"{what}: memory, {over}", "none", many.memory / one.memory, "", TIMES),
    ]

"""One start of one agent: the fleet's own parts on a virtual clock, network and disk.

All that torture needs to know about how an agent is put together stands here.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from coopbandits.core.aggregate.entries import author_of
from coopbandits.core.aggregate.ticks import ClockedMachine
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.process.assemble import make_node, open_replica
from coopbandits.fleet.process.commit import GroupCommit, Outbox
from coopbandits.fleet.process.rewrite import BesideRewriter
from coopbandits.fleet.process.runtime import JUMP
from coopbandits.fleet.process.worker import Done
from coopbandits.fleet.protocol.node import BANDIT, Node
from coopbandits.fleet.service.application import ApplicationService
from coopbandits.fleet.storage.disk import DiskError, FileDisk
from coopbandits.fleet.transport import LinkEvents, Transport
from coopbandits.testing.torture.files import VirtualFiles
from coopbandits.testing.torture.notary import VirtualNotary, VirtualRevoked
from coopbandits.testing.torture.schedule import SECOND, START

if TYPE_CHECKING:
    from coopbandits.fleet.storage.replica import Replica

Later = Callable[[int, Callable[[], None]], None]
"""Calls a function of this process after some microseconds, if it lives then."""

LONG_BYTES = 4000
"""Journals are written anew far more often than in a fleet, and that takes at least"""
REWRITE_SECONDS = 0.1
"""so many seconds: enough for events, and for deaths, in between."""

Send = Callable[[str, bytes], bool]
Drop = Callable[[str, str], None]


@cache
def name(agent: int) -> str:
    """Return an agent's id."""
    return f"n{agent}"


@cache
def number(node: str) -> int:
    """Return the agent of an id."""
    return int(node[1:])


class VirtualClock:
    """A machine's clock that runs fast or slow and is set; the process on it never goes back."""

    def __init__(self, now: Callable[[], int], speed: int) -> None:
        self.now, self.speed = now, speed  # millionths of a second per second
        self.set_by = 0
        self._followed = self._latest = 0

    def __call__(self) -> float:
        """Return what the process takes for the time."""
        passed = self.now() * self.speed // SECOND
        return (START * SECOND + self._followed + passed) / SECOND

    def restart(self) -> None:
        """Begin with the machine's time, as a new process does."""
        self._followed = self.set_by
        self._latest = max(self._latest, self.set_by)

    def correct(self) -> None:
        """Be set right: no earlier than at any start before."""
        self.set_by = max(self.set_by, self._latest)

    def follow(self) -> None:
        """Follow a clock that was set forward, as the fleet's own clock does."""
        if self.set_by - self._followed > JUMP * SECOND:
            self._followed = self.set_by

    def when(self, time: float) -> int:
        """Return the first microsecond of the world at which this clock shows a time."""
        passed = math.ceil(time * SECOND) - START * SECOND - self._followed
        return -(-passed * SECOND // self.speed)


class Wire(Transport):
    """One agent's end of the virtual network."""

    def __init__(self, send: Send, drop: Drop) -> None:
        self._send, self._drop = send, drop

    async def start(self, events: LinkEvents) -> None:
        """Do nothing: links come up by themselves."""

    async def stop(self) -> None:
        """Do nothing."""

    def send(self, peer: str, data: bytes) -> bool:
        """Hand bytes to the network."""
        return self._send(peer, data)

    def drop(self, peer: str, reason: str) -> None:
        """Close a link."""
        self._drop(peer, reason)


class VirtualWorker:
    """A worker without threads: what it does is done at once, and known when the disk says so."""

    def __init__(self, files: VirtualFiles, later: Later, least: float) -> None:
        self.files, self.later, self.least = files, later, least

    def soon(self, call: Callable[[], None]) -> None:
        """Call after everything that happens at this instant."""
        self.later(0, call)

    def run(self, work: Callable[[], None], done: Done) -> None:
        """Do some work now, and tell later."""
        error: DiskError | None = None
        self.files.cost = 0.0
        try:
            work()
        except DiskError as failure:
            error = failure
        taken, self.files.cost = max(self.files.cost, self.least), 0.0
        if taken:
            self.later(int(taken * SECOND), lambda: done(error))
        else:
            done(error)

    async def rest(self) -> None:
        """Do nothing: an agent that is tortured is never asked to end in peace."""


class Process:
    """An agent that runs: journal, protocol, service, and group commit where there is one."""

    def __init__(
        self, config: NodeConfig, files: VirtualFiles, clock: VirtualClock, words: Callable[[], int]
    ) -> None:
        clock.restart()
        self.files, self.clock = files, clock
        disk = FileDisk(Path("/virtual"), config.durability, files)
        word, nonce = words() | 1, words()
        self.replica: Replica = open_replica(config, disk, clock(), word, nonce, number)
        self.config, self.words = config, words

    def connect(self, wire: Wire, later: Later, revoked: Callable[[], frozenset[str]]) -> None:
        """Put the protocol and the service on top of the opened journal."""
        self.outbox = Outbox(wire)
        plain = make_node(self.config, self.replica, self.outbox, self.clock, number).settings
        settings = replace(plain, revoked=VirtualRevoked(revoked))
        if self.config.cluster.signed:
            scope = plain.cluster, plain.epoch, BANDIT
            signing = plain.signing._replace(notary=VirtualNotary(plain.node, scope))
            claims = replace(plain.claims, certified=True)
            settings = replace(settings, signing=signing, claims=claims)
        self.node = Node(settings, self.replica, self.outbox, self.clock)
        self.service = ApplicationService(self.config, self.node, self.words)
        journal = self.replica.journal
        journal.long_bytes, journal.long_growth = LONG_BYTES, 1
        self.commit: GroupCommit | None = None
        if self.config.durability == "power":
            worker = VirtualWorker(self.files, later, 0.0)
            self.commit = GroupCommit(journal, self.outbox, worker)
        else:
            BesideRewriter(journal, VirtualWorker(self.files, later, REWRITE_SECONDS))

    def answer(self, told: Callable[[bool], None]) -> None:
        """Tell whether all that was asked so far may be acknowledged, once that is certain."""
        if self.commit is None:
            told(True)
        else:
            self.commit.wait(lambda error: told(error is None))

    def held(self) -> dict[float, float]:
        """Return the versions of the entries that the agent knows, by number; {} if it has none."""
        entries = self.node.gossip.entries
        return entries.machine.held() if entries is not None else {}

    @property
    def tick(self) -> int:
        """The time by which the agent forgets."""
        machine = getattr(self.replica.agent, "machine", None)
        return machine.clock if isinstance(machine, ClockedMachine) else 0

    def author_of(self, number: float) -> float:
        """Return whose entry a number is, as far as this agent knows."""
        return self.node.settings.claims.owners.get(number, author_of(number))

    def beat(self) -> None:
        """Do what the runtime does once a second."""
        self.clock.follow()
        self.node.beat()

    def watch(self) -> None:
        """Look for the journal where it was."""
        with contextlib.suppress(DiskError):
            self.replica.journal.check()

"""One start of one agent: the fleet's own parts on a virtual clock, network and disk.

All that torture needs to know about how an agent is put together stands here.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from coopbandits.core.aggregate.entries import author_of
from coopbandits.core.aggregate.fields import FieldMachine
from coopbandits.core.contract import Vector
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.process.assemble import make_members, make_shell, open_bandits
from coopbandits.fleet.process.declarations import Declarations, take
from coopbandits.fleet.process.runtime import JUMP
from coopbandits.fleet.process.shell import BackgroundRewriter, Done, GroupCommit
from coopbandits.fleet.protocol.frames import BASE
from coopbandits.fleet.service import Choice, Receipt, UnavailableError
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.storage.disk import DiskError, FileDisk
from coopbandits.fleet.transport import LinkEvents, Transport
from tests.torture.bandits import (
    NUMBERS,
    OPTIONS,
    PLACES,
    SIDE,
    option_of,
)
from tests.torture.files import VirtualFiles
from tests.torture.notary import VirtualRevoked, virtual_notary
from tests.torture.schedule import MAIN, SECOND, START

if TYPE_CHECKING:
    from coopbandits.fleet.protocol.gossip import Session
    from coopbandits.fleet.storage.replica import Replica
    from coopbandits.fleet.transport.tcp import OpenTransport

Later = Callable[[int, Callable[[], None]], None]
"""Calls a function of this process after some microseconds, if it lives then."""

Entry = tuple[int, float]
"""A bandit, and the number of an entry in its flood."""

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
        self.is_right = False  # at the next start, whatever comes in between

    def __call__(self) -> float:
        """Return what the process takes for the time."""
        passed = self.now() * self.speed // SECOND
        return (START * SECOND + self._followed + passed) / SECOND

    def restart(self) -> None:
        """Begin with the machine's time, as a new process does."""
        if self.is_right:
            self.set_by = max(self.set_by, self._latest)
        self._followed = self.set_by
        self._latest = max(self._latest, self.set_by)

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


def _escape(where: str, error: Exception) -> None:
    del where
    raise error


class Process:
    """An agent that runs: journal, protocol, service, and group commit where there is one."""

    def __init__(
        self, config: NodeConfig, files: VirtualFiles, clock: VirtualClock, words: Callable[[], int]
    ) -> None:
        clock.restart()
        self.files, self.clock = files, clock
        disk = FileDisk(Path("/virtual"), config.durability, files)
        self.config, self.words = config, words
        # Rare seeds, found by searching millions, are of odd identities.
        given = chain([words() | 1], iter(words, None)).__next__
        self.bandits = open_bandits(config, disk, clock, given, number)
        self.replica = self.bandits.replicas[NUMBERS[MAIN]]
        self.journal = self.bandits.journal

    def connect(self, wire: Wire, later: Later, revoked: Callable[[], frozenset[str]]) -> None:
        """Put the protocol and the service on top of the opened journal."""
        self.shell = make_shell(
            self.config, self.bandits, wire, self.clock, number,
            virtual_notary(self.config), VirtualRevoked(revoked),
        )  # fmt: skip
        self.node = self.shell.node
        if self.config.auto:
            self.node.members = make_members(
                self.config, self.node, self.words, lambda: cast("OpenTransport", wire).address.port
            )
        self.service = ServedAgent(self.config, self.node, self.words, self.clock, self.shell.wait)
        journal = self.journal
        journal.long_bytes, journal.long_growth = LONG_BYTES, 1
        if self.config.durability == "power":
            GroupCommit(self.shell, VirtualWorker(self.files, later, 0.0), _escape)
        else:
            BackgroundRewriter(journal, VirtualWorker(self.files, later, REWRITE_SECONDS))

    # What applications ask

    def choose(self, word: int) -> tuple[Choice, int]:
        """Return a choice and its option; of two bandits, chance asks one."""
        name = SIDE if word >> 7 & 1 and self.has_side else MAIN
        choice = self.service.bandit(name).choose()
        return choice, option_of(name, choice.arm)

    def observe(self, ticket: str, reward: float, option: int | None) -> Receipt:
        """Hand in a reward to the bandit of its option."""
        name = MAIN if option is None else OPTIONS[option].bandit
        return self.service.bandit(name).observe(ticket, reward)

    def take(self, declared: Declarations) -> None:
        """Go by other declarations, unless the disk is full; then the next start does."""
        with contextlib.suppress(UnavailableError):
            take(self.service, declared)
        self.shell.settle()

    # What checks look at

    @property
    def has_side(self) -> bool:
        """Whether the agent has the second bandit."""
        return NUMBERS[SIDE] in self.bandits.replicas

    def own_totals(self) -> tuple[list[int], list[float]]:
        """Return rewards handed in here and their sums, by option."""
        counts, sums = [0] * len(OPTIONS), [0.0] * len(OPTIONS)
        for replica, options in self._options():
            handed_in = replica.own_counts.tolist(), replica.own_sums.tolist()
            for place, at in options:
                counts[at] += handed_in[0][place]
                sums[at] += handed_in[1][place]
        return counts, sums

    def known(self) -> Vector:
        """Return what the agent knows: sums by option, then pulls."""
        found = np.zeros(2 * len(OPTIONS))
        for replica, options in self._options():
            estimate = replica.agent.estimate()
            for place, at in options:
                found[at] += estimate.sums[place]
                found[len(OPTIONS) + at] += estimate.counts[place]
        return found

    def _options(self) -> Iterator[tuple[Replica, list[tuple[int, int]]]]:
        """Yield the states of all bandits, with the places of their arms and of the options.

        Arms that a liar has made up are no options.
        """
        for bandit, replica in self.bandits.replicas.items():
            places = PLACES[bandit]
            arms = enumerate(replica.arms)
            yield replica, [(place, places[arm]) for place, arm in arms if arm in places]

    def answer(self, told: Callable[[bool], None]) -> None:
        """Tell whether all that was asked so far may be acknowledged, once that is certain."""
        self.shell.wait(lambda error: told(error is None))

    @property
    def replicas(self) -> Mapping[int, Replica]:
        """The states of all bandits, by number."""
        return self.bandits.replicas

    @property
    def sessions(self) -> dict[int, Session]:
        """The gossip about all bandits, by number."""
        return self.node.sessions.by_number

    def held(self) -> dict[Entry, float]:
        """Return the versions of the entries that the agent knows, where there are any."""
        return {
            (bandit % BASE, number): version
            for bandit, session in self.sessions.items()
            if session.entries is not None
            for number, version in session.entries.machine.held().items()
        }

    def tick_of(self, option: int | None) -> int:
        """Return the time by which pulls of an option are forgotten."""
        replica = self.replica
        if option is not None:
            replica = self.bandits.replicas.get(NUMBERS[OPTIONS[option].bandit], replica)
        machine = getattr(replica.agent, "machine", None)
        return int(machine.state.me.clock) if isinstance(machine, FieldMachine) else 0

    def newest_ticket(self, option: int | None) -> int:
        """Return the number of the newest ticket of an option's bandit."""
        name = MAIN if option is None else OPTIONS[option].bandit
        return self.bandits.replicas[NUMBERS[name]].tickets.next_number - 1

    def author_of(self, entry: Entry) -> float:
        """Return whose entry it is."""
        return author_of(entry[1])

    def beat(self) -> None:
        """Do what the runtime does once a second."""
        self.clock.follow()
        self.shell.beat()

    def watch(self) -> None:
        """Look for the journal where it was."""
        with contextlib.suppress(DiskError):
            self.journal.check()

"""Whole agents that find each other over links in memory: real protocol and journal, no sockets.

Time goes on when it is told to, one round of all agents after the other, and what is sent arrives
before the next. So thousands of agents fit into one process, and what they send and compute can be
counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from coopbandits.fleet.address import Address
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.process.assemble import make_members, make_shell, open_bandits
from coopbandits.fleet.process.shell import Shell
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.storage.disk import MemoryDisk
from coopbandits.fleet.storage.replica import Replica
from coopbandits.fleet.transport import ITSELF, Arrival, LinkEvents, Transport
from tests.torture.notary import virtual_notary
from tests.torture.overlay.world import CALL_BYTES, RECORD_BYTES
from tests.torture.words import words_of

EPOCH = 1_790_000_000
PORT = 7400
MOST_STEPS = 100_000
"""What one agent leads to in one go is over after so many messages."""


class Wire(Transport):
    """One node's end of all links; calls go to the host that bears the name of a node."""

    address = Address("0.0.0.0", PORT)  # noqa: S104  nobody listens

    def __init__(self, party: Party, name: str) -> None:
        self.party, self.name = party, name
        self.links: dict[str, object] = {}

    async def start(self, events: LinkEvents) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    def send(self, peer: str, data: bytes) -> bool:
        """Send bytes soon."""
        self.party.bytes_sent += RECORD_BYTES + len(data)
        self.party.todo.append(lambda: self.party.deliver(self.name, peer, data))
        return True

    def drop(self, peer: str, reason: str) -> None:
        """Close a link soon, after what was sent."""
        self.party.todo.append(lambda: self.party.part(self.name, peer, reason))

    def call(
        self, peer: str, address: Address, cause: object, failed: Callable[[str], None]
    ) -> None:
        """Call a node."""
        self.party.todo.append(
            lambda: self.party.connect(self.name, peer, address.host, cause, failed)
        )

    def arrival_of(self, peer: str) -> Arrival:
        """Return why a node was called, and where it is."""
        return Arrival(self.links[peer], peer)

    def look_up(self, places: Iterable[Address], found: Callable[[list[Address]], None]) -> None:
        """Find the same addresses."""
        found(list(places))


class Party:
    """Nodes, their disks, and what is under way between them.

    Parameters
    ----------
    declared : BanditConfig or mapping of str to BanditConfig
        The bandits that all have.
    degree : int
        How many neighbours each looks for.
    revoked : Path or None
        A list of those who are revoked.

    Attributes
    ----------
    nodes : dict of str to Node
        Those that run.
    bytes_sent : int
        All so far, with what TLS adds, and calls.
    """

    def __init__(
        self,
        declared: BanditConfig | Mapping[str, BanditConfig],
        degree: int = 3,
        revoked: Path | None = None,
    ) -> None:
        if isinstance(declared, BanditConfig):
            declared = {declared.name: declared}
        self.bandit = next(iter(declared.values()))
        self.cluster, self.degree = self.bandit.cluster, degree
        self.revoked, self.declared = revoked, declared
        self.now = float(EPOCH + 1000)
        self.bytes_sent = 0
        self.todo: deque[Callable[[], None]] = deque()
        self.disks: dict[str, MemoryDisk] = {}
        self.nodes: dict[str, Node] = {}
        self.shells: dict[str, Shell] = {}
        self.wires: dict[str, Wire] = {}
        self._starts = 0

    def start(self, name: str, *seeds: str) -> Node:
        """Start a node that knows where some others are."""
        config = NodeConfig(
            self.cluster, name, Path("unused"), {}, auto=True, degree=self.degree,
            revoked=self.revoked, seeds=tuple(Address(seed, PORT) for seed in seeds),
            bandits=self.declared,
        )  # fmt: skip
        self._starts += 1
        wire = self.wires[name] = Wire(self, name)
        disk = self.disks.setdefault(name, MemoryDisk())
        words = words_of(self._starts).__next__
        bandits = open_bandits(config, disk, self._clock, words)
        shell = make_shell(config, bandits, wire, self._clock, notary=virtual_notary(config))
        node = shell.node
        node.members = make_members(config, node, words, lambda: PORT)
        self.nodes[name] = node
        self.shells[name] = shell
        return node

    def replica(self, name: str) -> Replica:
        """Return the state of a node's first bandit."""
        return self.nodes[name].bandits.replicas[self.bandit.number]

    def pull(self, name: str, word: int = 1) -> None:
        """Let a node's application choose and hand in a reward."""
        replica = self.replica(name)
        ticket, _ = replica.choose(word, None, self.now)
        replica.observe(ticket, 1.0)
        self.nodes[name].sessions.wake(self.bandit.number)
        self.shells[name].settle()

    def _clock(self) -> float:
        return self.now

    def crash(self, name: str) -> None:
        """Let a node vanish; its neighbours notice at once."""
        del self.nodes[name]
        for peer in list(self.wires.pop(name).links):
            self.part(peer, name, "it is dead")

    def leave(self, name: str) -> None:
        """Let a node say goodbye, and end."""
        self.shells[name].leave()
        self.settle()
        del self.nodes[name]

    # Links

    def deliver(self, name: str, peer: str, data: bytes) -> None:
        """Let bytes arrive, if the link is still there."""
        if peer in self.nodes and name in self.wires[peer].links:
            self.shells[peer].received(name, data)

    def part(self, name: str, peer: str, reason: str) -> None:
        """End a link."""
        for here, there in ((name, peer), (peer, name)):
            if here in self.nodes and there in self.wires[here].links:
                del self.wires[here].links[there]
                self.shells[here].link_down(there, reason)

    def connect(
        self, name: str, peer: str, host: str, cause: object, failed: Callable[[str], None]
    ) -> None:
        """Let a call arrive, or fail."""
        if host == name:
            failed(ITSELF)
        elif host not in self.nodes or (peer or host) != host or host in self.wires[name].links:
            failed("nobody answers")
        else:
            self.bytes_sent += CALL_BYTES
            self.wires[name].links[host], self.wires[host].links[name] = cause, None
            self.shells[name].link_up(host)
            self.shells[host].link_up(name)

    def links(self, name: str) -> set[str]:
        """Return the neighbours that a node talks to."""
        return {peer.name for peer in self.nodes[name].peers.values() if peer.met}

    # Time

    def settle(self) -> None:
        """Let everything arrive, and what follows from it."""
        for _ in range(MOST_STEPS * max(1, len(self.nodes))):
            if not self.todo:
                return
            self.todo.popleft()()
        raise RuntimeError("it never comes to rest")

    def round(self) -> None:
        """Let all end a round."""
        self.now += 1.0 / self.cluster.rounds_per_second
        for name in list(self.nodes):
            self.shells[name].tick()
        self.settle()

    def play(self, seconds: int = 1) -> None:
        """Play some seconds."""
        for _ in range(seconds):
            for _ in range(int(self.cluster.rounds_per_second)):
                self.round()
            for name in list(self.nodes):
                self.shells[name].beat()
            self.settle()

"""Nodes that find each other over links in memory: the real protocol and journal, no sockets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import cast

from coopbandits.fleet.address import Address
from coopbandits.fleet.config import ClusterConfig, NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.process.assemble import make_members, make_node, open_replica
from coopbandits.fleet.process.declare import make_many_node, open_bandits
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.storage.disk import MemoryDisk
from coopbandits.fleet.transport import LinkEvents, Transport
from coopbandits.fleet.transport.open import ITSELF, OpenTransport
from coopbandits.testing.torture.words import words_of

EPOCH = 1_790_000_000
PORT = 7400


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

    def cause_of(self, peer: str) -> object:
        """Return why a node was called."""
        return self.links[peer]

    def host_of(self, peer: str) -> str:
        """Return where a node is."""
        return peer

    def look_up(self, places: Iterable[Address], found: Callable[[list[Address]], None]) -> None:
        """Find the same addresses."""
        found(list(places))


class Party:
    """Nodes, their disks, and what is under way between them."""

    def __init__(
        self,
        policy: str = "flood-ts",
        revoked: Path | None = None,
        declared: Mapping[str, BanditConfig] | None = None,
    ) -> None:
        self.cluster = ClusterConfig("test", EPOCH, ("a", "b"), policy, (0.0, 1.0))
        self.revoked, self.declared = revoked, declared or {}
        self.now = float(EPOCH + 1000)
        self.todo: deque[Callable[[], None]] = deque()
        self.disks: dict[str, MemoryDisk] = {}
        self.nodes: dict[str, Node] = {}
        self.wires: dict[str, Wire] = {}

    def start(self, name: str, *seeds: str) -> Node:
        config = NodeConfig(
            self.cluster, name, Path("unused"), {}, auto=True, degree=3, revoked=self.revoked,
            seeds=tuple(Address(seed, PORT) for seed in seeds), declared=self.declared,
        )  # fmt: skip
        wire = self.wires[name] = Wire(self, name)
        disk = self.disks.setdefault(name, MemoryDisk())
        words = words_of(len(self.nodes) + 1).__next__
        node: Node
        if self.declared:
            bandits = open_bandits(config, disk, self._clock, words)
            node = make_many_node(config, bandits, wire, self._clock)
        else:
            replica = open_replica(config, disk, self.now, words() | 1, words())
            node = make_node(config, replica, wire, self._clock)
        node.members = make_members(config, node, cast("OpenTransport", wire), words)
        self.nodes[name] = node
        return node

    def _clock(self) -> float:
        return self.now

    def crash(self, name: str) -> None:
        del self.nodes[name]
        for peer in list(self.wires.pop(name).links):
            self.part(peer, name, "it is dead")

    def deliver(self, name: str, peer: str, data: bytes) -> None:
        if peer in self.nodes and name in self.wires[peer].links:
            self.nodes[peer].received(name, data)

    def part(self, name: str, peer: str, reason: str) -> None:
        for here, there in ((name, peer), (peer, name)):
            if here in self.nodes and there in self.wires[here].links:
                del self.wires[here].links[there]
                self.nodes[here].link_down(there, reason)

    def connect(
        self, name: str, peer: str, host: str, cause: object, failed: Callable[[str], None]
    ) -> None:
        if host == name:
            failed(ITSELF)
        elif host not in self.nodes or (peer or host) != host or host in self.wires[name].links:
            failed("nobody answers")
        else:
            self.wires[name].links[host], self.wires[host].links[name] = cause, None
            self.nodes[name].link_up(host)
            self.nodes[host].link_up(name)

    def settle(self) -> None:
        for _ in range(100_000):
            if not self.todo:
                return
            self.todo.popleft()()
        raise AssertionError("it never comes to rest")

    def play(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            for _ in range(20):
                self.now += 0.05
                for node in list(self.nodes.values()):
                    node.tick()
                self.settle()
            for node in list(self.nodes.values()):
                node.beat()
            self.settle()

    def links(self, name: str) -> set[str]:
        return {peer.name for peer in self.nodes[name].peers.values() if peer.met}

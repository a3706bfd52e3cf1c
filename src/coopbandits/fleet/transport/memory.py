"""Links inside one process: many agents in one event loop, without sockets.

Every event is scheduled by `call_soon`, which keeps the order in which they were caused. So a run
on a loop with a simulated clock can be repeated exactly. Links can be cut and healed to simulate
partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.transport import LinkEvents, Transport

MAX_WAITING = 1 << 20
"""If more bytes than this are in transit over a link, the next message closes it."""


class MemoryLink:
    """One link between two agents, from `link_up` to `link_down`."""

    def __init__(self) -> None:
        self.open = True
        """Whether more may be sent."""
        self.intact = True
        """Whether bytes in transit arrive."""
        self.waiting: dict[str, int] = {}
        """Bytes in transit, by receiver."""


class MemoryNetwork:
    """Connects the transports of many agents.

    Parameters
    ----------
    pause : float
        Seconds until a dropped link comes up again.
    max_waiting : int
        Bytes that may be in transit over a link when the next message is sent.
    """

    def __init__(self, *, pause: float = 0.02, max_waiting: int = MAX_WAITING) -> None:
        self.pause, self.max_waiting = pause, max_waiting
        self.running: dict[str, MemoryTransport] = {}
        self.links: dict[frozenset[str], MemoryLink] = {}
        self.cuts: set[frozenset[str]] = set()

    def transport(self, node: str, neighbors: Iterable[str]) -> MemoryTransport:
        """Return a transport for one agent, not started yet."""
        return MemoryTransport(self, node, neighbors)

    def cut(self, one: str, other: str) -> None:
        """Break a link until it is healed; bytes in transit are lost."""
        pair = frozenset((one, other))
        self.cuts.add(pair)
        link = self.links.get(pair)
        if link is not None:
            link.intact = False
            self.close(pair, "the link was cut")

    def heal(self, one: str, other: str) -> None:
        pair = frozenset((one, other))
        self.cuts.discard(pair)
        self.connect(pair)

    def connect(self, pair: frozenset[str]) -> None:
        """Bring a link up if both ends run; refuse it if only one lists the other."""
        if pair in self.cuts or pair in self.links or not pair <= self.running.keys():
            return
        ends = [self.running[node] for node in sorted(pair)]
        one, other = ends
        willing = other.node in one.neighbors, one.node in other.neighbors
        if all(willing):
            link = self.links[pair] = MemoryLink()
            for end, peer in ((one, other), (other, one)):
                end.schedule(end.link_up, peer.node, link)
        elif any(willing):
            stranger, host = (one, other) if willing[0] else (other, one)
            host.schedule(host.events.refused, stranger.node, f"{stranger.node!r} is no neighbour")
            stranger.schedule(
                stranger.events.refused, host.node, "it hung up before the link was up"
            )

    def close(self, pair: frozenset[str], reason: str, again: bool = False) -> None:
        """Take a link down at both ends; if it is intact, bytes in transit still arrive."""
        link = self.links.pop(pair)
        link.open = False
        for node in sorted(pair & self.running.keys()):
            (peer,) = pair - {node}
            self.running[node].schedule(self.running[node].link_down, peer, link, reason)
        if again:
            asyncio.get_running_loop().call_later(self.pause, self.connect, pair)


class MemoryTransport(Transport):
    """Links to the neighbours of one agent of a `MemoryNetwork`."""

    def __init__(self, network: MemoryNetwork, node: str, neighbors: Iterable[str]) -> None:
        self.network, self.node, self.neighbors = network, node, frozenset(neighbors)
        if node in self.neighbors:
            raise InputError(f"agent {node!r} is listed as its own neighbour; remove it")
        self.up: dict[str, MemoryLink] = {}

    async def start(self, events: LinkEvents) -> None:
        if self.node in self.network.running:
            raise InputError(f"an agent {self.node!r} is running already; stop it first")
        self.events = events
        self.network.running[self.node] = self
        for other in sorted(self.network.running.keys() - {self.node}):
            self.network.connect(frozenset((self.node, other)))

    def send(self, peer: str, data: bytes) -> bool:
        link = self.up.get(peer)
        if link is None or not link.open:
            return False
        waiting = link.waiting.get(peer, 0)
        if waiting > self.network.max_waiting:
            limit = self.network.max_waiting
            self.drop(peer, f"{waiting} bytes wait to be sent; allowed are {limit}")
            return False
        link.waiting[peer] = waiting + len(data)
        end = self.network.running[peer]
        end.schedule(end.deliver, self.node, link, data)
        return True

    def drop(self, peer: str, reason: str) -> None:
        link = self.up.get(peer)
        if link is not None and link.open:
            self.network.close(frozenset((self.node, peer)), reason, again=True)

    async def stop(self) -> None:
        if self.network.running.get(self.node) is self:
            del self.network.running[self.node]
            for pair in [pair for pair in self.network.links if self.node in pair]:
                self.network.close(pair, "the neighbour closed the link")
        self.up = {}

    def schedule(self, event: Callable[..., None], *what: Any) -> None:
        """Schedule an event; it is dropped if this end has been stopped by then."""
        asyncio.get_running_loop().call_soon(self._run, event, *what)

    def _run(self, event: Callable[..., None], *what: Any) -> None:
        if self.network.running.get(self.node) is self:
            event(*what)

    def link_up(self, peer: str, link: MemoryLink) -> None:
        self.up[peer] = link
        self.events.link_up(peer)

    def deliver(self, peer: str, link: MemoryLink, data: bytes) -> None:
        link.waiting[self.node] -= len(data)
        if link.intact and data:
            self.events.received(peer, data)

    def link_down(self, peer: str, link: MemoryLink, reason: str) -> None:
        if self.up.get(peer) is link:
            del self.up[peer]
        self.events.link_down(peer, reason)

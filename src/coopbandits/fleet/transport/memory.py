"""Links inside one process: many agents in one event loop, and no sockets.

Every event is a callback of the loop (`call_soon`), which keeps them in the order in which they
were caused. So a run on a loop whose clock is simulated can be repeated exactly. Links can be cut
and healed, to see what a partition does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.transport import LinkEvents, Transport

MAX_WAITING = 1 << 20
"""Where more bytes than this are on their way over a link, the next message closes it."""


class MemoryLink:
    """What connects two agents from one `link_up` to `link_down`; a new one starts afresh."""

    def __init__(self) -> None:
        self.open = True
        """Whether more may be sent."""
        self.intact = True
        """Whether what is on its way arrives."""
        self.waiting: dict[str, int] = {}
        """Bytes on their way, by receiver."""


class MemoryNetwork:
    """Brings the transports of many agents together.

    Parameters
    ----------
    pause : float
        Seconds until a link that an agent dropped is made again.
    max_waiting : int
        Bytes that may be on their way over a link when the next message is sent.
    """

    def __init__(self, *, pause: float = 0.02, max_waiting: int = MAX_WAITING) -> None:
        self.pause, self.max_waiting = pause, max_waiting
        self.running: dict[str, MemoryTransport] = {}
        self.links: dict[frozenset[str], MemoryLink] = {}
        self.cuts: set[frozenset[str]] = set()

    def transport(self, node: str, neighbors: Iterable[str]) -> MemoryTransport:
        """Return a transport for one agent, to be started."""
        return MemoryTransport(self, node, neighbors)

    def cut(self, one: str, other: str) -> None:
        """Break a link, with what is on its way, until it is healed."""
        pair = frozenset((one, other))
        self.cuts.add(pair)
        link = self.links.get(pair)
        if link is not None:
            link.intact = False
            self.close(pair, "the link was cut")

    def heal(self, one: str, other: str) -> None:
        """Undo `cut`."""
        pair = frozenset((one, other))
        self.cuts.discard(pair)
        self.connect(pair)

    def connect(self, pair: frozenset[str]) -> None:
        """Bring a link up where both ends run and are neighbours; refuse it where one is not."""
        if pair in self.cuts or pair in self.links or not pair <= self.running.keys():
            return
        ends = [self.running[node] for node in sorted(pair)]
        one, other = ends
        willing = other.node in one.neighbors, one.node in other.neighbors
        if all(willing):
            link = self.links[pair] = MemoryLink()
            for end, peer in ((one, other), (other, one)):
                end.tell(end.link_up, peer.node, link)
        elif any(willing):
            stranger, host = (one, other) if willing[0] else (other, one)
            host.tell(host.events.refused, stranger.node, f"{stranger.node!r} is no neighbour")
            stranger.tell(stranger.events.refused, host.node, "it hung up before the link was up")

    def close(self, pair: frozenset[str], reason: str, again: bool = False) -> None:
        """Take a link down at both ends; what was sent before still arrives if it is intact."""
        link = self.links.pop(pair)
        link.open = False
        for node in sorted(pair & self.running.keys()):
            (peer,) = pair - {node}
            self.running[node].tell(self.running[node].link_down, peer, link, reason)
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
        """Join the network."""
        if self.node in self.network.running:
            raise InputError(f"an agent {self.node!r} is running already; stop it first")
        self.events = events
        self.network.running[self.node] = self
        for other in sorted(self.network.running.keys() - {self.node}):
            self.network.connect(frozenset((self.node, other)))

    def send(self, peer: str, data: bytes) -> bool:
        """Put bytes on their way over a link that is up."""
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
        end.tell(end.deliver, self.node, link, data)
        return True

    def drop(self, peer: str, reason: str) -> None:
        """Close a link; it comes again after a pause."""
        link = self.up.get(peer)
        if link is not None and link.open:
            self.network.close(frozenset((self.node, peer)), reason, again=True)

    async def stop(self) -> None:
        """Leave the network; no event comes from here on."""
        if self.network.running.get(self.node) is self:
            del self.network.running[self.node]
            for pair in [pair for pair in self.network.links if self.node in pair]:
                self.network.close(pair, "the neighbour closed the link")
        self.up = {}

    def tell(self, event: Callable[..., None], *what: Any) -> None:
        """Let an event happen in its turn, unless this end has been stopped by then."""
        asyncio.get_running_loop().call_soon(self._tell, event, *what)

    def _tell(self, event: Callable[..., None], *what: Any) -> None:
        if self.network.running.get(self.node) is self:
            event(*what)

    def link_up(self, peer: str, link: MemoryLink) -> None:
        """Begin to use a link."""
        self.up[peer] = link
        self.events.link_up(peer)

    def deliver(self, peer: str, link: MemoryLink, data: bytes) -> None:
        """Take bytes off the link."""
        link.waiting[self.node] -= len(data)
        if link.intact and data:
            self.events.received(peer, data)

    def link_down(self, peer: str, link: MemoryLink, reason: str) -> None:
        """Stop using a link."""
        if self.up.get(peer) is link:
            del self.up[peer]
        self.events.link_down(peer, reason)

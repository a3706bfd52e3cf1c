"""Links over TCP, with mutual TLS 1.3: one connection per pair, dialled by the higher id."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.tls import Credentials, reason_of
from coopbandits.fleet.transport import LinkEvents, Transport
from coopbandits.fleet.transport.connection import Connection, establish
from coopbandits.fleet.transport.sockets import Listener, Timing, chance, connect, require_loopback
from coopbandits.fleet.transport.stream import Held

log = logging.getLogger(__name__)

MAX_WAITING = 1 << 20
"""If more bytes than this are queued on a link, the next message closes it."""

MAX_CALLERS = 64
"""The most unauthenticated inbound connections; the oldest makes room for a new one."""

REPLACED = "replaced by a new connection"
STOPPED = "stopped"


class TcpTransport(Transport):
    """Links to the neighbours of one agent over TCP.

    Of two neighbours the one with the higher id dials and the other one listens. A second
    connection of the same neighbour replaces the first, which may be left from before a crash.

    Parameters
    ----------
    node : str
        The agent's id.
    listen : Address
        Where to listen; port 0 lets the system choose, see `address`.
    neighbors : mapping
        Addresses of the neighbours by id. Host names are looked up at every attempt.
    credentials : Credentials
        The agent's certificate.
    timing : Timing
        Timeouts and pauses.
    uniform : callable
        Returns random numbers between 0 and 1, to spread retries.
    max_waiting : int
        Bytes that may be queued on a link when the next message comes.

    Raises
    ------
    InputError
        The agent is its own neighbour, or the credentials are good for loopback addresses only and
        there is another.
    """

    says_name = False

    def __init__(
        self,
        node: str,
        listen: Address,
        neighbors: Mapping[str, Address],
        credentials: Credentials,
        *,
        timing: Timing | None = None,
        uniform: Callable[[], float] = chance,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        if node in neighbors:
            raise InputError(f"agent {node!r} is listed as its own neighbour; remove it")
        if credentials.loopback_only:
            require_loopback([listen, *neighbors.values()])
        self.node, self.address, self.neighbors = node, listen, dict(neighbors)
        self.credentials = credentials
        self.timing, self.uniform, self.max_waiting = timing or Timing(), uniform, max_waiting
        self.events: LinkEvents = Nobody()
        self._links: dict[str, Connection] = {}
        self.connections: set[Connection] = set()
        self._listener = Listener(self._take)
        self._tasks: set[asyncio.Task[None]] = set()
        self._callers: dict[Connection, asyncio.Task[None]] = {}
        self._held: Held | None = None

    def hold(self) -> None:
        """Read links when `read` is called, so that what arrives wakes nobody."""
        self._held = Held()

    def read(self) -> None:
        """Read what has arrived on links that are up."""
        if self._held is not None:
            self._held.read()

    async def start(self, events: LinkEvents) -> None:
        """Listen, and dial until stopped.

        Raises
        ------
        InputError
            The address cannot be listened on.
        """
        self.events = events
        try:
            self.address = await self._listener.open(self.address, self.timing.connect)
        except OSError as error:
            raise InputError(
                f"agent {self.node!r} cannot listen on {self.address} "
                f"({reason_of(error)}); choose another address, or stop who uses it"
            ) from None
        for peer in self.neighbors:
            if peer < self.node:
                self._spawn(self._dial(peer))

    def send(self, peer: str, data: bytes) -> bool:
        """Hand bytes to a link that is up; close it if too much is queued already."""
        connection = self._links.get(peer)
        if connection is None or connection.closing or connection.stream is None:
            return False
        waiting = connection.stream.waiting
        if waiting > self.max_waiting:
            connection.abort(f"{waiting} bytes wait to be sent; allowed are {self.max_waiting}")
            return False
        connection.stream.write(data)
        return True

    def drop(self, peer: str, reason: str) -> None:
        """Close a link."""
        connection = self._links.get(peer)
        if connection is not None:
            connection.close(reason)

    def move(self, peer: str, address: Address) -> None:
        """Dial a neighbour at another address from the next attempt on."""
        if self.credentials.loopback_only:
            require_loopback([address])
        self.neighbors[peer] = address

    async def stop(self) -> None:
        """Close everything, and return once nothing is running; no more events follow."""
        self.events = Nobody()
        self._listener.close()
        await asyncio.sleep(0)  # a task cancelled before it starts would leak its socket
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        left = list(self.connections)
        for connection in left:
            connection.close(STOPPED)
        lost = asyncio.gather(*(connection.lost.wait() for connection in left))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(lost), self.timing.close)
        for connection in left:
            connection.abort(STOPPED)
        await lost

    def objection(self, name: str, *, dialled: bool) -> str | None:
        """Return why whoever dialled is refused; None if it is accepted."""
        if dialled:  # it is the one that was meant
            return None
        if name not in self.neighbors:
            return f"{name!r} is no neighbour"
        if name < self.node:
            return f"{name!r} has the lower id and must wait to be dialled"
        return None

    def begin(self, connection: Connection) -> None:
        """Make a connection the link to its peer, replacing an older one."""
        old = self._links.get(connection.peer)
        if old is not None:
            old.finish(REPLACED)
            old.abort(REPLACED)
        self._links[connection.peer] = connection
        if self._held is not None and connection.stream is not None:
            connection.stream.hold(self._held)
        self.events.link_up(connection.peer)

    def end(self, connection: Connection, reason: str) -> None:
        """Take down a link."""
        del self._links[connection.peer]
        self.events.link_down(connection.peer, reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _take(self, sock: socket.socket, address: tuple[Any, ...]) -> None:
        if len(self._callers) >= MAX_CALLERS:
            oldest = next(iter(self._callers))
            oldest.refuse("it made room for a newer caller")
            self._callers.pop(oldest).cancel()
        caller = Connection(self, str(Address(*address[:2])), None)
        task = self._spawn(establish(caller, sock, self.credentials, self.timing))
        self._callers[caller] = task
        task.add_done_callback(lambda _: self._callers.pop(caller, None))

    async def _dial(self, peer: str) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            connection = await self._try(peer)
            if connection is not None:
                since = loop.time()
                await connection.ended.wait()
                if loop.time() - since >= self.timing.proven:
                    failures = 0
            await asyncio.sleep(self.timing.pause(failures, self.uniform()))
            failures += 1

    async def _try(self, peer: str) -> Connection | None:
        try:
            return await self._call(peer)
        except Exception:  # the neighbour must be dialled again whatever happened
            log.exception("agent %s failed to call %s, and tries again", self.node, peer)
            return None

    async def _call(self, peer: str) -> Connection | None:
        return await self._connect(peer, self.neighbors[peer])

    async def _connect(
        self, peer: str, address: Address, cause: object = None
    ) -> Connection | None:
        try:
            async with asyncio.timeout(self.timing.connect):
                sock = await connect(address)
        except OSError as error:
            log.debug("agent %s cannot reach %s: %s", self.node, peer or address, reason_of(error))
            return None
        connection = Connection(self, str(address), peer, cause)
        await establish(connection, sock, self.credentials, self.timing)
        return connection


class Nobody:
    """Ignores all events, before a transport is started and after it is stopped."""

    def link_up(self, peer: str) -> None:
        """Ignore it."""

    def received(self, peer: str, data: bytes) -> None:
        """Ignore it."""

    def link_down(self, peer: str, reason: str) -> None:
        """Ignore it."""

    def refused(self, who: str, reason: str) -> None:
        """Ignore it."""

"""Links over TCP, with mutual TLS 1.3: one connection per pair, dialled by the higher id."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.tls import Credentials, reason_of
from coopbandits.fleet.transport import LinkEvents, Transport
from coopbandits.fleet.transport.connection import Connection
from coopbandits.fleet.transport.sockets import connect, listen, require_loopback, resolve, tune

log = logging.getLogger(__name__)

MAX_WAITING = 1 << 20
"""Where more bytes than this wait to be sent over a link, the next message closes it."""

MAX_CALLERS = 64
"""So many inbound connections may be unproven at once; the oldest makes room for a new one."""


@dataclass(frozen=True)
class Timing:
    """Seconds that a transport waits.

    Attributes
    ----------
    connect : float
        For a TCP connection, the host's name looked up.
    handshake : float
        From then on, until it is proven who is there.
    user_timeout : float
        Until a connection breaks whose bytes nobody acknowledges (where the system can do that).
    close : float
        For bytes that were sent before a link was closed.
    first_pause, longest_pause : float
        Between two attempts to dial. Pauses double, and begin anew after a link that was up for
        at least the longest pause.
    """

    connect: float = 1.0
    handshake: float = 5.0
    user_timeout: float = 2.0
    close: float = 1.0
    first_pause: float = 0.02
    longest_pause: float = 5.0

    def pause(self, failures: int, uniform: float) -> float:
        """Return how long to wait after so many failures in a row: half of it is up to chance."""
        whole = min(self.longest_pause, self.first_pause * 2.0 ** min(failures, 60))
        return whole * (0.5 + 0.5 * uniform)


def chance() -> float:
    """Return a uniform from the system's source, so that no two agents retry in step."""
    return secrets.randbits(53) * 2.0**-53


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
        From the neighbours' ids to where they listen. Names of hosts are looked up for every call.
    credentials : Credentials or None
        The agent's certificate. Without one, anybody can claim to be anybody: that is for trying
        things out, and all addresses must be on the loopback interface.
    timing : Timing
        How long to wait for what.
    uniform : callable
        Numbers between 0 and 1 that spread pauses.
    max_waiting : int
        Bytes that may wait to be sent on a link when the next message comes.

    Raises
    ------
    InputError
        The agent is its own neighbour, or there are no credentials and an address is not a
        loopback one.
    """

    def __init__(
        self,
        node: str,
        listen: Address,
        neighbors: Mapping[str, Address],
        credentials: Credentials | None,
        *,
        timing: Timing | None = None,
        uniform: Callable[[], float] = chance,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        if node in neighbors:
            raise InputError(f"agent {node!r} is listed as its own neighbour; remove it")
        if credentials is None:
            require_loopback([listen, *neighbors.values()])
        self.node, self.address, self.neighbors = node, listen, dict(neighbors)
        self.credentials, self.secure = credentials, credentials is not None
        self.timing, self.uniform, self.max_waiting = timing or Timing(), uniform, max_waiting
        self.events: LinkEvents = Nobody()
        self._links: dict[str, Connection] = {}
        self.connections: set[Connection] = set()
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._callers: dict[asyncio.Task[None], Connection] = {}

    async def start(self, events: LinkEvents) -> None:
        """Listen, and dial until stopped.

        Raises
        ------
        InputError
            Nothing can listen at that address.
        """
        try:
            async with asyncio.timeout(self.timing.connect):
                found = await resolve(self.address)
            self._sockets = listen(found)
        except OSError as error:
            raise InputError(
                f"agent {self.node!r} cannot listen on {self.address} "
                f"({reason_of(error)}); choose another address, or stop who uses it"
            ) from None
        self.events = events
        self.address = Address(*self._sockets[0].getsockname()[:2])
        for sock in self._sockets:
            self._spawn(self._accept(sock))
        for peer in self.neighbors:
            if peer < self.node:
                self._spawn(self._dial(peer))

    def send(self, peer: str, data: bytes) -> bool:
        """Hand bytes to a link that is up; close it if too much waits already."""
        connection = self._links.get(peer)
        if connection is None or connection.closing or connection.transport is None:
            return False
        waiting = connection.transport.get_write_buffer_size()
        if waiting > self.max_waiting:
            connection.abort()
            reason = f"{waiting} bytes wait to be sent; allowed are {self.max_waiting}"
            asyncio.get_running_loop().call_soon(connection.finish, reason)
            return False
        connection.transport.write(data)
        return True

    def drop(self, peer: str, reason: str) -> None:
        """Close a link."""
        connection = self._links.get(peer)
        if connection is not None:
            connection.close(reason)

    async def stop(self) -> None:
        """Close all, and return once nothing is left running; no event comes from here on."""
        self.events = Nobody()
        await asyncio.sleep(0)  # a task that never began could not close its socket
        tasks = [*self._tasks, *self._callers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for sock in self._sockets:
            sock.close()
        left = list(self.connections)
        for connection in left:
            connection.close("stopped")
        if left:
            await asyncio.wait([each.lost for each in left], timeout=self.timing.close)
        for connection in left:
            connection.abort()
        await asyncio.gather(*(each.lost for each in left))

    def objection(self, dialler: str) -> str | None:
        """Return why somebody who dials is not welcome; None where they are."""
        if dialler not in self.neighbors:
            return f"{dialler!r} is no neighbour"
        if dialler < self.node:
            return f"{dialler!r} has the lower id and must wait to be dialled"
        return None

    def begin(self, connection: Connection) -> None:
        """Make a connection the link to its peer; one from before is replaced."""
        old = self._links.get(connection.peer)
        if old is not None:
            old.finish("replaced by a new connection")
            old.abort()
        self._links[connection.peer] = connection
        self.events.link_up(connection.peer)

    def end(self, connection: Connection, reason: str) -> None:
        """Take down a link."""
        del self._links[connection.peer]
        self.events.link_down(connection.peer, reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listener)
            except OSError as error:  # mostly: no more file descriptors
                log.warning("agent %s cannot accept: %s", self.node, reason_of(error))
                await asyncio.sleep(self.timing.connect)
                continue
            self._take(sock, Address(*address[:2]))
            await asyncio.sleep(0)  # or a burst of calls would keep everybody else waiting

    def _take(self, sock: socket.socket, address: Address) -> None:
        if len(self._callers) >= MAX_CALLERS:
            task, oldest = next(iter(self._callers.items()))
            oldest.refuse("it made room for a newer caller")
            task.cancel()
        connection = Connection(self, str(address), None)
        task = asyncio.create_task(self._establish(connection, sock))
        self._callers[task] = connection
        task.add_done_callback(self._callers.pop)

    async def _dial(self, peer: str) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            connection = await self._call(peer)
            if connection is not None:
                since = loop.time()
                await connection.ended
                if loop.time() - since >= self.timing.longest_pause:
                    failures = 0
            await asyncio.sleep(self.timing.pause(failures, self.uniform()))
            failures += 1

    async def _call(self, peer: str) -> Connection | None:
        address = self.neighbors[peer]
        try:
            async with asyncio.timeout(self.timing.connect):
                sock = await connect(address)
        except OSError as error:
            log.debug("agent %s cannot reach %s: %s", self.node, peer, reason_of(error))
            return None
        connection = Connection(self, str(address), peer)
        await self._establish(connection, sock)
        return connection

    async def _establish(self, connection: Connection, sock: socket.socket) -> None:
        """Bring a connection up, or give it up: what becomes of it is an event."""
        loop = asyncio.get_running_loop()
        tune(sock, self.timing.user_timeout)
        tls: dict[str, Any] = {}
        if self.credentials is not None:
            contexts = self.credentials.contexts()
            context = contexts.client if connection.dialled else contexts.server
            tls = {"ssl": context, "ssl_shutdown_timeout": self.timing.close}
        try:
            async with asyncio.timeout(self.timing.handshake):
                if connection.dialled:
                    name = "" if tls else None  # ids are compared by the connection itself
                    await loop.create_connection(
                        lambda: connection, sock=sock, server_hostname=name, **tls
                    )
                else:
                    await loop.connect_accepted_socket(lambda: connection, sock, **tls)
                await connection.settled
        except OSError as error:
            connection.refuse(f"no handshake ({reason_of(error)})")
        finally:
            if not connection.up:
                connection.abort()


class Nobody:
    """Listens to no event: what a transport tells that was stopped or has not begun."""

    def link_up(self, peer: str) -> None:
        """Ignore it."""

    def received(self, peer: str, data: bytes) -> None:
        """Ignore it."""

    def link_down(self, peer: str, reason: str) -> None:
        """Ignore it."""

    def refused(self, who: str, reason: str) -> None:
        """Ignore it."""

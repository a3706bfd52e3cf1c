"""Links over TCP, with mutual TLS 1.3: one connection per pair of agents.

`TcpTransport` has links to the neighbours that a configuration lists; of two of them the one with
the higher id dials. `OpenTransport` has links to any agent of the fleet, opened and closed one by
one while the agent runs.

Seeds may be services, hosts and ports under one name by SRV records (RFC 2782). asyncio and the C
library look up addresses alone. dnspython reads the machine's `resolv.conf`, repeats questions that
are lost, and asks over TCP where an answer is too long for a datagram.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, parse_address
from coopbandits.fleet.identity.chains import Holder
from coopbandits.fleet.identity.tls import Credentials, reason_of
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.transport import ITSELF, Arrival, LinkEvents, Transport
from coopbandits.fleet.transport.connection import Connection, PolledReader, establish
from coopbandits.fleet.transport.sockets import (
    Listener,
    Timing,
    chance,
    connect,
    listen,
    require_loopback,
    resolve,
)

log = logging.getLogger(__name__)

MAX_WAITING = 1 << 20
"""If more bytes than this are queued on a link, the next message closes it."""

MAX_CALLERS = 64
"""The most unauthenticated inbound connections; the oldest makes room for a new one."""

MOST_FOUND = 64
"""The most addresses used of one name."""

REPLACED = "replaced by a new connection"
STOPPED = "stopped"


class Nobody:
    """Ignores all events, before a transport is started and after it is stopped."""

    def link_up(self, peer: str) -> None: ...

    def received(self, peer: str, data: bytes) -> None: ...

    def link_down(self, peer: str, reason: str) -> None: ...

    def refused(self, who: str, reason: str) -> None: ...


async def listen_for(node: str, address: Address, timeout: float) -> list[socket.socket]:
    """Return sockets that listen at an agent's address; raise InputError if that fails."""
    try:
        async with asyncio.timeout(timeout):
            found = await resolve(address)
        return listen(found)
    except OSError as error:
        raise InputError(
            f"agent {node!r} cannot listen on {address} ({reason_of(error)}); choose another "
            "address, or stop the program that uses it"
        ) from None


class TcpTransport(Transport):
    """Links to the neighbours that an agent's configuration lists.

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
        self._held: PolledReader | None = None

    def hold(self) -> None:
        """Read links when `read` is called, so that what arrives wakes nobody."""
        self._held = PolledReader()

    def hurry(self, yes: bool) -> None:
        if self._held is not None:
            self._held.hurry(yes)

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
        sockets = await listen_for(self.node, self.address, self.timing.connect)
        self.address = Address(*sockets[0].getsockname()[:2])
        self._listener.attend(sockets)
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
        """Return why to reject an agent that has dialled, or was dialled; None to accept it."""
        if dialled:  # it is the one that was meant
            return None
        if name not in self.neighbors:
            return f"{name!r} is no neighbour"
        if name < self.node:
            return f"{name!r} has the lower id and must wait to be dialled"
        return None

    def second_name(self, name: str, holder: Holder) -> str | None:
        """Return why to reject a key that another agent uses; None for a key of its own.

        A certificate with several ids must not take several places.
        """
        if holder.key == self.credentials.holder.key:
            return f"{name!r} has this agent's key; give every agent a key of its own"
        for link in self._links.values():
            if link.peer != name and link.holder.key == holder.key and not link.closing:
                return f"{name!r} has the key of {link.peer!r}; give every agent a key of its own"
        return None

    def arrival_of(self, peer: str) -> Arrival:
        """Return the ids in the certificate of a neighbour, why it was called, and its host."""
        link = self._links[peer]
        return Arrival(link.cause, parse_address(link.address).host, link.holder.names)

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
            connection = None
            try:
                connection = await self._connect(peer, self.neighbors[peer])
            except Exception:  # the neighbour must be dialled again whatever happened
                log.exception(LogEvent("a call failed, and is repeated", peer=peer))
            if connection is not None:
                since = loop.time()
                await connection.ended.wait()
                if loop.time() - since >= self.timing.proven:
                    failures = 0
            await asyncio.sleep(self.timing.pause(failures, self.uniform()))
            failures += 1

    async def _connect(
        self, peer: str, address: Address, cause: object = None
    ) -> Connection | None:
        try:
            async with asyncio.timeout(self.timing.connect):
                sock = await connect(address)
        except OSError as error:
            reason = reason_of(error)
            log.debug(
                LogEvent("cannot reach", peer=peer or None, address=str(address), reason=reason)
            )
            return None
        connection = Connection(self, str(address), peer, cause)
        await establish(connection, sock, self.credentials, self.timing)
        return connection


class OpenTransport(TcpTransport):
    """Links with any agent that has a certificate of the fleet, by calls.

    Either end may call. Where both do at the same time, the call of the higher id is the one that
    counts. A link that is down is not dialled again by itself.

    Parameters
    ----------
    node, listen, credentials, settings
        As for `TcpTransport`.
    """

    def __init__(
        self, node: str, listen: Address, credentials: Credentials, **settings: Any
    ) -> None:
        super().__init__(node, listen, {}, credentials, **settings)
        self._calls: Counter[str] = Counter()

    def call(
        self, peer: str, address: Address, cause: object, failed: Callable[[str], None]
    ) -> None:
        """Call an agent once: `peer`, or whichever agent answers if that is empty.

        Either `link_up` follows, and `arrival_of` has the cause, or `failed` with a reason.
        """
        self._spawn(self._call_once(peer, address, cause, failed))

    async def _call_once(
        self, peer: str, address: Address, cause: object, failed: Callable[[str], None]
    ) -> None:
        self._calls[peer] += 1
        try:
            connection = await self._connect(peer, address, cause)
        except Exception:  # the node waits for an answer
            log.exception(LogEvent("a call failed", peer=peer or None, address=str(address)))
            connection = None
        finally:
            self._calls -= Counter([peer])
        if connection is None:
            failed("nobody answers")
        elif not connection.up:
            failed(connection.refusal)

    def objection(self, name: str, *, dialled: bool) -> str | None:
        """Reject itself, an agent that is linked, and the lower of two that call each other."""
        if name == self.node:
            return ITSELF
        link = self._links.get(name)
        if link is not None and not link.closing and not self._gives_way(link, name, dialled):
            return f"{name!r} is linked already"
        if not dialled and name < self.node and self._is_calling(name):
            return f"{name!r} is being called, and has the lower id"
        return None

    def _is_calling(self, name: str) -> bool:
        return bool(self._calls[name]) or any(  # it was called by its address, and has proved it
            each.dialled and each.peer == name and not (each.up or each.closing)
            for each in self.connections
        )

    def _gives_way(self, link: Connection, name: str, dialled: bool) -> bool:
        """Return whether a link ends when another one with the same agent could begin.

        A caller that calls twice has lost the first one. Of two that called each other at the same
        time, the higher id counts.
        """
        if link.dialled == dialled:
            return not dialled
        young = asyncio.get_running_loop().time() - link.since < self.timing.proven
        return self.node > name and young if dialled else name > self.node

    def look_up(self, places: Iterable[Address], found: Callable[[list[Address]], None]) -> None:
        """Look up names, and report all addresses that were found."""
        self._spawn(self._look_up(list(places), found))

    async def _look_up(self, places: list[Address], found: Callable[[list[Address]], None]) -> None:
        addresses: dict[Address, None] = {}
        for place in places:
            try:
                async with asyncio.timeout(self.timing.handshake):
                    answers = await _addresses(place)
            except OSError as error:  # a timeout, too
                log.info(
                    LogEvent(
                        "a name cannot be looked up", address=str(place), reason=reason_of(error)
                    )
                )
                continue
            addresses |= dict.fromkeys(answers[:MOST_FOUND])
        found(list(addresses))


async def _addresses(place: Address) -> list[Address]:
    """Return all addresses of a name, or of the hosts of a service."""
    places = [place]
    if place.is_service:
        places = (await find_service(place.host))[:MOST_FOUND]
    found = await asyncio.gather(*map(resolve, places), return_exceptions=True)
    failed = [each for each in found if isinstance(each, BaseException)]
    if failed and len(failed) == len(found):
        raise failed[0]
    known = [each for each in found if not isinstance(each, BaseException)]
    return [Address(*each[4][:2]) for answers in known for each in answers]


def make_resolver() -> Any:
    """Return what asks the name servers of this machine."""
    from dns.asyncresolver import Resolver  # optional: only agents that need it import it

    return Resolver()


async def find_service(name: str) -> list[Address]:
    """Return where a service is, such as `_coopbandits._tcp.example.org`.

    All records count, whatever their priority and weight: seeds are places to look first, and not a
    load to be shared.

    Raises
    ------
    OSError
        Its name cannot be looked up.
    """
    from dns.exception import DNSException

    try:
        answer = await make_resolver().resolve(f"{name}.", "SRV", search=False)
    except DNSException as error:
        raise OSError(str(error)) from error
    found = sorted((each.priority, str(each.target).rstrip("."), each.port) for each in answer)
    return [Address(host, port) for _, host, port in found if host and port]

"""One connection, from proving who is at the other end until it closes.

The dialling end waits for one byte, which the other end sends once it has accepted the dialler. In
TLS 1.3 the handshake is over for the dialling end before its certificate has been checked, so
without that byte it would mistake a refusal for a link that came up and broke. Where the dialling
end learns only now who has answered, it first sends its id, preceded by its length as one byte: by
then it has decided to go on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Protocol

from coopbandits.fleet.identity.tls import ALPN, Credentials, peer_name, reason_of
from coopbandits.fleet.transport import LinkEvents
from coopbandits.fleet.transport.sockets import Timing, tune
from coopbandits.fleet.transport.stream import Stream

WELCOME = b"\x01"
CLOSED = "the neighbour closed the link"


class Links(Protocol):
    """What a connection needs of its transport."""

    node: str
    timing: Timing
    events: LinkEvents
    connections: set[Connection]
    """The open connections."""
    says_name: bool
    """Whether diallers send their id."""

    def objection(self, name: str, *, dialled: bool) -> str | None:
        """Return why whoever dialled, or was dialled, is refused; None if it is accepted."""

    def begin(self, connection: Connection) -> None:
        """Make a connection the link to its peer."""

    def end(self, connection: Connection, reason: str) -> None:
        """Take down a link."""


class Connection:
    """A connection to one peer, whose id is known once it is up.

    Parameters
    ----------
    links : Links
        The transport it belongs to.
    address : str
        Where the other end is.
    peer : str or None
        The id that was dialled, "" for whoever answers; None if the other end dialled us.
    cause : object
        Why it was dialled, for whoever asked for it.

    Attributes
    ----------
    since : float
        When it came up, by the event loop's clock.
    refusal : str
        Why it never came up.
    settled : Event
        The link is up, or has failed for good.
    ended : Event
        The link is down, or never came up.
    lost : Event
        The socket is closed.
    """

    def __init__(self, links: Links, address: str, peer: str | None, cause: object = None) -> None:
        self.links, self.address, self.dialled = links, address, peer is not None
        self.cause = cause
        self.peer = peer or ""
        self.who = address
        self.stream: Stream | None = None
        self.up = False
        self.since = 0.0
        self.closing = False
        self.settled = asyncio.Event()
        self.ended = asyncio.Event()
        self.lost = asyncio.Event()
        self.refusal = ""
        self._heard = b""
        self._reason = ""

    def open(self, sock: ssl.SSLSocket) -> None:
        """Start: check the certificate."""
        self.stream = Stream(sock, self)
        self.links.connections.add(self)
        self._prove(sock, self.stream)

    def _say_name(self, stream: Stream) -> None:
        name = self.links.node.encode()
        stream.write(bytes([len(name)]) + name)

    def _prove(self, sock: ssl.SSLSocket, stream: Stream) -> None:
        name = peer_name(sock.getpeercert())
        if name is None:
            return self.refuse("its certificate does not have exactly one name")
        self.who = name
        if sock.selected_alpn_protocol() != ALPN:
            return self.refuse(f"it does not speak {ALPN}")
        if not self.dialled:
            return None if self.links.says_name else self._admit(name, stream)
        if self.peer and name != self.peer:
            return self.refuse(f"it answers at {self.address}, where {self.peer} should be")
        objection = self.links.objection(name, dialled=True)
        if objection:
            return self.refuse(objection)
        self.peer = name
        return self._say_name(stream) if self.links.says_name else None

    def _admit(self, name: str, stream: Stream) -> None:
        objection = self.links.objection(name, dialled=False)
        if objection:
            return self.refuse(objection)
        self.peer = name
        stream.write(WELCOME)
        return self._begin()

    def _begin(self) -> None:
        self.up, self.since = True, asyncio.get_running_loop().time()
        self.settled.set()
        self.links.begin(self)

    def data_received(self, data: bytes) -> None:
        """Pass on received bytes; before the link is up, wait for the dialler's id or a welcome."""
        if self.closing:
            return
        if self.up:
            try:
                self.links.events.received(self.peer, data)
            except Exception:
                self.abort("what it sent could not be handled")
                raise  # the event loop logs it
        elif self.dialled:
            self._hear_welcome(data)
        else:
            self._hear_name(data)

    def _hear_welcome(self, data: bytes) -> None:
        if data[:1] != WELCOME:
            return self.refuse("it answered with something else than a welcome")
        self._begin()
        return self.data_received(data[1:]) if len(data) > 1 else None

    def _hear_name(self, data: bytes) -> None:
        self._heard += data
        length = self._heard[0]
        if len(self._heard) > length + 1 or length == 0:
            return self.refuse("it sent something else than its name")
        if len(self._heard) == length + 1 and self.stream is not None:
            name = self._heard[1:].decode("ascii", "replace")
            if name != self.who:
                return self.refuse(f"it says that it is {name!r}")
            return self._admit(name, self.stream)
        return None

    def refuse(self, reason: str) -> None:
        """Give up a connection before it is up; whoever waits for `settled` closes it."""
        self.closing = True
        self.refusal = self.refusal or reason
        if not self.settled.is_set():
            self.settled.set()
            self.ended.set()
            self.links.events.refused(self.who, reason)

    def close(self, reason: str) -> None:
        """Take the link down soon, after sending what is queued."""
        if not self.closing:
            self._close(reason)
            if self.stream is not None:
                self.stream.close(self.links.timing.close)

    def abort(self, reason: str) -> None:
        """Take the link down soon, and discard what is queued."""
        self._close(reason)
        if self.stream is not None:
            self.stream.abort()

    def _close(self, reason: str) -> None:
        self.closing = True
        self._reason = self._reason or reason
        asyncio.get_running_loop().call_soon(self.finish, reason)

    def finish(self, reason: str) -> None:
        """Take the link down now, if it is up; an earlier reason for closing takes precedence."""
        if self.up and not self.ended.is_set():
            self.closing = True
            self.ended.set()
            self.links.end(self, self._reason or reason)

    def connection_lost(self, error: OSError | None) -> None:
        """Handle a broken connection; before it is up, that is how TLS 1.3 signals a refusal."""
        reason = reason_of(error) if error else CLOSED
        if not self.settled.is_set():
            self.refuse(f"it hung up before the link was up ({reason})")
        self.finish(reason)
        self.links.connections.discard(self)
        self.lost.set()


log = logging.getLogger(__name__)


async def establish(
    connection: Connection, sock: socket.socket, credentials: Credentials, timing: Timing
) -> None:
    """Bring a connection up or give it up; the outcome is reported as an event."""
    try:
        async with asyncio.timeout(timing.handshake):
            tune(sock, timing.user_timeout)
            sock = secure = await secured(sock, credentials, connection.dialled)
            connection.open(secure)
            await connection.settled.wait()
    except OSError as error:
        connection.refuse(f"no handshake ({reason_of(error)})")
    except Exception:  # a bug must not cost more than this connection
        log.exception("a handshake with %s failed", connection.who)
        connection.refuse("the handshake failed")
    finally:
        if not connection.up:
            connection.abort("given up")
            sock.close()


async def secured(sock: socket.socket, credentials: Credentials, dialled: bool) -> ssl.SSLSocket:
    """Wrap a socket in TLS; returns once both ends have verified certificates."""
    contexts = credentials.contexts()
    context = contexts.client if dialled else contexts.server
    # No server_hostname: the connection itself compares ids.
    secure = context.wrap_socket(
        sock,
        server_side=not dialled,
        do_handshake_on_connect=False,
        suppress_ragged_eofs=False,  # an unannounced end may be forged
    )
    try:
        await _shake_hands(secure)
    except BaseException:
        secure.close()
        raise
    return secure


async def _shake_hands(sock: ssl.SSLSocket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            return sock.do_handshake()
        except ssl.SSLWantReadError:
            await _ready(sock, loop.add_reader, loop.remove_reader)
        except ssl.SSLWantWriteError:
            await _ready(sock, loop.add_writer, loop.remove_writer)


async def _ready(
    sock: socket.socket, watch: Callable[..., Any], forget: Callable[[socket.socket], Any]
) -> None:
    ready = asyncio.Event()
    watch(sock, ready.set)
    try:
        await ready.wait()
    finally:
        forget(sock)

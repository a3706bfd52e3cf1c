"""One connection, from the proof of who is there to its end.

The end that dials waits for one byte, which the other one sends when it knows whom it talks to and
wants to. A handshake of TLS 1.3 is over for the dialling end before its certificate has been looked
at, so without that byte it would take a refusal for a link that came and went. Without TLS, the
dialling end sends its id first, as one byte of length and the id.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from coopbandits.fleet.tls import ALPN, peer_name, reason_of
from coopbandits.fleet.transport import LinkEvents

WELCOME = b"\x01"
CLOSED = "the neighbour closed the link"


class Links(Protocol):
    """What a connection needs of the transport that it belongs to."""

    node: str
    secure: bool
    events: LinkEvents
    connections: set[Connection]
    """Those that are open."""

    def objection(self, dialler: str) -> str | None:
        """Return why somebody who dials is not welcome; None where they are."""

    def begin(self, connection: Connection) -> None:
        """Make a connection the link to its peer."""

    def end(self, connection: Connection, reason: str) -> None:
        """Take down a link."""


class Connection(asyncio.Protocol):
    """Bytes to and from one end, whose id is known once the connection is up.

    Parameters
    ----------
    links : Links
        The transport it belongs to.
    address : str
        Where the other end is.
    peer : str or None
        Whom was dialled; None for an end that dialled us.

    Attributes
    ----------
    settled : Future
        Done when the link is up or will never be.
    ended : Future
        Done when the link is down, or was never up.
    lost : Future
        Done when nothing is left of the connection.
    """

    def __init__(self, links: Links, address: str, peer: str | None) -> None:
        loop = asyncio.get_running_loop()
        self.links, self.address, self.dialled = links, address, peer is not None
        self.peer = peer or ""
        self.who = address
        self.transport: asyncio.Transport | None = None
        self.up = False
        self.closing = False
        self.settled: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._heard = b""
        self._reason = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Look at the certificate, or say who dials."""
        self.transport = cast("asyncio.Transport", transport)
        self.links.connections.add(self)
        if self.closing:
            return
        if self.links.secure:
            self._prove(self.transport)
        elif self.dialled:
            name = self.links.node.encode()
            self.transport.write(bytes([len(name)]) + name)

    def _prove(self, transport: asyncio.Transport) -> None:
        name = peer_name(transport.get_extra_info("peercert"))
        if name is None:
            return self.refuse("its certificate does not have exactly one name")
        self.who = name
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() != ALPN:
            return self.refuse(f"it does not speak {ALPN}")
        if not self.dialled:
            return self._admit(name)
        if name != self.peer:
            return self.refuse(f"it answers at {self.address}, where {self.peer} should be")
        return None

    def _admit(self, name: str) -> None:
        objection = self.links.objection(name)
        if objection:
            return self.refuse(objection)
        assert self.transport is not None  # noqa: S101  it has just been heard
        self.peer = name
        self.transport.write(WELCOME)
        return self._begin()

    def _begin(self) -> None:
        self.up = True
        self.settled.set_result(None)
        self.links.begin(self)

    def data_received(self, data: bytes) -> None:
        """Hand on what a link brings; before that, hear who dials or that we are welcome."""
        if self.closing:
            return
        if self.up:
            self.links.events.received(self.peer, data)
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
        if len(self._heard) == length + 1:
            return self._admit(self._heard[1:].decode("ascii", "replace"))
        return None

    def refuse(self, reason: str) -> None:
        """Give up a connection that is not up; whoever waits until it is settled closes it.

        A transport that is closed while a connection is being made is left half open by uvloop.
        """
        self.closing = True
        if not self.settled.done():
            self.settled.set_result(None)
            self.ended.set_result(None)
            self.links.events.refused(self.who, reason)

    def close(self, reason: str) -> None:
        """Take the link down soon, and let what was sent before still go out."""
        if not self.closing:
            self._close(reason)
            if self.transport is not None:
                self.transport.close()

    def abort(self, reason: str) -> None:
        """Take the link down soon; what waits to be sent is lost."""
        self._close(reason)
        if self.transport is not None:
            self.transport.abort()

    def _close(self, reason: str) -> None:
        self.closing = True
        self._reason = self._reason or reason
        asyncio.get_running_loop().call_soon(self.finish, reason)

    def finish(self, reason: str) -> None:
        """Take the link down now, unless it is; the reason it was closed for comes first."""
        if self.up and not self.ended.done():
            self.closing = True
            self.ended.set_result(None)
            self.links.end(self, self._reason or reason)

    def eof_received(self) -> None:
        """The other end will not send any more."""
        self.finish(CLOSED)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection broke; before it was up, that is how TLS 1.3 refuses."""
        reason = reason_of(exc) if isinstance(exc, OSError) else CLOSED
        if not self.settled.done():
            self.refuse(f"it hung up before the link was up ({reason})")
        self.finish(reason)
        self.links.connections.discard(self)
        self.lost.set_result(None)

"""Server-sent events: answers that go on as long as somebody reads.

A stream is asked for news a few times a second, and not while its client has yet to read the last
ones. So a slow client gets fewer and larger pieces, and nothing piles up for it here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

from coopbandits.fleet.api.answers import Begin
from coopbandits.fleet.api.site import Site

PERIOD = 0.2
"""Seconds between two pieces."""

STALL_SECONDS = 30.0
"""A client that reads nothing for so long is cut."""

ALIVE_SECONDS = 15.0
"""After so long without news a comment is sent, so that a dead connection is noticed."""

ALIVE = b": alive\n\n"

BUFFER_BYTES = 1 << 16
"""What the system holds for a client that does not read; it is old by the time it is read."""

log = logging.getLogger(__name__)


class Pump:
    """Moves a stream to its client.

    Parameters
    ----------
    site : Site
        Counts open streams.
    begin : callable
        Begins the stream.
    transport : Transport
        The connection.
    loop : AbstractEventLoop
        The running event loop.

    Attributes
    ----------
    clogged : bool
        Whether the client has yet to read.
    """

    def __init__(
        self,
        site: Site,
        begin: Begin,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.site, self.transport, self.loop = site, transport, loop
        self.clogged, self._since, self._told = False, loop.time(), loop.time()
        self._due = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        made = transport.get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):  # a stream without it is only older
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self._pull = begin()
        site.streams += 1
        self._turn()

    def pause(self) -> None:
        """Send nothing more until the client has read."""
        self.clogged, self._since = True, self.loop.time()

    def resume(self) -> None:
        """Go on at the next turn."""
        self.clogged = False

    def is_late(self, now: float) -> bool:
        """Return whether the client has not read for too long."""
        return self.clogged and now - self._since > STALL_SECONDS

    def close(self) -> None:
        """Stop; the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.site.streams -= 1

    def _turn(self) -> None:
        if not self.clogged:
            try:
                self._send(self._pull())
            except Exception:  # one failing stream must not stop the server
                log.exception("a stream failed")
                self.transport.abort()
                return
        self._due = max(self._due + PERIOD, self.loop.time())  # at a steady pace
        self._timer = self.loop.call_at(self._due, self._turn)

    def _send(self, news: bytes) -> None:
        now = self.loop.time()
        if not news and now - self._told < ALIVE_SECONDS:
            return
        self._told = now
        self.transport.write(news or ALIVE)

"""A connection for asyncio programs."""

from __future__ import annotations

import asyncio
from typing import cast

from httptools import HttpParserError

from coopbandits.fleet.client.pool import Ear
from coopbandits.fleet.client.wire import Reply, Wire


class StreamLink(asyncio.Protocol):
    """A connection to the agent."""

    def __init__(self) -> None:
        self.wire = Wire()
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Reply] | None = None
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(self, data: bytes) -> Reply:
        """Send a request, and wait for the reply."""
        assert self._transport is not None  # noqa: S101  it is made with one
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has come that nobody asked for."""
        assert self._transport is not None  # noqa: S101  connected before
        # The event loop may not have looked at the socket for a while.
        return not self._transport.is_closing() and self._ear.is_quiet()

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.abort()  # no request is in flight

    async def closed(self) -> None:
        """Wait until it is closed."""
        await self._lost

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self._transport = cast(asyncio.Transport, transport)
        self._ear = Ear(transport.get_extra_info("socket").fileno())

    def data_received(self, data: bytes) -> None:
        """Take a part of a reply, or b"" at the end."""
        if self._waiting is None or self._waiting.done():
            self.close()
            return
        try:
            reply = self.wire.feed(data)
        except (EOFError, HttpParserError) as error:
            self._waiting.set_exception(error)
        else:
            if reply is not None:
                self._waiting.set_result(reply)

    def eof_received(self) -> None:
        """Take the end."""
        self.data_received(b"")

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever waits that no reply will come."""
        self._lost.set_result(None)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error or EOFError("the connection was closed"))

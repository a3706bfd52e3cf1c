"""The client for asyncio programs: connections on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from httptools import HttpParserError

from coopbandits.fleet.client.calls import CONNECTIONS, GLANCE, Call, Calls, Transport, quiet_check
from coopbandits.fleet.client.exchange import Reply, ReplyParser

if TYPE_CHECKING:
    import ssl


class StreamLink(asyncio.Protocol):
    """A connection to the agent."""

    def __init__(self) -> None:
        self.parser = ReplyParser()
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Reply] | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(self, call: Call) -> Reply:
        """Send a request, and wait for the reply."""
        assert self._transport is not None  # noqa: S101  it is made with one
        async with asyncio.timeout(call.left()):
            self._waiting = asyncio.get_running_loop().create_future()
            self._transport.write(call.data)
            try:
                return await self._waiting
            finally:
                self._waiting = None

    def is_quiet(self) -> bool:
        assert self._transport is not None  # noqa: S101  connected before
        # The event loop may not have looked at the socket for a while.
        return not self._transport.is_closing() and self._has_no_news()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()  # no request is in flight

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._has_no_news = quiet_check(transport.get_extra_info("socket").fileno())

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            self.close()  # nobody has asked
            return
        try:
            reply = self.parser.feed(data)
        except (EOFError, HttpParserError) as error:
            self._waiting.set_exception(error)
        else:
            if reply is not None:
                self._waiting.set_result(reply)

    def eof_received(self) -> None:
        self.data_received(b"")

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(None)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error or EOFError("the connection was closed"))


class Streams(Transport[StreamLink]):
    """Connections on one event loop.

    Attributes
    ----------
    loop : AbstractEventLoop or None
        Whose connections these are; None before the first call.
    probing : Task or None
        Finds out whether the agent is back.
    """

    def begin(self) -> None:
        super().begin()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.probing: asyncio.Task[None] | None = None
        self._turns = asyncio.Semaphore(self.most)

    def begin_after_fork(self) -> None:
        # Kept alive: a transport that is closed here, or collected, tells the parent's event loop.
        self._of_parent = self.pool, self.probing
        self.begin()

    def attend(self) -> None:
        loop = asyncio.get_running_loop()
        if self.loop is not loop:
            self.begin()
            self.loop = loop

    async def enter(self, call: Call) -> bool:
        try:
            async with asyncio.timeout(call.left()):
                return await self._turns.acquire()
        except TimeoutError:
            return False

    def leave(self) -> None:
        self._turns.release()

    async def connect(self, call: Call) -> StreamLink:
        loop, pool = asyncio.get_running_loop(), self.pool
        async with asyncio.timeout(call.left()):
            if isinstance(self.place, Path):
                _, link = await loop.create_unix_connection(StreamLink, str(self.place))
            else:
                host, port = self.place
                _, link = await loop.create_connection(StreamLink, host, port, ssl=self.tls)
        pool.all.add(link)
        return link

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def glance(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.probing = asyncio.create_task(work(), name="coopbandits-probe")
        await asyncio.wait([self.probing], timeout=GLANCE)

    async def close(self) -> None:
        """Close the connections, and return once they are closed."""
        old = self.renew_pool()
        probing, self.probing = self.probing, None
        if self.loop is not asyncio.get_running_loop():
            return
        if probing is not None:
            probing.cancel()
            await asyncio.wait([probing])
        links = list(old.all)
        old.close()
        for link in links:
            await link.lost


class AsyncClient(Calls[StreamLink]):
    """Like `Client`, with the same parameters, without blocking the event loop.

    Tasks may share a client. It belongs to the event loop that runs it; on another one, or after a
    fork, it begins with new connections.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout: float = 2.0,
        tls: ssl.SSLContext | None = None,
        *,
        connections: int = CONNECTIONS,
        default: str | None = None,
        bandit: str | None = None,
    ) -> None:
        self._streams = Streams(address, tls, connections)
        super().__init__(self._streams, token, timeout, default, bandit)

    async def close(self) -> None:
        """Close the connections; the next call opens a new one."""
        await self._streams.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

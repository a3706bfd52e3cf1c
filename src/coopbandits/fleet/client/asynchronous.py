"""The client for asyncio programs."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coopbandits.fleet.address import parse_place
from coopbandits.fleet.client.exchange import (
    BROKEN,
    Reply,
    Request,
    UnreachableError,
    Wire,
    arms_in,
    choose_request,
    observe_request,
    pauses,
    unpack,
    unreachable,
)
from coopbandits.fleet.service import ArmEstimate, Choice, Receipt, UnavailableError


class AsyncClient:
    """Like `Client`, without blocking the event loop; calls of several tasks take turns.

    Parameters
    ----------
    address : str
        `host:port` or `unix:/path` of the agent's API.
    token : str, optional
        The token that the agent requires.
    timeout : float
        Seconds a call may take in total, once it is its turn.
    tls : ssl.SSLContext, optional
        For an API that serves HTTPS.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout: float = 2.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.place = parse_place(address)
        self.token, self.timeout, self.tls = token, timeout, tls
        self._lock = asyncio.Lock()
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter, Wire] | None = None

    async def choose(self, allowed: Sequence[str] | None = None) -> Choice:
        """Return an option to use now, one of `allowed` if given."""
        return Choice(**await self._ask(choose_request(allowed)))

    async def observe(self, ticket: str, reward: float) -> Receipt:
        """Hand in the reward of a ticket."""
        return Receipt(**await self._ask(observe_request(ticket, reward)))

    async def arms(self) -> list[ArmEstimate]:
        """Return an estimate of every option."""
        return arms_in(await self._ask(Request("GET", "/arms")))

    async def health(self) -> dict[str, Any]:
        """Return the agent's state."""
        return await self._ask(Request("GET", "/health"))

    async def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason."""
        try:
            await self._ask(Request("GET", "/ready"))
        except (UnavailableError, UnreachableError) as error:
            return str(error)
        return None

    async def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._connection is not None:
            _, writer, _ = self._connection
            self._connection = None
            writer.transport.abort()  # no request is in flight
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _ask(self, request: Request) -> dict[str, Any]:
        async with self._lock:
            return unpack(await self._exchange(request), self.place)

    async def _exchange(self, request: Request) -> Reply:
        last: BaseException = TimeoutError("timed out")
        try:
            async with asyncio.timeout(self.timeout):
                for pause in pauses():
                    try:
                        return await self._attempt(request)
                    except BROKEN as error:
                        last = error
                    await asyncio.sleep(pause)
        except TimeoutError:
            raise unreachable(self.place, self.timeout, last) from last
        raise AssertionError("there is always another pause")

    async def _attempt(self, request: Request) -> Reply:
        if self._connection is None:
            self._connection = *await self._connect(), Wire(self.place, self.token)
        reader, writer, wire = self._connection
        reply = None
        try:
            writer.write(wire.encode(request))
            while reply is None:
                reply = wire.feed(await reader.read(65536))
        finally:
            if reply is None or not wire.reusable:  # also after a cancelled call
                await self.close()
        return reply

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.place, Path):
            return await asyncio.open_unix_connection(self.place)
        host, port = self.place
        return await asyncio.open_connection(host, port, ssl=self.tls)

"""Links that can be cut: a relay between two agents forwards bytes, or holds them back.

A cut link is a black hole, like a broken switch: connections stay open and nothing arrives. Bytes
in transit arrive once it is mended, if both ends still wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from coopbandits.fleet.address import Address
from coopbandits.fleet.local.layout import HOST, Place

Edge = tuple[str, str]
"""The dialling and the dialled id: of two neighbours the one with the higher id dials."""

CHUNK = 1 << 16


class Relay:
    """Forwards connections to one address while it is not cut."""

    def __init__(self, target: Address) -> None:
        self.target = target
        self.whole = asyncio.Event()
        self.whole.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> Address:
        """Listen, and return the address."""
        self._server = await asyncio.start_server(self._connected, HOST, 0)
        return Address(*self._server.sockets[0].getsockname()[:2])

    async def close(self) -> None:
        """Close all connections."""
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        with suppress(OSError):
            try:
                await self.whole.wait()
                there, back = await asyncio.open_connection(self.target.host, self.target.port)
                ends.append(back)
                forth = asyncio.create_task(self._forward(reader, back))
                try:
                    await self._forward(there, writer)
                finally:
                    forth.cancel()
                    await asyncio.gather(forth, return_exceptions=True)
            finally:
                for end in ends:
                    end.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self.whole.wait()
            writer.write(data)
            await writer.drain()


class Cuts:
    """A relay for every link of a fleet.

    Parameters
    ----------
    edges : iterable of (Place, Place)
        All pairs of neighbours.
    """

    def __init__(self, edges: Iterable[Sequence[Place]]) -> None:
        self.relays: dict[Edge, Relay] = {}
        for one, other in edges:
            lower, higher = sorted((one, other))
            self.relays[higher.id, lower.id] = Relay(lower.listen)
        self.detours: dict[Edge, Address] = {}
        self.count = 0

    async def __aenter__(self) -> Self:
        for edge, relay in self.relays.items():
            self.detours[edge] = await relay.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.gather(*(relay.close() for relay in self.relays.values()))

    def cut(self, side: set[str]) -> None:
        """Cut off some agents from all others."""
        self.count += 1
        for edge, relay in self.relays.items():
            if len(side.intersection(edge)) == 1:
                relay.whole.clear()

    def mend(self) -> None:
        """Let everybody reach everybody again."""
        for relay in self.relays.values():
            relay.whole.set()

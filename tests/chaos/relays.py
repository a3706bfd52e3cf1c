"""Slow links and lost answers.

A relay on every host delays what neighbours send to it, or lets little through: not every kernel
can do that to a device. A counter loses what an agent answers to its application.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from types import TracebackType
from typing import Self

from coopbandits.fleet.address import Address
from coopbandits.fleet.local.agents import Place

from .hosts import Host

PORT, BEHIND = 7401, 7400
CHUNK = 1 << 14
QUEUE = 64
"""Chunks on their way; more are not taken from the sender."""


class Relay:
    """Forwards connections on one host to its agent.

    Attributes
    ----------
    latency : float
        Seconds that bytes take, in either direction.
    rate : float
        Bytes per second, of each connection and direction.
    """

    def __init__(self, host: Host) -> None:
        self.host, self.address = host, Address(host.address, PORT)
        self.latency, self.rate = 0.0, math.inf
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen."""
        listener = self.host.socket()
        listener.bind((self.host.address, PORT))
        self._server = await asyncio.start_server(self._connected, sock=listener)

    async def close(self) -> None:
        """Close all connections."""
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends, out = [writer], self.host.socket()
        out.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(out, (self.host.address, BEHIND))
            there, back = await asyncio.open_connection(sock=out.dup())
            ends.append(back)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, back))
                group.create_task(self._forward(there, writer))
        except* OSError:
            pass
        finally:
            out.close()
            for end in ends:
                end.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward until one end closes, which ends both directions."""
        way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUE)
        loop = asyncio.get_running_loop()
        arriving = asyncio.create_task(self._arrive(way, writer))
        try:
            while data := await reader.read(CHUNK):
                await way.put((loop.time() + self.latency, data))
                if arriving.done():
                    break
        finally:
            arriving.cancel()
            with suppress(asyncio.CancelledError):
                await arriving
        raise ConnectionAbortedError

    async def _arrive(
        self, way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await way.get()
            await asyncio.sleep(max(due - loop.time(), len(data) / self.rate))
            writer.write(data)
            await writer.drain()


class Counter:
    """Stands between an application and its agent, and can lose the agent's answers.

    Attributes
    ----------
    losing : bool
        Whether a connection is cut at every second answer: what was asked for is done by then.
    """

    def __init__(self, place: Place) -> None:
        self.agent, self.path = place.api.removeprefix("unix:"), place.folder / "counter.sock"
        self.losing = self._lost = False

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._connected, self.path)

    def close(self) -> None:
        """Listen no more; applications have closed their connections."""
        self._server.close()

    async def _connected(self, asks: asyncio.StreamReader, hears: asyncio.StreamWriter) -> None:
        ends = [hears]
        try:
            answers, agent = await asyncio.open_unix_connection(self.agent)
            ends.append(agent)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(asks, agent, answers=False))
                group.create_task(self._pass_on(answers, hears, answers=True))
        except* OSError:
            pass
        finally:
            for end in ends:
                end.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        while data := await reader.read(CHUNK):
            if answers and self.losing:
                self._lost = not self._lost
                if self._lost:
                    break
            writer.write(data)
            await writer.drain()
        raise ConnectionAbortedError


class Relays:
    """One relay per host and one counter per application, as long as the block lasts."""

    def __init__(self, machines: list[Host], places: list[Place]) -> None:
        self.all = [Relay(host) for host in machines]
        self.counters = [Counter(place) for place in places]

    async def __aenter__(self) -> Self:
        for relay in self.all:
            await relay.open()
        for counter in self.counters:
            await counter.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.gather(*(relay.close() for relay in self.all))
        for counter in self.counters:
            counter.close()

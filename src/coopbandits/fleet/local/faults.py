"""Fault injection by a seed: agents are killed and paused, and parts of the network are cut off.

A relay between two agents forwards bytes, or holds them back while their link is cut. A cut link is
a black hole, like a broken switch: connections stay open and nothing arrives. Bytes in transit
arrive once the link is restored, if both ends still wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from coopbandits.core.draws import stream_key, words
from coopbandits.fleet.address import Address
from coopbandits.fleet.local.agents import HOST, Members, Place
from coopbandits.fleet.local.applications import Ending
from coopbandits.fleet.local.settings import Settings

T = TypeVar("T")

STREAM = 16
"""The stream of random words for faults."""

DEAD_SECONDS = 0.3
"""How long a killed agent stays dead."""


class Dice:
    """A sequence of seeded draws; each kind of fault has its own."""

    def __init__(self, seed: int, kind: int) -> None:
        self._key = stream_key(seed, STREAM, kind)
        self._drawn = 0

    def word(self) -> int:
        """Return the next 64 random bits."""
        counter = np.array([self._drawn], dtype=np.uint64)
        self._drawn += 1
        return int(words(self._key, counter)[0])

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.word() % len(choices)]

    def split(self, names: Sequence[str]) -> set[str]:
        """Return a subset of the names: at least one, not all."""
        places = self.word() % (2 ** len(names) - 2) + 1
        return {name for at, name in enumerate(names) if places >> at & 1}


def fault_injectors(
    settings: Settings, members: Members, cuts: Cuts, ending: Ending
) -> list[Coroutine[Any, Any, None]]:
    """Return coroutines that inject faults; each undoes its own when the run ends."""
    found: list[Coroutine[Any, Any, None]] = []
    if settings.kill_every is not None:
        dice = Dice(settings.seed, 0)
        found.append(kill_some(members, settings.kill_every, dice, ending))
    if settings.pause is not None:
        dice = Dice(settings.seed, 1)
        found.append(pause_some(members, settings.pause, dice, ending))
    if settings.partition is not None:
        dice = Dice(settings.seed, 2)
        found.append(cut_some(members, cuts, settings.partition, dice, ending))
    return found


async def kill_some(members: Members, every: float, dice: Dice, ending: Ending) -> None:
    """Kill an agent every `every` seconds, or once the previous one is ready again."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due = max(due + every, loop.time())
        if await ending.within(due - loop.time()):
            return
        living = members.up()
        if living:
            member = dice.pick(living)
            await member.kill()
            await asyncio.sleep(DEAD_SECONDS)
            await members.restart(member)


async def pause_some(members: Members, seconds: float, dice: Dice, ending: Ending) -> None:
    """Alternate: one agent stopped for some seconds, then none for as long."""
    calm = seconds / 2
    while not await ending.within(calm):
        living = members.up()
        if living:
            member = dice.pick(living)
            member.pause()
            await ending.within(seconds)
            member.resume()
        calm = seconds


async def cut_some(
    members: Members, cuts: Cuts, seconds: float, dice: Dice, ending: Ending
) -> None:
    """Alternate: some agents cut off for some seconds, then none for as long."""
    names = [member.place.id for member in members.all]
    calm = seconds / 2
    while not await ending.within(calm):
        cuts.cut(dice.split(names))
        await ending.within(seconds)
        cuts.restore()
        calm = seconds


Edge = tuple[str, str]
"""The dialling and the dialled id; of two neighbours the one with the higher id dials."""

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

    def restore(self) -> None:
        """Restore all links."""
        for relay in self.relays.values():
            relay.whole.set()

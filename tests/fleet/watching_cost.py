"""What a dashboard over many agents costs: python -m tests.fleet.watching_cost [N [SECONDS]].

One process serves that many agents that are made up; this one watches them and reads its own page.
Printed is the processor time of the watching process, reader included, and of the agents together.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import sys
import time
from dataclasses import replace
from math import sin
from multiprocessing.connection import Connection

from coopbandits.dashboard.serving import served
from coopbandits.dashboard.watch import FleetSite, Watch
from coopbandits.fleet.address import Address
from coopbandits.fleet.api import ApiServer
from coopbandits.page.state import AgentState, NeighborState

from .api.stand_in import StandIn

ARMS = [f"arm-{k}" for k in range(17)]


class Busy(StandIn):
    """An agent of a ring that pulls all the time."""

    def __init__(self, number: int, count: int) -> None:
        super().__init__(ARMS, clock=time.time)
        self.number, self.count = number, count
        self.pulls, self.begun = [1] * len(ARMS), time.time()

    def state(self, since: int = 0) -> AgentState:
        now = time.time() - self.begun
        for step in range(4):
            self.pulls[int(1e3 * now + 7 * step) % len(ARMS)] += 1
        arms = [
            replace(arm, mean=sin(now + k), low=-1.0, high=1.0, choices=pulls, pulls=float(pulls))
            for k, (arm, pulls) in enumerate(zip(super().state().arms, self.pulls, strict=True))
        ]
        ends = [(self.number + step) % self.count for step in (-1, 1)]
        links = [NeighborState(f"a{end}", True, "", int(40 * now), 0.05) for end in ends]
        return replace(
            super().state(since), id=f"a{self.number}", now=time.time(), round=int(20 * now),
            arms=arms, prefers=ARMS[0], neighbors=links, choices=sum(self.pulls),
        )  # fmt: skip


def play(count: int, pipe: Connection) -> None:
    """Serve agents until told to end."""

    async def run() -> None:
        servers = [ApiServer(Busy(n, count), Address("127.0.0.1", 0)) for n in range(count)]
        for server in servers:
            await server.start()
        pipe.send([server.address for server in servers])
        await asyncio.to_thread(pipe.recv)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send(usage.ru_utime + usage.ru_stime)

    asyncio.run(run())


async def watch(addresses: list[str], seconds: float) -> None:
    """Watch agents and read the page; print what it took."""
    site = FleetSite(Watch(addresses))
    async with served(site) as page:
        place = page.address.split("/")[2]
        reader, writer = await asyncio.open_connection(*place.split(":"), limit=1 << 24)
        writer.write(f"GET /ui/events HTTP/1.1\r\nhost: {place}\r\n\r\n".encode())
        while len(site.watch.feed.scene.agents) < len(addresses):
            await reader.readline()
        began, used, deltas, size = time.monotonic(), time.process_time(), 0, 0
        while (passed := time.monotonic() - began) < seconds:
            line = await reader.readline()
            deltas, size = deltas + line.startswith(b"event: delta"), size + len(line)
        used = time.process_time() - used
        writer.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate, each = deltas / passed, size / max(1, deltas) / 1e3
    print(f"{len(addresses)} agents, {rate:.1f} deltas a second of {each:.0f} kB")
    print(f"watching took {100 * used / passed:.0f} % of a core, and {memory:.0f} MB")


def main() -> None:
    """Measure."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=play, args=(count, there))
    process.start()
    addresses = here.recv()
    asyncio.run(watch(addresses, seconds))
    here.send("end")
    print(f"{count} agents together took {here.recv():.1f} s of processor time")
    process.join(10)


if __name__ == "__main__":
    main()

"""Measures fleets of real agents: cost of a round, latency of answers, time to restart.

Agents are separate processes with links over mutual TLS and a journal on disk, as started by
``coopbandits agent``. CPU time and memory are those that the system reports.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.fleet.processes import Window, cpu_seconds, resident_megabytes
from coopbandits.fleet.address import parse_place
from coopbandits.fleet.client import AsyncClient
from coopbandits.fleet.local.agents import BANDIT, FleetError, Member
from coopbandits.fleet.local.applications import Ending
from coopbandits.fleet.local.run import LocalFleet, opened
from coopbandits.fleet.local.settings import Settings

WARM_SECONDS = 1.0
STEP = 0.01
PATIENCE = 60.0

CHOOSE = (
    b"POST /bandits/%b/choose HTTP/1.1\r\nhost: localhost\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
)
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Latency(NamedTuple):
    """Milliseconds from a call to its answer: median and 99th percentile."""

    p50: float
    p99: float


@asynccontextmanager
async def standing(settings: Settings, *, pulling: bool) -> AsyncIterator[LocalFleet]:
    """Start a fleet, with applications if they are to pull; stop everything at the end."""
    with TemporaryDirectory(prefix="coopbandits-") as folder:
        async with opened(settings, Path(folder)) as stage:
            players = stage.players if pulling else []
            tasks = [asyncio.create_task(player.play(Ending())) for player in players]
            try:
                await asyncio.sleep(WARM_SECONDS)
                yield stage
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def watch(members: Sequence[Member], seconds: float) -> Window:
    """Measure some agents for a while."""
    rounds, cpu, began = await _rounds(members), _cpu(members), time.perf_counter()
    await asyncio.sleep(seconds)
    ended = await _rounds(members)
    return Window(ended - rounds, _cpu(members) - cpu, time.perf_counter() - began, len(members))


def _cpu(members: Sequence[Member]) -> float:
    return sum(cpu_seconds(member.pid) for member in members)


async def _rounds(members: Sequence[Member]) -> int:
    return sum(await asyncio.gather(*map(_round, members)))


async def _round(member: Member) -> int:
    async with AsyncClient(member.place.api) as client:
        return int((await client.health())["round"])


def megabytes(members: Sequence[Member]) -> float:
    """Return the largest memory of any agent."""
    return max(resident_megabytes(member.pid) for member in members)


async def time_choices(api: str, calls: int, body: bytes = b"", bandit: str = BANDIT) -> Latency:
    """Time `choose`, one call after another, a reward handed in after each.

    The caller does as little as possible, so that the agent is what is timed: one connection, and
    always the same bytes.
    """
    taken, request = [], CHOOSE % (bandit.encode(), len(body), body)
    reader, writer = await _connected(api)
    try:
        async with AsyncClient(api, bandit=bandit) as client:
            for _ in range(calls):
                began = time.perf_counter()
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(int(_LENGTH.findall(head)[0]))
                taken.append(time.perf_counter() - began)
                await client.observe(json.loads(body)["ticket"], 1.0)
    finally:
        writer.close()
        await writer.wait_closed()
    p50, p99 = np.percentile(taken, [50, 99])
    return Latency(1e3 * float(p50), 1e3 * float(p99))


async def _connected(api: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = parse_place(api)
    if isinstance(place, Path):
        return await asyncio.open_unix_connection(place)
    return await asyncio.open_connection(*place)


async def time_restart(stage: LocalFleet, member: Member) -> float:
    """Kill an agent; return the seconds from its restart to its first round with all links up."""
    before = await _round(member)
    await member.kill()
    began = time.perf_counter()
    await stage.members.restart(member)
    async with AsyncClient(member.place.api) as client:
        while time.perf_counter() - began < PATIENCE:
            health = await client.health()
            linked = all(link == "up" for link in health["links"].values())
            if linked and health["round"] > before:
                return time.perf_counter() - began
            await asyncio.sleep(STEP)
    raise FleetError(f"agent {member.place.id} made no round within {PATIENCE:g} s of its start")

"""Load that an agent holds over HTTP, beside another version and a bare hello."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet.clients import client_rows, import_row
from benchmarks.fleet.load import Load, arrive, saturate
from benchmarks.fleet.rows import Row
from benchmarks.fleet.servers import Server, Version, agent, hello, version_at

LOOP = "asyncio"
ARRIVING = 64
"""Connections for requests that arrive by a clock."""

FASTER = {"process": 1.15, "power": 10.0}
"""Targets over another version: of requests per CPU-second, and of requests per second."""


@dataclass(frozen=True)
class Serving:
    """Settings.

    Attributes
    ----------
    num_arms : int
        K.
    connections : tuple of (str, int)
        Durabilities, and how many connections for each.
    windows, seconds : int and float
        Number of measurements, and the length of each.
    """

    num_arms: int = 17
    connections: tuple[tuple[str, int], ...] = (("process", 16), ("power", 64))
    windows: int = 3
    seconds: float = 4.0

    @property
    def parts(self) -> int:
        """How many parts `time_load` yields."""
        return len(self.connections) + 1 if self.connections else 0


def time_load(plan: Serving, beside: Path | None) -> Iterator[list[Row]]:
    """Yield the rows, part by part."""
    other = None if beside is None else version_at(beside)
    if not plan.connections:
        return
    yield list(time_hello(plan))
    for durability, connections in plan.connections:
        yield list(time_agents(plan, durability, connections, other))


def time_hello(plan: Serving) -> Iterator[Row]:
    """Measure a bare uvicorn, as often and as long."""
    connections = dict(plan.connections).get("process", 1)
    with hello() as server:
        if server is not None:
            loads = [saturate(server, connections, plan.seconds, "/") for _ in range(plan.windows)]
            yield from load_rows("HTTP, bare uvicorn hello", loads)


def time_agents(
    plan: Serving, durability: str, connections: int, other: Version | None
) -> Iterator[Row]:
    """Measure an agent, in turn with the other version, then at half its pace, then by clients."""
    what = f"HTTP, {durability}, {connections} connections"
    with ExitStack() as stack:
        servers = {"": stack.enter_context(agent(Version(), durability, plan.num_arms))}
        if other is not None:
            servers[" (other version)"] = stack.enter_context(
                agent(other, durability, plan.num_arms)
            )
        loads: dict[str, list[Load]] = {name: [] for name in servers}
        for _ in range(plan.windows):
            for name, server in servers.items():
                loads[name].append(saturate(server, connections, plan.seconds))
        for name, found in loads.items():
            yield from load_rows(what + name, found)
        if other is not None:
            yield compared(what, durability, *loads.values())
        pace = max(load.per_second for load in loads[""]) / 2
        yield from paced_rows(plan, what, servers[""], pace)
        client = f"Python client, {durability}"
        yield from client_rows(client, servers[""], plan.windows, plan.seconds)
        if durability == "process":
            yield import_row(plan.windows)


def load_rows(what: str, loads: list[Load]) -> Iterator[Row]:
    """Yield the best of several measurements."""
    yield Row(f"{what}: per CPU-second", LOOP, max(x.per_cpu_second for x in loads), "requests")
    yield Row(f"{what}: pace", LOOP, max(x.per_second for x in loads), "requests/s")
    yield Row(f"{what}: median", LOOP, min(x.p50 for x in loads), "ms")
    yield Row(f"{what}: 99th percentile", LOOP, min(x.p99 for x in loads), "ms")


def compared(what: str, durability: str, ours: list[Load], others: list[Load]) -> Row:
    """Return how much faster this version is than the other."""
    pairs = list(zip(ours, others, strict=True))  # each measured one after the other
    if durability == "process":
        unit, ratios = "per CPU-second", [a.per_cpu_second / b.per_cpu_second for a, b in pairs]
    else:
        unit, ratios = "pace", [a.per_second / b.per_second for a, b in pairs]
    what = f"{what}: {unit}, over the other version"
    return Row(what, LOOP, statistics.median(ratios), "", FASTER[durability], rising=True)


def paced_rows(plan: Serving, what: str, server: Server, pace: float) -> Iterator[Row]:
    """Yield the latency where requests arrive at a given pace, and that of a bare hello."""
    target = 5.0 if "process" in what else None
    yield from _paced(plan, what, server, pace, "", target)
    with hello() as bare:
        if bare is not None:
            yield from _paced(plan, "HTTP, bare uvicorn hello", bare, pace, "/", None)


def _paced(
    plan: Serving, what: str, server: Server, pace: float, path: str, target: float | None
) -> Iterator[Row]:
    found = [arrive(server, pace, ARRIVING, plan.seconds, path) for _ in range(plan.windows)]
    half = f"{what}: {pace:.0f}/s, open loop"
    yield Row(f"{half}, median", LOOP, min(load.p50 for load in found), "ms")
    yield Row(f"{half}, 99th percentile", LOOP, min(load.p99 for load in found), "ms", target)

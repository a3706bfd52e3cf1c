"""What applications get through the Python client: one thread, and eight that share it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.fleet.rows import Row
from benchmarks.fleet.servers import BANDIT, Server
from coopbandits.fleet.client import Client
from coopbandits.fleet.local.agents import HOST

LOOP = "none"
THREADS = 8
CPU, GAIN, IMPORT = 150.0, 3.0, 60.0
"""Targets: microseconds of CPU time per call, the pace of eight threads over that of one, and
milliseconds of CPU time to import the client."""


class Calls(NamedTuple):
    """Calls made in some seconds, and the CPU time that they took the client."""

    made: int
    seconds: float
    cpu: float

    @property
    def per_second(self) -> float:
        """Calls per second."""
        return self.made / self.seconds

    @property
    def cost(self) -> float:
        """Microseconds of CPU time per call."""
        return 1e6 * self.cpu / max(1, self.made)


def play(server: Server, threads: int, seconds: float) -> Calls:
    """Pull from some threads that share a client, as fast as they are answered."""
    made = [0] * threads
    with Client(f"{HOST}:{server.port}", timeout=30.0, bandit=BANDIT) as client:

        def work(thread: int) -> None:
            while time.perf_counter() < until:
                client.observe(client.choose().ticket, 1.0)
                made[thread] += 2

        began, cpu = time.perf_counter(), time.process_time()
        until = began + seconds
        workers = [threading.Thread(target=work, args=[thread]) for thread in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return Calls(sum(made), time.perf_counter() - began, time.process_time() - cpu)


def client_rows(what: str, server: Server, windows: int, seconds: float) -> Iterator[Row]:
    """Yield the best of several measurements.

    Eight threads can be several times as fast as one only where one mostly waits: for a disk that
    syncs, not for an agent that computes.
    """
    alone, shared = (
        [play(server, threads, seconds) for _ in range(windows)] for threads in (1, THREADS)
    )
    one, many = (max(calls.per_second for calls in each) for each in (alone, shared))
    yield Row(f"{what}, 1 thread: pace", LOOP, one, "calls/s")
    yield Row(f"{what}, {THREADS} threads: pace", LOOP, many, "calls/s")
    target = GAIN if "power" in what else None
    yield Row(f"{what}, {THREADS} threads: pace, over 1", LOOP, many / one, "", target, rising=True)
    cost = min(calls.cost for calls in alone)
    yield Row(f"{what}, 1 thread: CPU time per call", LOOP, cost, "µs", CPU)


def import_row(windows: int) -> Row:
    """Return what it takes a new process to import the client, at best."""
    code = (
        "import time; began = time.process_time(); import coopbandits.fleet.client; "
        "print(1e3 * (time.process_time() - began))"
    )
    command = [sys.executable, "-c", code]
    tries = [float(subprocess.check_output(command)) for _ in range(windows)]  # noqa: S603  own code
    return Row("Python client: CPU time of its import", LOOP, min(tries), "ms", IMPORT)

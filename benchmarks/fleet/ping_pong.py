"""A bare ping-pong: the cost of the transport alone, for comparison.

A ring of processes with the same links as agents. Each sends both neighbours as many bytes as a
round's message has, waits for as many from each, and starts over; or it sends at a fixed pace, and
reads what has come each time, as agents that wait for nobody do. There is no protocol, no journal
and nothing to compute.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import NamedTuple

from benchmarks.fleet.processes import Window
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import TlsFiles
from coopbandits.fleet.identity.tls import read_credentials
from coopbandits.fleet.protocol.frames import HEADER
from coopbandits.fleet.transport.tcp import TcpTransport

PATIENCE = 120.0
"""Seconds after which a process without answers gives up."""


class Seat(NamedTuple):
    """The settings of one process."""

    node: str
    listen: Address
    neighbors: dict[str, Address]
    certificates: Path
    uvloop: bool
    values: int
    windows: int
    seconds: float
    pace: float


class Paddle:
    """Sends to all neighbours, again and again once all have answered.

    Parameters
    ----------
    transport : TcpTransport
        The links.
    size : int
        Bytes of a message.
    pace : float
        Rounds per second whoever has answered; 0 to wait for all.
    """

    def __init__(self, transport: TcpTransport, size: int, pace: float = 0.0) -> None:
        self.transport, self.message, self.pace = transport, bytes(size), pace
        self.heard = dict.fromkeys(transport.neighbors, 0)  # bytes received in the current round
        self.missing = set(transport.neighbors)
        self.rounds = 0

    def link_up(self, peer: str) -> None:
        """Start once all links are up."""
        self.missing.discard(peer)
        if self.missing:
            return
        if self.pace:
            if not self.rounds:
                self._beat(asyncio.get_running_loop().time())
        else:
            self._send()
            self.received(peer, b"")

    def _beat(self, due: float) -> None:
        self.transport.read()
        self.rounds += 1
        self._send()
        due += 1.0 / self.pace
        asyncio.get_running_loop().call_at(due, self._beat, due)

    def received(self, peer: str, data: bytes) -> None:
        """End the round if this was its last message."""
        self.heard[peer] += len(data)
        while not self.pace and not self.missing and min(self.heard.values()) >= len(self.message):
            for each in self.heard:
                self.heard[each] -= len(self.message)
            self.rounds += 1
            self._send()

    def _send(self) -> None:
        for peer in self.heard:
            self.transport.send(peer, self.message)

    def link_down(self, peer: str, reason: str) -> None:
        """Do nothing: at the end the processes leave one by one."""
        del reason
        self.missing.add(peer)

    def refused(self, who: str, reason: str) -> None:
        """Do nothing: without that link no process gets to the first round."""


def ping_pong(seats: Sequence[Seat]) -> list[Window]:
    """Return the totals of all processes in each window."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(seats), timeout=PATIENCE)
    with ExitStack() as stack:
        pipes = []
        for seat in seats:
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_sit, args=(seat, there, barrier), daemon=True)
            process.start()
            there.close()
            stack.callback(process.join, PATIENCE)
            stack.enter_context(here)
            pipes.append(here)
        found: list[list[Window]] = [pipe.recv() for pipe in pipes]
    return [_sum(windows) for windows in zip(*found, strict=True)]


def _sum(windows: Sequence[Window]) -> Window:
    rounds, cpu, seconds, _ = (sum(column) for column in zip(*windows, strict=True))
    return Window(rounds, cpu, seconds / len(windows), len(windows))


def _sit(seat: Seat, pipe: Connection, barrier: Barrier) -> None:
    factory = None
    if seat.uvloop:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        pipe.send(runner.run(_play(seat, barrier)))


async def _play(seat: Seat, barrier: Barrier) -> list[Window]:
    certificates, node = seat.certificates, seat.node
    files = [certificates / name for name in ("ca.pem", f"{node}.pem", f"{node}-key.pem")]
    credentials = read_credentials(node, TlsFiles(*files))
    transport = TcpTransport(node, seat.listen, seat.neighbors, credentials)
    paddle = Paddle(transport, HEADER.size + 8 * seat.values, seat.pace)
    if seat.pace:
        transport.hold()
    await transport.start(paddle)
    async with asyncio.timeout(PATIENCE):
        while not paddle.rounds:
            await asyncio.sleep(0.05)
    windows = [await _window(paddle, seat.seconds) for _ in range(seat.windows)]
    await asyncio.to_thread(barrier.wait)  # do not leave while others are still being measured
    await transport.stop()
    return windows


async def _window(paddle: Paddle, seconds: float) -> Window:
    rounds, cpu, began = paddle.rounds, time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    return Window(paddle.rounds - rounds, time.process_time() - cpu, time.perf_counter() - began, 1)

"""Every transport keeps the contract, on every event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coopbandits.fleet.transport import LinkEvents
from coopbandits.fleet.transport.memory import MemoryNetwork
from coopbandits.fleet.transport.tcp import TcpTransport
from coopbandits.testing import check_transport

from .nodes import NODES, Factory, places


class Ticking(TcpTransport):
    """Reads its links at ticks, as an agent with rounds by the clock does."""

    async def start(self, events: LinkEvents) -> None:
        self.hold()
        self.ticks = asyncio.create_task(self.tick())
        await super().start(events)

    async def tick(self) -> None:
        while True:
            self.read()
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        self.ticks.cancel()
        await super().stop()


def test_memory_keeps_the_contract() -> None:
    check_transport(MemoryNetwork().transport)


@pytest.mark.parametrize(
    ("kind", "run"),
    [
        (TcpTransport, uvloop.run),
        (Ticking, asyncio.run),
        pytest.param(TcpTransport, asyncio.run, marks=pytest.mark.slow),
        pytest.param(Ticking, uvloop.run, marks=pytest.mark.slow),
    ],
    ids=["uvloop", "ticking-asyncio", "asyncio", "ticking-uvloop"],
)
def test_tcp_keeps_the_contract(
    run: Callable[[Any], None], kind: type[TcpTransport], certificates: Path
) -> None:
    with places(*NODES) as at:
        check_transport(Factory(at, certificates, kind=kind), run=run)

"""Every transport keeps the contract, on every event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coopbandits.fleet.transport.memory import MemoryNetwork
from coopbandits.testing import check_transport

from .nodes import NODES, Factory, places


def test_memory_keeps_the_contract() -> None:
    check_transport(MemoryNetwork().transport)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("secure", [True, False], ids=["tls", "plain"])
def test_tcp_keeps_the_contract(
    secure: bool, run: Callable[[Any], None], certificates: Path
) -> None:
    with places(*NODES) as at:
        check_transport(Factory(at, certificates if secure else None), run=run)

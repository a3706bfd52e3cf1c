"""Whatever fails in the background, an agent ends loudly or goes on, and is never half alive."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.config import write_config
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import UnavailableError
from coopbandits.fleet.transport import handshake, tcp
from coopbandits.fleet.transport.listener import Listener
from coopbandits.fleet.transport.tcp import TcpTransport
from coopbandits.testing.checks.party import Witness

from ..transport.nodes import QUICK, agent, until

PATIENCE = 20.0

BROKEN = """
import sys, time
from pathlib import Path
from coopbandits.fleet.api.connections import Connections
from coopbandits.fleet.config import read_config
from coopbandits.fleet.process import main, runtime
from coopbandits.fleet.process.runtime import SteadyClock
from coopbandits.fleet.protocol.node import Node
import uvicorn

owner, name = {"Node": Node, "Connections": Connections, "Server": uvicorn.Server,
               "SteadyClock": SteadyClock}[sys.argv[2]], sys.argv[3]
usual, calls = getattr(owner, name), []

def broken(*arguments):
    calls.append(1)
    if len(calls) > 3:
        raise RuntimeError("this should not have happened")
    return usual(*arguments)

setattr(owner, name, broken)
runtime.BEAT_SECONDS = 0.05
config = read_config(Path(sys.argv[1]), now=time.time(), insecure=True)
sys.exit(main.run_agent(config))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the configuration of an agent without neighbours."""
    tables: dict[str, Any] = {
        "cluster": {
            "name": "shop",
            "epoch": datetime(2026, 1, 31, tzinfo=UTC),
            "arms": ["red", "blue"],
            "reward_range": [0.0, 1.0],
        },
        "node": {
            "id": "shop-1",
            "listen": "127.0.0.1:0",
            "journal": "memory",
            "api": f"unix:{tmp_path}/api",
        },
    }
    found = tmp_path / "node.toml"
    found.write_text(write_config(tables))
    return found


@pytest.mark.parametrize(
    ("owner", "name"),
    [("Node", "tick"), ("Node", "beat"), ("SteadyClock", "follow_system_clock"),
     ("Connections", "sweep"), ("Server", "on_tick")],
)  # fmt: skip
def test_a_timer_that_fails_ends_the_process(path: Path, owner: str, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, str(path), owner, name],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert len(re.findall(r"CRITICAL agent shop-1 failed in .* and stops", done.stderr)) == 1
    assert done.stderr.count("RuntimeError: this should not have happened") == 1
    assert "agent shop-1 stopped after" in done.stderr


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["tick", "beat"])
def test_an_embedded_agent_that_fails_says_so_and_serves_no_more(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(node: Node) -> None:
        raise RuntimeError("this should not have happened")

    with LocalAgent(path, insecure=True) as embedded:
        ticket = embedded.choose().ticket
        monkeypatch.setattr(Node, name, broken)
        wait(embedded.ready)
        assert "its log says why" in str(embedded.ready())
        with pytest.raises(UnavailableError, match="failed"):
            embedded.choose()
        with pytest.raises(UnavailableError, match="failed"):
            embedded.observe(ticket, 1.0)
        assert embedded.health()["open_tickets"] == 1
    monkeypatch.undo()
    assert caplog.text.count("agent shop-1 failed in") == 1
    with LocalAgent(path, insecure=True) as again:
        assert not again.observe(ticket, 1.0).duplicate


def broken_first(usual: Any, times: int = 2) -> Any:
    calls = []

    def broken(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) <= times:
            raise RuntimeError("this should not have happened")
        return usual(*arguments)

    return broken


@pytest.mark.parametrize(
    ("owner", "name"),
    [(TcpTransport, "_call"), (tcp, "connect"), (handshake, "tune"), (Listener, "take")],
)
def test_a_call_that_fails_is_made_again(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with agent("alpha", None, {"beta": Address("127.0.0.1", 1)}) as (first, witness):
            if owner is Listener:
                first._listener.take = broken_first(first._listener.take)
            else:
                monkeypatch.setattr(owner, name, broken_first(getattr(owner, name)))
            async with agent("beta", None, {"alpha": first.address}) as (_, other):
                await until(lambda: "alpha" in other.up and "beta" in witness.up)

    asyncio.run(scenario())
    assert "this should not have happened" in caplog.text


def test_a_name_that_cannot_be_looked_up_stops_no_other_neighbour() -> None:
    """Encoding it raises no OSError; today's resolver may be another tomorrow."""
    label = "a" * 64

    async def scenario() -> None:
        async with agent("alpha", None, {"gamma": Address("127.0.0.1", 1)}) as (first, _):
            places = {"alpha": first.address, "beta": Address(f"{label}.localhost", 1)}
            transport = TcpTransport(
                "gamma", Address("127.0.0.1", 0), {"alpha": first.address}, None, timing=QUICK
            )
            transport.neighbors = places
            witness = Witness("gamma")
            await transport.start(witness)
            try:
                await until(lambda: "alpha" in witness.up)
                assert all(not task.done() for task in transport._tasks)
            finally:
                await transport.stop()

    asyncio.run(scenario())

"""The process of an agent: what the service manager is notified of, and its log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coopbandits.fleet.process.main import ServiceManager

from .agents import PATIENCE, lonely


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(PATIENCE)
        yield sock


def heard_until(manager: socket.socket, end: str) -> list[str]:
    """Return all messages up to the first one that begins so."""
    found: list[str] = []
    while not found or not found[-1].startswith(end):
        found.append(manager.recv(1000).decode())
    return found


def test_a_real_agent_tells_how_it_is(tmp_path: Path, manager: socket.socket) -> None:
    with lonely(tmp_path, log_level="error") as agent:
        options = ("--log-format", "json", "--log-level", "info")  # which count more
        agent.start(*options, NOTIFY_SOCKET=manager.getsockname(), WATCHDOG_USEC="200000")
        assert re.search(r"\nSTATUS=serves at unix:", heard_until(manager, "READY=1")[-1])
        began = time.monotonic()
        for _ in range(4):
            heard_until(manager, "WATCHDOG=1")
        assert time.monotonic() - began > 0.2  # every 0.1 s, half of what is asked for
        agent.send(signal.SIGHUP)
        at = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", heard_until(manager, "REL")[-1])
        assert at is not None
        assert abs(int(at[1]) / 1e6 - time.monotonic()) < PATIENCE
        told = heard_until(manager, "READY=1")[-1]
        assert told == "READY=1\nSTATUS=the configuration was reloaded"
        agent.send(signal.SIGTERM)
        heard_until(manager, "STOPPING=1")
        assert agent.end() == 0
        lines = [json.loads(line) for line in agent.told().splitlines()]
        assert {line["agent"] for line in lines} == {"alpha"}
        assert lines[-1]["message"].startswith("agent alpha stopped after")


def test_an_event_loop_that_hangs_gives_no_sign_of_life(manager: socket.socket) -> None:
    told = ServiceManager({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "20000"})

    async def scenario() -> None:
        telling = asyncio.create_task(told.keep_alive())
        await asyncio.sleep(0.1)
        assert manager.recv(100) == b"WATCHDOG=1"
        manager.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while manager.recv(100):
                pass
        time.sleep(0.3)  # as a bug would
        with pytest.raises(BlockingIOError):
            manager.recv(100)
        telling.cancel()

    asyncio.run(scenario())


def test_an_abstract_socket_and_nobody_who_listens(caplog: pytest.LogCaptureFixture) -> None:
    name = f"coopbandits-{os.getpid()}-{time.monotonic_ns()}"
    told = ServiceManager({"NOTIFY_SOCKET": f"@{name}"})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{name}")
        told.notify("READY=1")
        assert sock.recv(100) == b"READY=1"
    told.notify("STOPPING=1")
    assert "STOPPING=1" in caplog.text
    caplog.clear()
    ServiceManager({}).notify("READY=1")
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("more", "interval"),
    [({"WATCHDOG_USEC": "3000000"}, 1.5), ({"WATCHDOG_USEC": "0"}, 0.0), ({}, 0.0),
     ({"WATCHDOG_USEC": "soon"}, 0.0), ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, 0.0),
     ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 1.5)],
)  # fmt: skip
def test_the_watchdog_of_another_process_is_not_ours(more: dict[str, str], interval: float) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": "/run/notify"} | more).interval == interval
    assert ServiceManager(more).interval == 0.0  # nobody would hear it


ROOT = Path(__file__).parents[3]
PAGE, FLEET = ROOT / "docs" / "fleet" / "operate.md", ROOT / "src" / "coopbandits" / "fleet"


def test_messages_on_the_page_are_logged_at_its_levels() -> None:
    table = PAGE.read_text().partition("| level | what")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", table, re.M)
    source = "".join(path.read_text() for path in sorted(FLEET.rglob("*.py")))
    assert [level for level, _ in listed] == ["debug", "info", "warning", "error", "critical"]
    for level, examples in listed:
        for example in re.findall(r"`([^`]+)`", examples):
            begins = re.escape(example.partition("…")[0])
            call = rf'(?:log|logger|_\w*log|_refusals|_cuts|_failures)\.(\w+)\([^"]*"{begins}'
            found = set(re.findall(call, source))
            assert level in found or (level == "error" and "exception" in found), example

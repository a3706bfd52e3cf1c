"""Load over HTTP: what is counted, from real servers; that agents hold it is shown by figures."""

from __future__ import annotations

import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import getpid
from pathlib import Path

import pytest

import coopbandits
from benchmarks.fleet.load import Load, arrive, saturate
from benchmarks.fleet.servers import (
    Server,
    Version,
    agent,
    hello,
    version_at,
)
from benchmarks.fleet.serving import Serving, compared, time_load
from coopbandits import InputError
from coopbandits.fleet.local.agents import FleetError

HERE = Path(coopbandits.__file__).parents[1]
TINY = Serving(num_arms=2, connections=(("process", 2), ("power", 3)), windows=1, seconds=0.3)
ANSWER = b'HTTP/1.1 200 OK\r\ncontent-length: 29\r\n\r\n{"ticket":"x","arm":"middle"}'


@pytest.fixture
def without_wrk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


@pytest.mark.slow
@pytest.mark.usefixtures("without_wrk")
def test_all_rows_are_there_beside_another_version() -> None:
    parts = list(time_load(TINY, HERE))
    assert len(parts) == TINY.parts
    rows = {row.what: row for part in parts for row in part}
    assert all(row.value > 0.0 for row in rows.values())
    for what in ("HTTP, process, 2 connections", "HTTP, power, 3 connections"):
        for name in ("", " (other version)"):
            assert rows[f"{what}{name}: per CPU-second"].value > 100.0
            assert rows[f"{what}{name}: median"].value <= 1000.0
    over = [row for what, row in rows.items() if what.endswith("over the other version")]
    assert [(row.target, row.rising) for row in over] == [(1.15, True), (10.0, True)]
    late = [row for what, row in rows.items() if "connections: " in what and "loop, 99th" in what]
    assert [row.target for row in late] == [5.0, None]
    assert "HTTP, bare uvicorn hello: per CPU-second" in rows
    clients = [what for what in rows if what.startswith("Python client, power, ")]
    assert [what.removeprefix("Python client, power, ") for what in clients] == [
        "1 thread: pace",
        "8 threads: pace",
        "8 threads: pace, over 1",
        "1 thread: CPU time per call",
    ]
    assert [rows[what].target for what in clients] == [None, None, 3.0, 150.0]


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_wrk_makes_choices_and_hands_in_their_rewards() -> None:
    with agent(Version(), "process", 2) as server:
        found = saturate(server, 4, 1.0)
    assert found.requests > 100
    assert 0.5 < found.seconds < 3.0
    assert 0.0 < found.p50 <= found.p99


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_wrk_loads_a_server_that_does_nothing() -> None:
    with hello() as server:
        assert server is not None
        assert saturate(server, 4, 1.0, "/").requests > 100


@pytest.mark.usefixtures("without_wrk")
def test_errors_are_no_load() -> None:
    failed = pytest.raises(FleetError, match=r"[1-9]\d* of \d+ requests under load failed")
    with agent(Version(), "process", 2) as server, failed:
        saturate(server, 2, 0.1, "/nowhere")


@contextmanager
def stalling(seconds: float) -> Iterator[Server]:
    """Serve one connection; stop once, for a while, after the first request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            caller, _ = listener.accept()
            with caller:
                stalled = False
                while data := caller.recv(1 << 16):
                    if not stalled:
                        time.sleep(seconds)
                        stalled = True
                    caller.sendall(ANSWER * data.count(b"POST"))

        thread = threading.Thread(target=serve)
        thread.start()
        yield Server(getpid(), listener.getsockname()[1])
        thread.join(10)


def test_time_runs_from_when_a_request_was_due() -> None:
    """A stall holds up all requests that were due in it, not only the one on its way."""
    with stalling(0.7) as server:
        found = arrive(server, 200.0, 1, 1.0)
    assert 150 < found.requests < 260
    assert found.p99 > 300.0
    assert found.p50 > 50.0, "most of them were due during the stall"


def test_a_version_is_a_checkout_or_a_python(tmp_path: Path) -> None:
    assert version_at(HERE).sources == str(HERE)
    assert version_at(HERE.parent).sources == str(HERE)
    assert version_at(HERE.parent).environment["PYTHONPATH"] == str(HERE)
    assert version_at(Path(sys.executable)) == Version(sys.executable)
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        version_at(tmp_path)


def test_a_server_that_does_not_start_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "coopbandits"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise SystemExit('out of order')")
    with pytest.raises(FleetError, match="out of order"):
        agent(version_at(tmp_path), "process", 2).__enter__()


def test_versions_are_compared_pair_by_pair() -> None:
    def loads(*counts: int) -> list[Load]:
        return [Load(count, 0, 2.0, 1.0, 1.0, 1.0) for count in counts]

    ours, others = loads(200, 300, 1000), loads(100, 200, 100)
    by_cpu = compared("x", "process", ours, others)
    assert (by_cpu.value, by_cpu.met) == (2.0, True)
    by_clock = compared("x", "power", ours, others)
    assert (by_clock.value, by_clock.met) == (2.0, False)

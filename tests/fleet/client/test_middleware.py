"""The middleware of the examples under real gunicorn and real uvicorn, beside a real agent."""

from __future__ import annotations

import http.client
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.fleet.servers import BANDIT, Version, agent
from coopbandits.fleet.client import Client
from coopbandits.fleet.local.agents import reserve_port

HERE = Path(__file__).parent
EXAMPLES = Path(__file__).parents[3] / "examples" / "fleet"
PATIENCE = 60.0

GUNICORN = ["gunicorn", "--preload", "--workers", "4", "--threads", "8", "--timeout", "120"]
UVICORN = ["uvicorn", "--log-level", "warning"]


@contextmanager
def serving(command: list[str], app: str, address: str) -> Iterator[int]:
    """Run a web server that calls an agent; yields its port."""
    pytest.importorskip(command[0])
    with ExitStack() as held:
        port = reserve_port(held).port
        home = held.enter_context(TemporaryDirectory())  # gunicorn keeps a socket there
        paths = os.pathsep.join([str(HERE), str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
        settings = os.environ | {"AGENT": address, "PYTHONPATH": paths, "HOME": home}
        option = "--bind=127.0.0.1:" if command[0] == "gunicorn" else "--port="
        process = subprocess.Popen(
            [sys.executable, "-m", *command, f"{option}{port}", app], env=settings
        )
        try:
            wait_until_served(process, port)
            yield port
        finally:
            process.terminate()
            assert process.wait(PATIENCE) in (0, -15)


def wait_until_served(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("the server does not serve")


class Load:
    """Requests from many threads, each over connections of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.rewards: list[float] = []
        self.workers: set[str] = set()
        self.wrong: list[str] = []

    def put(self, seconds: float, workers: int, threads: int) -> None:
        """Ask for some time, and for longer until so many workers have answered."""
        end = time.monotonic() + seconds
        asking = [threading.Thread(target=self._ask, args=[end, workers]) for _ in range(threads)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()

    def _ask(self, end: float, workers: int) -> None:
        while time.monotonic() < end + PATIENCE * (len(self.workers) < workers):
            link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            for _ in range(20):
                link.request("GET", "/")
                response = link.getresponse()
                told = response.read().decode()
                if response.status == 200:
                    reward, worker, *_ = told.split()
                    self.rewards.append(float(reward))
                    self.workers.add(worker)
                else:
                    self.wrong.append(f"{response.status} {told}")
                if response.will_close:
                    break
            link.close()


def counted(address: str, requests: int) -> tuple[int, float]:
    """Return the pulls and rewards that an agent has counted, once all are handed in."""
    deadline = time.monotonic() + PATIENCE
    with Client(address, bandit=BANDIT) as client:
        while True:
            arms = client.arms()
            pulls = sum(arm.own_pulls for arm in arms)
            if pulls >= requests or time.monotonic() > deadline:
                return pulls, math.fsum(arm.own_reward for arm in arms)
            time.sleep(0.05)


def hold(command: list[str], app: str, seconds: float, workers: int = 1, threads: int = 32) -> Load:
    """Put load on a server; check that every receipt was right and all was counted once."""
    with agent(Version(), "process", 3) as behind:
        address = f"127.0.0.1:{behind.port}"
        with serving(command, app, address) as port:
            load = Load(port)
            load.put(seconds, workers, threads)
            pulls, rewards = counted(address, 2 * len(load.rewards))
    assert not load.wrong, load.wrong[:3]
    assert pulls == 2 * len(load.rewards) > 0
    # The middleware hands in 1.0 for each request.
    assert rewards == pytest.approx(math.fsum(load.rewards) + len(load.rewards), rel=1e-9)
    return load


@pytest.mark.slow
def test_gunicorn_with_preload_gets_every_receipt_right() -> None:
    assert len(hold(GUNICORN, "checking:wsgi", 5.0, workers=4).workers) == 4


@pytest.mark.slow
def test_gunicorn_with_preload_gets_every_receipt_right_for_a_minute() -> None:
    load = hold(GUNICORN, "checking:wsgi", 60.0, workers=4)
    assert len(load.workers) == 4
    print(f"\n{len(load.rewards)} requests in a minute, all receipts right")


@pytest.mark.parametrize(
    ("seconds", "threads"), [(0.3, 8), pytest.param(3.0, 32, marks=pytest.mark.slow)]
)
def test_uvicorn_gets_every_receipt_right(seconds: float, threads: int) -> None:
    hold(UVICORN, "checking:asgi", seconds, threads=threads)


@pytest.mark.parametrize(
    ("command", "app"),
    [
        (["gunicorn", "--preload"], "wsgi_middleware:application"),
        (UVICORN, "asgi_middleware:application"),
    ],
    ids=["wsgi", "asgi"],
)
def test_without_an_agent_the_examples_serve_their_default(command: list[str], app: str) -> None:
    with ExitStack() as held:
        nobody = reserve_port(held)
        with serving(command, app, str(nobody)) as port:
            for _ in range(5):
                link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
                link.request("GET", "/")
                response = link.getresponse()
                assert (response.status, response.read()) == (
                    200, b'<h1 style="color: blue">Welcome</h1>',
                )  # fmt: skip
                link.close()

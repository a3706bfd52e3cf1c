"""File descriptors: budgets for applications and neighbours, and what happens without any left."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, parse_address
from coopbandits.fleet.client import Client
from coopbandits.fleet.config import ApiLimits, NodeConfig, read_config, write_config
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.process.main import descriptors_needed, reserve_descriptors

PATIENCE = 90.0
CONNECTIONS = 60

AGENT = """
import resource, sys, time
from coopbandits.fleet.config import read_config
from coopbandits.fleet.process.main import run_agent
from coopbandits.fleet.process.main import descriptors_needed

config = read_config(sys.argv[1], now=time.time(), insecure=True)
most = descriptors_needed(config)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
sys.exit(run_agent(config))
"""

# An API whose process has few descriptors, fewer than it may have connections.
POOR = """
import asyncio, logging, os, resource, sys
from coopbandits.fleet.address import Address
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.transport.sockets import Listener
from tests.fleet.api.stand_in import StandIn

usual = Listener._pause

def pause(*arguments):
    usual(*arguments)
    print("no descriptor", flush=True)

Listener._pause = pause

async def serve():
    server = ApiServer(StandIn(), Address("127.0.0.1", 0), limits=ApiLimits(max_connections=1000))
    await server.start()
    most = len(os.listdir("/proc/self/fd")) + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(server.address, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()

logging.basicConfig(stream=sys.stderr)
if sys.argv[1] == "uvloop":
    import uvloop
    uvloop.run(serve())
else:
    asyncio.run(serve())
"""


def make_config(tmp_path: Path, **node: Any) -> Path:
    path = tmp_path / f"{node['id']}.toml"
    tables: dict[str, Any] = {
        "cluster": {
            "name": "shop",
            "epoch": datetime(2026, 1, 31, tzinfo=UTC),
        },
        "bandits": {"button": {"arms": ["red", "blue"], "reward_range": [0.0, 1.0]}},
        "node": {
            "journal": f"memory-{node['id']}",
            "silence": 60.0,
            "default_bandit": "button",
            **node,
        },
        "api_limits": {"max_connections": CONNECTIONS},
        "neighbors": [{"id": "shop-2", "address": "127.0.0.1:1"}] * (node["id"] == "shop-1"),
    }
    path.write_text(write_config(tables))
    return path


@contextlib.contextmanager
def process(*arguments: str, log: IO[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        cwd=Path(__file__).parents[3],
    ) as made:  # fmt: skip
        try:
            yield made
        finally:
            made.kill()


def free_place() -> Address:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return Address(*sock.getsockname())


@contextlib.contextmanager
def crowd(place: Address, count: int) -> Iterator[None]:
    """Connect many times and say nothing; who is cut connects no more."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(place, timeout=PATIENCE))
        yield


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.covering(1)
@pytest.mark.parametrize("crowded", ["applications", "neighbours", "both"])
def test_neither_applications_nor_neighbours_starve_the_other(tmp_path: Path, crowded: str) -> None:
    listen, api = free_place(), free_place()
    config = make_config(tmp_path, id="shop-1", listen=str(listen), api=str(api))
    other = read_config(make_config(tmp_path, id="shop-2", listen="127.0.0.1:0"), now=time.time(),
                        insecure=True)  # fmt: skip
    other = replace(other, neighbors={"shop-1": listen})
    log = tmp_path / "log.txt"
    with log.open("w") as lines, process(AGENT, str(config), log=lines):
        with Client(str(api), timeout=PATIENCE) as client:
            wait(lambda: client.ready() is None)
        with contextlib.ExitStack() as stack:
            if crowded != "neighbours":
                stack.enter_context(crowd(api, 5 * CONNECTIONS))
            if crowded != "applications":
                stack.enter_context(crowd(listen, 300))
            neighbor = stack.enter_context(LocalAgent(other))
            client = stack.enter_context(Client(str(api), timeout=PATIENCE))
            wait(lambda: neighbor.health()["links"]["shop-1"] == "up")
            wait(lambda: client.health()["links"]["shop-2"] == "up")
            for _ in range(20):
                client.observe(client.choose().ticket, 1.0)
            wait(lambda: sum(arm.pulls for arm in neighbor.arms()) == 20)
    text = log.read_text()
    assert "Too many open files" not in text
    assert "Traceback" not in text
    assert len(text.splitlines()) < 40


@pytest.mark.parametrize("loop", ["uvloop", pytest.param("asyncio", marks=pytest.mark.slow)])
def test_without_descriptors_an_api_waits_says_it_once_and_goes_on(
    tmp_path: Path, loop: str
) -> None:
    log = tmp_path / "log.txt"
    with log.open("w") as lines, process(POOR, loop, log=lines) as made:
        assert made.stdout is not None
        place = parse_address(made.stdout.readline().strip())
        with crowd(place, 100):
            for _ in range(3):
                assert made.stdout.readline() == "no descriptor\n"
        with Client(str(place), timeout=PATIENCE) as client:
            assert client.ready() is None
        assert made.stdin is not None
        made.stdin.close()
        assert made.wait(PATIENCE) == 0
    lines_logged = log.read_text().splitlines()
    assert sum("Too many open files" in line for line in lines_logged) == 1
    assert len(lines_logged) < 10, lines_logged


def config_of(max_connections: int) -> NodeConfig:
    cluster: Any = None
    neighbors = {f"n{i}": Address("127.0.0.1", 1) for i in range(10)}
    limits = ApiLimits(max_connections=max_connections)
    return NodeConfig(cluster, "a", Path("unused"), neighbors, api_limits=limits)


def test_the_limit_is_raised_to_what_the_budgets_need() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    config = config_of(max_connections=300)
    needed = descriptors_needed(config)
    assert needed > 300 + 64 + 10
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed - 1, hard))
        reserve_descriptors(config)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (needed, hard)
        reserve_descriptors(config_of(max_connections=1))
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (needed, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_budgets_beyond_what_the_system_allows_are_a_sentence() -> None:
    with pytest.raises(InputError, match="1000000000"):
        reserve_descriptors(config_of(max_connections=10**9))

"""What an installed distribution is tried with: its own command, in an empty folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

PATIENCE = 300.0
"""Seconds after which a command has failed."""

SIMULATE = (
    "simulate", "--graph", "cycle:20", "--policy", "dducb", "--horizon", "1000", "--out",
)  # fmt: skip

CONFIG = """
[cluster]
name = "shop"
epoch = 2026-01-31T12:00:00Z

[bandits.button]
arms = ["blue", "green"]
reward_range = [0.0, 1.0]

[node]
id = "shop-{number}"
listen = "127.0.0.1:{links[0]}"
api = "127.0.0.1:{apis[0]}"
journal = "journal-{number}"

[tls]
ca = "ca.pem"
certificate = "shop-{number}.pem"
key = "shop-{number}-key.pem"

[[neighbors]]
id = "shop-{other}"
address = "127.0.0.1:{links[1]}"
"""

ASK = """
import sys, time
from coopbandits.fleet.client import Client

assert not {"numpy", "typer", "rich"} & set(sys.modules)
shops = [Client(place, timeout=20.0, bandit="button") for place in sys.argv[1:]]
for shop in shops:
    for visitor in range(10):
        choice = shop.choose()
        receipt = shop.observe(choice.ticket, 1.0)
        assert (receipt.arm, receipt.reward, receipt.duplicate) == (choice.arm, 1.0, False)
until = time.monotonic() + 20.0
while sum(arm.pulls for arm in shops[0].arms()) < 20.0:  # the neighbour's are among them
    assert time.monotonic() < until, shops[0].arms()
    time.sleep(0.05)
"""


class FailedError(Exception):
    """A command ended with an error; the message is the end of its output."""


def call(
    *words: str | Path,
    folder: Path | None = None,
    patience: float = PATIENCE,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Run a command, with some variables of the environment set, and return its output."""
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, capture_output=True, text=True, check=False,
        timeout=patience, env={**environment(), **settings},
    )  # fmt: skip
    if done.returncode:
        raise FailedError(f"{words[0]}: {(done.stderr + done.stdout).strip()[-1500:]}")
    return done.stdout


def environment() -> dict[str, str]:
    """Return the variables of this process, less what would let a checkout be imported."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def simulate_twice(*command: str | Path, folder: Path) -> tuple[float, float]:
    """Simulate one policy for the first time, and once more; return the seconds of both."""
    call(*command, "doctor", folder=folder)
    seconds = []
    for attempt in ("first", "later"):
        began = time.perf_counter()
        call(*command, *SIMULATE, attempt, folder=folder)
        seconds.append(time.perf_counter() - began)
        assert (folder / attempt / "report.html").stat().st_size > 0
    return seconds[0], seconds[1]


def ask_agents(command: Path, python: Path, folder: Path) -> None:
    """Run two agents with a command, and let clients of some Python talk to both."""
    call(command, "certs", "init", "authority", folder=folder)
    call(command, "certs", "issue", "authority", "shop-1", "shop-2", "--out", ".", folder=folder)
    links, apis = free_ports(2), free_ports(2)
    for number in (1, 2):
        text = CONFIG.format(
            number=number, other=3 - number, links=links if number == 1 else links[::-1],
            apis=apis if number == 1 else apis[::-1],
        )  # fmt: skip
        (folder / f"shop-{number}.toml").write_text(text)
    configs = ("shop-1.toml", "shop-2.toml")
    call(command, "agent", "--check", *configs, folder=folder)
    with running(command, configs, folder):
        call(python, "-c", ASK, *(f"127.0.0.1:{port}" for port in apis), folder=folder)


@contextmanager
def running(command: Path, configs: tuple[str, ...], folder: Path) -> Iterator[None]:
    """Run agents; they must end by themselves, without an error, when they are told to."""
    agents = []
    try:
        for name in configs:
            words = [str(command), "agent", name]
            with (folder / f"{name}.log").open("w") as log:
                agents.append(
                    subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, env=environment())
                )
        yield
        for agent in agents:
            agent.send_signal(signal.SIGTERM)
        if ended := [status for agent in agents if (status := agent.wait(30))]:
            raise FailedError(f"agents ended with {ended}")
    finally:
        for agent in agents:
            if agent.poll() is None:
                agent.kill()
                agent.wait()


def free_ports(number: int) -> list[int]:
    """Return ports of this machine that are free."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    try:
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()

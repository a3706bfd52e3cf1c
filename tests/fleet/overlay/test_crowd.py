"""What an agent costs among many: 40 real ones on one machine, and thousands in one process.

All play the policy of large fleets, at one round a second. The thousands run the same protocol,
policy and journal as the real ones, over links in memory: what they lack is TLS, sockets and the
event loop. So their bytes can be compared as they are, and their computing after the 40 real ones
have told how much those three add.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.fleet.processes import cpu_seconds
from coopbandits.fleet.client import Client
from coopbandits.fleet.config.read import write_config
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.results.statistics import columns
from tests.torture.overlay.party import EPOCH, Party

from ..bandits import only

POLICY = "ledger-ts"
DEGREE = 5
ARMS = ("a", "b")
PATIENCE = 600.0
REAL = int(os.environ.get("COOPBANDITS_CROWD_REAL", "40"))
SIMULATED = int(os.environ.get("COOPBANDITS_CROWD", "5000"))
SEEDS = ("a0", "a1", "a2")
SECONDS = 60
SIMULATED_SECONDS = 10
MOST_SECONDS = 200


class Figures(NamedTuple):
    """What one agent of a fleet takes, on average."""

    what: str
    agents: int
    links: float
    bytes_per_second: float
    cpu: float
    news: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Return one line of the table."""
        return (
            self.what, str(self.agents), f"{self.links:.1f}", f"{self.bytes_per_second:.0f}",
            f"{1e6 * self.cpu:.0f}", self.news,
        )  # fmt: skip


def show(*found: Figures) -> None:
    head = ("", "agents", "links", "bytes/s", "µs a round", "rounds until all know")
    rows = [head, *(each.cells for each in found)]
    print("\n" + "\n".join(line.rstrip() for line in columns(rows, left=(0,))))


# In one process


def known(party: Party, name: str) -> float:
    return float(np.sum(party.replica(name).agent.estimate().counts))


def grown(agents: int, per_round: int) -> Party:
    """Return agents that have joined by three seeds."""
    bandit = only(POLICY, ARMS, epoch=EPOCH, rounds_per_second=1.0, max_agents=2 * agents)
    party = Party(bandit, DEGREE)
    names = [f"a{number}" for number in range(agents)]
    for first in range(0, agents, per_round):
        for name in names[first : first + per_round]:
            party.start(name, *SEEDS)
        party.play()
    party.play(15)
    return party


def simulated(agents: int) -> list[Figures]:
    """Measure agents that have settled, and then while a twentieth leaves and as many join."""
    party = grown(agents, -(-agents // 10))
    return [
        watched(party, "simulated", 0),
        watched(party, "simulated, 5 % come and go", agents // 20),
    ]


def watched(party: Party, what: str, moving: int) -> Figures:
    """Count bytes and computing for some seconds; also how long news takes to be everywhere."""
    before, began, news, changed = party.bytes_sent, time.process_time(), 0, 0
    total = known(party, "a0") + 1.0
    party.pull("a0")
    for second in range(1, MOST_SECONDS):
        if second <= SIMULATED_SECONDS:
            for _ in range(moving * second // SIMULATED_SECONDS - changed):
                changed += 1
                party.leave(next(name for name in party.nodes if name not in SEEDS))
                party.start(f"late-{len(party.disks)}", *SEEDS)
        party.play()
        if second == SIMULATED_SECONDS:
            cpu, sent = time.process_time() - began, party.bytes_sent - before
        if all(known(party, name) == total for name in party.nodes):
            news = news or second
            if second >= SIMULATED_SECONDS:
                break
    else:
        raise AssertionError(f"not all know of a pull after {MOST_SECONDS} rounds")
    size = len(party.nodes)
    links = sum(len(party.links(name)) for name in party.nodes) / size
    seconds = SIMULATED_SECONDS * size
    return Figures(what, size, links, sent / seconds, cpu / seconds, str(news))


@pytest.mark.slow
@pytest.mark.plays
def test_agents_that_come_and_go_all_hear_of_a_pull_at_the_same_cost() -> None:
    settled, moving = simulated(20)
    assert 0.8 * DEGREE <= settled.links <= DEGREE + 2
    assert settled.bytes_per_second < 4000
    assert moving.bytes_per_second < 3 * settled.bytes_per_second
    assert max(int(settled.news), int(moving.news)) < 60


# As processes


LAUNCH = """
import os, sys, time
from pathlib import Path
from coopbandits.fleet.config import read_config
from coopbandits.fleet.process.main import run_agent
for path in sys.argv[1:]:
    if (pid := os.fork()) == 0:
        os._exit(run_agent(read_config(Path(path), now=time.time())))
    print(pid, flush=True)
for _ in sys.argv[1:]:
    os.wait()
"""
"""Runs agents as `coopbandits agent` does; all code is loaded once, which takes longest."""


class Real:
    """Agents in processes that find each other by one address."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder, self.names = folder, names
        self.pids: list[int] = []
        with socket.create_server(("127.0.0.1", 0)) as seat:
            self.seed = f"127.0.0.1:{seat.getsockname()[1]}"
        init_authority(folder)
        issue(folder, names)

    def configured(self, name: str) -> Path:
        """Write the file of an agent."""
        tables = {
            "cluster": {
                "name": "crowd", "epoch": datetime(2026, 1, 31, tzinfo=UTC),
                "rounds_per_second": 1.0, "max_agents": 2 * len(self.names),
            },
            "bandits": {
                "only": {"arms": list(ARMS), "policy": POLICY, "reward_range": [0.0, 1.0]}
            },
            "node": {
                "id": name, "listen": self.seed if name == self.names[0] else "127.0.0.1:0",
                "journal": f"journal-{name}", "api": f"unix:{self.folder / name}.sock",
                "silence": 30.0, "neighbors": "auto", "degree": DEGREE, "seeds": [self.seed],
            },
            "tls": {"ca": "ca.pem", "certificate": f"{name}.pem", "key": f"{name}-key.pem"},
        }  # fmt: skip
        path = self.folder / f"{name}.toml"
        path.write_text(write_config(tables))
        return path

    def client(self, name: str) -> Client:
        return Client(f"unix:{self.folder / name}.sock", timeout=PATIENCE, bandit="only")

    def links(self, name: str) -> int:
        with self.client(name) as client:
            return sum(link == "up" for link in client.health()["links"].values())

    def rounds(self) -> int:
        total = 0
        for name in self.names:
            with self.client(name) as client:
                total += int(client.health()["round"])
        return total

    def known(self, name: str) -> float:
        with self.client(name) as client:
            return sum(arm.pulls for arm in client.arms())

    def cpu(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.pids)

    def received(self) -> int:
        """Return the bytes that agents have read: over TLS by `read`, over HTTP by `recv`.

        Linux counts the former alone, and next to nothing else is read by an agent that runs.
        """
        found = 0
        for pid in self.pids:
            told = Path(f"/proc/{pid}/io").read_text().splitlines()
            found += int(told[0].removeprefix("rchar: "))
        return found


@contextlib.contextmanager
def real(folder: Path, agents: int) -> Iterator[Real]:
    """Start agents, and end them all."""
    fleet = Real(folder, [f"a{number}" for number in range(agents)])
    paths = [str(fleet.configured(name)) for name in fleet.names]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *paths], stdout=subprocess.PIPE, stderr=log
        ) as launcher,
    ):
        assert launcher.stdout is not None
        try:
            fleet.pids = [int(launcher.stdout.readline()) for _ in paths]
            for name in fleet.names:
                until((folder / f"{name}.sock").exists)
            yield fleet
        finally:
            for pid in fleet.pids:
                os.kill(pid, signal.SIGKILL)


def until(condition: Callable[[], bool]) -> float:
    """Wait for something; return how many seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + PATIENCE, "it took too long"
        time.sleep(0.2)
    return time.monotonic() - began


def measured(folder: Path) -> Figures:
    """Measure real agents for a minute."""
    with real(folder, REAL) as fleet:
        until(lambda: all(fleet.links(name) >= DEGREE - 1 for name in fleet.names))
        with fleet.client("a0") as client:
            client.observe(client.choose().ticket, 1.0)
        news = until(lambda: all(fleet.known(name) == 1.0 for name in fleet.names))
        rounds, cpu, began = fleet.rounds(), fleet.cpu(), time.monotonic()
        received = fleet.received()
        time.sleep(SECONDS)
        received, passed = fleet.received() - received, time.monotonic() - began
        cpu = fleet.cpu() - cpu
        rounds = fleet.rounds() - rounds
        links = sum(fleet.links(name) for name in fleet.names) / REAL
    return Figures("real", REAL, links, received / passed / REAL, cpu / rounds, f"about {news:.0f}")


@pytest.mark.slow
def test_the_cost_of_an_agent_among_many(tmp_path: Path) -> None:
    few = measured(tmp_path)
    same, *_ = simulated(REAL)
    many = simulated(SIMULATED)
    show(few, same, *many)
    ratio = few.cpu / same.cpu
    print(f"real over simulated computing, {REAL} agents: {ratio:.2f}")
    for each in many:
        print(f"{each.what}, {each.agents} agents: {1e6 * ratio * each.cpu:.0f} µs a round each")
    assert many[0].bytes_per_second < 1.5 * same.bytes_per_second, "messages do not grow with N"
    assert many[0].cpu < 2.0 * same.cpu
    assert 0.5 < few.bytes_per_second / same.bytes_per_second < 2.0, "what is counted is what goes"

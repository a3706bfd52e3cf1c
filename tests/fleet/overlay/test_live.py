"""Real agents that find each other by one address."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from coopbandits.fleet.client import Client
from coopbandits.fleet.config.read import write_config
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.process.embedded import LocalAgent

NAMES = [f"shop-{number}" for number in range(1, 7)]
PATIENCE = 60.0


class Fleet:
    """Agents in processes, each of which knows where the first one listens and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.apis = {name: folder / f"{name}.sock" for name in NAMES}
        with socket.create_server(("127.0.0.1", 0)) as seat:
            self.seed = f"127.0.0.1:{seat.getsockname()[1]}"
        init_authority(folder)
        issue(folder, NAMES)

    def write(self, name: str) -> Path:
        """Write an agent's configuration."""
        tables = {
            "cluster": {
                "name": "shop",
                "epoch": datetime(2026, 1, 31, 12, tzinfo=UTC),
            },
            "bandits": {"button": {"arms": ["blue", "green"], "reward_range": [0.0, 1.0]}},
            "node": {
                "id": name,
                "listen": self.seed if name == NAMES[0] else "127.0.0.1:0",
                "journal": f"journal-{name}",
                "api": f"unix:{self.apis[name]}",
                "silence": 2.0,
                "neighbors": "auto",
                "degree": 3,
                "seeds": [self.seed],
                "default_bandit": "button",
            },
            "tls": {"ca": "ca.pem", "certificate": f"{name}.pem", "key": f"{name}-key.pem"},
        }
        path = self.folder / f"{name}.toml"
        path.write_text(write_config(tables))
        return path

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "coopbandits", "agent", str(self.write(name))]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def links(self, name: str) -> set[str]:
        """Return the neighbours to which an agent has a link."""
        with Client(f"unix:{self.apis[name]}", timeout=PATIENCE, bandit="button") as client:
            return {each["name"] for each in client.state()["neighbors"] if each["up"]}

    def pull(self, name: str, times: int) -> None:
        with Client(f"unix:{self.apis[name]}", timeout=PATIENCE, bandit="button") as client:
            for _ in range(times):
                client.observe(client.choose().ticket, 1.0)

    def known(self, name: str) -> float:
        with Client(f"unix:{self.apis[name]}", timeout=PATIENCE, bandit="button") as client:
            return sum(arm.pulls for arm in client.arms())

    def end(self, name: str, number: signal.Signals) -> int:
        process = self.processes.pop(name)
        process.send_signal(number)
        return process.wait(PATIENCE)

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    try:
        yield made
    finally:
        for process in made.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


def until(condition: Callable[[], bool], fleet: Fleet) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, fleet.logs()
        time.sleep(0.1)


def test_three_agents_in_one_process_find_each_other_by_one_address(fleet: Fleet) -> None:
    names = {*NAMES[:3]}
    with contextlib.ExitStack() as stack:
        agents = {name: stack.enter_context(LocalAgent(fleet.write(name))) for name in NAMES[:3]}

        def linked(name: str) -> set[str]:
            links = agents[name].health()["links"]
            return {other for other, link in links.items() if link == "up"}

        until(lambda: all(linked(name) == names - {name} for name in names), fleet)
        for agent in agents.values():
            agent.observe(agent.choose().ticket, 1.0)
        until(
            lambda: all(sum(arm.pulls for arm in agent.arms()) == 3 for agent in agents.values()),
            fleet,
        )


@pytest.mark.slow
def test_agents_find_each_other_by_one_address_and_go_on_as_others_come_and_go(
    fleet: Fleet,
) -> None:
    first, second, third, fourth, fifth, late = NAMES
    for name in NAMES[:5]:
        fleet.start(name)
    until(lambda: all(len(fleet.links(name)) >= 3 for name in NAMES[:5]), fleet)
    for name in NAMES[:5]:
        fleet.pull(name, 4)
    until(lambda: all(fleet.known(name) == 20 for name in NAMES[:5]), fleet)

    fleet.end(first, signal.SIGKILL)  # the seed itself
    running = [second, third, fourth, fifth]
    until(lambda: all(fleet.links(name) == {*running} - {name} for name in running), fleet)

    fleet.start(first)  # it has its journal, and somebody who joins late finds it
    fleet.start(late)
    running += [first, late]
    until(lambda: all(len(fleet.links(name)) >= 3 for name in running), fleet)
    fleet.pull(late, 4)
    until(lambda: all(fleet.known(name) == 24 for name in running), fleet)

    assert fleet.end(third, signal.SIGTERM) == 0
    running.remove(third)
    until(lambda: all(third not in fleet.links(name) for name in running), fleet)
    until(lambda: all(len(fleet.links(name)) >= 3 for name in running), fleet)
    fleet.pull(second, 1)
    until(lambda: all(fleet.known(name) == 25 for name in running), fleet)
    assert "Traceback" not in fleet.logs()

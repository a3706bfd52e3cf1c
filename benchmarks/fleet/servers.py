"""What is put under load: one agent of this or of another version, and a bare hello."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import write_config
from coopbandits.fleet.local.agents import ENVIRONMENT, HOST, FleetError, arm_names, reserve_port

PATIENCE = 120.0
BANDIT = "load"
"""The bandit of a server that is an agent."""
ANY_PACE = 1e6
"""Pulls per second that no application makes, so that none are refused."""


class Version(NamedTuple):
    """An installation of this package: its Python, and where that is to look for packages."""

    python: str = sys.executable
    sources: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes."""
        return os.environ | ENVIRONMENT | ({"PYTHONPATH": self.sources} if self.sources else {})


def version_at(path: Path) -> Version:
    """Return the version in a source tree, or that of another Python."""
    for folder in (path, path / "src"):
        if (folder / "coopbandits" / "__init__.py").is_file():
            return Version(sources=str(folder.absolute()))
    if path.is_file() and os.access(path, os.X_OK):
        return Version(str(path.absolute()))
    raise InputError(
        f"{path} is neither a source tree of coopbandits nor a Python; name the folder of a "
        "checkout, or the python of an environment that has another version"
    )


class Server(NamedTuple):
    """A process that serves HTTP on this machine."""

    pid: int
    port: int


@contextmanager
def agent(
    version: Version,
    durability: str,
    num_arms: int,
    features: Mapping[str, tuple[float, float]] | None = None,
) -> Iterator[Server]:
    """Run an agent without neighbours, with a journal in a folder of its own.

    `features` are numbers with their ranges.
    """
    with TemporaryDirectory(prefix="coopbandits-") as name, ExitStack() as held:
        folder, api = Path(name), reserve_port(held)
        tables = {
            "cluster": {
                "name": "load",
                "epoch": datetime.now(UTC).replace(microsecond=0),
                "max_pulls_per_second": ANY_PACE,
                # With a thousand agents messages about all arms' models would be too long.
                **({"max_agents": 100} if features else {}),
            },
            "bandits": {
                BANDIT: {
                    "arms": arm_names(num_arms),
                    "reward_range": [0.0, 1.0],
                    **({"features": features} if features else {}),
                }
            },
            "node": {
                "id": "a00",
                "listen": f"{HOST}:0",
                "journal": folder / "journal",
                "durability": durability,
                "api": str(api),
            },
        }
        config = folder / "node.toml"
        config.write_text(write_config(tables), encoding="utf-8")
        command = [version.python, "-m", "coopbandits", "agent", "--insecure", str(config)]
        with (folder / "log.txt").open("w+b") as log:
            yield from _served(command, version.environment, api.port, log)


@contextmanager
def hello() -> Iterator[Server | None]:
    """Run a bare uvicorn; None where it is not installed."""
    if find_spec("uvicorn") is None:
        yield None
        return
    with TemporaryDirectory(prefix="coopbandits-") as folder, ExitStack() as held:
        port = reserve_port(held).port
        command = [sys.executable, "-m", f"{__package__}.hello", str(port)]
        with (Path(folder) / "log.txt").open("w+b") as log:
            yield from _served(command, os.environ, port, log)


def _served(
    command: Sequence[str], environment: Mapping[str, str], port: int, log: IO[bytes]
) -> Iterator[Server]:
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)  # noqa: S603  our own
    try:
        _await_port(process, port, log)
        yield Server(process.pid, port)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_port(process: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection((HOST, port), timeout=1.0).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    log.seek(0)
    told = log.read().decode(errors="replace").strip().rpartition("\n")[2]
    raise FleetError(f"{process.args!r} does not serve: {told or 'it said nothing'}")

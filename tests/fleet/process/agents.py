"""Real agents as processes of their own, as an operator has them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coopbandits.fleet.address import Address
from coopbandits.fleet.client import Client
from coopbandits.fleet.config import write_config
from coopbandits.fleet.process.embedded import LocalAgent

from ..transport.nodes import places

PATIENCE = 90.0  # on a machine that does much else
TOKEN = "0123456789abcdef"


def wait(condition: Callable[[], object], what: str = "") -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what or "it took too long"
        time.sleep(0.02)


class Agent:
    """The files of an agent in a folder, and its process once it is started.

    Parameters
    ----------
    folder : Path
        Holds all its files.
    name : str
        Its id.
    listen : str
        Where neighbours reach it.
    certificates : Path or None
        A folder with certificates.
    neighbors : dict of str to Address
        Its neighbours.
    node : keywords
        Further settings of [node].
    """

    def __init__(
        self,
        folder: Path,
        name: str = "alpha",
        listen: str = "127.0.0.1:0",
        certificates: Path | None = None,
        neighbors: dict[str, Address] | None = None,
        **node: Any,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.name = folder, name
        self.path, self.log = folder / "node.toml", folder / "log"
        self.tables: dict[str, Any] = {
            "cluster": {
                "name": "shop",
                "epoch": datetime(2026, 1, 31, tzinfo=UTC),
            },
            "bandits": {"button": {"arms": ["red", "blue"], "reward_range": [0.0, 1.0]}},
            "node": {
                "id": name,
                "listen": listen,
                "journal": "memory",
                "api": "unix:api",
                "default_bandit": "button",
            }
            | node,
            "neighbors": [
                {"id": other, "address": str(place)} for other, place in (neighbors or {}).items()
            ],
        }
        if certificates is not None:
            files = {"ca": "ca.pem", "certificate": f"{name}.pem", "key": f"{name}-key.pem"}
            self.tables["tls"] = {key: str(certificates / file) for key, file in files.items()}
        self.write()
        self.process: subprocess.Popen[bytes] | None = None

    def write(self, **node: Any) -> None:
        """Write the configuration, with some settings of [node] changed."""
        self.tables["node"] |= node
        self.path.write_text(write_config(self.tables))

    def write_token(self, token: str) -> None:
        """Write the token that its API requires."""
        path = self.folder / "token"
        path.write_text(token)
        path.chmod(0o600)
        self.write(token_file=path.name)

    def start(self, *options: str, **environment: str) -> None:
        """Start the process, and wait until it is ready."""
        before = len(self.told())
        command = [sys.executable, "-m", "coopbandits", "agent", str(self.path), "--insecure"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *options], stderr=log, env=os.environ | environment
            )
        wait(lambda: self._is_up(before), "it does not start")

    def _is_up(self, before: int) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.told()
        return "serves at" in self.told()[before:]

    def told(self) -> str:
        """Return the log so far."""
        return self.log.read_text() if self.log.exists() else ""

    def client(self, token: str | None = None) -> Client:
        """Return a client of its API."""
        return Client(f"unix:{self.folder / 'api'}", token, timeout=PATIENCE)

    def send(self, number: int) -> None:
        """Send its process a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait until its process has ended; return the exit status."""
        assert self.process is not None
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Make sure that it does not run."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
            self.process.wait()


@contextlib.contextmanager
def agents(folder: Path, *, certificates: Path | None = None, **node: Any) -> Iterator[list[Agent]]:
    """Yield two agents that are neighbours, not started; at the end neither runs."""
    with places("alpha", "beta") as at:
        made = [
            Agent(folder / own, own, str(at[own]), certificates, {other: at[other]}, **node)
            for own, other in (("alpha", "beta"), ("beta", "alpha"))
        ]
        try:
            yield made
        finally:
            for each in made:
                each.kill()


@contextlib.contextmanager
def lonely(folder: Path, **node: Any) -> Iterator[Agent]:
    """Yield an agent without neighbours, not started; at the end it does not run."""
    made = Agent(folder / "alpha", **node)
    try:
        yield made
    finally:
        made.kill()


def pulls(client: Client | LocalAgent) -> float:
    """Return how many rewards an agent knows of, its own and others'."""
    return sum(arm.pulls for arm in client.arms())

"""The agents of a local fleet: their files in one folder, and their processes.

::

    certificates/ca.pem, a00.pem, a00-key.pem, …
    a00/node.toml           its configuration
    a00/log.txt             its output
    a00/journal/            its journal
    a00/client.jsonl        rewards that it acknowledged to its application
    summary.json            the result

Ports are bound here while the fleet lives, without listening on them. So no other process gets the
port of a dead agent, but the agent itself can listen on it again.

Every agent is a process of the group of `Keeper`, which dies with this process, whatever kills it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from coopbandits.core.errors import InputError
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.address import Address
from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.config import write_config
from coopbandits.fleet.config.consistency import MAX_SOCKET_PATH
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.local.keeper import Keeper
from coopbandits.fleet.local.settings import MOST_PULLS, Settings
from coopbandits.network import Network
from coopbandits.problems import BernoulliBandit

HOST = "127.0.0.1"

BANDIT = "local"
"""The name of the one bandit of a local fleet."""


class Place(NamedTuple):
    """The folder and addresses of one agent.

    Attributes
    ----------
    id : str
        Its name.
    folder : Path
        Its own folder.
    listen : Address
        Its address for neighbours.
    api : str
        Its address for the application.
    wrap : tuple of str
        A command that runs the agent's, such as a profiler.
    """

    id: str
    folder: Path
    listen: Address
    api: str
    wrap: tuple[str, ...] = ()

    @property
    def config(self) -> Path:
        """The path of its configuration."""
        return self.folder / "node.toml"


def names(num_agents: int) -> list[str]:
    return [f"a{agent:02d}" for agent in range(num_agents)]


def arm_names(num_arms: int) -> list[str]:
    return [f"arm-{arm}" for arm in range(num_arms)]


def require_empty(folder: Path) -> None:
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty; name another folder")


@contextmanager
def prepared(folder: Path, settings: Settings) -> Iterator[list[Place]]:
    """Create certificates and folders, and reserve ports until the block ends."""
    with reserved(folder, names(settings.network.num_agents)) as places:
        yield places


@contextmanager
def reserved(folder: Path, ids: Sequence[str]) -> Iterator[list[Place]]:
    """Create certificates and folders for agents of these names, and reserve their ports."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot create the folder {folder}: {error.strerror}; name another folder"
        ) from None
    certificates = folder / "certificates"
    init_authority(certificates)
    issue(certificates, ids)
    with ExitStack() as held:
        places = []
        for node in ids:
            (folder / node).mkdir()
            listen, path = reserve_port(held), folder.absolute() / node / "api.sock"
            fits = len(str(path).encode()) <= MAX_SOCKET_PATH
            api = f"unix:{path}" if fits else str(reserve_port(held))
            places.append(Place(node, folder / node, listen, api))
        yield places


def reserve_port(held: ExitStack) -> Address:
    """Bind a free port until the stack is closed."""
    holder = held.enter_context(socket.socket())
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((HOST, 0))
    return Address(*holder.getsockname()[:2])


def write_configs(
    places: Sequence[Place], settings: Settings, detours: Mapping[tuple[str, str], Address]
) -> None:
    """Write every agent's configuration.

    Parameters
    ----------
    places : sequence of Place
        The agents' places, in the order of the network.
    settings : Settings
        Settings of the run.
    detours : mapping
        Addresses of relays to dial instead of neighbours, by (dialling id, dialled id).
    """
    write_tables(places, settings.network, shared_tables(settings), detours, settings.uvloop)


def write_tables(
    places: Sequence[Place],
    network: Network,
    shared: Mapping[str, Mapping[str, Any]],
    detours: Mapping[tuple[str, str], Address],
    uvloop: bool = False,
) -> None:
    """Write every agent's configuration, with tables that all share."""
    for agent, place in enumerate(places):
        others = [places[j] for j in network.neighbors(agent)]
        neighbors = [
            {"id": other.id, "address": str(detours.get((place.id, other.id), other.listen))}
            for other in others
        ]
        certificates = Path("..") / "certificates"
        node = {
            "id": place.id,
            "listen": str(place.listen),
            "journal": "journal",
            "api": place.api,
            "uvloop": uvloop,
        }
        tls = {
            "ca": certificates / "ca.pem",
            "certificate": certificates / f"{place.id}.pem",
            "key": certificates / f"{place.id}-key.pem",
        }
        tables = {**shared, "node": node, "tls": tls, "neighbors": neighbors}
        place.config.write_text(write_config(tables), encoding="utf-8")


def shared_tables(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the tables that all agents share: the cluster, and its one bandit."""
    network, problem = settings.network, settings.problem
    bernoulli = isinstance(problem, BernoulliBandit)
    known = {"num_agents": network.num_agents, "lambda_bound": network.lambda2}
    policy: Any = parse_policy(settings.policy)  # eligible for fleets, so its agents have needs
    cluster = {
        "name": "local",
        "epoch": datetime.now(UTC).replace(microsecond=0),
        "rounds_per_second": settings.rounds_per_second,
        "max_pulls_per_second": MOST_PULLS,
    }
    bandit = {
        "arms": arm_names(problem.num_arms),
        "policy": settings.policy,
        **({"reward_range": [0.0, 1.0]} if bernoulli else {"sigma": problem.sigma}),
        **{key: value for key, value in known.items() if key in policy.needs},
    }
    return {"cluster": cluster, "bandits": {BANDIT: bandit}}


# Processes


State = Literal["starting", "up", "paused", "dead"]

READY_SECONDS = 180.0
"""An agent that takes longer to get ready is considered broken."""

STOP_SECONDS = 10.0
"""An agent that takes longer to stop is killed."""

ANSWER_SECONDS = 1.0

STEP = 0.02

COMMAND = [sys.executable, "-m", "coopbandits", "agent"]

ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
"""An agent's vectors are too short for BLAS threads, which would only cost memory."""


class FleetError(Exception):
    """The fleet cannot continue; one sentence says why."""


class Member:
    """One agent of the fleet.

    Attributes
    ----------
    place : Place
        Its folder and addresses.
    state : {"starting", "up", "paused", "dead"}
        Its state after the last operation.
    readiness : list of float
        Seconds from each start until it was ready to serve.
    kills, pauses : int
        Number of kills and pauses.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.state: State = "dead"
        self.readiness: list[float] = []
        self.kills = self.pauses = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self, group: int) -> None:
        self._began = time.monotonic()
        with (self.place.folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  our own program
                [*self.place.wrap, *COMMAND, str(self.place.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | ENVIRONMENT,
                process_group=group,
            )
        self.state = "starting"

    async def wait_until_ready(self) -> None:
        """Wait until it serves its application.

        Raises
        ------
        FleetError
            It exited, or was not ready in time.
        """
        async with AsyncClient(self.place.api, timeout=5 * STEP) as client:
            while (reason := await client.ready()) is not None:
                self.require_alive()
                if time.monotonic() - self._began > READY_SECONDS:
                    raise FleetError(
                        f"agent {self.place.id} is not ready after {READY_SECONDS:g} s: {reason}; "
                        f"{self._log_end()}"
                    )
                await asyncio.sleep(STEP)
        self.readiness.append(time.monotonic() - self._began)
        self.state = "up"

    def require_alive(self) -> None:
        """Raise FleetError if it exited on its own."""
        if self.state != "dead" and self._running().poll() is not None:
            status = self._running().returncode
            raise FleetError(f"agent {self.place.id} ended with status {status}; {self._log_end()}")

    def _log_end(self) -> str:
        lines = (self.place.folder / "log.txt").read_text(errors="replace").splitlines()
        return f"its log ends with: {lines[-1]}" if lines else "its log is empty"

    async def kill(self) -> None:
        """Kill it with SIGKILL, so that it cannot clean up."""
        self.state = "dead"
        self.kills += 1
        self._running().kill()
        await self._wait(STOP_SECONDS)

    def pause(self) -> None:
        self._running().send_signal(signal.SIGSTOP)
        self.state = "paused"
        self.pauses += 1

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)
        self.state = "up"

    async def stop(self) -> None:
        """Terminate it, and kill it if that takes too long."""
        if self._process is None:
            return
        self.state = "dead"
        for number in (signal.SIGCONT, signal.SIGTERM):
            self._process.send_signal(number)
        if not await self._wait(STOP_SECONDS):
            self._process.kill()

    async def _wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._running().poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(STEP)
        return self._running().poll() is not None

    def reap(self) -> None:
        """Wait for a killed process, so that no zombie remains."""
        if self._process is not None:
            self._process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None  # noqa: S101  it was started
        return self._process


class Members:
    """All agents of a fleet; when the ``async with`` block ends, none is left running.

    Parameters
    ----------
    places : sequence of Place
        Their folders, with configurations already written.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self.all = [Member(place) for place in places]
        self._keeper = Keeper()

    async def __aenter__(self) -> Self:
        self._keeper.__enter__()
        try:
            for member in self.all:
                member.start(self._keeper.group)
            await asyncio.gather(*(member.wait_until_ready() for member in self.all))
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await asyncio.gather(*(member.stop() for member in self.all))
        finally:
            self._end()

    def _end(self) -> None:
        self._keeper.__exit__(None, None, None)
        for member in self.all:
            member.reap()

    def up(self) -> list[Member]:
        """Return the agents that run and are ready."""
        return [member for member in self.all if member.state == "up"]

    async def restart(self, member: Member) -> None:
        """Restart a killed agent, and wait until it is ready."""
        member.start(self._keeper.group)
        await member.wait_until_ready()

    async def ask(
        self, question: Literal["arms", "cluster", "health"], bandit: str = BANDIT
    ) -> dict[str, Any]:
        """Ask all agents at once; the answer is None for those that do not reply.

        Arms are those of `bandit`.
        """

        async def ask(member: Member) -> Any:
            api = member.place.api
            async with AsyncClient(api, timeout=ANSWER_SECONDS, bandit=bandit) as client:
                try:
                    return await getattr(client, question)()
                except UnreachableError:
                    return None

        answers = await asyncio.gather(*map(ask, self.all))
        return {m.place.id: answer for m, answer in zip(self.all, answers, strict=True)}

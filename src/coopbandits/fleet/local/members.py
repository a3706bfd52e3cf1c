"""The agents of a local fleet as processes: start, kill, pause, restart, stop.

All die with their creator, whatever kills that (`Keeper`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, Self

from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.local.keeper import Keeper
from coopbandits.fleet.local.layout import Place

State = Literal["starting", "up", "paused", "dead"]

READY_SECONDS = 60.0
"""An agent that is not ready by then is taken for broken."""

STOP_SECONDS = 10.0
"""An agent that takes longer to stop is killed."""

ANSWER_SECONDS = 1.0

STEP = 0.02

COMMAND = [sys.executable, "-m", "coopbandits", "agent"]

ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
"""An agent's vectors are too short for BLAS threads, which would only take memory."""


class FleetError(Exception):
    """The fleet cannot go on; one sentence says why."""


class Member:
    """One agent of the fleet.

    Attributes
    ----------
    place : Place
        Its folder and addresses.
    state : {"starting", "up", "paused", "dead"}
        What was done to it last.
    readiness : list of float
        Seconds from each start until it was ready to serve.
    kills, pauses : int
        How often it was killed and paused.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.state: State = "dead"
        self.readiness: list[float] = []
        self.kills = self.pauses = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._running().pid

    def start(self, group: int) -> None:
        """Start the process in a process group."""
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
                        f"{self.last_words()}"
                    )
                await asyncio.sleep(STEP)
        self.readiness.append(time.monotonic() - self._began)
        self.state = "up"

    def require_alive(self) -> None:
        """Raise an error if it exited on its own."""
        if self.state != "dead" and self._running().poll() is not None:
            status = self._running().returncode
            raise FleetError(
                f"agent {self.place.id} ended with status {status}; {self.last_words()}"
            )

    def last_words(self) -> str:
        """Return the end of its log."""
        lines = (self.place.folder / "log.txt").read_text(errors="replace").splitlines()
        return f"its log ends with: {lines[-1]}" if lines else "its log is empty"

    async def kill(self) -> None:
        """Kill it with SIGKILL, so that it cannot clean up."""
        self.state = "dead"
        self.kills += 1
        self._running().kill()
        await self._wait(STOP_SECONDS)

    def pause(self) -> None:
        """Stop it with SIGSTOP."""
        self._running().send_signal(signal.SIGSTOP)
        self.state = "paused"
        self.pauses += 1

    def resume(self) -> None:
        """Continue it with SIGCONT."""
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
        """Return the agents that are running and ready."""
        return [member for member in self.all if member.state == "up"]

    async def restart(self, member: Member) -> None:
        """Restart a killed agent, and wait until it is ready."""
        member.start(self._keeper.group)
        await member.wait_until_ready()

    async def ask(self, question: Literal["arms", "cluster", "health"]) -> dict[str, Any]:
        """Ask all agents at once; the answer is None for those that do not reply."""
        answers = await asyncio.gather(*(_ask(member, question) for member in self.all))
        return {m.place.id: answer for m, answer in zip(self.all, answers, strict=True)}


async def _ask(member: Member, question: str) -> Any:
    async with AsyncClient(member.place.api, timeout=ANSWER_SECONDS) as client:
        try:
            return await getattr(client, question)()
        except UnreachableError:
            return None

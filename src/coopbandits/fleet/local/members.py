"""The agents of a local fleet as processes: started, killed, paused, started again, stopped."""

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
"""An agent that is not ready after so long never will be."""

STOP_SECONDS = 10.0
"""An agent that does not stop within so long when told to is killed."""

ANSWER_SECONDS = 1.0

STEP = 0.02

COMMAND = [sys.executable, "-m", "coopbandits", "agent"]

ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
"""An agent's vectors are short, and threads for long ones would only take room."""


class FleetError(Exception):
    """A fleet that cannot go on; one sentence says why."""


class Member:
    """One agent of the fleet.

    Attributes
    ----------
    place : Place
        Where it lives.
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
        """Return the number of its process."""
        return self._running().pid

    def start(self, group: int) -> None:
        """Start the process, in a group."""
        self._began = time.monotonic()
        with (self.place.folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  our own program
                [*COMMAND, str(self.place.config)],
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
            It ended, or is not ready in time.
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
        """Raise an error if it ended by itself."""
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
        """Kill it, so that it has no time for anything."""
        self.state = "dead"
        self.kills += 1
        self._running().kill()
        await self._wait(STOP_SECONDS)

    def pause(self) -> None:
        """Let it stand still."""
        self._running().send_signal(signal.SIGSTOP)
        self.state = "paused"
        self.pauses += 1

    def resume(self) -> None:
        """Let it go on."""
        self._running().send_signal(signal.SIGCONT)
        self.state = "up"

    async def stop(self) -> None:
        """Ask it to stop, and kill it if it does not."""
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
        """Wait for the end of a process that was killed."""
        if self._process is not None:
            self._process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None  # noqa: S101  it was started
        return self._process


class Members:
    """All agents of a fleet; when the block ends, for whatever reason, none is left.

    Parameters
    ----------
    places : sequence of Place
        Where they live; configurations are there already.
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
        """Return those that are neither dead nor paused, nor on their way."""
        return [member for member in self.all if member.state == "up"]

    async def restart(self, member: Member) -> None:
        """Start one again that was killed, and wait until it is ready."""
        member.start(self._keeper.group)
        await member.wait_until_ready()

    async def ask(self, question: Literal["arms", "health"]) -> dict[str, Any]:
        """Ask all agents at once; None of those who do not answer."""
        answers = await asyncio.gather(*(_ask(member, question) for member in self.all))
        return {m.place.id: answer for m, answer in zip(self.all, answers, strict=True)}


async def _ask(member: Member, question: str) -> Any:
    async with AsyncClient(member.place.api, timeout=ANSWER_SECONDS) as client:
        try:
            return await getattr(client, question)()
        except UnreachableError:
            return None

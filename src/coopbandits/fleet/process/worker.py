"""What takes the disk's time is done by a thread, beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from coopbandits.fleet.storage.disk import DiskError

Done = Callable[[DiskError | None], None]


class Worker(Protocol):
    """Does one thing after another."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call in the event loop, after everything that is ready to run."""

    def run(self, work: Callable[[], None], done: Done) -> None:
        """Do some work, then call `done` in the event loop with what failed."""

    async def rest(self) -> None:
        """Wait until what is under way is done, or for the event loop's next turn."""


class Thread:
    """A worker in a thread of its own; make it in a running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(1, "journal")
        self._task: asyncio.Future[None] | None = None

    def soon(self, call: Callable[[], None]) -> None:
        """Call after everything that is ready to run."""
        self._loop.call_soon(call)

    def run(self, work: Callable[[], None], done: Done) -> None:
        """Do some work in the thread."""
        self._task = self._loop.run_in_executor(self._pool, work)
        self._task.add_done_callback(lambda task: self._ended(task, done))

    def _ended(self, task: asyncio.Future[None], done: Done) -> None:
        self._task = None
        error = task.exception()
        if error is not None and not isinstance(error, DiskError):
            error = DiskError(f"the journal cannot be written: {error}")
        done(error)

    async def rest(self) -> None:
        """Wait for the work, or for one turn of the loop."""
        if self._task is not None:
            await asyncio.wait([self._task])
        await asyncio.sleep(0)

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown()

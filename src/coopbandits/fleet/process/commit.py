"""Writing the journal beside the event loop: batches of events, and snapshots.

`GroupCommit` is for durability "power": all events that wait share one sync. While a batch is being
written, the next one gathers. An answer waits for the batch that its event is in, and so does every
message to a neighbour (`shell.py`). `BesideRewriter` is for "process": it writes snapshots in the
background, while events go to the old file. `Thread` runs what takes the disk's time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from coopbandits.fleet.process.shell import Shell, unavailable
from coopbandits.fleet.service import Stored
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.journal import Batch, Journal, Rewrite


class GroupCommit:
    """Writes a journal's events in batches, and between two of them a new snapshot where asked.

    `fail` is told of what is no failure of the disk, such as a state that cannot be exported.
    """

    def __init__(
        self, shell: Shell, worker: Worker, fail: Callable[[str, Exception], None]
    ) -> None:
        self.shell, self.worker, self._fail = shell, worker, fail
        self.journal = shell.journal
        self._waiting: deque[tuple[int, Stored]] = deque()
        self._launching = self._flying = False
        self._failure = ""
        self._export: Callable[[], dict[str, Any]] | None = None
        self.journal.committer = self.journal.rewriter = shell.commit = self

    def wait(self, then: Stored) -> None:
        """Call `then` once all events so far are on disk, or with the reason why not."""
        if self.is_stored:
            then(None)
        elif self._trouble:
            then(unavailable(self._trouble))
        else:
            self._waiting.append((self.journal.appended, then))

    @property
    def _trouble(self) -> str:
        return self._failure or self.journal.trouble

    @property
    def is_stored(self) -> bool:
        """Whether there is nothing that a loss of power could undo."""
        return self.journal.stored == self.journal.appended

    def gathered(self) -> None:
        """Launch a batch, once everything that is ready to run has added to it."""
        if not self._launching and not self._flying:
            self._launching = True
            self.worker.soon(self._launch)

    def request(self, export: Callable[[], dict[str, Any]]) -> None:
        """Write the journal anew, once the batch that is on its way has landed."""
        self._export = export
        self.gathered()

    def _launch(self) -> None:
        self._launching = False
        try:
            self._write()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Let nobody wait for what will not be written."""
        self._failure = "the agent failed in writing its journal"
        self._tell()
        self._fail("writing its journal", error)

    def _write(self) -> None:
        export, self._export = self._export, None
        if export is not None:
            rewrite = self.journal.begin_rewrite(export())
            self._flying = True
            self.worker.run(
                lambda: self.journal.write_anew(rewrite),
                lambda error: self._rewritten(rewrite, error),
            )
        elif (batch := self.journal.take()) is not None:
            self._flying = True
            self.worker.run(
                lambda: self.journal.write(batch), lambda error: self._landed(batch, error)
            )
        else:
            self._tell()

    def _landed(self, batch: Batch, error: DiskError | None) -> None:
        self.journal.finish(batch, error)
        self._go_on()

    def _rewritten(self, rewrite: Rewrite, error: DiskError | None) -> None:
        self.journal.finish_rewrite(rewrite, error)
        self._go_on()

    def _go_on(self) -> None:
        """Write what gathered meanwhile, and tell those who wait."""
        self._flying = False
        if not self.is_stored or self._export is not None:
            self.gathered()
        self._tell()

    def _tell(self) -> None:
        """Tell those whose events are on disk, or all if nothing more will be."""
        stored, trouble = self.journal.stored, self._trouble
        while self._waiting and (trouble or self._waiting[0][0] <= stored):
            number, then = self._waiting.popleft()
            error = None if number <= stored else unavailable(trouble)
            # Each in a call of its own, so that none can keep another from being told.
            self.worker.soon(partial(then, error))
        self.shell.flush()

    async def close(self) -> None:
        """Write what is left, and go back to writing at once."""
        while self._flying or self._launching:
            await self.worker.rest()
        self.journal.committer = self.journal.rewriter = self.shell.commit = None


class BesideRewriter:
    """Prepares a file in a worker, switches to it in the event loop, and has its folder synced."""

    def __init__(self, journal: Journal, worker: Worker) -> None:
        self.journal, self.worker = journal, worker
        self._busy = False
        journal.rewriter = self

    def request(self, export: Callable[[], dict[str, Any]]) -> None:
        """Begin, unless it is being done already."""
        if self._busy:
            return
        rewrite = self.journal.begin_rewrite(export())
        self._busy = True
        self.worker.run(
            lambda: self.journal.prepare(rewrite), lambda error: self._prepared(rewrite, error)
        )

    def _prepared(self, rewrite: Rewrite, error: DiskError | None) -> None:
        if error is None:
            try:
                self.journal.switch(rewrite)
            except DiskError as failure:
                error = failure
        self.journal.finish_rewrite(rewrite, error)
        if error is None:
            self.worker.run(self.journal.disk.settle, self._settled)
        else:
            self._busy = False

    def _settled(self, error: DiskError | None) -> None:
        self.journal.finish_settling(error)
        self._busy = False

    async def close(self) -> None:
        """Wait until it is done, and leave the journal to write itself anew."""
        while self._busy:
            await self.worker.rest()
        self.journal.rewriter = None


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

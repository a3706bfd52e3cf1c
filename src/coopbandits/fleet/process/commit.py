"""Group commit: all events that wait share one sync, which runs beside the event loop.

While a batch is being written, the next one gathers. An answer waits for the batch that its event
is in, and so does every message to a neighbour: nobody is told of what a loss of power could undo.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from coopbandits.fleet.address import Address
from coopbandits.fleet.process.worker import Worker
from coopbandits.fleet.service import Stored, UnavailableError
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.journal import Batch, Journal, Rewrite
from coopbandits.fleet.transport import LinkEvents, Transport

MOST_UNSENT = 1000
"""So many messages to one neighbour wait for the disk; then its link is closed."""


class GroupCommit:
    """Writes a journal's events in batches, and between two of them a new snapshot where asked.

    `fail` is told of what is no failure of the disk, such as a state that cannot be exported.
    """

    def __init__(
        self,
        journal: Journal,
        outbox: Outbox,
        worker: Worker,
        fail: Callable[[str, Exception], None],
    ) -> None:
        self.journal, self.outbox, self.worker, self._fail = journal, outbox, worker, fail
        self._waiting: deque[tuple[int, Stored]] = deque()
        self._launching = self._flying = False
        self._failure = ""
        self._export: Callable[[], dict[str, Any]] | None = None
        journal.committer = journal.rewriter = outbox.committer = self

    def wait(self, then: Stored) -> None:
        """Call `then` once all events so far are on disk, or with the reason why not."""
        if self.is_stored:
            then(None)
        elif self._trouble:
            then(_unavailable(self._trouble))
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
            error = None if number <= stored else _unavailable(trouble)
            # Each in a call of its own, so that none can keep another from being told.
            self.worker.soon(partial(then, error))
        self.outbox.flush()

    async def close(self) -> None:
        """Write what is left, and go back to writing every event by itself."""
        while self._flying or self._launching:
            await self.worker.rest()
        self.journal.committer = self.journal.rewriter = None


def _unavailable(trouble: str) -> UnavailableError:
    return UnavailableError(f"{trouble}; ask again, a reward counts once")


class Outbox(Transport):
    """A transport that sends a message only once everything that it may tell of is on disk."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.committer: GroupCommit | None = None
        self._unsent: deque[tuple[int, str, bytes, str]] = deque()

    async def start(self, events: LinkEvents) -> None:
        """Start the transport."""
        await self.transport.start(events)

    async def stop(self) -> None:
        """Stop the transport."""
        await self.transport.stop()

    def send(self, peer: str, data: bytes) -> bool:
        """Send now, or after the disk is done; then it is not known yet whether there is a link."""
        if self._may_send():
            return self.transport.send(peer, data)
        if sum(one[1] == peer for one in self._unsent) >= MOST_UNSENT:
            self.forget(peer)
            self.transport.drop(peer, f"{MOST_UNSENT} messages wait for the disk")
            return False
        self._wait(peer, data, "")
        return True

    def drop(self, peer: str, reason: str) -> None:
        """Close a link, after what is to be sent before."""
        waits = any(one[1] == peer for one in self._unsent)
        if waits and self.committer is not None and not self.committer.journal.trouble:
            self._wait(peer, b"", reason)
            return
        self.forget(peer)
        self.transport.drop(peer, reason)

    def move(self, peer: str, address: Address) -> None:
        """Dial a neighbour at another address."""
        self.transport.move(peer, address)

    def _may_send(self) -> bool:
        return self.committer is None or (self.committer.is_stored and not self._unsent)

    def _wait(self, peer: str, data: bytes, reason: str) -> None:
        assert self.committer is not None  # noqa: S101  `_may_send` was asked
        self._unsent.append((self.committer.journal.appended, peer, data, reason))

    def flush(self) -> None:
        """Send what may be sent by now."""
        stored = self.committer.journal.stored if self.committer else 0
        while self._unsent and self._unsent[0][0] <= stored:
            _, peer, data, reason = self._unsent.popleft()
            if data:
                self.transport.send(peer, data)
            else:
                self.transport.drop(peer, reason)

    def forget(self, peer: str) -> None:
        """Drop what waits for a link that is no more."""
        self._unsent = deque(one for one in self._unsent if one[1] != peer)

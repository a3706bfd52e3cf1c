"""Group commit: all events that wait share one sync, which runs beside the event loop.

While a batch is being written, the next one gathers. An answer waits for the batch that its event
is in, and so does every message to a neighbour: nobody is told of what a loss of power could undo.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from coopbandits.fleet.service import Stored, UnavailableError
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.journal import Batch, Journal
from coopbandits.fleet.transport import LinkEvents, Transport

MOST_UNSENT = 1000
"""So many messages to one neighbour wait for the disk; then its link is closed."""


class GroupCommit:
    """Writes a journal's events in batches; make it in a running event loop."""

    def __init__(self, journal: Journal, outbox: Outbox) -> None:
        self.journal, self.outbox = journal, outbox
        self._loop = asyncio.get_running_loop()
        self._worker = ThreadPoolExecutor(1, "journal")
        self._waiting: deque[tuple[int, Stored]] = deque()
        self._launching = False
        self._flight: asyncio.Future[None] | None = None
        journal.committer = outbox.committer = self

    def wait(self, then: Stored) -> None:
        """Call `then` once all events so far are on disk, or with the reason why not."""
        if self.is_stored:
            then(None)
        elif self.journal.trouble:
            then(_unavailable(self.journal.trouble))
        else:
            self._waiting.append((self.journal.appended, then))

    @property
    def is_stored(self) -> bool:
        """Whether there is nothing that a loss of power could undo."""
        return self.journal.stored == self.journal.appended

    def gathered(self) -> None:
        """Launch a batch, once everything that is ready to run has added to it."""
        if not self._launching and self._flight is None:
            self._launching = True
            self._loop.call_soon(self._launch)

    def _launch(self) -> None:
        self._launching = False
        batch = self.journal.take()
        if batch is None:
            self.stored()
            return
        self._flight = self._loop.run_in_executor(self._worker, self.journal.write, batch)
        self._flight.add_done_callback(lambda done: self._land(batch, done))

    def _land(self, batch: Batch, done: asyncio.Future[None]) -> None:
        self._flight = None
        self.landed(batch, done.exception())

    def landed(self, batch: Batch, error: BaseException | None) -> None:
        """Note what became of a batch, write what gathered meanwhile, and tell those who wait."""
        if error is not None and not isinstance(error, DiskError):
            error = DiskError(f"the journal cannot be written: {error}")
        self.journal.finish(batch, error)
        if not self.is_stored:
            self.gathered()
        self.stored()

    def stored(self) -> None:
        """Tell those whose events are on disk, or all if the journal is in trouble."""
        stored, trouble = self.journal.stored, self.journal.trouble
        while self._waiting and (trouble or self._waiting[0][0] <= stored):
            number, then = self._waiting.popleft()
            # Each in a call of its own, so that none can keep another from being told.
            self._loop.call_soon(then, None if number <= stored else _unavailable(trouble))
        self.outbox.flush()

    async def close(self) -> None:
        """Write what is left, and go back to writing every event by itself."""
        while self._flight is not None or self._launching:
            await asyncio.sleep(0) if self._flight is None else await asyncio.wait([self._flight])
        self.journal.committer = None
        self._worker.shutdown()


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

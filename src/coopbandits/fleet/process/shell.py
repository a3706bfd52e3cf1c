"""The shell around a node: the only place where writing to disk and sending are ordered.

A node does no I/O. Every event of it goes through `Shell`, and may leave records in the journal's
buffer and actions, in order. The shell writes the records first and then carries out the actions:
so neither a peer nor an application learns of anything that a crash could undo. If a peer knew of a
reward that the agent forgets in a crash, the agent would later contradict itself, or a retried
reward would count twice.

How records are written depends on the durability:

- "process": `Shell.settle` writes at once, which takes microseconds. `BackgroundRewriter` writes
  snapshots in a thread, while events go to the old file.
- "power": every write needs a sync, which takes milliseconds, so events share them (group commit).
  While `GroupCommit` has one batch written in a thread, the next one gathers. Each answer and each
  message waits for the batch of the events before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from coopbandits.fleet.address import Address
from coopbandits.fleet.document.seal import Signed
from coopbandits.fleet.identity.names import Revoked
from coopbandits.fleet.identity.notary import Notary
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import Stored, UnavailableError
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.journal import Batch, Journal, Rewrite
from coopbandits.fleet.transport import (
    Action,
    CloseLink,
    DialAgent,
    LookUpSeeds,
    MovePeer,
    Resume,
    SendBytes,
    Transport,
)

MOST_UNSENT = 1000
"""Messages to one peer that may wait for the disk; with more its link is closed."""


class Shell:
    """Passes events to a node, writes the journal, and then carries out the node's actions.

    Parameters
    ----------
    node : Node
        The protocol.
    transport : Transport
        Its links.
    clock : callable
        Seconds since 1970, never going back.
    revoked : Revoked
        The file with revoked ids.
    notary : Notary
        Signs entries; its files may change.

    Attributes
    ----------
    commit : GroupCommit or None
        Writes the journal with durability "power", once the event loop runs.
    """

    def __init__(
        self,
        node: Node,
        transport: Transport,
        clock: Callable[[], float],
        revoked: Revoked,
        notary: Notary,
    ) -> None:
        self.node, self.transport, self.clock = node, transport, clock
        self.revoked, self.notary = revoked, notary
        self.journal = node.bandits.journal
        self.commit: GroupCommit | None = None
        # Actions that wait for the disk, with the number of the last event before each.
        self._unsent: deque[tuple[int, Action]] = deque()
        self._resuming: deque[Callable[[], None]] = deque()
        self.settle()

    # Events

    def link_up(self, peer: str) -> None:
        self.node.link_up(peer, self.clock(), self.transport.arrival_of(peer))
        self.settle()

    def received(self, peer: str, data: bytes) -> None:
        self.node.received(peer, data, self.clock())
        self.settle()

    def give_up(self, peer: str, error: Exception) -> None:
        """Close a link whose bytes could not be handled."""
        self.node.give_up(peer, error, self.clock())
        self.settle()

    def link_down(self, peer: str, reason: str) -> None:
        self._forget(peer)  # these messages were meant for this link: a new one starts from scratch
        self.node.link_down(peer, reason, self.clock())
        self.settle()

    def refused(self, who: str, reason: str) -> None:
        """Count a connection that could not prove that it is a peer's."""
        self.node.refused(who, reason, self.clock())

    def tick(self) -> None:
        """End rounds that are due."""
        self.node.tick(self.clock())
        self.settle()

    def beat(self) -> None:
        """Do the upkeep, about once a second: links, files that may have changed, the journal."""
        now = self.clock()
        if self.revoked.refresh():
            self.node.revoke(self.revoked.names, now)
        self.notary.refresh()
        self.node.beat(now)
        try:
            self.journal.maintain(self.node.bandits.export)
        except DiskError as error:
            self.node.note_trouble(str(error))
        else:
            self.node.note_trouble("")
        self.settle()

    def leave(self) -> None:
        """Say goodbye to all peers."""
        self.node.leave(self.clock())
        self.settle()

    def adopt(self, signed: Signed) -> bool:
        """Adopt a document of the cluster that was submitted here; return whether it is new.

        Raises
        ------
        DiskError
            It could not be stored.
        """
        try:
            is_new = self.node.adopt(signed, self.clock())
        finally:
            self.settle()  # a rejected rival of the present document is stored as well
        if self.commit is None and self.journal.trouble:
            raise DiskError(self.journal.trouble)
        return is_new

    def _call_failed(self, cause: object, reason: str) -> None:
        self.node.call_failed(cause, reason, self.clock())
        self.settle()

    def _found_seeds(self, places: list[Address]) -> None:
        self.node.found_seeds(places, self.clock())
        self.settle()

    # The order of writing and sending

    def settle(self) -> None:
        """Write what the last event left, and carry out the actions that need not wait longer."""
        for action in self.node.take_actions():
            self._add(action)
        if self.commit is None:
            self.journal.flush()
            if self.journal.trouble:
                self.node.note_trouble(self.journal.trouble)
        if self._unsent:
            self.send_stored()
        while self._resuming:  # what waited may lead to other events
            self._resuming.popleft()()

    def wait(self, then: Stored) -> None:
        """Call `then` once all events so far are on disk, or with the reason why they are not."""
        self.settle()
        if self.commit is not None:
            self.commit.wait(then)
        elif self.journal.stored < self.journal.appended:
            then(unavailable(self.journal.trouble))
        else:
            then(None)

    def send_stored(self) -> None:
        """Carry out the actions whose preceding events are on disk."""
        while self._unsent and self._unsent[0][0] <= self.journal.stored:
            self._carry_out(self._unsent.popleft()[1])

    def _add(self, action: Action) -> None:
        """Queue a message; carry out at once what does not depend on the disk."""
        match action:
            case SendBytes(peer, _, waits=True):
                queue_is_long = len(self._unsent) >= MOST_UNSENT
                if queue_is_long and self._waiting_for(peer) >= MOST_UNSENT:
                    self._forget(peer)
                    self._carry_out(CloseLink(peer, f"{MOST_UNSENT} messages wait for the disk"))
                    return
            case CloseLink(peer, _):
                if self.journal.trouble:
                    self._forget(peer)  # they cannot be sent
                if not self._waiting_for(peer):
                    self._carry_out(action)
                    return
            case _:
                self._carry_out(action)
                return
        self._unsent.append((self.journal.appended, action))

    def _waiting_for(self, peer: str) -> int:
        return sum(_is_about(action, peer) for _, action in self._unsent)

    def _forget(self, peer: str) -> None:
        self._unsent = deque(each for each in self._unsent if not _is_about(each[1], peer))

    def _carry_out(self, action: Action) -> None:
        match action:
            case SendBytes(peer, data, _):
                self.transport.send(peer, data)
            case CloseLink(peer, reason):
                self.transport.drop(peer, reason)
            case MovePeer(peer, address):
                self.transport.move(peer, address)
            case DialAgent(peer, address, cause):
                self.transport.call(peer, address, cause, partial(self._call_failed, cause))
            case LookUpSeeds(places):
                self.transport.look_up(places, self._found_seeds)
            case Resume(call):
                self._resuming.append(call)


def _is_about(action: Action, peer: str) -> bool:
    return isinstance(action, SendBytes | CloseLink) and action.peer == peer


def unavailable(trouble: str) -> UnavailableError:
    """Return the error of a request whose events could not be stored."""
    return UnavailableError(f"{trouble}; ask again, a reward counts once")


# Writing in a thread

Done = Callable[[DiskError | None], None]


class Worker(Protocol):
    """Does one piece of work at a time; tests let it take simulated time."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call in the event loop, after everything that is ready to run."""

    def run(self, work: Callable[[], None], done: Done) -> None:
        """Do some work, then call `done` in the event loop with its error, if any."""

    async def rest(self) -> None:
        """Wait for the work in progress, or for the next turn of the event loop."""


class DiskThread:
    """A worker in a thread of its own; make it in a running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(1, "journal")
        self._task: asyncio.Future[None] | None = None

    def soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def run(self, work: Callable[[], None], done: Done) -> None:
        self._task = self._loop.run_in_executor(self._pool, work)
        self._task.add_done_callback(lambda task: self._ended(task, done))

    def _ended(self, task: asyncio.Future[None], done: Done) -> None:
        self._task = None
        error = task.exception()
        if error is not None and not isinstance(error, DiskError):
            error = DiskError(f"the journal cannot be written: {error}")
        done(error)

    async def rest(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])
        await asyncio.sleep(0)

    def close(self) -> None:
        self._pool.shutdown()


class GroupCommit:
    """Writes a journal's events in batches, and snapshots between two batches.

    `fail` is called with errors other than the disk's, such as a state that cannot be exported.
    """

    def __init__(
        self, shell: Shell, worker: Worker, fail: Callable[[str, Exception], None]
    ) -> None:
        self.shell, self.worker, self._fail = shell, worker, fail
        self.journal = shell.journal
        self._waiting: deque[tuple[int, Stored]] = deque()  # by the number of the last event
        self._scheduled = self._in_flight = False
        self._failure = ""
        self._export: Callable[[], dict[str, Any]] | None = None  # of a requested snapshot
        self.journal.committer = self.journal.rewriter = shell.commit = self

    def wait(self, then: Stored) -> None:
        """Call `then` once all events so far are on disk, or with the reason why they are not."""
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
        """Whether a loss of power would undo nothing."""
        return self.journal.stored == self.journal.appended

    def gathered(self) -> None:
        """Write a batch, once everything that is ready to run has added its events."""
        if not self._scheduled and not self._in_flight:
            self._scheduled = True
            self.worker.soon(self._launch)

    def request(self, export: Callable[[], dict[str, Any]]) -> None:
        """Write a snapshot, once the batch in flight is written."""
        self._export = export
        self.gathered()

    def _launch(self) -> None:
        self._scheduled = False
        try:
            self._write()
        except Exception as error:
            self._failure = "the agent failed in writing its journal"
            self._answer()  # with that reason: nothing more will be written
            self._fail("writing its journal", error)

    def _write(self) -> None:
        export, self._export = self._export, None
        if export is not None:
            rewrite = self.journal.begin_rewrite(export())
            self._in_flight = True
            self.worker.run(
                lambda: self.journal.replace_file(rewrite),
                lambda error: self._rewritten(rewrite, error),
            )
        elif (batch := self.journal.take()) is not None:
            self._in_flight = True
            self.worker.run(
                lambda: self.journal.write(batch), lambda error: self._written(batch, error)
            )
        else:
            self._answer()

    def _written(self, batch: Batch, error: DiskError | None) -> None:
        self.journal.finish(batch, error)
        self._continue()

    def _rewritten(self, rewrite: Rewrite, error: DiskError | None) -> None:
        self.journal.finish_rewrite(rewrite, error)
        self._continue()

    def _continue(self) -> None:
        self._in_flight = False
        if not self.is_stored or self._export is not None:
            self.gathered()
        self._answer()

    def _answer(self) -> None:
        """Answer the requests whose events are on disk, or all if nothing more will be written."""
        stored, trouble = self.journal.stored, self._trouble
        while self._waiting and (trouble or self._waiting[0][0] <= stored):
            number, then = self._waiting.popleft()
            error = None if number <= stored else unavailable(trouble)
            # Each in a call of its own, so that an error in one does not keep the others waiting.
            self.worker.soon(partial(then, error))
        self.shell.send_stored()

    async def close(self) -> None:
        """Write what is left, and return to writing at once."""
        while self._in_flight or self._scheduled:
            await self.worker.rest()
        self.journal.committer = self.journal.rewriter = self.shell.commit = None


class BackgroundRewriter:
    """Writes snapshots while events go to the old file.

    A worker prepares the new file, the event loop switches to it, so that no event can come in
    between, and the worker syncs the folder.
    """

    def __init__(self, journal: Journal, worker: Worker) -> None:
        self.journal, self.worker = journal, worker
        self._busy = False
        journal.rewriter = self

    def request(self, export: Callable[[], dict[str, Any]]) -> None:
        """Begin a snapshot, unless one is being written."""
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
        """Wait for the snapshot in progress, and return to writing them at once."""
        while self._busy:
            await self.worker.rest()
        self.journal.rewriter = None

"""The journal: a write-ahead log of what happened to an agent.

The first record identifies the owner, the second holds a snapshot of its state, and the rest are
the events since (`records.py` has the format). An agent is a state machine, so replaying the events
on the snapshot restores it exactly. Once the events far outgrow the snapshot, a new file with a new
snapshot replaces the old one.

**Opening** writes nothing. The first snapshot replaces the file, after the bytes that a crash left
at the end of the old one have been kept beside it.

**Events** gather in batches, each of which is one write and, with durability "power", one sync.
`flush` writes a batch at once; a committer takes one, writes it in another thread, and reports the
result. An event takes effect when it is gathered, so it must not be acknowledged, nor a message
that depends on it be sent, before its batch is stored (`process/shell.py`).

**Failures.** After a batch that could not be written, the file and the state in memory disagree.
`trouble` says so and further events are rejected until a snapshot, which contains everything that
took effect, has replaced the file.

**Snapshots** are written beside the event loop too, since a disk may take seconds to sync one.
Meanwhile events gather, or, without a committer, go to the old file and finally to the new one as
well (`Rewrite.tail`). `begin_rewrite`, `append`, `take` and all `finish` methods run in the event
loop; `prepare`, `switch`, `replace_file` and `write` may run in another thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.storage import records
from coopbandits.fleet.storage.disk import Disk, DiskError, DoubtError
from coopbandits.fleet.storage.records import KINDS, Adopted, Event, decode_event, encode_event

COMPACT_BYTES = 1 << 21
"""A journal is compacted once its events take more bytes than this,"""
COMPACT_GROWTH = 8
"""and more than this many times the snapshot."""
MOST_TAIL = 1 << 26
"""A snapshot is abandoned once this many bytes of events came while it was written."""

T = TypeVar("T")


class Batch(NamedTuple):
    """Encoded events to be written together, and the number of the last one."""

    data: bytes
    last: int


@dataclass(eq=False)
class Rewrite:
    """A file that is about to replace the journal.

    Attributes
    ----------
    data : bytes
        Its beginning, up to the snapshot.
    snapshot_size : int
        Bytes of the snapshot alone.
    last : int
        Number of the last event that the snapshot contains.
    gathered : list of bytes
        Those of its events that no batch has taken; they gather again if the rewrite fails.
    tail : bytearray
        What was written to the old file since.
    spoiled : str
        Why the tail lacks something that the agent remembers; empty if it is complete.
    """

    data: bytes
    snapshot_size: int
    last: int
    gathered: list[bytes]
    tail: bytearray = field(default_factory=bytearray)
    spoiled: str = ""

    def add(self, data: bytes) -> None:
        self.tail += data
        if len(self.tail) > MOST_TAIL:
            self.tail.clear()
            self.spoiled = f"over {MOST_TAIL} bytes of events came while a snapshot was written"


class Committer(Protocol):
    """Writes batches of events."""

    def gathered(self) -> None:
        """An event has gathered."""


class Rewriter(Protocol):
    """Writes snapshots beside the event loop."""

    def request(self, export: Callable[[], dict[str, Any]]) -> None:
        """Write a snapshot of what `export` returns once the previous write is done."""


class Journal:
    """A snapshot on disk, and the events since.

    Parameters
    ----------
    disk : Disk
        Where it is stored.
    identity : dict
        Plain data that identifies the owner; it must be equal whenever the journal is opened.
    origin : dict
        Plain data for a new journal, such as the identity word. An existing journal keeps what it
        was created with.

    Attributes
    ----------
    snapshot : dict
        The state it was opened with; empty for a new agent, and after the next snapshot.
    events : dict of int to list of Event
        The events since, by the number of the bandit; empty after the next snapshot.
    adopted : Adopted or None
        The cluster's document, which every file contains beside the state.
    trouble : str
        Why nothing can be written, in one sentence, until the next snapshot; empty if it can.
    read_only : bool
        Whether nothing has been written since it was opened.
    torn : int
        Bytes that a crash left at the end, which the first snapshot cuts off.
    appended, stored : int
        Events gathered, and those of them that are on disk.
    rewrite_error : DiskError or None
        Why the last snapshot could not be written.
    long_bytes, long_growth : int
        A new snapshot is due once events take more bytes than this, and than this many snapshots.
    """

    def __init__(self, disk: Disk, identity: dict[str, Any], origin: dict[str, Any]) -> None:
        self.disk, self._marked = disk, disk.durability == "power"
        self.snapshot: dict[str, Any] = {}
        self.events: dict[int, list[Event]] = {}
        self.adopted: Adopted | None = None
        self.trouble, self.read_only = "", True
        self.appended = self.stored = 0
        self.committer: Committer | None = None
        self.rewriter: Rewriter | None = None
        self.rewrite_error: DiskError | None = None
        self.long_bytes, self.long_growth = COMPACT_BYTES, COMPACT_GROWTH
        self._rewrite: Rewrite | None = None
        self._cut = b""
        self._gathered: list[bytes] = []
        self._held: list[tuple[Event, int]] = []
        self._sequence = self._flying = 0
        self._snapshot_size = self._events_size = self._file_size = 0
        data = disk.read()
        self.origin, self.torn = origin, 0
        if data is not None:
            self._file_size = len(data)
            self._read(data, identity)
        self._head = msgspec.msgpack.encode(records.Head(identity, self.origin))

    def _read(self, data: bytes, identity: dict[str, Any]) -> None:
        found = records.read_records(data)
        if [record.kind for record in found.records[:2]] != [records.HEAD, records.SNAPSHOT]:
            raise records.damaged(found.end, len(data))  # both are written at once
        head, snapshot, *rest = found.records
        whose = decode_record(head, records.Head)
        check_identity(whose.identity, identity)
        self.origin, self.snapshot = whose.origin, decode_record(snapshot, dict[str, Any])
        for record in rest:
            if record.kind == records.MARK:
                continue
            event = decode_event(record)
            if isinstance(event, Adopted):
                self.adopted = event
            else:
                self.events.setdefault(record.bandit, []).append(event)
        self._sequence = found.sequence
        self._cut = data[found.end :]
        self.torn = len(self._cut)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._file_size + self._events_size

    @property
    def is_long(self) -> bool:
        """Whether a new snapshot is due."""
        return self._events_size > max(self.long_bytes, self.long_growth * self._snapshot_size)

    # Writing

    def append(self, event: Event, bandit: int = 0) -> None:
        """Gather an event, after those held back, for the next batch.

        It may take effect at once, but must not be acknowledged before the batch is on disk.
        """
        if self.trouble:
            raise DiskError(self.trouble)
        if self._held:
            self._gathered.append(self._encode_held())
        self._gathered.append(self._encode(event, bandit))
        self.appended += 1
        if self.committer is not None:
            self.committer.gathered()

    def adopt(self, event: Adopted) -> None:
        """Gather the cluster's document, which replaces the previous one."""
        self.append(event)
        self.adopted = event

    def hold(self, event: Event, bandit: int) -> None:
        """Hold an event back until the next one is appended; a crash before that loses it."""
        self._held.append((event, bandit))

    def _encode_held(self) -> bytes:
        held, self._held = self._held, []
        return b"".join(self._encode(event, bandit) for event, bandit in held)

    def _encode(self, event: Event, bandit: int = 0) -> bytes:
        self._sequence += 1
        return records.encode_record(
            self._sequence, KINDS[type(event)], encode_event(event), bandit
        )

    # Snapshots

    def rewrite(self, export: Callable[[], dict[str, Any]]) -> None:
        """Replace the file by a snapshot, beside the event loop if there is a rewriter."""
        if self.rewriter is None:
            self.compact(export())
        else:
            self.rewriter.request(export)

    def maintain(self, export: Callable[[], dict[str, Any]]) -> None:
        """Write a snapshot after trouble, or if one is due; raise DiskError if that fails."""
        if self.trouble:
            self.rewrite(export)
        self.check()
        if self.is_long:
            self.rewrite(export)
            if self.rewrite_error is not None:
                raise self.rewrite_error

    def compact(self, snapshot: dict[str, Any]) -> None:
        """Replace the file by a snapshot, at once."""
        rewrite = self.begin_rewrite(snapshot)
        try:
            self.replace_file(rewrite)
        except DiskError as error:
            self.finish_rewrite(rewrite, error)
            raise
        self.finish_rewrite(rewrite, None)

    def begin_rewrite(self, snapshot: dict[str, Any]) -> Rewrite:
        """Return the new file, with a snapshot that contains everything appended so far.

        No batch may be in flight.
        """
        if self._held and not self.trouble:
            # The snapshot contains them. They go to the old file as well, so that sequence numbers
            # of later events are consecutive in both files.
            self._gathered.append(self._encode_held())
            self.appended += 1
        self._held = []
        if self.committer is None:
            self.flush()  # the old file takes events until the new one is in its place
        body = msgspec.msgpack.encode(snapshot)
        gathered, self._gathered = self._gathered, []
        self._rewrite = Rewrite(self._encode_file(body), len(body), self.appended, gathered)
        return self._rewrite

    def _encode_file(self, snapshot: bytes) -> bytes:
        """Return a file whose last sequence number is that of the last event, as in the old one.

        So the next event continues both files. Only a new journal, which has no old file, may have
        too few events for that.
        """
        bodies = [(records.HEAD, self._head), (records.SNAPSHOT, snapshot)]
        if self.adopted is not None:
            bodies.append((KINDS[Adopted], encode_event(self.adopted)))
        bodies.append((records.MARK, records.MARK_BODY))
        first = max(1, self._sequence + 1 - len(bodies))
        self._sequence = first + len(bodies) - 1
        written = [
            records.encode_record(at, kind, body) for at, (kind, body) in enumerate(bodies, first)
        ]
        return b"".join([records.encode_file_header(marked=self._marked), *written])

    def replace_file(self, rewrite: Rewrite) -> None:
        """Write the new file and switch to it; in any thread if a committer gathers events."""
        self.prepare(rewrite)
        self.switch(rewrite)
        self.disk.settle()

    def prepare(self, rewrite: Rewrite) -> None:
        """Write the new file beside the old one."""
        if self._cut:
            self.disk.keep("cut", self._cut)
            self._cut = b""
        self.disk.prepare(rewrite.data)

    def switch(self, rewrite: Rewrite) -> None:
        """Continue in the new file, unless the old one failed meanwhile."""
        if rewrite.spoiled:
            self.disk.discard()
            raise DiskError(rewrite.spoiled)
        self.disk.switch(bytes(rewrite.tail))

    def finish_rewrite(self, rewrite: Rewrite, error: DiskError | None) -> None:
        """Record the result of a rewrite."""
        self._rewrite, self.rewrite_error = None, error
        if error is not None:
            self._gathered = rewrite.gathered + self._gathered
            # The old file still takes events, unless it cannot or has been replaced in part.
            if self.trouble or self.read_only or isinstance(error, DoubtError):
                self.trouble = str(error)
            return
        self._events_size = len(rewrite.tail)
        self._snapshot_size = rewrite.snapshot_size
        self._file_size = len(rewrite.data)
        self.snapshot, self.events = {}, {}
        self.trouble, self.read_only = "", False
        self.stored = max(self.stored, rewrite.last)

    def finish_settling(self, error: DiskError | None) -> None:
        """Record whether the new file's name would survive a loss of power."""
        if error is not None:
            self.trouble = str(error)

    def check(self) -> None:
        """Raise DiskError if the journal is in trouble, or its file was moved or changed."""
        if self.trouble:
            raise DiskError(self.trouble)
        try:
            self.disk.check()
        except DiskError as error:
            self.trouble = str(error)
            raise

    # Batches

    def take(self) -> Batch | None:
        """Return the next batch; None if there is nothing, or the last one is in flight."""
        if self._flying or not self._gathered or self.trouble:
            return None
        data, self._gathered = b"".join(self._gathered), []
        if self._marked:
            self._sequence += 1
            data += records.encode_mark(self._sequence)
        self._flying = self.appended
        return Batch(data, self.appended)

    def write(self, batch: Batch) -> None:
        """Write and sync a batch, in any thread."""
        if self.trouble:
            raise DiskError(self.trouble)
        self.disk.append(batch.data)
        if self._marked:
            self.disk.sync()

    def flush(self) -> None:
        """Write what has gathered, unless a committer does; `trouble` reports a failure."""
        if self.committer is not None or not self._gathered:
            return
        batch = self.take()
        if batch is None:
            return
        error: DiskError | None = None
        try:
            self.write(batch)
        except DiskError as failure:
            error = failure
        self.finish(batch, error)

    def finish(self, batch: Batch, error: DiskError | None) -> None:
        """Record the result of a batch."""
        self._flying = 0
        if error is not None:
            self.trouble = str(error)
            if self._rewrite is not None:
                self._rewrite.spoiled = self.trouble
            return
        self.stored = batch.last
        self._events_size += len(batch.data)
        if self._rewrite is not None:
            self._rewrite.add(batch.data)


class BanditJournal(NamedTuple):
    """One bandit's part of a journal: its number, state (empty if new), and the events since."""

    journal: Journal
    number: int
    snapshot: dict[str, Any]
    events: list[Event]


def decode_record(record: records.Record, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(record.body, type=kind, strict=False)
    except records.UNREADABLE as error:
        raise records.unreadable(record.at, error) from error


def read_identity(data: bytes) -> dict[str, Any]:
    """Return the identity that a journal file was written with."""
    found = records.read_records(data)
    if not found.records or found.records[0].kind != records.HEAD:
        raise records.damaged(found.end, len(data))
    return decode_record(found.records[0], records.Head).identity


def check_identity(found: dict[str, Any], identity: dict[str, Any]) -> None:
    """Reject the journal of another agent, cluster or form."""
    if unknown := sorted(found.keys() - identity.keys()):
        raise InputError(
            f"the journal's identity has {', '.join(unknown)}, which this version does not read; "
            "install the version that wrote it, or move its folder away to start without memory"
        )
    for key in identity:
        if found.get(key) != identity.get(key):
            raise InputError(
                f"the journal belongs to another configuration: its {key} is {found.get(key)!r}, "
                f"not {identity.get(key)!r}; name another folder, or move this one away"
            )

"""The journal: a write-ahead log of what happened to an agent.

The first record says whose journal it is, the second holds a snapshot of its state, and the rest
are the events since (`records.py` has the format). Opening reads the snapshot and the events; an
agent is a state machine, so replaying them restores it exactly. Once the events far outgrow the
snapshot, a new file with a new snapshot replaces the old one.

Opening writes nothing. The first snapshot replaces the file, once the bytes that a crash left at
the end of the old one are kept beside it.

Events gather in batches, each of which is one write and, with durability "power", one sync. `flush`
writes a batch at once; a committer takes one, writes it in another thread, and reports what became
of it. An event takes effect when it is gathered, so nobody may be told of it before its batch is
stored. A batch that cannot be written is trouble: no more events are taken until a snapshot, which
has what took effect.

A snapshot is written beside the event loop too, since a disk may take seconds to sync it. Events
that come meanwhile gather, or, without a committer, go to the old file and at the end to the new
one as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.storage import events, records
from coopbandits.fleet.storage.disk import Disk, DiskError, DoubtError
from coopbandits.fleet.storage.events import KINDS, Adopted, Event

COMPACT_BYTES = 1 << 21
"""A journal is compacted once its events take more bytes than this,"""
COMPACT_GROWTH = 8
"""and more than this many times the snapshot."""
MOST_TAIL = 1 << 26
"""A snapshot is given up once so many bytes of events came while it was written."""

T = TypeVar("T")


class Batch(NamedTuple):
    """Events to be written together, and synced once."""

    data: bytes
    last: int


@dataclass(eq=False)
class Rewrite:
    """A file that is to take the journal's place.

    Attributes
    ----------
    data : bytes
        What it begins with: a snapshot.
    snapshot_size : int
        How large that is by itself.
    last : int
        How many events that were gathered are in the snapshot.
    gathered : list of bytes
        Those of them that no batch has taken.
    tail : bytearray
        What was written to the old file since.
    spoiled : str
        Why the tail does not hold all that the agent remembers since then; empty if it does.
    """

    data: bytes
    snapshot_size: int
    last: int
    gathered: list[bytes]
    tail: bytearray = field(default_factory=bytearray)
    spoiled: str = ""

    def add(self, data: bytes) -> None:
        """Remember what was written to the old file, as long as that is not too much."""
        self.tail += data
        if len(self.tail) > MOST_TAIL:
            self.tail.clear()
            self.spoiled = f"a snapshot took the disk longer than {MOST_TAIL} bytes of events"


class Committer(Protocol):
    """Writes batches."""

    def gathered(self) -> None:
        """There is an event to write."""


class Rewriter(Protocol):
    """Writes the journal anew, beside the event loop."""

    def request(self, export: Callable[[], dict[str, Any]]) -> None:
        """Begin as soon as it can be done, with what `export` returns then."""


class Journal:
    """A snapshot on disk, and the events since.

    Parameters
    ----------
    disk : Disk
        Where it is stored.
    identity : dict
        Whose journal it is: plain data that must be equal whenever it is opened.
    origin : dict
        Plain data that a new journal stores, such as the identity word. An existing journal keeps
        what it was created with.

    Attributes
    ----------
    snapshot : dict
        The state it was opened with; empty for a new agent, and once a new one is written.
    told : dict of int to list of Event
        The events since, by the number of the bandit.
    adopted : Adopted or None
        The cluster's document; it stands beside the state, in every file.
    trouble : str
        Why nothing can be written, in one sentence; empty if it can. Ends with the next snapshot.
    read_only : bool
        Whether nothing has been written since it was opened.
    torn : int
        Bytes at the end that a crash left behind, which the first snapshot cuts off.
    appended, stored : int
        How many events were gathered, and how many of these are on disk.
    setback : DiskError or None
        Why the last snapshot could not be written.
    long_bytes, long_growth : int
        Events that take more bytes than this, and this many times more than the snapshot, are worth
        a new one.
    """

    def __init__(self, disk: Disk, identity: dict[str, Any], origin: dict[str, Any]) -> None:
        self.disk, self._marked = disk, disk.durability == "power"
        self.snapshot: dict[str, Any] = {}
        self.told: dict[int, list[Event]] = {}
        self.adopted: Adopted | None = None
        self.trouble, self.read_only = "", True
        self.appended = self.stored = 0
        self.committer: Committer | None = None
        self.rewriter: Rewriter | None = None
        self.setback: DiskError | None = None
        self.long_bytes, self.long_growth = COMPACT_BYTES, COMPACT_GROWTH
        self._rewrite: Rewrite | None = None
        self._cut = b""
        self._gathered: list[bytes] = []
        self._held: list[tuple[Event, int]] = []
        self._sequence = self._flying = 0
        self._snapshot_size = self._events_size = self._file_size = 0
        data = disk.read()
        self.is_new = data is None
        self.origin, self.torn = origin, 0
        if data is not None:
            self._file_size = len(data)
            self._read(data, identity)
        self._head = msgspec.msgpack.encode(records.Head(identity, self.origin))

    def _read(self, data: bytes, identity: dict[str, Any]) -> None:
        found = records.read_records(data)
        if [record.kind for record in found.records[:2]] != [records.HEAD, records.SNAPSHOT]:
            raise records.damaged(found.end, len(data))  # they are written at once
        head, snapshot, *rest = found.records
        whose = decode_record(head, records.Head)
        check_identity(whose.identity, identity)
        self.origin, self.snapshot = whose.origin, decode_record(snapshot, dict[str, Any])
        for record in rest:
            if record.kind == records.MARK:
                continue
            event = events.decode(record)
            if isinstance(event, Adopted):
                self.adopted = event
            else:
                self.told.setdefault(record.bandit, []).append(event)
        self._sequence = found.sequence
        self._cut = data[found.end :]
        self.torn = len(self._cut)

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self._file_size + self._events_size

    @property
    def is_long(self) -> bool:
        """Whether it is time for a new snapshot."""
        return self._events_size > max(self.long_bytes, self.long_growth * self._snapshot_size)

    # Writing

    def append(self, event: Event, bandit: int = 0) -> None:
        """Gather one event, after those held back, for the next batch.

        It may take effect at once, and nobody may be told before the batch is on disk.
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
        """Gather the cluster's document, which takes the place of the one before."""
        self.append(event)
        self.adopted = event

    def hold(self, event: Event, bandit: int) -> None:
        """Hold one event back until the next is written; a crash before that loses it."""
        self._held.append((event, bandit))

    def _encode_held(self) -> bytes:
        held, self._held = self._held, []
        return b"".join(self._encode(event, bandit) for event, bandit in held)

    def _encode(self, event: Event, bandit: int = 0) -> bytes:
        self._sequence += 1
        body = events.encode(event)
        return records.encode_record(self._sequence, KINDS[type(event)], body, bandit)

    def _mark(self) -> bytes:
        self._sequence += 1
        return records.encode_mark(self._sequence)

    # Writing anew

    def renew(self, export: Callable[[], dict[str, Any]]) -> None:
        """Replace everything by a snapshot, beside the event loop where there is one."""
        if self.rewriter is None:
            self.compact(export())
        else:
            self.rewriter.request(export)

    def mend(self, export: Callable[[], dict[str, Any]]) -> None:
        """Write it anew after trouble; raise DiskError if that lasts."""
        if self.trouble:
            self.renew(export)
        self.check()

    def shorten(self, export: Callable[[], dict[str, Any]]) -> None:
        """Write it anew where it is long."""
        if self.is_long:
            self.renew(export)
            if self.setback is not None:
                raise self.setback

    def compact(self, snapshot: dict[str, Any]) -> None:
        """Replace everything by a snapshot, at once."""
        rewrite = self.begin_rewrite(snapshot)
        try:
            self.write_anew(rewrite)
        except DiskError as error:
            self.finish_rewrite(rewrite, error)
            raise
        self.finish_rewrite(rewrite, None)

    def begin_rewrite(self, snapshot: dict[str, Any]) -> Rewrite:
        """Return what to write, with a snapshot that holds all that was appended.

        No batch may be on its way. What is held back is in the snapshot; it is written to the old
        file too, so that the events after it follow each other in both.
        """
        if self._held and not self.trouble:
            self._write_held()
        self._held = []
        if self.committer is None:
            self.flush()  # the old file takes events until the new one is there
        body = msgspec.msgpack.encode(snapshot)
        gathered, self._gathered = self._gathered, []
        self._rewrite = Rewrite(self._encode_file(body), len(body), self.appended, gathered)
        return self._rewrite

    def _write_held(self) -> None:
        self._gathered.append(self._encode_held())
        self.appended += 1

    def _encode_file(self, snapshot: bytes) -> bytes:
        """Return a file whose last sequence number is that of the last event, as in the old one."""
        bodies = [(records.HEAD, self._head), (records.SNAPSHOT, snapshot)]
        if self.adopted is not None:
            bodies.append((KINDS[Adopted], events.encode(self.adopted)))
        bodies.append((records.MARK, records.MARK_BODY))
        first = max(1, self._sequence + 1 - len(bodies))
        self._sequence = first + len(bodies) - 1
        written = [
            records.encode_record(at, kind, body) for at, (kind, body) in enumerate(bodies, first)
        ]
        return b"".join([records.encode_file_header(marked=self._marked), *written])

    def write_anew(self, rewrite: Rewrite) -> None:
        """Do all that takes the disk's time; in any thread, where a committer gathers events."""
        self.prepare(rewrite)
        self.switch(rewrite)
        self.disk.settle()

    def prepare(self, rewrite: Rewrite) -> None:
        """Write the new file beside the old one, in any thread."""
        if self._cut:
            self.disk.keep("cut", self._cut)
            self._cut = b""
        self.disk.prepare(rewrite.data)

    def switch(self, rewrite: Rewrite) -> None:
        """Go on in the new file, unless the old one failed meanwhile."""
        if rewrite.spoiled:
            self.disk.discard()
            raise DiskError(rewrite.spoiled)
        self.disk.switch(bytes(rewrite.tail))

    def finish_rewrite(self, rewrite: Rewrite, error: DiskError | None) -> None:
        """Note what became of it."""
        self._rewrite, self.setback = None, error
        if error is not None:
            self._gathered = rewrite.gathered + self._gathered
            if self.trouble or self.read_only or isinstance(error, DoubtError):
                self.trouble = str(error)
            return
        self._events_size = len(rewrite.tail)
        self._snapshot_size = rewrite.snapshot_size
        self._file_size = len(rewrite.data)
        self.snapshot, self.told = {}, {}
        self.trouble, self.read_only = "", False
        self.stored = max(self.stored, rewrite.last)

    def finish_settling(self, error: DiskError | None) -> None:
        """Note whether the new file's name is certain."""
        if error is not None:
            self.trouble = str(error)

    def check(self) -> None:
        """Raise DiskError if the file is not where it was, or was in trouble before."""
        if self.trouble:
            raise DiskError(self.trouble)
        try:
            self.disk.check()
        except DiskError as error:
            self.trouble = str(error)
            raise

    # Batches

    def take(self) -> Batch | None:
        """Return what has been gathered; None if there is nothing, or the last one is not done."""
        if self._flying or not self._gathered or self.trouble:
            return None
        data, self._gathered = b"".join(self._gathered), []
        if self._marked:
            data += self._mark()
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
        """Write what was gathered, where no committer does; what fails waits for a snapshot."""
        batch = self.take() if self.committer is None else None
        if batch is None:
            return
        error: DiskError | None = None
        try:
            self.write(batch)
        except DiskError as failure:
            error = failure
        self.finish(batch, error)

    def finish(self, batch: Batch, error: DiskError | None) -> None:
        """Note what became of a batch, in the event loop's thread again."""
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


class Chapter:
    """One bandit's part of a journal.

    Parameters
    ----------
    journal : Journal
        The whole.
    number : int
        The bandit's number.
    snapshot : dict
        The state it was opened with; empty for a new bandit.
    events : list of Event
        The events since.
    """

    def __init__(
        self, journal: Journal, number: int, snapshot: dict[str, Any], events: list[Event]
    ) -> None:
        self.journal, self.number, self.snapshot, self.events = journal, number, snapshot, events

    def append(self, event: Event) -> None:
        """Gather one event."""
        self.journal.append(event, self.number)

    def hold(self, event: Event) -> None:
        """Hold one event back until the next is written; a crash before that loses it."""
        self.journal.hold(event, self.number)


def decode_record(record: records.Record, kind: type[T]) -> T:
    """Return a body whose checksum was right."""
    try:
        return msgspec.msgpack.decode(record.body, type=kind, strict=False)
    except records.UNREADABLE as error:
        raise records.unreadable(record.at, error) from error


def read_identity(data: bytes) -> dict[str, Any]:
    """Return whose journal some data are, and what it was written with."""
    found = records.read_records(data)
    if not found.records or found.records[0].kind != records.HEAD:
        raise records.damaged(found.end, len(data))
    return decode_record(found.records[0], records.Head).identity


def require_present_form(identity: Mapping[str, Any]) -> None:
    """Refuse a journal of the time when [cluster] declared a single bandit."""
    if "arms" in identity or "bandits" in identity:
        raise InputError(
            "the journal has a form that is no longer read; move its folder away to begin without "
            "memory, or name another folder"
        )


def check_identity(found: dict[str, Any], identity: dict[str, Any]) -> None:
    """Refuse the journal of another agent or configuration."""
    require_present_form(found)
    for key in identity | found:
        if found.get(key) != identity.get(key):
            raise InputError(
                f"the journal is of another configuration: its {key} is {found.get(key)!r}, not "
                f"{identity.get(key)!r}; name another folder, or move this one away"
            )

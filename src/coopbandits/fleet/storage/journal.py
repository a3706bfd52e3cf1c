"""The journal: what happened to an agent, on disk before anybody is told.

A file of records, each ``length u32 | CRC-32 u32 | payload`` (little-endian), behind eight bytes
that say what it is. The first record names whose journal it is, the second holds a snapshot of the
agent's state, and the rest are the events since. To open it is to take the snapshot and to do again
what the events say; an agent is a state machine, so it stands where it stood.

A process that dies while it writes leaves a torn last record: it was told to nobody, and is cut
off. Damage anywhere else is refused, since what was acknowledged would be lost in silence. Once the
events outgrow the snapshot by far, a new file with a new snapshot takes the old one's place.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.storage.disk import Disk

MAGIC = b"CBJRNL01"
PREFIX = struct.Struct("<II")
NOTHING = msgspec.msgpack.encode(None)
"""The snapshot of an agent to which nothing happened yet; also once it has been read."""
SMALLEST = 1 << 20
"""A journal is not rewritten before its events take so many bytes,"""
GROWTH = 4
"""nor before they take so many times the snapshot's."""


class Journal:
    """Events on a disk, behind a snapshot.

    Parameters
    ----------
    disk : Disk
        Where it lies.
    identity : dict
        Whose it is: plain data that must be equal when it is opened again. What is not known before
        it is made (a random word of birth) stands in `birth`.
    birth : dict
        Plain data that a new journal keeps, and an old one has kept.
    """

    def __init__(self, disk: Disk, identity: dict[str, Any], birth: dict[str, Any]) -> None:
        self.disk = disk
        data = disk.read()
        self.is_new = not data
        if self.is_new:
            self.birth, self._head = birth, frame(msgspec.msgpack.encode([identity, birth]))
            self.compact(NOTHING)
            return
        records = list(split_records(data))
        if len(records) < 2:
            raise damaged(len(data), len(data))  # it is made whole, or not at all
        found, self.birth = msgspec.msgpack.decode(records[0])
        check_identity(found, identity)
        self._head = frame(records[0])
        self.snapshot, self.events = records[1], records[2:]
        self._note_sizes()
        whole = len(MAGIC) + len(self._head) + PREFIX.size + len(self.snapshot) + self._events_size
        self.torn = len(data) - whole
        if self.torn:
            disk.replace(data[:whole])

    torn: int = 0
    """Bytes of a torn last record, cut off when the journal was opened."""

    _held: bytes = b""
    """Records that go on disk together with the next one."""

    def _note_sizes(self) -> None:
        self._snapshot_size = len(self.snapshot)
        self._events_size = sum(PREFIX.size + len(event) for event in self.events)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        records = 2 * PREFIX.size + self._snapshot_size + self._events_size
        return len(MAGIC) + len(self._head) - PREFIX.size + records

    @property
    def is_long(self) -> bool:
        """Whether it is time for a new snapshot."""
        return self._events_size > max(SMALLEST, GROWTH * self._snapshot_size)

    def append(self, event: bytes) -> None:
        """Put one event on disk, behind those that were held back."""
        framed = self._held + frame(event)
        self.disk.append(framed)
        self._events_size += len(framed)
        self._held = b""

    def hold(self, event: bytes) -> None:
        """Put one event on disk together with the next one; until then it may be forgotten."""
        self._held += frame(event)

    def compact(self, snapshot: bytes) -> None:
        """Begin anew with a snapshot of all that happened so far."""
        self.disk.replace(MAGIC + self._head + frame(snapshot))
        self._snapshot_size, self._events_size, self._held = len(snapshot), 0, b""
        self.snapshot, self.events = NOTHING, []


def frame(payload: bytes) -> bytes:
    """Return a record with its length and checksum."""
    return PREFIX.pack(len(payload), zlib.crc32(payload)) + payload


def split_records(data: bytes) -> Iterator[bytes]:
    """Yield whole records up to a torn last one; refuse what is damaged elsewhere."""
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise InputError(
            f"the journal begins with {data[:8]!r}; it is no journal of coopbandits, or of another "
            "version: name another folder"
        )
    at = len(MAGIC)
    while at + PREFIX.size <= len(data):
        length, checksum = PREFIX.unpack_from(data, at)
        payload = data[at + PREFIX.size : at + PREFIX.size + length]
        end = at + PREFIX.size + length
        if end > len(data):
            return
        if length == 0 or zlib.crc32(payload) != checksum:
            if end == len(data) or not any(data[end:]):
                return
            raise damaged(at, len(data))
        yield payload
        at = end


def damaged(at: int, size: int) -> InputError:
    """Return the error that says so."""
    return InputError(
        f"the journal is damaged at byte {at} of {size}: what was acknowledged behind it would be "
        "lost; restore the folder from a backup, or move it away to start anew"
    )


def check_identity(found: dict[str, Any], identity: dict[str, Any]) -> None:
    """Refuse somebody else's journal."""
    for key in identity:
        if found.get(key) != identity[key]:
            raise InputError(
                f"the journal is of another configuration: its {key} is {found.get(key)!r}, not "
                f"{identity[key]!r}; name another folder, or move this one away"
            )

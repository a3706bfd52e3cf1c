"""The journal: a write-ahead log of what happened to an agent.

A file of records, each ``length u32 | CRC-32 u32 | payload`` (little-endian), after eight magic
bytes. The first record identifies the agent, the second holds a snapshot of its state, and the rest
are the events since. Opening loads the snapshot and replays the events; an agent is a state
machine, so that restores it exactly.

A process that dies while writing leaves a torn last record. Nobody was told of it, so it is cut
off. Damage anywhere else is refused, since acknowledged rewards would be lost silently. Once the
events far outgrow the snapshot, a new file with a new snapshot replaces the old one.
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
"""The snapshot of a new agent; also a placeholder that frees the memory of one already read."""
COMPACT_BYTES = 1 << 20
"""A journal is compacted once its events take more bytes than this,"""
COMPACT_GROWTH = 4
"""and more than this many times the snapshot."""


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
    """

    def __init__(self, disk: Disk, identity: dict[str, Any], origin: dict[str, Any]) -> None:
        self.disk = disk
        data = disk.read()
        self.is_new = not data
        if self.is_new:
            self.origin, self._head = origin, frame(msgspec.msgpack.encode([identity, origin]))
            self.compact(NOTHING)
            return
        records = list(split_records(data))
        if len(records) < 2:
            raise damaged(len(data), len(data))  # both are written at once, so one was lost
        found, self.origin = msgspec.msgpack.decode(records[0])
        check_identity(found, identity)
        self._head = frame(records[0])
        self.snapshot, self.events = records[1], records[2:]
        self._note_sizes()
        whole = len(MAGIC) + len(self._head) + PREFIX.size + len(self.snapshot) + self._events_size
        self.torn = len(data) - whole
        if self.torn:
            disk.replace(data[:whole])

    torn: int = 0
    """Bytes of a torn last record that opening cut off."""

    _held: bytes = b""
    """Records to be written together with the next one."""

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
        return self._events_size > max(COMPACT_BYTES, COMPACT_GROWTH * self._snapshot_size)

    def append(self, event: bytes) -> None:
        """Write one event, after those held back."""
        framed = self._held + frame(event)
        self.disk.append(framed)
        self._events_size += len(framed)
        self._held = b""

    def hold(self, event: bytes) -> None:
        """Hold one event back until the next is written; a crash before that loses it."""
        self._held += frame(event)

    def compact(self, snapshot: bytes) -> None:
        """Replace everything by a snapshot."""
        self.disk.replace(MAGIC + self._head + frame(snapshot))
        self._snapshot_size, self._events_size, self._held = len(snapshot), 0, b""
        self.snapshot, self.events = NOTHING, []


def frame(payload: bytes) -> bytes:
    """Return a record with its length and checksum."""
    return PREFIX.pack(len(payload), zlib.crc32(payload)) + payload


def split_records(data: bytes) -> Iterator[bytes]:
    """Yield the records before a torn last one; refuse any other damage."""
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
    """Return the error for damage at some byte."""
    return InputError(
        f"the journal is damaged at byte {at} of {size}: what was acknowledged behind it would be "
        "lost; restore the folder from a backup, or move it away to start anew"
    )


def check_identity(found: dict[str, Any], identity: dict[str, Any]) -> None:
    """Refuse the journal of another agent or configuration."""
    for key in identity:
        if found.get(key) != identity[key]:
            raise InputError(
                f"the journal is of another configuration: its {key} is {found.get(key)!r}, not "
                f"{identity[key]!r}; name another folder, or move this one away"
            )

"""The format of a journal file: a file header, then records, all little-endian.

==============  ==========================================================================
file header     magic ``8s``, format version ``u16``, flags ``u16``, CRC-32 of these ``u32``
record header   sequence ``u64``, body length ``u32``, bandit ``u32``, kind ``u16``, zero
                ``u16``, CRC-32 of these ``u32``
body            a msgpack map from field names to values
end             CRC-32 of the body, seeded with the header's ``u32``
==============  ==========================================================================

Sequence numbers are consecutive. The format is made to be added to: readers ignore field names that
they do not know, and refuse kinds of records that they do not know.

What a crash can leave behind depends on how the file was written. Without marks, whole records were
handed to the operating system, one or several by a write: the death of the process leaves some of
them, and a strict prefix of the next. With marks, every batch ends in one, and is on disk before
anybody is told: a loss of power leaves anything behind the last mark that got there. Everything
else is damage and is refused.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

import msgspec

from coopbandits.core.errors import InputError

MAGIC = b"CBJOURNL"
VERSION = 2
MARKED = 1
"""Flag of a file: batches end in marks."""

FILE_HEADER = struct.Struct("<8sHH")
HEADER = struct.Struct("<QIIHH")
CHECKSUM = struct.Struct("<I")
FILE_START = FILE_HEADER.size + CHECKSUM.size
HEADER_SIZE = HEADER.size + CHECKSUM.size

_pack, _pack_checksum, _crc = HEADER.pack, CHECKSUM.pack, zlib.crc32  # looked up once: it is hot

HEAD, SNAPSHOT, MARK = 1, 2, 3
"""Kinds of records that are no events: whose journal it is, its state, and the end of a batch."""

MARK_BODY = b"\x80"  # an empty map
MARK_FIELDS = HEADER.pack(0, len(MARK_BODY), 0, MARK, 0)[8:]


class Record(NamedTuple):
    """One record: where it begins, its kind and its body, and which bandit it is about."""

    at: int
    kind: int
    body: bytes
    bandit: int = 0


class Head(msgspec.Struct):
    """The body of the first record: whose journal it is, and what it was created with."""

    identity: dict[str, Any]
    origin: dict[str, int]

    def __post_init__(self) -> None:
        if "word" not in self.origin:
            raise ValueError("Object missing required field `word`")


class Contents(NamedTuple):
    """What a file holds: its records, where the last one ends, and the last sequence number."""

    records: list[Record]
    end: int
    sequence: int


class DamageError(Exception):
    """A record that is not whole; `torn` if it is the beginning of one that was to be written."""

    def __init__(self, *, torn: bool) -> None:
        self.torn = torn


def encode_file_header(*, marked: bool) -> bytes:
    """Return what a file begins with."""
    head = FILE_HEADER.pack(MAGIC, VERSION, MARKED if marked else 0)
    return head + CHECKSUM.pack(zlib.crc32(head))


def encode_record(sequence: int, kind: int, body: bytes, bandit: int = 0) -> bytes:
    """Return a record."""
    head = _pack(sequence, len(body), bandit, kind, 0)
    checksum = _crc(head)
    return head + _pack_checksum(checksum) + body + _pack_checksum(_crc(body, checksum))


def encode_mark(sequence: int) -> bytes:
    """Return the mark that ends a batch."""
    return encode_record(sequence, MARK, MARK_BODY)


def read_records(data: bytes) -> Contents:
    """Return the records of a file; leave out what a crash left behind, refuse all other damage."""
    marked = read_file_header(data)
    records: list[Record] = []
    whole, count = (FILE_START, 0), 0
    at, sequence = FILE_START, None
    while at < len(data):
        try:
            record, sequence, end = _record_at(data, at, sequence)
        except DamageError as damage:
            if marked and (_has_mark(data, at, sequence) or _was_mark(data, at, sequence)):
                raise damaged(at, len(data)) from None
            if not marked and not damage.torn:
                raise damaged(at, len(data)) from None
            break
        records.append(record)
        at = end
        if not marked or record.kind == MARK:
            whole, count = (at, sequence), len(records)
    return Contents(records[:count], *whole)


def read_file_header(data: bytes) -> bool:
    """Return whether batches end in marks; refuse a file that is no journal of this format."""
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise InputError(
            f"the journal begins with {data[:8]!r}; it is no journal of coopbandits, or it is "
            "damaged: name another folder, or restore this one from a backup"
        )
    if len(data) < FILE_START:
        raise damaged(len(data), len(data))
    (checksum,) = CHECKSUM.unpack_from(data, FILE_HEADER.size)
    if zlib.crc32(data[: FILE_HEADER.size]) != checksum:
        raise damaged(0, len(data))
    _, version, flags = FILE_HEADER.unpack_from(data)
    if version != VERSION:
        raise InputError(
            f"the journal has format {version}, and this version reads formats 1 and {VERSION}; "
            "install the version that wrote it, or a later one"
        )
    return bool(flags & MARKED)


def _record_at(data: bytes, at: int, before: int | None) -> tuple[Record, int, int]:
    """Return a record, its sequence number and where it ends."""
    left = len(data) - at
    if left < HEADER_SIZE:
        begun = b"" if before is None else data[at : at + 8]
        expected = b"" if before is None else (before + 1).to_bytes(8, "little")
        raise DamageError(torn=expected.startswith(begun))
    sequence, length, bandit, kind, _ = HEADER.unpack_from(data, at)
    (checksum,) = CHECKSUM.unpack_from(data, at + HEADER.size)
    if zlib.crc32(data[at : at + HEADER.size]) != checksum:
        raise DamageError(torn=False)
    if before is not None and sequence != before + 1:
        raise DamageError(torn=False)
    end = at + HEADER_SIZE + length + CHECKSUM.size
    if end > len(data):
        raise DamageError(torn=True)
    body = data[at + HEADER_SIZE : end - CHECKSUM.size]
    if zlib.crc32(body, checksum) != CHECKSUM.unpack_from(data, end - CHECKSUM.size)[0]:
        raise DamageError(torn=False)
    return Record(at, kind, body, bandit), sequence, end


def _has_mark(data: bytes, at: int, before: int | None) -> bool:
    """Return whether there is a valid mark of this file anywhere from a byte on."""
    found = data.find(MARK_FIELDS, at + 8)
    while found != -1:
        begin = found - 8
        sequence = int.from_bytes(data[begin:found], "little")
        follows = before is None or before <= sequence <= before + len(data)
        if follows and data.startswith(encode_mark(sequence), begin):
            return True
        found = data.find(MARK_FIELDS, found + 1)
    return False


def _was_mark(data: bytes, at: int, before: int | None) -> bool:
    """Return whether one flipped bit keeps the next mark from being one.

    A disk that lost power leaves sectors old or new, not single bits flipped.
    """
    mark = encode_mark((before or 0) + 1)
    found = data[at : at + len(mark)]
    wrong = int.from_bytes(found, "little") ^ int.from_bytes(mark, "little")
    return len(found) == len(mark) and wrong.bit_count() == 1


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, ValueError)
"""What msgspec raises on a body that is not what was expected."""


def unreadable(at: int, error: Exception) -> InputError:
    """Return the error for a record whose checksums are right and whose body is not."""
    return InputError(
        f"the journal has a record at byte {at} that cannot be read: {error}; install the version "
        "that wrote it, or a later one"
    )


def damaged(at: int, size: int) -> InputError:
    """Return the error for damage at some byte."""
    return InputError(
        f"the journal is damaged at byte {at} of {size}: what was acknowledged behind it would be "
        "lost; restore the folder from a backup, or move it away to start anew"
    )

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
anybody is told: a loss of power leaves anything behind the last mark that got there, and of the
last batch perhaps its mark without some sector before it, which is zeros then. Everything else is
damage and is refused.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from coopbandits.core.errors import InputError

MAGIC = b"CBJOURNL"
VERSION = 1
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
MARK_SIZE = HEADER_SIZE + len(MARK_BODY) + CHECKSUM.size

SECTOR = 512
"""Bytes that a disk writes as a whole or not at all."""

CRC_POLYNOMIAL = 0xEDB88320
"""Of CRC-32, its bits reversed, as `zlib` has it."""


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
        for name in ("word", "number"):
            if name not in self.origin:
                raise ValueError(f"Object missing required field `{name}`")


class Contents(NamedTuple):
    """What a file holds: its records, where the last one ends, and the last sequence number."""

    records: list[Record]
    end: int
    sequence: int


class DamageError(Exception):
    """A record that is not whole.

    Attributes
    ----------
    torn : bool
        Whether it is the beginning of one that was to be written.
    body, wrong : int
        Bytes of its body, and by which bits that and its checksum do not fit each other; 0 where
        all up to there is wrong.
    """

    def __init__(self, *, torn: bool, body: int = 0, wrong: int = 0) -> None:
        self.torn, self.body, self.wrong = torn, body, wrong


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
            if not (_lost_power(data, whole[0], at, sequence) if marked else damage.torn):
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
            f"the journal has format {version}, and this version reads format {VERSION}; "
            "install the version that wrote it, or a later one"
        )
    return bool(flags & MARKED)


def _record_at(data: bytes, at: int, before: int | None) -> tuple[Record, int, int]:
    """Return a record, its sequence number and where it ends."""
    if len(data) - at < HEADER_SIZE:
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
    wrong = zlib.crc32(body, checksum) ^ CHECKSUM.unpack_from(data, end - CHECKSUM.size)[0]
    if wrong:
        raise DamageError(torn=False, body=len(body), wrong=wrong)
    return Record(at, kind, body, bandit), sequence, end


# Which damage a loss of power can have done


def _lost_power(data: bytes, behind: int, at: int, before: int | None) -> bool:
    """Return whether a loss of power can have left the record at a byte as it is.

    All up to `behind` was on disk before, and `before` is the last sequence number that is right.
    """
    marks = list(_marks(data, at, before))
    if not marks:
        return not _was_mark(data, at, before)
    if marks != [len(data) - MARK_SIZE]:
        return False  # what is on disk behind it was written later
    return _lacks_sector(data, behind, at, before)


def _marks(data: bytes, at: int, before: int | None) -> Iterator[int]:
    """Yield where the valid marks of this file begin, from a byte on."""
    found = data.find(MARK_FIELDS, at + 8)
    while found != -1:
        begin = found - 8
        sequence = int.from_bytes(data[begin:found], "little")
        follows = before is None or before <= sequence <= before + len(data)
        if follows and data.startswith(encode_mark(sequence), begin):
            yield begin
        found = data.find(MARK_FIELDS, found + 1)


def _was_mark(data: bytes, at: int, before: int | None) -> bool:
    """Return whether one flipped bit keeps the next mark from being one.

    A disk that lost power leaves sectors old or new, not single bits flipped.
    """
    mark = encode_mark((before or 0) + 1)
    found = data[at : at + len(mark)]
    wrong = int.from_bytes(found, "little") ^ int.from_bytes(mark, "little")
    return len(found) == len(mark) and wrong.bit_count() == 1


def _lacks_sector(data: bytes, behind: int, at: int, before: int | None) -> bool:
    """Return whether a record lacks a sector written behind a byte, and not just a single bit.

    A disk may write the end of a batch, with its mark, before the rest.
    """
    try:
        _record_at(data, at, before)
    except DamageError as damage:
        end = at + HEADER_SIZE + (damage.body + CHECKSUM.size if damage.wrong else 0)
        if damage.wrong:
            flipped = _is_flip(damage) and _is_whole(data, end, (before or 0) + 1)
        else:
            flipped = _has_flipped_header(data, at, before)
        if flipped:
            return False
    sectors = range(at // SECTOR * SECTOR, end, SECTOR)
    return any(not any(data[max(start, behind) : start + SECTOR]) for start in sectors)


def _has_flipped_header(data: bytes, at: int, before: int | None) -> bool:
    """Return whether one flipped bit in a header is all that is wrong."""
    header = int.from_bytes(data[at : at + HEADER_SIZE], "little")
    for bit in range(8 * HEADER_SIZE):
        flipped = (header ^ 1 << bit).to_bytes(HEADER_SIZE, "little")
        sequence = int.from_bytes(flipped[:8], "little")
        (checksum,) = CHECKSUM.unpack_from(flipped, HEADER.size)
        if sequence == (before or 0) + 1 and zlib.crc32(flipped[: HEADER.size]) == checksum:
            return _is_whole(data[:at] + flipped + data[at + HEADER_SIZE :], at, before)
    return False


def _is_whole(data: bytes, at: int, before: int | None) -> bool:
    """Return whether all records from a byte on are right.

    What is left of a record whose sector was lost may look like one flipped bit by chance: where
    only its last few bytes were there. But then what followed it in that sector is lost too.
    """
    while at < len(data):
        try:
            _, before, at = _record_at(data, at, before)
        except DamageError:
            return False
    return True


def _is_flip(damage: DamageError) -> bool:
    """Return whether one flipped bit explains why a body does not fit its checksum."""
    if damage.wrong.bit_count() == 1:
        return True  # in the checksum itself
    effect = 1
    for _ in range(8 * damage.body):  # of flipping a bit on the checksum, from the last bit on
        effect = effect >> 1 ^ (CRC_POLYNOMIAL if effect & 1 else 0)
        if effect == damage.wrong:
            return True
    return False


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

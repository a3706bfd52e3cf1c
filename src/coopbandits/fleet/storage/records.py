"""The format of a journal: a file header, then records, of which most are events.

All numbers are little-endian.

==============  ==========================================================================
file header     magic ``8s``, format version ``u16``, flags ``u16``, CRC-32 of these ``u32``
record header   sequence ``u64``, body length ``u32``, bandit ``u32``, kind ``u16``, zero
                ``u16``, CRC-32 of these ``u32``
body            a msgpack map from field names to values
end             CRC-32 of the body, seeded with the header's ``u32``
==============  ==========================================================================

Sequence numbers are consecutive. The format is extensible: readers ignore unknown field names and
reject unknown kinds of records.

What a crash can leave behind depends on how the file was written. Without marks, whole records were
handed to the operating system, one or several per write: the death of the process leaves some of
them, and a strict prefix of the next. With marks, every batch ends in one and is on disk before it
is acknowledged: a loss of power leaves arbitrary bytes behind the last mark that was written, and
of the last batch perhaps its mark without some sector before it, which then reads as zeros.
Everything else is damage and is rejected: cutting it off could lose acknowledged rewards.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

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
"""Kinds of records that are not events: the owner, its state, and the end of a batch."""

MARK_BODY = b"\x80"  # an empty map
MARK_FIELDS = HEADER.pack(0, len(MARK_BODY), 0, MARK, 0)[8:]
MARK_SIZE = HEADER_SIZE + len(MARK_BODY) + CHECKSUM.size

SECTOR = 512
"""Bytes that a disk writes atomically."""

CRC_POLYNOMIAL = 0xEDB88320
"""Of CRC-32, bits reversed, as in `zlib`."""


class Record(NamedTuple):
    """One record: the byte where it begins, its kind, body, and bandit (0 for none)."""

    at: int
    kind: int
    body: bytes
    bandit: int = 0


class Head(msgspec.Struct):
    """The body of the first record: the owner's identity, and what the journal was created with."""

    identity: dict[str, Any]
    origin: dict[str, int]

    def __post_init__(self) -> None:
        for name in ("word", "number"):
            if name not in self.origin:
                raise ValueError(f"Object missing required field `{name}`")


class Contents(NamedTuple):
    """The records of a file, the byte where the last one ends, and its sequence number."""

    records: list[Record]
    end: int
    sequence: int


class DamageError(Exception):
    """An invalid record.

    Attributes
    ----------
    torn : bool
        Whether it may be a prefix of a valid record.
    body, wrong : int
        Length of the body, and the XOR of its expected and actual checksum; 0 where the damage is
        in the header.
    """

    def __init__(self, *, torn: bool, body: int = 0, wrong: int = 0) -> None:
        self.torn, self.body, self.wrong = torn, body, wrong


def encode_file_header(*, marked: bool) -> bytes:
    head = FILE_HEADER.pack(MAGIC, VERSION, MARKED if marked else 0)
    return head + CHECKSUM.pack(zlib.crc32(head))


def encode_record(sequence: int, kind: int, body: bytes, bandit: int = 0) -> bytes:
    head = _pack(sequence, len(body), bandit, kind, 0)
    checksum = _crc(head)
    return head + _pack_checksum(checksum) + body + _pack_checksum(_crc(body, checksum))


def encode_mark(sequence: int) -> bytes:
    return encode_record(sequence, MARK, MARK_BODY)


def read_records(data: bytes) -> Contents:
    """Return the records up to what a crash left behind; reject any other damage."""
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
    """Return whether batches end in marks; reject a file that is not a journal of this format."""
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise InputError(
            f"the file begins with {data[:8]!r} and is not a coopbandits journal, or is damaged; "
            "name another folder, or restore this one from a backup"
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
    """Return a record, its sequence number and where it ends; `before` is the last number."""
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


# Which damage a loss of power can have caused. A disk that loses power leaves whole sectors old or
# new; a single flipped bit is damage of another kind, behind which rewards may have been
# acknowledged. So both are told apart before a tail is cut off.


def _lost_power(data: bytes, behind: int, at: int, before: int | None) -> bool:
    """Return whether a loss of power can have left the invalid record at byte `at`.

    Everything up to `behind` was synced earlier; `before` is the last valid sequence number.
    """
    marks = list(_marks(data, at, before))
    if not marks:
        return not _was_mark(data, at, before)
    if marks != [len(data) - MARK_SIZE]:
        return False  # a later batch is on disk behind it, so this one had been synced
    return _lacks_sector(data, behind, at, before)


def _marks(data: bytes, at: int, before: int | None) -> Iterator[int]:
    """Yield the offsets of valid marks, from a byte on."""
    found = data.find(MARK_FIELDS, at + 8)
    while found != -1:
        begin = found - 8
        sequence = int.from_bytes(data[begin:found], "little")
        follows = before is None or before <= sequence <= before + len(data)
        if follows and data.startswith(encode_mark(sequence), begin):
            yield begin
        found = data.find(MARK_FIELDS, found + 1)


def _was_mark(data: bytes, at: int, before: int | None) -> bool:
    """Return whether the bytes are the next mark but for one flipped bit."""
    mark = encode_mark((before or 0) + 1)
    found = data[at : at + len(mark)]
    wrong = int.from_bytes(found, "little") ^ int.from_bytes(mark, "little")
    return len(found) == len(mark) and wrong.bit_count() == 1


def _lacks_sector(data: bytes, behind: int, at: int, before: int | None) -> bool:
    """Return whether a sector behind `behind` is missing from a record, not just one bit flipped.

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
    """Return whether one flipped bit in the header is the only damage."""
    header = int.from_bytes(data[at : at + HEADER_SIZE], "little")
    for bit in range(8 * HEADER_SIZE):
        flipped = (header ^ 1 << bit).to_bytes(HEADER_SIZE, "little")
        sequence = int.from_bytes(flipped[:8], "little")
        (checksum,) = CHECKSUM.unpack_from(flipped, HEADER.size)
        if sequence == (before or 0) + 1 and zlib.crc32(flipped[: HEADER.size]) == checksum:
            return _is_whole(data[:at] + flipped + data[at + HEADER_SIZE :], at, before)
    return False


def _is_whole(data: bytes, at: int, before: int | None) -> bool:
    """Return whether all records from a byte on are valid.

    A record that has lost a sector may differ from a valid one by one bit by chance, if only its
    last few bytes were in that sector. But then the records behind it in the sector are lost too.
    """
    while at < len(data):
        try:
            _, before, at = _record_at(data, at, before)
        except DamageError:
            return False
    return True


def _is_flip(damage: DamageError) -> bool:
    """Return whether one flipped bit explains the wrong checksum of a body."""
    if damage.wrong.bit_count() == 1:
        return True  # in the checksum itself
    effect = 1
    for _ in range(8 * damage.body):  # its effect on the checksum, from the last bit on
        effect = effect >> 1 ^ (CRC_POLYNOMIAL if effect & 1 else 0)
        if effect == damage.wrong:
            return True
    return False


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, ValueError)
"""What msgspec raises on an unexpected body."""


def unreadable(at: int, error: Exception) -> InputError:
    """Return the error for an unexpected body with a valid checksum."""
    return InputError(
        f"cannot read the journal's record at byte {at}: {error}; install the version that wrote "
        "it, or a later one"
    )


def damaged(at: int, size: int) -> InputError:
    return InputError(
        f"the journal is damaged at byte {at} of {size}, and rewards acknowledged behind it would "
        "be lost; restore the folder from a backup, or move it away to start without memory"
    )


# Events


class Chose(msgspec.Struct, frozen=True, omit_defaults=True):
    """An arm was chosen, and the next ticket opened; `context` holds the request's features.

    `abandoned` is how many of the oldest open tickets were abandoned for it. It is written because
    the limit of open tickets is a setting: with the limit of a later start, replaying would abandon
    other tickets, of which rewards may follow.

    `unit` is given this arm from now on, and `call` is the forwarded call that asked for it (see
    `units`).
    """

    arm: int
    now: float
    context: bytes = b""
    abandoned: int = 0
    unit: bytes = b""
    call: bytes = b""


class Observed(msgspec.Struct, frozen=True):
    """The reward of an open ticket was submitted."""

    number: int
    reward: float


class Expired(msgspec.Struct, frozen=True):
    """Open tickets expired."""

    numbers: list[int]


class Met(msgspec.Struct, frozen=True):
    """All neighbours have reported their degrees, by number."""

    degrees: dict[int, int]


class Spoke(msgspec.Struct, frozen=True):
    """The messages of the next round were made; later rewards are not in them."""


class Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """A round ended with these messages: float64 values by the sender's number.

    With flooding, also proofs of new entries, by their numbers, and the certificates behind them.
    `tick` is the time where agents forget. `base` says that it was a round of the base.
    """

    messages: dict[int, bytes]
    proofs: dict[int, bytes] = {}
    certificates: list[bytes] = []
    tick: int = 0
    base: bool = False


class Declared(msgspec.Struct, frozen=True):
    """A bandit was declared: its name, the settings its state depends on, and its arms.

    Arms are names by id; those known from neighbours alone have an empty name. New ones are
    appended to the previous arms, and arms that are left out are kept. A bandit declared while the
    agent runs has a nonce for its tickets; otherwise the snapshot at the start holds it.
    """

    name: str
    shared: dict[str, Any]
    arms: dict[int, str]
    nonce: int = 0


class Purged(msgspec.Struct, frozen=True):
    """Arms of a bandit were purged, by id; only the number of their pulls remains."""

    arms: list[int]


class Replaced(msgspec.Struct, frozen=True):
    """Arms without name and pulls were replaced by others: new ids by old ones."""

    arms: dict[int, int]


class Relinked(msgspec.Struct, frozen=True):
    """The neighbour set changed to these numbers."""

    neighbors: list[int]


class Adopted(msgspec.Struct, frozen=True):
    """The cluster's document with the trusted operators since then; see `document.store`."""

    document: bytes


Event = (
    Chose | Observed | Expired | Met | Spoke | Ended | Declared | Purged | Replaced | Relinked
    | Adopted
)  # fmt: skip

KINDS: dict[type[Event], int] = {
    Chose: 16, Observed: 17, Expired: 18, Met: 19, Spoke: 20, Ended: 21, Declared: 22,
    Relinked: 23, Purged: 24, Replaced: 25, Adopted: 32,
}  # fmt: skip
"""The number of each kind of event in a journal; never change one."""

encode_event = msgspec.msgpack.Encoder().encode
_decoders = {KINDS[kind]: msgspec.msgpack.Decoder(kind).decode for kind in get_args(Event)}


def decode_event(record: Record) -> Event:
    if record.kind not in _decoders:
        raise InputError(
            f"the journal has a record of unknown kind {record.kind} at byte {record.at}; install "
            "the version that wrote it, or a later one"
        )
    try:
        event: Event = _decoders[record.kind](record.body)
    except UNREADABLE as error:
        raise unreadable(record.at, error) from error
    return event

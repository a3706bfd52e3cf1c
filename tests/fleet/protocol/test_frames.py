"""Frames survive any cut, and bytes that are no frames are refused and do nothing else."""

from __future__ import annotations

import struct

import msgspec
import numpy as np
import pytest

from coopbandits.core.draws import words
from coopbandits.fleet.overlay.messages import Goodbye
from coopbandits.fleet.protocol import frames
from coopbandits.fleet.protocol.frames import (
    FIELDS_LENGTH,
    HEADER,
    MAX_BODY,
    BeatFrame,
    ByeFrame,
    DataFrame,
    Decoder,
    Fields,
    Frame,
    FrameError,
    Hello,
    HelloFrame,
    MembersFrame,
    Stamp,
    encode_beat,
    encode_bye,
    encode_data,
    encode_hello,
    encode_members,
)

pytestmark = pytest.mark.plays

CAP = 3 * MAX_BODY
STAMP = Stamp(17, 1_700_000_000, 2**40, 3)
WHO = Hello("shop-1", "shops", "9f" * 32, 4)
LONG = np.arange(2.5 * MAX_BODY // 8)


def encode(frame: Frame) -> bytes:
    if isinstance(frame, HelloFrame):
        return encode_hello(frame.stamp, frame.hello)
    if isinstance(frame, DataFrame):
        fields = None if frame.fields == Fields() else frame.fields
        return encode_data(frame.stamp, frame.values, fields)
    if isinstance(frame, ByeFrame):
        return encode_bye(frame.stamp, frame.reason)
    if isinstance(frame, MembersFrame):
        return encode_members(frame.stamp, frame.message)
    return encode_beat(frame.stamp)


def header(
    kind: int,
    flags: int = 0,
    length: int = 0,
    magic: int = 0,
    version: int = frames.VERSION,
    stamp: Stamp = STAMP,
) -> bytes:
    numbers = stamp.num_arms, length, stamp.bandit, stamp.epoch, stamp.round, stamp.incarnation
    return HEADER.pack(magic or frames.MAGIC, version, kind, flags, *numbers)


def extended(fields: object, body: bytes = b"", flags: int = frames.FIELDS) -> bytes:
    """Return a frame with any fields before its vector."""
    named = fields if isinstance(fields, bytes) else msgspec.msgpack.encode(fields)
    whole = FIELDS_LENGTH.pack(len(named)) + named + body
    return header(2, flags, len(whole)) + whole


STREAM = b"".join(
    (
        encode_hello(STAMP, WHO),
        encode_data(STAMP, np.array([1.5, -0.0, np.nan, np.inf])),
        encode_beat(STAMP),
        encode_data(Stamp(1, 0, 0, 0), None),
        encode_data(STAMP, np.zeros(0)),
        extended({"later": [1, {"a": None}]}, struct.pack("<d", 2.5)),
        header(77, frames.OPTIONAL, 5) + b"later",
        encode_members(STAMP, Goodbye(leaving=True)),
        extended({}, flags=frames.FIELDS | frames.SILENT),
        encode_bye(STAMP, "another cluster"),
    )
)


def test_a_stream_is_read_as_it_was_written() -> None:
    decoder = Decoder(CAP)
    hello, data, beat, silent, empty, more, members, none, bye = decoder.feed(STREAM)
    assert members == MembersFrame(STAMP, Goodbye(leaving=True))
    assert hello == HelloFrame(STAMP, WHO)
    assert isinstance(data, DataFrame)
    assert data.stamp == STAMP
    assert data.values is not None
    np.testing.assert_array_equal(data.values, [1.5, -0.0, np.nan, np.inf])
    assert beat == BeatFrame(STAMP)
    assert silent == DataFrame(Stamp(1, 0, 0, 0), None)
    assert isinstance(empty, DataFrame)
    assert empty.values is not None
    assert empty.values.size == 0
    assert isinstance(more, DataFrame)
    assert more.values is not None
    assert more.values.tolist() == [2.5]
    assert none == DataFrame(STAMP, None)
    assert decoder.skipped == 1
    assert bye == ByeFrame(STAMP, "another cluster")


def test_what_a_later_release_adds_is_skipped() -> None:
    known = msgspec.to_builtins(WHO, builtin_types=(bytes,)) | {"later": {"a": [1, 2]}}
    bodies = [msgspec.msgpack.encode(body) for body in (known, {"reason": "x", "later": 1})]
    stream = b"".join(
        header(kind, length=len(body)) + body for kind, body in zip((1, 4), bodies, strict=True)
    )
    assert Decoder(CAP).feed(stream) == [HelloFrame(STAMP, WHO), ByeFrame(STAMP, "x")]


@pytest.mark.parametrize(("version", "where"), [(0, "there"), (2, "here")])
def test_another_version_is_told_what_to_upgrade(version: int, where: str) -> None:
    """Its header may be shorter, and begins with the same three bytes."""
    for size in (3, 36, 100):
        with pytest.raises(FrameError, match=rf"version {version}\b.*upgrade coopbandits {where}"):
            Decoder(CAP).feed(header(1, version=version)[:size])


def test_the_layout_of_a_frame_is_fixed() -> None:
    """Agents of another release must read it: a change here is a new version."""
    stamp = Stamp(0x0102, 0x0304, 0x0506, 0x0708, 0x09)
    expected = "cbb4 01 02 0000 0201 08000000 09000000 0403000000000000 0605000000000000"
    head = bytes.fromhex(expected + "0807000000000000")
    assert encode_data(stamp, np.array([1.0])) == head + struct.pack("<d", 1.0)


def test_a_vector_is_read_only_as_when_it_is_replayed_from_a_journal() -> None:
    for fields in (None, Fields(proofs=b"proof")):
        (frame,) = Decoder(CAP).feed(encode_data(STAMP, np.arange(3.0), fields))
        assert isinstance(frame, DataFrame)
        assert frame.values is not None
        assert frame.values.dtype == np.float64
        assert frame.values.flags.aligned
        assert not frame.values.flags.writeable


def test_every_cut_in_two_yields_the_same_frames() -> None:
    whole = list(map(encode, Decoder(CAP).feed(STREAM)))
    for cut in range(len(STREAM) + 1):
        decoder = Decoder(CAP)
        read = decoder.feed(STREAM[:cut]) + decoder.feed(STREAM[cut:])
        assert list(map(encode, read)) == whole


def test_single_bytes_yield_the_same_frames() -> None:
    decoder = Decoder(CAP)
    read = [frame for byte in STREAM for frame in decoder.feed(bytes([byte]))]
    assert list(map(encode, read)) == list(map(encode, Decoder(CAP).feed(STREAM)))


@pytest.mark.parametrize("step", [29, HEADER.size, 40_000, MAX_BODY, 10**6])
def test_a_long_vector_comes_whole_in_any_steps(step: int) -> None:
    stream = encode_data(STAMP, LONG) + encode_beat(STAMP)
    decoder = Decoder(CAP)
    read = [f for i in range(0, len(stream), step) for f in decoder.feed(stream[i : i + step])]
    first, second = read
    assert isinstance(first, DataFrame)
    np.testing.assert_array_equal(first.values, LONG)
    assert second == BeatFrame(STAMP)


@pytest.mark.parametrize("size", [MAX_BODY // 8, MAX_BODY // 8 + 1, 2 * MAX_BODY // 8])
def test_a_vector_is_cut_into_full_parts(size: int) -> None:
    stream = encode_data(STAMP, np.ones(size))
    assert len(stream) == 8 * size + HEADER.size * -(-8 * size // MAX_BODY)
    (frame,) = Decoder(CAP).feed(stream)
    assert isinstance(frame, DataFrame)
    assert frame.values is not None
    assert frame.values.size == size


FULL = header(2, frames.MORE, MAX_BODY) + bytes(MAX_BODY)

BAD = {
    "magic": ("malformed", header(3, magic=0x4747)),
    "version": ("version", header(3, version=3)),
    "kind": ("malformed", header(99)),
    "optional but too long": ("oversized", header(9, frames.OPTIONAL, MAX_BODY + 1)),
    "optional between parts": ("malformed", FULL + header(9, frames.OPTIONAL)),
    "a known kind marked as optional": ("malformed", header(3, frames.OPTIONAL)),
    "fields that are no map": ("malformed", extended([1])),
    "fields nested without end": ("malformed", extended(b"\x81\xa1a" + b"\x91" * 60_000)),
    "fields that claim to be many": ("malformed", extended(b"\xdf\xff\xff\xff\xff")),
    "fields that end nowhere": ("malformed", header(2, frames.FIELDS, 4) + b"\xff\xff\xff\xff"),
    "fields without a length": ("malformed", header(2, frames.FIELDS, 3) + b"\0\0\0"),
    "no fields": ("malformed", header(2, frames.FIELDS)),
    "fields and half a value": ("malformed", extended({}, b"1234")),
    "silent with fields and values": ("malformed", extended({}, bytes(8), 6)),
    "fields in the last part only": ("malformed", FULL + header(2, frames.FIELDS, 8)),
    "a nested hello": ("malformed", header(1, length=50_000) + b"\x81\xa1a" + b"\x91" * 49_997),
    "body": ("oversized", header(2, length=MAX_BODY + 8)),
    "hello": ("oversized", header(1, length=2**32 - 1)),
    "vector": ("oversized", 3 * FULL + header(2, length=8)),
    "uneven": ("malformed", header(2, length=9)),
    "flags": ("malformed", header(2, 16)),
    "beat with flags": ("malformed", header(3, 1)),
    "beat with a body": ("malformed", header(3, length=1)),
    "silent with a body": ("malformed", header(2, frames.SILENT, 8)),
    "a part that is not full": ("malformed", header(2, frames.MORE, 8)),
    "an empty last part": ("malformed", FULL + header(2)),
    "silence as last part": ("malformed", FULL + header(2, frames.SILENT)),
    "a beat between parts": ("malformed", FULL + header(3)),
    "another round between parts": ("malformed", FULL + encode_data(Stamp(17, 0, 1, 3), LONG)),
    "another bandit between parts": (
        "malformed",
        FULL + header(2, frames.MORE, MAX_BODY, stamp=msgspec.structs.replace(STAMP, bandit=1)),
    ),
    "no msgpack": ("malformed", header(1, length=1) + b"\xc1"),
    "not a hello": ("malformed", header(1, length=2) + msgspec.msgpack.encode([7])),
    "bad text": ("malformed", header(4, length=9) + b"\x81\xa6reason\xff"),
    "a bye by place": ("malformed", header(4, length=2) + msgspec.msgpack.encode([""])),
    "a long name": ("malformed", encode_hello(STAMP, Hello("x" * 254, "", "", 0))),
}


@pytest.mark.parametrize(("kind", "stream"), BAD.values(), ids=BAD)
def test_what_is_no_frame_is_refused_for_ever(kind: str, stream: bytes) -> None:
    decoder = Decoder(CAP)
    for data in (stream, b"", STREAM):
        with pytest.raises(FrameError) as caught:
            decoder.feed(data)
        assert caught.value.kind == kind
        assert "\n" not in str(caught.value)


def test_a_reason_can_stand_in_a_log() -> None:
    (frame,) = Decoder(CAP).feed(encode_bye(STAMP, "no\nERROR all is lost\x1b[2J" + "!" * 1000))
    assert isinstance(frame, ByeFrame)
    assert frame.reason.startswith("no ERROR all is lost [2J!")
    assert len(frame.reason) == frames.MAX_REASON
    raw = msgspec.msgpack.encode({"reason": "a\r\nb" + "c" * 60_000})
    (frame,) = Decoder(CAP).feed(header(4, length=len(raw)) + raw)
    assert frame == ByeFrame(STAMP, "a  b" + "c" * (frames.MAX_REASON - 4))


PIECES = (
    encode_hello(STAMP, WHO),
    encode_data(STAMP, np.array([1.5, np.nan])),
    encode_beat(STAMP),
    encode_data(STAMP, None) + encode_data(STAMP, np.zeros(0)),
    encode_bye(STAMP, "another cluster"),
    extended({"proofs": b"abc", "later": [1, [2]]}, bytes(16)),
    header(77, frames.OPTIONAL, 5) + b"later",
)
SEEDS = (*PIECES * 8, FULL + PIECES[1])
"""What is spoilt; few are long, which takes long."""


def spoilt(row: list[int]) -> bytes:
    """Return a stream with some bytes changed, removed or inserted, mostly in a header."""
    stream = bytearray(SEEDS[row[0] % len(SEEDS)])
    for word in row[1 : 2 + row[0] // 97 % 3]:
        place = word % (min(len(stream), 400) + 1)
        how, what = word >> 16 & 3, word >> 32
        if how == 0:
            del stream[place : place + what % 40]
        elif how == 1:
            stream[place:place] = (what.to_bytes(4, "little") * 10)[: what % 40]
        elif place < len(stream):
            stream[place] = what & 255 if how == 2 else stream[place] ^ (1 << what % 8)
    return bytes(stream)


def kept(decoder: Decoder) -> int:
    return len(decoder._rest) + sum(map(len, decoder._parts))


@pytest.mark.slow
def test_a_hundred_thousand_bad_streams_do_no_harm() -> None:
    """Either frames come out that can be written again, or `FrameError`; memory stays bounded."""
    refused, read = 0, 0
    for row in words(11, np.arange(500_000, dtype=np.uint64)).reshape(-1, 5).tolist():
        stream, decoder = spoilt(row), Decoder(MAX_BODY + 64)
        cut = row[4] % (len(stream) + 1)
        try:
            found = decoder.feed(stream[:cut]) + decoder.feed(stream[cut:])
        except FrameError as error:
            refused += 1
            assert error.kind in ("malformed", "version", "oversized")
            assert kept(decoder) == 0
            continue
        assert kept(decoder) <= len(stream)
        assert kept(decoder) <= MAX_BODY + 64 + HEADER.size + MAX_BODY
        read += len(found)
        if found:
            again = b"".join(map(encode, found))
            assert list(map(encode, Decoder(CAP).feed(again))) == list(map(encode, found))
    assert refused > 20_000
    assert read > 5_000


def long_way(stream: bytes) -> tuple[Stamp, bytes] | None:
    """Return stamp and values of a stream that is one plain vector as expected, as `feed` does."""
    decoder = Decoder(MAX_BODY + 64)
    try:
        found = decoder.feed(stream)
    except FrameError:
        return None
    match found:
        case [DataFrame(stamp, np.ndarray() as values)] if len(stream) == HEADER.size + 8 * len(
            values
        ):
            is_expected = msgspec.structs.replace(stamp, round=STAMP.round) == STAMP
            return (stamp, values.tobytes()) if is_expected else None
    return None


@pytest.mark.parametrize("number", [60_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_the_short_way_reads_what_the_long_one_does_and_nothing_else(number: int) -> None:
    taken = 0
    for row in words(12, np.arange(number, dtype=np.uint64)).reshape(-1, 5).tolist():
        stream, decoder = spoilt([len(SEEDS) * row[0] + 1, *row[1:]]), Decoder(MAX_BODY + 64)
        decoder.expect(STAMP)
        found = decoder.read_plain(stream)
        told = found and found.values is not None and (found.stamp, found.values.tobytes())
        assert told == long_way(stream)
        assert kept(decoder) == 0
        taken += found is not None
    assert taken > number / 100


@pytest.mark.parametrize("size", [0, 1, 34, frames.MAX_PLAIN])
def test_the_short_way_writes_what_the_long_one_does(size: int) -> None:
    stamp = Stamp(17, 1_700_000_000, 0, 3)
    values = np.linspace(-1.0, 1.0, size)
    for round_ in (0, 2**40):
        whole = encode_data(msgspec.structs.replace(stamp, round=round_), values)
        assert frames.encode_plain(frames.plain_form(stamp), round_, values) == whole


def test_the_short_way_is_open_to_every_bandit_as_it_was_greeted_last() -> None:
    other = msgspec.structs.replace(STAMP, bandit=STAMP.bandit + 1, num_arms=2)
    wider = msgspec.structs.replace(other, num_arms=3)
    decoder = Decoder(CAP)
    decoder.expect(STAMP)
    decoder.expect(other)
    for stamp in (STAMP, other):
        plain = decoder.read_plain(encode_data(stamp, np.arange(3.0)))
        assert plain is not None
        assert plain.stamp == stamp
    decoder.expect(wider)
    for stamp, is_expected in ((STAMP, True), (other, False), (wider, True)):
        plain = decoder.read_plain(encode_data(stamp, np.arange(3.0)))
        assert (plain is not None) == is_expected


def test_the_short_way_is_closed_before_a_greeting_amid_a_frame_and_after_a_bad_one() -> None:
    whole = encode_data(STAMP, np.arange(3.0))
    decoder = Decoder(CAP)
    assert decoder.read_plain(whole) is None
    decoder.expect(STAMP)
    plain = decoder.read_plain(whole)
    assert plain is not None
    assert plain.values is not None
    assert plain.values.flags.aligned
    assert not plain.values.flags.writeable
    for begun in (whole[:50], FULL):
        decoder = Decoder(CAP)
        decoder.expect(STAMP)
        decoder.feed(begun)
        assert decoder.read_plain(whole) is None
    with pytest.raises(FrameError):
        decoder.feed(header(9))
    assert decoder.read_plain(whole) is None
    small = Decoder(16)
    small.expect(STAMP)
    assert small.read_plain(whole) is None

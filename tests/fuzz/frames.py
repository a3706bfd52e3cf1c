"""Frames: bytes of any neighbour, split anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from coopbandits.fleet.overlay.messages import Contact, Shuffle
from coopbandits.fleet.protocol import frames
from coopbandits.fleet.protocol.frames import Decoder, Frame, FrameError, Stamp

from .target import Check, Target

MOST = 3 * frames.MAX_BODY
STAMP = Stamp(3, 1_790_000_000, 7, 1_790_000_001)
HELLO = frames.Hello("shop-1", "shop", "0f" * 16)
GREETING = frames.Greeting("button", "0f" * 8, bytes(24), 5, (1, 2, 3), 2)


def seeds() -> list[bytes]:
    signed = frames.Fields(b"proof" * 4, b"certificate")
    found = [
        frames.encode_hello(STAMP, HELLO),
        frames.encode_greeting(STAMP, GREETING),
        frames.encode_bye(STAMP, "no"),
        frames.encode_beat(STAMP),
        frames.encode_data(STAMP, np.arange(6.0)),
        frames.encode_data(STAMP, None),
        frames.encode_data(STAMP, np.arange(3.0), signed),
        frames.encode_data(STAMP, None, signed),
        frames.encode_data(STAMP, np.arange(9000.0)),
        frames.encode_document(STAMP, b"news"),
        frames.encode_routes(STAMP, b"announcements"),
        frames.encode_call(STAMP, b"call"),
        frames.encode_answer(STAMP, b"answer"),
        frames.encode_members(STAMP, Shuffle(7, 3, [Contact("shop-2", "10.0.0.2:7400")])),
    ]
    later = bytearray(frames.encode_beat(STAMP))
    later[3:6] = b"\x63\x00\x80"  # kind 99, which may be skipped
    return [b"\0" + one for one in (*found, b"".join(found[:6]), bytes(later) + found[3])]


def check(data: bytes) -> None:
    """Decode bytes whole and in pieces; the first byte says how long these are."""
    stream = data[1:]
    step = max(len(stream) // 256, data[0] if data else 0) + 1
    found, error = decode(stream, len(stream) + 1)
    pieces, other = decode(stream, step)
    assert (error is None) == (other is None), "pieces are refused otherwise than the whole"
    assert error is None or other is None or error.kind == other.kind
    shown = [encode(frame) for frame in pieces]
    if error is None:
        assert [encode(frame) for frame in found] == shown
        exact = all(is_plain(frame) for frame in found)
        whole = b"".join(shown)
        assert not exact or stream.startswith(whole) or skips(stream)
    for frame, again in zip(pieces, shown, strict=True):
        (same,), refused = decode(again, len(again))
        assert refused is None, f"what was read is refused when it is sent: {frame!r}"
        assert encode(same) == again


def decode(stream: bytes, step: int) -> tuple[list[Frame], FrameError | None]:
    decoder, found = Decoder(MOST), list[Frame]()
    for at in range(0, len(stream), step):
        try:
            found += decoder.feed(stream[at : at + step])
        except FrameError as error:
            assert str(error).count("\n") == 0
            assert error.kind in ("malformed", "version", "oversized")
            return found, error
        held = len(decoder._rest) + sum(map(len, decoder._parts))
        assert held <= MOST + frames.MAX_BODY + frames.HEADER.size, f"{held} bytes are kept"
    return found, None


def encode(frame: Frame) -> bytes:
    match frame:
        case frames.HelloFrame(stamp, hello):
            return frames.encode_hello(stamp, hello)
        case frames.ByeFrame(stamp, reason):
            return frames.encode_bye(stamp, reason)
        case frames.BeatFrame(stamp):
            return frames.encode_beat(stamp)
        case frames.DocumentFrame(stamp, body):
            return frames.encode_document(stamp, body)
        case frames.BanditFrame(stamp, greeting):
            return frames.encode_greeting(stamp, greeting)
        case frames.MembersFrame(stamp, message):
            return frames.encode_members(stamp, message)
        case frames.RoutesFrame(stamp, body):
            return frames.encode_routes(stamp, body)
        case frames.CallFrame(stamp, body):
            return frames.encode_call(stamp, body)
        case frames.AnswerFrame(stamp, body):
            return frames.encode_answer(stamp, body)
        case frames.DataFrame(stamp, values, fields):
            named = None if fields == frames.Fields() else fields
            return frames.encode_data(stamp, values, named)


def is_plain(frame: Frame) -> bool:
    """Say whether there is one way to write a frame; maps may be written in many."""
    if isinstance(frame, frames.DataFrame):
        return frame.fields == frames.Fields()
    raw = frames.RoutesFrame | frames.CallFrame | frames.AnswerFrame
    return isinstance(frame, frames.BeatFrame | frames.DocumentFrame | raw)


def skips(stream: bytes) -> bool:
    """Say whether something in a stream was skipped: an unknown kind, or empty fields."""
    decoder = Decoder(MOST)
    decoder.feed(stream)
    at = 0
    while at + frames.HEADER.size <= len(stream):
        header = frames.HEADER.unpack_from(stream, at)
        if header[3] & frames.FIELDS:
            return True
        at += frames.HEADER.size + header[5]
    return decoder.skipped > 0


@contextmanager
def opened() -> Iterator[Check]:
    yield check


FRAMES = Target(
    "frames",
    "the protocol's own error, or frames that are read the same in any pieces and encode back to "
    "the same bytes; never more than one message is kept",
    seeds,
    opened,
)

"""The wire format: frames with a fixed header and a body. No I/O happens here.

A header is 36 bytes, little-endian: magic number, version, kind, flags, number of arms, length of
the body, epoch, round, incarnation. A vector is sent as raw float64. One longer than the largest
body is split: all parts but the last are full and have the flag `MORE`. Greetings and refusals are
msgpack. Anything else is refused, and no memory is allocated for a length that is only claimed.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Annotated

import msgspec
import numpy as np

from coopbandits.core.contract import Vector

MAGIC = 0xB4CB
VERSION = 1
MORE = 1
"""Another part of the same vector follows."""
SILENT = 2
"""No message this round, which is not the same as an empty one."""
MAX_BODY = 1 << 16
MAX_REASON = 500
"""The longest refusal sent or read, in characters."""

HEADER = struct.Struct("<HBBHHIQQQ")
LITTLE = np.dtype("<f8")
VALUE_BYTES = 8


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 1
    DATA = 2
    BEAT = 3
    BYE = 4


HELLO, DATA, BEAT, BYE = (int(kind) for kind in Kind)


class FrameError(ValueError):
    """Bytes that are no frame; the rest of the stream cannot be read.

    Attributes
    ----------
    kind : str
        "malformed", "version" or "oversized".
    """

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Stamp(msgspec.Struct, frozen=True):
    """What every frame says about its sender.

    Attributes
    ----------
    num_arms : int
        K, up to 65535.
    epoch : int
        Start of learning, in seconds since 1970.
    round : int
        The round of a vector; in other frames how many the sender has completed.
    incarnation : int
        Which start of the sender's process this is.
    """

    num_arms: int
    epoch: int
    round: int
    incarnation: int


class Hello(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Who the sender is; epoch, round and incarnation are in the stamp.

    Attributes
    ----------
    node, cluster : str
        Names of the agent and of its cluster.
    configuration : str
        Hash of the settings that all agents of a cluster must share.
    degree : int
        Number of the agent's neighbours.
    """

    node: Annotated[str, msgspec.Meta(max_length=63)]
    cluster: Annotated[str, msgspec.Meta(max_length=255)]
    configuration: Annotated[str, msgspec.Meta(max_length=255)]
    degree: Annotated[int, msgspec.Meta(ge=0)]


class Bye(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Why the sender refuses this link, in one printable sentence."""

    reason: str


class HelloFrame(msgspec.Struct, frozen=True):
    """A greeting."""

    stamp: Stamp
    hello: Hello


class DataFrame(msgspec.Struct, frozen=True):
    """An agent's message of one round; None if it has nothing to say."""

    stamp: Stamp
    values: Vector | None


class BeatFrame(msgspec.Struct, frozen=True):
    """A keepalive."""

    stamp: Stamp


class ByeFrame(msgspec.Struct, frozen=True):
    """A refusal."""

    stamp: Stamp
    reason: str


Frame = HelloFrame | DataFrame | BeatFrame | ByeFrame


def encode_hello(stamp: Stamp, hello: Hello) -> bytes:
    """Return a greeting."""
    return _frame(HELLO, 0, stamp, msgspec.msgpack.encode(hello))


def encode_bye(stamp: Stamp, reason: str) -> bytes:
    """Return a refusal; the reason is cut to `MAX_REASON` characters."""
    return _frame(BYE, 0, stamp, msgspec.msgpack.encode(Bye(printable(reason))))


def encode_beat(stamp: Stamp) -> bytes:
    """Return a keepalive."""
    return _frame(BEAT, 0, stamp, b"")


def encode_data(stamp: Stamp, values: Vector | None) -> bytes:
    """Return a round's vector, in as many parts as it takes, or a frame that says there is none."""
    if values is None:
        return _frame(DATA, SILENT, stamp, b"")
    body = np.asarray(values, LITTLE).tobytes()
    if len(body) <= MAX_BODY:
        return _frame(DATA, 0, stamp, body)
    last = (len(body) - 1) // MAX_BODY * MAX_BODY
    parts = [
        _frame(DATA, MORE if start < last else 0, stamp, body[start : start + MAX_BODY])
        for start in range(0, len(body), MAX_BODY)
    ]
    return b"".join(parts)


def _frame(kind: int, flags: int, stamp: Stamp, body: bytes) -> bytes:
    when = stamp.epoch, stamp.round, stamp.incarnation
    return HEADER.pack(MAGIC, VERSION, kind, flags, stamp.num_arms, len(body), *when) + body


def printable(text: str) -> str:
    """Return untrusted text made safe for a line in a log."""
    return "".join(char if char.isprintable() else " " for char in text[:MAX_REASON])


class Decoder:
    """Turns a stream of bytes, split anywhere, into frames.

    Parameters
    ----------
    max_message_bytes : int
        The longest vector accepted, all parts together. Apart from it, at most one incomplete
        frame is buffered.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self.max_message_bytes = max_message_bytes
        self._rest = bytearray()
        self._parts: list[bytes] = []
        self._parts_stamp: Stamp | None = None
        self._error: FrameError | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Take some bytes and return the frames that they complete.

        Raises
        ------
        FrameError
            The stream cannot be read; every later call raises the same error. Frames before the
            bad one are lost if they came in the same call.
        """
        if self._error:
            raise self._error
        try:
            return self._feed(data)
        except FrameError as error:
            self._error = error
            self._rest, self._parts = bytearray(), []
            raise

    def _feed(self, data: bytes) -> list[Frame]:
        buffer: bytes | bytearray = data
        if self._rest:
            self._rest += data
            buffer = self._rest
        frames: list[Frame] = []
        start, end = 0, len(buffer)
        while end - start >= HEADER.size:
            header = HEADER.unpack_from(buffer, start)
            body = start + HEADER.size
            stop = body + self._check(header)
            if stop > end:
                break
            frame = self._open(header, buffer, body, stop)
            if frame is not None:
                frames.append(frame)
            start = stop
        if buffer is self._rest:
            del self._rest[:start]
        elif start < end:
            self._rest += data[start:]
        return frames

    def _check(self, header: tuple[int, ...]) -> int:
        """Check a header before its body has arrived, and return the body's length."""
        magic, version, kind, flags, _, length = header[:6]
        if magic != MAGIC:
            raise FrameError("malformed", f"a frame begins with {magic:#06x} and not {MAGIC:#06x}")
        if version != VERSION:
            raise FrameError("version", f"a frame of version {version} came; known is {VERSION}")
        if length > MAX_BODY:
            raise FrameError("oversized", f"a body of {length} bytes; allowed are {MAX_BODY}")
        if self._parts and (kind != DATA or _stamp(header) != self._parts_stamp):
            raise FrameError("malformed", "another frame came between the parts of a vector")
        if kind == DATA:
            self._check_data(flags, length)
        elif kind not in (HELLO, BEAT, BYE):
            raise FrameError("malformed", f"a frame of the unknown kind {kind}")
        elif flags or (kind == BEAT and length):
            raise FrameError("malformed", f"flags {flags} and {length} bytes in kind {kind}")
        return length

    def _check_data(self, flags: int, length: int) -> None:
        whole = len(self._parts) * MAX_BODY + length
        if whole > self.max_message_bytes:
            sentence = f"a vector of {whole} bytes or more; allowed are {self.max_message_bytes}"
            raise FrameError("oversized", sentence)
        if flags == 0:
            fits = length % VALUE_BYTES == 0 and (length > 0 or not self._parts)
        elif flags == MORE:
            fits = length == MAX_BODY
        else:
            fits = flags == SILENT and length == 0 and not self._parts
        if not fits:
            raise FrameError("malformed", f"flags {flags} and {length} bytes in a vector")

    def _open(
        self, header: tuple[int, ...], buffer: bytes | bytearray, body: int, stop: int
    ) -> Frame | None:
        kind, flags = header[2], header[3]
        stamp = _stamp(header)
        if kind == DATA:
            return self._open_data(flags, stamp, buffer, body, stop)
        if kind == BEAT:
            return BeatFrame(stamp)
        try:
            if kind == HELLO:
                return HelloFrame(stamp, _read_hello(buffer[body:stop]))
            return ByeFrame(stamp, printable(_read_bye(buffer[body:stop]).reason))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FrameError("malformed", f"a body that cannot be read: {error}") from None

    def _open_data(
        self, flags: int, stamp: Stamp, buffer: bytes | bytearray, body: int, stop: int
    ) -> Frame | None:
        if flags == SILENT:
            return DataFrame(stamp, None)
        if flags == MORE or self._parts:
            self._parts.append(bytes(buffer[body:stop]))
            self._parts_stamp = stamp
            if flags == MORE:
                return None
            buffer, body = b"".join(self._parts), 0
            stop = len(buffer)
            self._parts = []
        return DataFrame(stamp, np.frombuffer(bytearray(buffer[body:stop]), LITTLE))


def _stamp(header: tuple[int, ...]) -> Stamp:
    return Stamp(header[4], header[6], header[7], header[8])


_read_hello = msgspec.msgpack.Decoder(Hello).decode
_read_bye = msgspec.msgpack.Decoder(Bye).decode

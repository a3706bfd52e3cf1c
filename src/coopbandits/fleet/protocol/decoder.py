"""Turns bytes into frames, and refuses all that is none."""

from __future__ import annotations

import struct

import msgspec
import numpy as np

from coopbandits.fleet.overlay.messages import decode as decode_message
from coopbandits.fleet.protocol.frames import (
    ARM_BYTES,
    BANDIT,
    BEAT,
    BYE,
    CUT_HEADER,
    DATA,
    DOCUMENT,
    FIELDS,
    FIELDS_LENGTH,
    HEADER,
    HELLO,
    LITTLE,
    MAGIC,
    MAX_BODY,
    MEMBERS,
    MORE,
    NO_FIELDS,
    OPTIONAL,
    SILENT,
    VALUE_BYTES,
    VERSION,
    BanditFrame,
    BeatFrame,
    Bye,
    ByeFrame,
    DataFrame,
    DocumentFrame,
    Fields,
    Form,
    Frame,
    FrameError,
    Greeting,
    Hello,
    HelloFrame,
    MembersFrame,
    Stamp,
    plain_form,
    printable,
)

PREFIX = struct.Struct("<HB")
"""Magic number and version, which begin a frame of any version."""

HEADER_BYTES, unpack_cut = HEADER.size, CUT_HEADER.unpack_from

KNOWN = (HELLO, DATA, BEAT, BYE, DOCUMENT, BANDIT, MEMBERS)

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises on bytes that are no such map; the last one on deeply nested ones."""


class Decoder:
    """Turns a stream of bytes, split anywhere, into frames.

    Parameters
    ----------
    max_message_bytes : int
        The longest vector accepted, all parts together. Apart from it, at most one incomplete
        frame is buffered.

    Attributes
    ----------
    skipped : int
        Frames of unknown kinds that may be skipped, and were.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self.max_message_bytes = max_message_bytes
        self.skipped = 0
        self._rest = bytearray()
        self._parts: list[bytes] = []
        self._parts_stamp: Stamp | None = None
        self._parts_flags = 0
        self._error: FrameError | None = None
        self._most = min(MAX_BODY, max_message_bytes)
        self._expected: dict[Form, Stamp] = {}
        self._forms: dict[int, Form] = {}  # by bandit

    def allow(self, max_message_bytes: int) -> None:
        """Accept vectors up to another length from now on."""
        self.max_message_bytes = max_message_bytes
        self._most = min(MAX_BODY, max_message_bytes)

    def expect(self, stamp: Stamp) -> None:
        """Let `read_plain` read a bandit's vectors with this stamp, of whatever round."""
        if stamp.bandit in self._forms:
            del self._expected[self._forms[stamp.bandit]]
        self._forms[stamp.bandit] = form = plain_form(stamp)
        self._expected[form] = stamp

    def read_plain(self, data: bytes) -> DataFrame | None:
        """Return the frame if these bytes are one whole vector as expected, and no more.

        Most are where an agent has few bandits; all others are left to `feed`.
        """
        if len(data) < HEADER_BYTES or self._rest or self._parts:
            return None
        begin, length, middle, round_, end = unpack_cut(data)
        stamp = self._expected.get(Form(begin, middle, end))
        if (
            stamp is None
            or length != len(data) - HEADER_BYTES
            or length % VALUE_BYTES
            or length > self._most
        ):
            return None
        values = np.frombuffer(data, LITTLE, -1, HEADER_BYTES)
        return DataFrame(
            Stamp(stamp.num_arms, stamp.epoch, round_, stamp.incarnation, stamp.bandit), values
        )

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
            self._error, self._expected, self._forms = error, {}, {}
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
        if PREFIX.size <= end - start < HEADER.size:
            magic, version = PREFIX.unpack_from(buffer, start)  # another version's may be shorter
            if magic != MAGIC or version != VERSION:
                raise _foreign(magic, version)
        if buffer is self._rest:
            del self._rest[:start]
        elif start < end:
            self._rest += data[start:]
        return frames

    def _check(self, header: tuple[int, ...]) -> int:
        """Check a header before its body has arrived, and return the body's length."""
        magic, version, kind, flags, _, length = header[:6]
        if magic != MAGIC or version != VERSION:
            raise _foreign(magic, version)
        if length > MAX_BODY:
            raise FrameError("oversized", f"a body of {length} bytes; allowed are {MAX_BODY}")
        if self._parts and (kind != DATA or _stamp(header) != self._parts_stamp):
            raise FrameError("malformed", "another frame came between the parts of a vector")
        if kind == DATA:
            self._check_data(flags, length)
        elif kind not in KNOWN:
            if not flags & OPTIONAL:
                raise FrameError(
                    "malformed", f"a frame of the unknown kind {kind} that may not be skipped"
                )
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
        elif flags & MORE:
            fits = length == MAX_BODY and flags <= MORE + SILENT + FIELDS
        else:
            fits = length > 0 if flags in (FIELDS, FIELDS | SILENT) else flags + length == SILENT
        if self._parts and flags & ~MORE != self._parts_flags:
            fits = False
        if not fits:
            raise FrameError("malformed", f"flags {flags} and {length} bytes in a vector")

    def _open(
        self, header: tuple[int, ...], buffer: bytes | bytearray, body: int, stop: int
    ) -> Frame | None:
        kind, flags = header[2], header[3]
        stamp = _stamp(header)
        if kind == DATA:
            if not flags and not self._parts:
                return DataFrame(stamp, np.frombuffer(bytes(buffer[body:stop]), LITTLE))
            return self._open_part(flags, stamp, bytes(buffer[body:stop]))
        if kind == BEAT:
            return BeatFrame(stamp)
        if kind == DOCUMENT:
            return DocumentFrame(stamp, bytes(buffer[body:stop]))
        if kind not in KNOWN:
            self.skipped += 1
            return None
        try:
            if kind == HELLO:
                return HelloFrame(stamp, _read_hello(buffer[body:stop]))
            if kind == MEMBERS:
                return MembersFrame(stamp, decode_message(buffer[body:stop]))
            if kind == BANDIT:
                return _bandit_frame(stamp, _read_greeting(buffer[body:stop]))
            return ByeFrame(stamp, printable(_read_bye(buffer[body:stop]).reason))
        except UNREADABLE as error:
            raise FrameError("malformed", f"a body that cannot be read: {error}") from None

    def _open_part(self, flags: int, stamp: Stamp, part: bytes) -> Frame | None:
        self._parts.append(part)
        self._parts_stamp, self._parts_flags = stamp, flags & ~MORE
        if flags & MORE:
            return None
        whole, self._parts = b"".join(self._parts), []
        fields, rest = _split(whole) if flags & FIELDS else (NO_FIELDS, whole)
        if flags & SILENT:
            if rest:
                raise FrameError("malformed", f"{len(rest)} bytes in a vector that is none")
            return DataFrame(stamp, None, fields)
        if len(rest) % VALUE_BYTES:
            raise FrameError("malformed", f"a vector of {len(rest)} bytes")
        return DataFrame(stamp, np.frombuffer(rest, LITTLE), fields)


def _bandit_frame(stamp: Stamp, greeting: Greeting) -> BanditFrame:
    if len(greeting.arms) != ARM_BYTES * stamp.num_arms:
        sentence = f"{len(greeting.arms)} bytes of ids for {stamp.num_arms} arms"
        raise FrameError("malformed", sentence)
    return BanditFrame(stamp, greeting)


def _split(whole: bytes) -> tuple[Fields, bytes]:
    """Return the fields before a vector, and its bytes."""
    start = FIELDS_LENGTH.size
    stop = start + (FIELDS_LENGTH.unpack_from(whole)[0] if len(whole) >= start else len(whole))
    if stop > len(whole):
        raise FrameError("malformed", f"fields that end at byte {stop} of {len(whole)}")
    try:
        fields = _read_fields(whole[start:stop])
    except UNREADABLE as error:
        raise FrameError("malformed", f"fields that cannot be read: {error}") from None
    return fields, whole[stop:]


def _foreign(magic: int, version: int) -> FrameError:
    if magic != MAGIC:
        return FrameError("malformed", f"a frame begins with {magic:#06x} and not {MAGIC:#06x}")
    where = "there" if version < VERSION else "here"
    return FrameError(
        "version",
        f"it speaks version {version} of the protocol, and this agent version {VERSION}; upgrade "
        f"coopbandits {where}",
    )


def _stamp(header: tuple[int, ...]) -> Stamp:
    return Stamp(header[4], header[7], header[8], header[9], header[6])


_read_hello = msgspec.msgpack.Decoder(Hello).decode
_read_greeting = msgspec.msgpack.Decoder(Greeting).decode
_read_bye = msgspec.msgpack.Decoder(Bye).decode
_read_fields = msgspec.msgpack.Decoder(Fields).decode

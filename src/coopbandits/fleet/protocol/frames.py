"""The wire format: frames with a fixed header and a body. No I/O happens here.

A header is 40 bytes, little-endian:

    magic u16 | version u8 | kind u8 | flags u16 | arms u16 | length of the body u32 | bandit u32
    epoch u64 | round u64 | incarnation u64

A vector is sent as raw float64. One longer than the largest body is split: all parts but the last
are full and have the flag `MORE`. Greetings and refusals are msgpack maps.

An agent speaks one version of the protocol and rejects all others. Readers skip unknown names in a
greeting or refusal, unknown fields in front of a vector (flag `FIELDS`), and unknown kinds of
frames with the flag `OPTIONAL`, so a release can add these without a new version. Everything else
that deviates ends the link. `docs/fleet/protocol.md` has the tables.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.fleet.address import LONGEST_ADDRESS
from coopbandits.fleet.identity.names import MAX_ID
from coopbandits.fleet.overlay import messages as overlay
from coopbandits.fleet.overlay.messages import Message

MAGIC = 0xB4CB
VERSION = 1
"""The version of all frames written and read here."""
MORE = 1
"""Another part of the same vector follows."""
SILENT = 2
"""No message this round, which is not the same as an empty one."""
FIELDS = 4
"""Named fields stand before the vector: their length (u32), and a msgpack map."""
OF_BASE = 8
"""The frame is about the base of a bandit: see `storage.eras`."""
OPTIONAL = 1 << 15
"""A reader that does not know this kind of frame skips it instead of ending the link."""
MAX_BODY = 1 << 16
MAX_REASON = 500
"""The longest refusal sent or read, in characters."""

HEADER = struct.Struct("<HBBHHIIQQQ")
CUT_HEADER = struct.Struct("<8sI12sQ8s")
"""The same, cut where the vectors of one sender differ: in their length and in their round."""
PREFIX = struct.Struct("<HB")
"""Magic number and version, which begin a frame of any version."""
HEADER_BYTES, unpack_cut = HEADER.size, CUT_HEADER.unpack_from
FIELDS_LENGTH = struct.Struct("<I")
LITTLE = np.dtype("<f8")
VALUE_BYTES = 8
MAX_PLAIN = MAX_BODY // VALUE_BYTES
"""The most values in one body."""
ARM_BYTES = 8
"""Of the id of an arm in a greeting."""
BASE = 1 << 32
"""Added to the number of a bandit in stamps of frames about its base."""


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 1
    DATA = 2
    BEAT = 3
    BYE = 4
    DOCUMENT = 5
    BANDIT = 6
    MEMBERS = 7
    ROUTES = 8
    CALL = 9
    ANSWER = 10


KNOWN = HELLO, DATA, BEAT, BYE, DOCUMENT, BANDIT, MEMBERS, ROUTES, CALL, ANSWER = tuple(
    int(kind) for kind in Kind
)

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises on bytes that are no such map; the last one on deeply nested ones."""


class FrameError(ValueError):
    """Bytes that are not a frame; the rest of the stream cannot be read.

    `kind` is "malformed", "version" or "oversized".
    """

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Stamp(msgspec.Struct, frozen=True):
    """What every header says about the sender.

    Attributes
    ----------
    num_arms : int
        K of the bandit, up to 65535.
    epoch : int
        Start of learning, in seconds since 1970.
    round : int
        The round of a vector; in other frames how many the sender has completed.
    incarnation : int
        Which start of the sender's process this is.
    bandit : int
        Which bandit it is about, `BASE` more if about its base; 0 in frames about the link.
    """

    num_arms: int
    epoch: int
    round: int
    incarnation: int
    bandit: int = 0


# Bodies


class ApiEndpoint(NamedTuple):
    """Where an agent serves its HTTP API; the host is never sent, since the reader knows it."""

    api_port: int = 0
    api_secure: bool = False


NO_ENDPOINT = ApiEndpoint()

Count = Annotated[int, msgspec.Meta(ge=0)]


class Hello(msgspec.Struct, frozen=True):
    """Who the sender is; epoch, round and incarnation are in the stamp.

    Attributes
    ----------
    node, cluster : str
        Names of the agent and of its cluster.
    configuration : str
        Hash of the settings that all agents of a cluster must share.
    api_port, api_secure : int and bool
        The port of its HTTP API, 0 to keep it private, and whether that is HTTPS.
    document, document_digest : int or None, and bytes
        The version of the cluster's document that it has, 0 for none, and the SHA-256 of it; None
        if it takes no documents.
    ask, place : str
        With `neighbors = "auto"`: why it calls, see `overlay.messages.Ask`, and where others reach
        it, ``:port`` on the host that it calls from, or ``host:port``.
    """

    node: Annotated[str, msgspec.Meta(max_length=MAX_ID)]
    cluster: Annotated[str, msgspec.Meta(max_length=255)]
    configuration: Annotated[str, msgspec.Meta(max_length=255)]
    api_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    api_secure: bool = False
    document: Count | None = None
    document_digest: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    ask: Annotated[str, msgspec.Meta(max_length=16)] = ""
    place: Annotated[str, msgspec.Meta(max_length=LONGEST_ADDRESS)] = ""


class Greeting(msgspec.Struct, frozen=True):
    """What the sender knows of one bandit; number, number of arms and round are in the stamp.

    Attributes
    ----------
    name : str
        Its name.
    digest : str
        Of the settings that must be the same for agents to gossip about it.
    arms : bytes
        The ids of its arms, one after the other, in the order of the sender's vectors.
    memory : int
        Which memory it has: another one if its journal was lost or is older than what it sent.
    heard : (int, int, int)
        The receiver's message that it heard last: of which memory and incarnation, and its number.
    degree : int
        Number of the agent's neighbours.
    ask : bool
        Whether the receiver is to greet back.
    era : int
        The era in which the sender is, nothing for the first; between two eras nothing is
        exchanged.
    policy : str
        The spelling of the sender's policy, for people.
    """

    name: Annotated[str, msgspec.Meta(max_length=63)]
    digest: Annotated[str, msgspec.Meta(max_length=64)]
    arms: bytes
    memory: Count = 0
    heard: tuple[Count, Count, Count] = (0, 0, 0)
    degree: Count = 0
    ask: bool = False
    era: Count | msgspec.UnsetType = msgspec.UNSET
    policy: Annotated[str, msgspec.Meta(max_length=255)] | msgspec.UnsetType = msgspec.UNSET


class Bye(msgspec.Struct, frozen=True):
    """Why the sender rejects this link, in one printable sentence."""

    reason: str


class Fields(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands beside a vector, by name; a reader skips names that it does not know.

    Attributes
    ----------
    proofs : bytes
        A proof for every entry in the vector, one after the other: see `identity.notary`.
    certificates : bytes
        Certificates of authors, each behind its length.
    remainders : list of bytes
        What follows each proof, where arms were purged from an entry: see `storage.purging`.
    """

    proofs: bytes = b""
    certificates: bytes = b""
    remainders: list[bytes] = []


NO_FIELDS = Fields()

# Frames as they are read


class HelloFrame(msgspec.Struct, frozen=True):
    """HELLO: the first frame over a link."""

    stamp: Stamp
    hello: Hello


class DataFrame(msgspec.Struct, frozen=True):
    """DATA: an agent's message of one round, None if it has none, and fields beside it."""

    stamp: Stamp
    values: Vector | None
    fields: Fields = NO_FIELDS


class BeatFrame(msgspec.Struct, frozen=True):
    """BEAT: a keepalive."""

    stamp: Stamp


class ByeFrame(msgspec.Struct, frozen=True):
    """BYE: a goodbye or a refusal."""

    stamp: Stamp
    reason: str


class DocumentFrame(msgspec.Struct, frozen=True):
    """DOCUMENT: news of the cluster's document, see `document.spread`."""

    stamp: Stamp
    body: bytes


class BanditFrame(msgspec.Struct, frozen=True):
    """BANDIT: a greeting about one bandit."""

    stamp: Stamp
    greeting: Greeting


class MembersFrame(msgspec.Struct, frozen=True):
    """MEMBERS: a message of the overlay, see `overlay.messages`."""

    stamp: Stamp
    message: Message


class RoutesFrame(msgspec.Struct, frozen=True):
    """ROUTES: announcements of agents, see `routes`."""

    stamp: Stamp
    body: bytes


class CallFrame(msgspec.Struct, frozen=True):
    """CALL: a call of an agent that may be elsewhere, see `calls`."""

    stamp: Stamp
    body: bytes


class AnswerFrame(msgspec.Struct, frozen=True):
    """ANSWER: an answer on its way to the agent that made a call."""

    stamp: Stamp
    body: bytes


Frame = (
    HelloFrame | DataFrame | BeatFrame | ByeFrame | DocumentFrame | BanditFrame | MembersFrame
    | RoutesFrame | CallFrame | AnswerFrame
)  # fmt: skip

# Writing


def encode_hello(stamp: Stamp, hello: Hello) -> bytes:
    return _frame(HELLO, 0, stamp, msgspec.msgpack.encode(hello))


def encode_bye(stamp: Stamp, reason: str) -> bytes:
    """Encode a refusal; the reason is cut to `MAX_REASON` characters."""
    return _frame(BYE, 0, stamp, msgspec.msgpack.encode(Bye(printable(reason))))


def encode_greeting(stamp: Stamp, greeting: Greeting) -> bytes:
    return _frame(BANDIT, 0, stamp, msgspec.msgpack.encode(greeting))


def encode_beat(stamp: Stamp) -> bytes:
    return _frame(BEAT, 0, stamp, b"")


def encode_document(stamp: Stamp, body: bytes) -> bytes:
    return _frame(DOCUMENT, 0, stamp, body)


def encode_members(stamp: Stamp, message: Message) -> bytes:
    return _frame(MEMBERS, 0, stamp, overlay.encode(message))


def encode_routes(stamp: Stamp, body: bytes) -> bytes:
    return _frame(ROUTES, 0, stamp, body)


def encode_call(stamp: Stamp, body: bytes) -> bytes:
    return _frame(CALL, 0, stamp, body)


def encode_answer(stamp: Stamp, body: bytes) -> bytes:
    return _frame(ANSWER, 0, stamp, body)


def encode_data(stamp: Stamp, values: Vector | None, fields: Fields | None = None) -> bytes:
    """Encode a round's vector, in as many parts as it takes, or a frame that says there is none."""
    flags = 0 if values is not None else SILENT
    body = b"" if values is None else np.asarray(values, LITTLE).tobytes()
    if fields is not None:
        flags |= FIELDS
        named = msgspec.msgpack.encode(fields)
        body = FIELDS_LENGTH.pack(len(named)) + named + body
    if len(body) <= MAX_BODY:
        return _frame(DATA, flags, stamp, body)
    last = (len(body) - 1) // MAX_BODY * MAX_BODY
    parts = [
        _frame(DATA, flags | MORE if start < last else flags, stamp, body[start : start + MAX_BODY])
        for start in range(0, len(body), MAX_BODY)
    ]
    return b"".join(parts)


class Form(NamedTuple):
    """What the headers of all plain vectors of one sender share: without fields, in one part."""

    begin: bytes
    middle: bytes
    end: bytes


def plain_form(stamp: Stamp) -> Form:
    """Return the form of plain vectors with this stamp, of whatever round."""
    begin, _, middle, _, end = CUT_HEADER.unpack(encode_data(stamp, np.zeros(0)))
    return Form(begin, middle, end)


def encode_plain(form: Form, round_: int, values: Vector) -> bytes:
    """Encode at most `MAX_PLAIN` values: the same as `encode_data`, in less time."""
    body = (values if values.dtype == LITTLE else values.astype(LITTLE)).tobytes()
    return CUT_HEADER.pack(form.begin, len(body), form.middle, round_, form.end) + body


def _frame(kind: int, flags: int, stamp: Stamp, body: bytes) -> bytes:
    arms, when = stamp.num_arms, (stamp.epoch, stamp.round, stamp.incarnation)
    bandit = stamp.bandit
    if bandit >= BASE:
        bandit, flags = bandit - BASE, flags | OF_BASE
    return HEADER.pack(MAGIC, VERSION, kind, flags, arms, len(body), bandit, *when) + body


def printable(text: str) -> str:
    """Return untrusted text made safe for a line in a log."""
    return "".join(char if char.isprintable() else " " for char in text[:MAX_REASON])


# Reading


class Decoder:
    """Incremental frame decoder: turns a stream of bytes, split anywhere, into frames.

    Headers are checked before bodies arrive, and a claimed length allocates nothing.

    Parameters
    ----------
    max_message_bytes : int
        The longest vector accepted, all parts together. Apart from it, at most one incomplete
        frame is buffered.

    Attributes
    ----------
    skipped : int
        Frames of unknown kinds with the flag `OPTIONAL`.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self.max_message_bytes = max_message_bytes
        self.skipped = 0
        self._rest = bytearray()
        self._parts: list[bytes] = []
        self._parts_stamp: Stamp | None = None
        self._parts_flags = 0
        self._error: FrameError | None = None
        self._expected: dict[Form, Stamp] = {}
        self._forms: dict[int, Form] = {}  # by bandit

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
            or length > MAX_BODY
            or length > self.max_message_bytes
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
        buffer: bytes | bytearray = data
        if self._rest:
            self._rest += data
            buffer = self._rest
        frames: list[Frame] = []
        start, end = 0, len(buffer)
        try:
            while end - start >= HEADER_BYTES:
                header = HEADER.unpack_from(buffer, start)
                body = start + HEADER_BYTES
                stop = body + self._check(header)
                if stop > end:
                    break
                frame = self._read(header, bytes(buffer[body:stop]))
                if frame is not None:
                    frames.append(frame)
                start = stop
            if PREFIX.size <= end - start < HEADER_BYTES:
                magic, version = PREFIX.unpack_from(buffer, start)
                if magic != MAGIC or version != VERSION:  # another version's may be shorter
                    raise _foreign(magic, version)
        except FrameError as error:
            self._error, self._expected, self._forms = error, {}, {}
            self._rest, self._parts = bytearray(), []
            raise
        if buffer is self._rest:
            del self._rest[:start]
        elif start < end:
            self._rest += data[start:]
        return frames

    def _check(self, header: tuple[int, ...]) -> int:
        """Check a header before its body has arrived, and return the body's length."""
        magic, version, kind, flags, _, length = header[:6]
        if kind in (DATA, BANDIT):
            flags &= ~OF_BASE
        if magic != MAGIC or version != VERSION:
            raise _foreign(magic, version)
        if length > MAX_BODY:
            raise FrameError("oversized", f"a body of {length} bytes; allowed are {MAX_BODY}")
        if self._parts and (kind != DATA or _stamp(header) != self._parts_stamp):
            raise FrameError("malformed", "another frame came between the parts of a vector")
        if kind == DATA:
            whole = len(self._parts) * MAX_BODY + length
            if whole > self.max_message_bytes:
                most = self.max_message_bytes
                raise FrameError(
                    "oversized", f"a vector of {whole} bytes or more; allowed are {most}"
                )
            if flags == 0:
                fits = length % VALUE_BYTES == 0 and (length > 0 or not self._parts)
            elif flags & MORE:
                fits = length == MAX_BODY and flags <= MORE + SILENT + FIELDS
            else:
                fits = (
                    length > 0 if flags in (FIELDS, FIELDS | SILENT) else flags + length == SILENT
                )
            if self._parts and flags & ~MORE != self._parts_flags:
                fits = False
            if not fits:
                raise FrameError("malformed", f"flags {flags} and {length} bytes in a vector")
        elif kind not in KNOWN:
            if not flags & OPTIONAL:
                raise FrameError("malformed", f"a frame of the unknown kind {kind}, not optional")
        elif flags or (kind == BEAT and length):
            raise FrameError("malformed", f"flags {flags} and {length} bytes in kind {kind}")
        return length

    def _read(self, header: tuple[int, ...], body: bytes) -> Frame | None:
        kind, flags, stamp = header[2], header[3] & ~OF_BASE, _stamp(header)
        try:
            if kind == DATA:
                if not flags and not self._parts:
                    return DataFrame(stamp, np.frombuffer(body, LITTLE))
                return self._read_part(flags, stamp, body)
            if kind == BEAT:
                return BeatFrame(stamp)
            if kind == BANDIT:
                greeting = _read_greeting(body)
                if len(greeting.arms) != ARM_BYTES * stamp.num_arms:
                    told = f"{len(greeting.arms)} bytes of ids for {stamp.num_arms} arms"
                    raise FrameError("malformed", told)
                return BanditFrame(stamp, greeting)
            if kind == HELLO:
                return HelloFrame(stamp, _read_hello(body))
            if kind == MEMBERS:
                return MembersFrame(stamp, overlay.decode(body))
            if kind == DOCUMENT:
                return DocumentFrame(stamp, body)
            if kind == CALL:
                return CallFrame(stamp, body)
            if kind == ANSWER:
                return AnswerFrame(stamp, body)
            if kind == ROUTES:
                return RoutesFrame(stamp, body)
            if kind == BYE:
                return ByeFrame(stamp, printable(_read_bye(body).reason))
        except UNREADABLE as error:
            what = "fields" if kind == DATA else "a body"
            raise FrameError("malformed", f"{what} that cannot be read: {error}") from None
        self.skipped += 1  # of an unknown kind, and optional
        return None

    def _read_part(self, flags: int, stamp: Stamp, part: bytes) -> DataFrame | None:
        """Gather the parts of a vector with fields, or of a long one; return it once complete."""
        self._parts.append(part)
        self._parts_stamp, self._parts_flags = stamp, flags & ~MORE
        if flags & MORE:
            return None
        whole, self._parts = b"".join(self._parts), []
        fields, start = NO_FIELDS, 0
        if flags & FIELDS:
            start = FIELDS_LENGTH.size
            if len(whole) >= start:
                start += FIELDS_LENGTH.unpack_from(whole)[0]
            if start > len(whole):
                raise FrameError("malformed", f"fields that end at byte {start} of {len(whole)}")
            fields = _read_fields(whole[FIELDS_LENGTH.size : start])
        length = len(whole) - start
        if flags & SILENT:
            if length:
                raise FrameError("malformed", f"{length} bytes in a vector that is none")
            return DataFrame(stamp, None, fields)
        if length % VALUE_BYTES:
            raise FrameError("malformed", f"a vector of {length} bytes")
        return DataFrame(stamp, np.frombuffer(whole[start:], LITTLE), fields)


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
    bandit = header[6] + (BASE if header[3] & OF_BASE else 0)
    return Stamp(header[4], header[7], header[8], header[9], bandit)


_read_hello = msgspec.msgpack.Decoder(Hello).decode
_read_greeting = msgspec.msgpack.Decoder(Greeting).decode
_read_bye = msgspec.msgpack.Decoder(Bye).decode
_read_fields = msgspec.msgpack.Decoder(Fields).decode

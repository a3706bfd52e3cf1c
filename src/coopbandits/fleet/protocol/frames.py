"""The wire format: frames with a fixed header and a body. No I/O happens here.

A header is 40 bytes, little-endian: magic number, version, kind, flags, number of arms, length of
the body, bandit, epoch, round, incarnation. A vector is sent as raw float64. One longer than the
largest body is split: all parts but the last are full and have the flag `MORE`. Greetings and
refusals are msgpack maps.

An agent speaks one version of the protocol and refuses all others. Readers skip unknown names in a
greeting or refusal, unknown fields in front of a vector (flag `FIELDS`), and unknown kinds of
frames with the flag `OPTIONAL`, so a release can add these without a new version.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.fleet.address import LONGEST_ADDRESS
from coopbandits.fleet.overlay.messages import Message
from coopbandits.fleet.overlay.messages import encode as encode_message

MAGIC = 0xB4CB
VERSION = 1
"""The version of all frames written and read here."""
MORE = 1
"""Another part of the same vector follows."""
SILENT = 2
"""No message this round, which is not the same as an empty one."""
FIELDS = 4
"""Named fields stand before the vector: their length (u32), and a msgpack map."""
OPTIONAL = 1 << 15
"""Who does not know this kind of frame skips it; without this flag it is refused."""
MAX_BODY = 1 << 16
MAX_REASON = 500
"""The longest refusal sent or read, in characters."""

HEADER = struct.Struct("<HBBHHIIQQQ")
CUT_HEADER = struct.Struct("<8sI12sQ8s")
"""The same, cut where the vectors of one sender differ: in their length and in their round."""
FIELDS_LENGTH = struct.Struct("<I")
LITTLE = np.dtype("<f8")
VALUE_BYTES = 8
MAX_PLAIN = MAX_BODY // VALUE_BYTES
"""The most values in one body."""


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 1
    DATA = 2
    BEAT = 3
    BYE = 4
    DOCUMENT = 5
    BANDIT = 6
    MEMBERS = 7


HELLO, DATA, BEAT, BYE, DOCUMENT, BANDIT, MEMBERS = (int(kind) for kind in Kind)


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
        K of the bandit, up to 65535.
    epoch : int
        Start of learning, in seconds since 1970.
    round : int
        The round of a vector; in other frames how many the sender has completed.
    incarnation : int
        Which start of the sender's process this is.
    bandit : int
        Which bandit it is about; 0 in frames about the link.
    """

    num_arms: int
    epoch: int
    round: int
    incarnation: int
    bandit: int = 0


class Door(NamedTuple):
    """What an agent tells of its HTTP API: never a host, since that is known to who asks."""

    api_port: int = 0
    api_secure: bool = False


NO_DOOR = Door()

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
        The port of its HTTP API, 0 if it does not tell, and whether that is HTTPS.
    document, document_digest : int or None, and bytes
        The version of the cluster's document that it has, 0 for none, and the SHA-256 of it; None
        if it takes no documents.
    ask, place : str
        Where agents find each other: why it calls, see `overlay.messages.Ask`, and where others
        reach it, ``:port`` on the host that it calls from, or ``host:port``.
    """

    node: Annotated[str, msgspec.Meta(max_length=63)]
    cluster: Annotated[str, msgspec.Meta(max_length=255)]
    configuration: Annotated[str, msgspec.Meta(max_length=255)]
    api_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    api_secure: bool = False
    document: Count | None = None
    document_digest: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    ask: Annotated[str, msgspec.Meta(max_length=16)] = ""
    place: Annotated[str, msgspec.Meta(max_length=LONGEST_ADDRESS)] = ""


ARM_BYTES = 8
"""Of the id of an arm in a greeting."""


class Greeting(msgspec.Struct, frozen=True):
    """What the sender knows of one bandit; number, number of arms and round are in the stamp.

    Attributes
    ----------
    name : str
        Its name.
    digest : str
        Of the settings without which agents cannot talk about it.
    arms : bytes
        The ids of its arms, one after the other, in the order of the sender's vectors.
    memory : int
        Which memory it has: another one if its journal was lost or is older than what it sent.
    heard : (int, int, int)
        The receiver's message that it heard last: of which memory and incarnation, and its number.
    degree : int
        Number of the agent's neighbours.
    ask : bool
        Whether the receiver is to say the same.
    """

    name: Annotated[str, msgspec.Meta(max_length=63)]
    digest: Annotated[str, msgspec.Meta(max_length=64)]
    arms: bytes
    memory: Count = 0
    heard: tuple[Count, Count, Count] = (0, 0, 0)
    degree: Count = 0
    ask: bool = False


class Bye(msgspec.Struct, frozen=True):
    """Why the sender refuses this link, in one printable sentence."""

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


class HelloFrame(msgspec.Struct, frozen=True):
    """A greeting."""

    stamp: Stamp
    hello: Hello


class DataFrame(msgspec.Struct, frozen=True):
    """An agent's message of one round, None if it has nothing to say, and fields beside it."""

    stamp: Stamp
    values: Vector | None
    fields: Fields = NO_FIELDS


class BeatFrame(msgspec.Struct, frozen=True):
    """A keepalive."""

    stamp: Stamp


class ByeFrame(msgspec.Struct, frozen=True):
    """A refusal."""

    stamp: Stamp
    reason: str


class DocumentFrame(msgspec.Struct, frozen=True):
    """News of the cluster's document: see `document.spread`."""

    stamp: Stamp
    body: bytes


class BanditFrame(msgspec.Struct, frozen=True):
    """A greeting about one bandit."""

    stamp: Stamp
    greeting: Greeting


class MembersFrame(msgspec.Struct, frozen=True):
    """What is told of members, where agents find each other."""

    stamp: Stamp
    message: Message


Frame = HelloFrame | DataFrame | BeatFrame | ByeFrame | DocumentFrame | BanditFrame | MembersFrame


def encode_hello(stamp: Stamp, hello: Hello) -> bytes:
    """Return a greeting."""
    return _frame(HELLO, 0, stamp, msgspec.msgpack.encode(hello))


def encode_bye(stamp: Stamp, reason: str) -> bytes:
    """Return a refusal; the reason is cut to `MAX_REASON` characters."""
    return _frame(BYE, 0, stamp, msgspec.msgpack.encode(Bye(printable(reason))))


def encode_greeting(stamp: Stamp, greeting: Greeting) -> bytes:
    """Return a greeting about one bandit."""
    return _frame(BANDIT, 0, stamp, msgspec.msgpack.encode(greeting))


def encode_beat(stamp: Stamp) -> bytes:
    """Return a keepalive."""
    return _frame(BEAT, 0, stamp, b"")


def encode_document(stamp: Stamp, body: bytes) -> bytes:
    """Return news of the cluster's document."""
    return _frame(DOCUMENT, 0, stamp, body)


def encode_members(stamp: Stamp, message: Message) -> bytes:
    """Return a message about members."""
    return _frame(MEMBERS, 0, stamp, encode_message(message))


def encode_data(stamp: Stamp, values: Vector | None, fields: Fields | None = None) -> bytes:
    """Return a round's vector, in as many parts as it takes, or a frame that says there is none."""
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
    """Return how plain vectors with this stamp, of whatever round, look."""
    begin, _, middle, _, end = CUT_HEADER.unpack(encode_data(stamp, np.zeros(0)))
    return Form(begin, middle, end)


def encode_plain(form: Form, round_: int, values: Vector) -> bytes:
    """Return what `encode_data` does for at most `MAX_PLAIN` values, in less time."""
    body = (values if values.dtype == LITTLE else values.astype(LITTLE)).tobytes()
    return CUT_HEADER.pack(form.begin, len(body), form.middle, round_, form.end) + body


def _frame(kind: int, flags: int, stamp: Stamp, body: bytes) -> bytes:
    arms, when = stamp.num_arms, (stamp.epoch, stamp.round, stamp.incarnation)
    return HEADER.pack(MAGIC, VERSION, kind, flags, arms, len(body), stamp.bandit, *when) + body


def printable(text: str) -> str:
    """Return untrusted text made safe for a line in a log."""
    return "".join(char if char.isprintable() else " " for char in text[:MAX_REASON])

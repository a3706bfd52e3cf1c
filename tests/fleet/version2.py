"""What an agent that speaks version 2 of the protocol reads, and nothing else; never to be changed.

Such an agent may be there no more, but this is how it looks at bytes: whatever it would refuse
raises an error here. It is written from the protocol's page and shares nothing with the package.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import msgspec

HEADER = struct.Struct("<HBBHHIIQQQ")
MAGIC, VERSION, LONGEST = 0xB4CB, 2, 1 << 16
HELLO, DATA, BEAT, BYE, DOCUMENT, BANDIT, MEMBERS = range(1, 8)
OPTIONAL = 1 << 15
MORE, SILENT, FIELDS = 1, 2, 4
NAMES: dict[int, dict[str, type]] = {
    HELLO: {
        "node": str, "cluster": str, "configuration": str, "degree": int, "versions": list,
        "memory": int, "entry": int, "heard": list, "api_port": int, "api_secure": bool,
    },
    BYE: {"reason": str},
    BANDIT: {
        "name": str, "digest": str, "arms": bytes, "memory": int, "entry": int, "heard": list,
        "ask": bool,
    },
}  # fmt: skip
"""What stands in maps, and is read; other names are skipped."""


class Frame(NamedTuple):
    """A frame: kind, flags, and what its body says."""

    kind: int
    flags: int
    body: Any


def read(data: bytes) -> list[Frame]:
    """Return the frames in some bytes that were sent at once."""
    found = []
    while data:
        magic, version, kind, flags, arms, length, *_ = HEADER.unpack_from(data)
        body, data = data[HEADER.size : HEADER.size + length], data[HEADER.size + length :]
        if (magic, version) != (MAGIC, VERSION) or length > LONGEST or len(body) < length:
            raise ValueError(f"no frame of version {VERSION}: {magic:#x}, {version}, {length}")
        found.append(Frame(kind, flags, _read(kind, flags, arms, body)))
    return found


def _read(kind: int, flags: int, arms: int, body: bytes) -> Any:
    if kind == DATA:
        return _vector(flags, body)
    if kind not in (HELLO, BEAT, BYE, DOCUMENT, BANDIT, MEMBERS):
        if not flags & OPTIONAL:
            raise ValueError(f"the unknown kind {kind}, which may not be skipped")
        return None
    if flags != (OPTIONAL if kind in (DOCUMENT, BANDIT, MEMBERS) else 0):
        raise ValueError(f"flags {flags} of kind {kind}")
    if kind not in NAMES:
        return body
    told = msgspec.msgpack.decode(body)
    for name, what in NAMES[kind].items():
        if not isinstance(told[name], what):
            raise TypeError(f"{name} of kind {kind} is {told[name]!r}")
    if kind == BANDIT and len(told["arms"]) != 8 * arms:
        raise ValueError(f"{len(told['arms'])} bytes for {arms} arms")
    return told


def _vector(flags: int, body: bytes) -> bytes | None:
    if flags & ~(MORE | SILENT | FIELDS):
        raise ValueError(f"flags {flags} of a vector")
    if flags & FIELDS:
        (length,) = struct.unpack_from("<I", body)
        fields = msgspec.msgpack.decode(body[4 : 4 + length])
        if not all(isinstance(fields.get(name, b""), bytes) for name in ("proofs", "certificates")):
            raise TypeError(f"fields {fields!r}")
        body = body[4 + length :]
    if flags & SILENT:
        return None
    if len(body) % 8:
        raise ValueError(f"a vector of {len(body)} bytes")
    return body

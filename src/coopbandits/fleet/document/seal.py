"""Seals: what an operator signs of a document, and who is believed.

A signature covers a short *head*, not the document itself: cluster, version, length and SHA-256 of
the content, and the keys that are trusted from this version on. So a few hundred bytes prove which
document is meant. A neighbour shows them before it sends the rest, and two heads of one version
prove that an operator signed two contents.

Keys change with a document that is signed by a key trusted before it. Seals of such documents are
kept and handed on as a chain: who was away meanwhile follows it from the keys that it knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from coopbandits.core.errors import InputError
from coopbandits.fleet.config.fields import MAX_OPERATORS
from coopbandits.fleet.identity.operators import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    key_text,
    public_bytes,
    verifies,
)

PURPOSE = "coopbandits cluster document 1"
"""Begins every head, so that a signature for anything else is none of a document."""

MAX_CONTENT = 1 << 18
"""The longest content of a document, in bytes."""
MAX_VERSION = 2**53 - 1
"""The highest version: whole numbers up to it are exact in JSON everywhere."""
MAX_SIGNATURES = 8
MAX_CHAIN = 16
"""So many changes of keys are handed on; who missed more needs the new keys in its own file."""

Key = Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Signature = Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class ForgedError(InputError):
    """A signature in the name of a trusted key that the key's owner did not make."""


class Head(msgspec.Struct, frozen=True, array_like=True):
    """What is signed; no operators means those of before."""

    purpose: Annotated[str, msgspec.Meta(max_length=40)]
    cluster: Annotated[str, msgspec.Meta(max_length=100)]
    version: Annotated[int, msgspec.Meta(ge=1, le=MAX_VERSION)]
    size: Annotated[int, msgspec.Meta(ge=0, le=MAX_CONTENT)]
    digest: Digest
    operators: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MAX_OPERATORS)] = ()


class Seal(msgspec.Struct, frozen=True):
    """A head as it was signed, and the signatures: public key and signature of each."""

    head: Annotated[bytes, msgspec.Meta(max_length=1024)]
    signatures: Annotated[
        tuple[tuple[Key, Signature], ...], msgspec.Meta(max_length=MAX_SIGNATURES)
    ]

    def open(self) -> Head:
        """Return what was signed; refuse what is no head, or is written in another way."""
        try:
            head = msgspec.msgpack.decode(self.head, type=Head)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"a document's head that cannot be read: {error}") from None
        if head.purpose != PURPOSE or msgspec.msgpack.encode(head) != self.head:
            raise InputError("what was signed is no head of a cluster's document")
        return head

    def signed_by(self, keys: Iterable[bytes]) -> bool:
        """Return whether one of these keys has signed.

        Raises
        ------
        ForgedError
            A signature in the name of one of them does not hold.
        """
        known, found = frozenset(keys), False
        for key, signature in self.signatures:
            if key in known:
                if not verifies(key, signature, self.head):
                    raise ForgedError(f"a signature of {key_text(key)} that does not hold")
                found = True
        return found


class Signed(msgspec.Struct, frozen=True):
    """A document with its seal, and the seals of earlier ones that changed keys, in order."""

    seal: Seal
    content: Annotated[bytes, msgspec.Meta(max_length=MAX_CONTENT)]
    chain: Annotated[tuple[Seal, ...], msgspec.Meta(max_length=MAX_CHAIN)] = ()


class Trust(NamedTuple):
    """The keys that are believed, since which version, and the seals that were followed there."""

    keys: frozenset[bytes]
    version: int = 0
    followed: tuple[Seal, ...] = ()

    def follow(self, chain: Iterable[Seal], cluster: str, until: int) -> Trust:
        """Return whom to believe for a version, along a chain.

        Seals that prove nothing are left out. Nobody vouches for a chain but the signatures in it:
        each seal must be signed by a key that the one before it named.
        """
        trust = self
        for seal in chain:
            head = seal.open()
            if head.cluster != cluster or not trust.version < head.version < until:
                continue
            if head.operators and seal.signed_by(trust.keys):
                followed = (*trust.followed, seal)
                trust = Trust(frozenset(head.operators), head.version, followed)
        return trust


def to_json(signed: Signed) -> bytes:
    """Return a document as it is handed over by HTTP."""
    return msgspec.json.encode(signed)


def from_json(body: bytes | bytearray) -> Signed:
    """Undo `to_json`; refuse what fits no document."""
    try:
        return msgspec.json.decode(body, type=Signed)
    except msgspec.ValidationError as error:
        raise InputError(
            f"this is no signed document: {error}; hand one over with `coopbandits cluster apply`"
        ) from None


def make_head(cluster: str, version: int, content: bytes, operators: Iterable[bytes]) -> bytes:
    """Return the head of a document, as it is signed."""
    digest = sha256(content).digest()
    made = Head(PURPOSE, cluster, version, len(content), digest, tuple(operators))
    return msgspec.msgpack.encode(made)


def sign(head: bytes, keys: Iterable[Ed25519PrivateKey]) -> Seal:
    """Return a head with the signatures of some keys."""
    return Seal(head, tuple((public_bytes(key), key.sign(head)) for key in keys))

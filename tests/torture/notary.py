"""Signatures that cost nothing and are the same on every machine, and a list of revoked ids.

A keyed hash stands for a signature: whoever lacks the key of a name cannot make one, and all can
check it. That is all that the protocol asks of the real ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import blake2b
from weakref import WeakSet

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.identity.names import Revoked
from coopbandits.fleet.identity.notary import FINGERPRINT, NONCE, PROOF, TAG, Notary

AUTHORITY = b"the key of the authority"


class VirtualAuthor(msgspec.Struct, frozen=True):
    """Somebody with a virtual certificate."""

    names: frozenset[str]
    digest: bytes
    certificate: bytes
    ends: float = math.inf
    intermediates: tuple[bytes, ...] = ()


def certificate_of(name: str) -> bytes:
    """Return what the authority has signed: a hash, and the name."""
    return blake2b(name.encode(), key=AUTHORITY, digest_size=16).digest() + name.encode()


class VirtualNotary(Notary):
    """Signs and checks with keyed hashes instead of keys and files."""

    def __init__(self, node: str, scope: tuple[str, int]) -> None:
        self.node = node
        self.prefix = msgspec.msgpack.encode(["coopbandits entry", *scope])
        self.authors, self.holders, self._bound = {}, WeakSet(), {}
        self._intermediates = {}
        self._sealed = 0
        self.fingerprint = self.learn(certificate_of(node))

    def refresh(self) -> None:
        """Do nothing: there are no files."""

    def fingerprint_of(self, certificate: bytes) -> bytes:
        """Return what proofs name a certificate by."""
        return blake2b(certificate, digest_size=FINGERPRINT).digest()

    def learn(self, certificate: bytes) -> bytes:
        """Keep an author's certificate; return its fingerprint."""
        name = certificate[16:].decode("utf-8", "replace")
        if certificate != certificate_of(name):
            raise InputError("a certificate that the fleet's authority has not signed")
        fingerprint = self.fingerprint_of(certificate)
        author = VirtualAuthor(frozenset({name}), name.encode(), certificate)
        self.authors[fingerprint] = author  # type: ignore[assignment]  # a stand-in
        return fingerprint

    def sign(self, entry: bytes) -> bytes:
        """Return the proof of an own entry."""
        return self.fingerprint + self._signature(self.node, entry)

    def holds(self, entry: bytes, proof: bytes) -> bool:
        """Return whether the author of a proof signed an entry."""
        (name,) = self.authors[proof[:FINGERPRINT]].names
        return proof[FINGERPRINT:] == self._signature(name, entry)

    def seal(self, fingerprint: bytes, plain: bytes, about: bytes) -> bytes:
        """Return bytes that nobody changes unnoticed; all could read them, and none looks."""
        self._sealed += 1
        nonce = self._sealed.to_bytes(NONCE, "big")
        (name,) = self.authors[fingerprint].names
        return nonce + plain + self._tag(name, nonce + plain, about)

    def unseal(self, fingerprint: bytes, sealed: bytes, about: bytes) -> bytes | None:
        """Return what was sealed for this agent, or None."""
        body, tag = sealed[:-TAG], sealed[-TAG:]
        (name,) = self.authors[fingerprint].names
        if tag != self._tag(name, body, about):
            return None
        return body[NONCE:]

    def _tag(self, name: str, body: bytes, about: bytes) -> bytes:
        key = "/".join(sorted((name, self.node))).encode()
        return blake2b(self.prefix + about + body, key=key, digest_size=TAG).digest()

    def _signature(self, name: str, entry: bytes) -> bytes:
        size = PROOF - FINGERPRINT
        return blake2b(self.prefix + entry, key=name.encode(), digest_size=size).digest()


def virtual_notary(config: NodeConfig) -> VirtualNotary:
    """Return what signs for an agent, and checks what others have signed."""
    cluster = config.cluster
    return VirtualNotary(config.id, (cluster.name, cluster.epoch))


class VirtualRevoked(Revoked):
    """The ids that an operator has revoked on one machine."""

    def __init__(self, listed: Callable[[], frozenset[str]]) -> None:
        self.path, self.listed, self.names = None, listed, listed()

    def refresh(self) -> bool:
        """Look at the list again; return whether it has changed."""
        before, self.names = self.names, self.listed()
        return self.names != before

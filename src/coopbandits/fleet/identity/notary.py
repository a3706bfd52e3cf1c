"""Signed entries: an author's report of its own pulls, verifiable by agents it has no link to.

An author signs its entry with the key of its certificate. A proof travels beside the entry: the
first bytes of the certificate's SHA-256, and a signature. Certificates travel once per link, after
the intermediates that they need, and are trusted if a path leads from them to the fleet's authority
(`chains`). Their dates are ignored: an entry that was valid when it was signed stays valid. To stop
trusting an author, revoke it; to stop trusting an authority, remove it from the CA file.

*One key, one author.* A certificate may have several ids, and the number in a signed entry says
which one its author uses. The first that is believed of a key is the only one from then on: else a
single agent could take the places of several.

Two agents whose certificates are known to each other can also seal messages that others relay: with
a key that both derive from their own private key and the other's public one (ECDH, HKDF-SHA256),
by ChaCha20-Poly1305. Both ends are proved by that, so no signature is needed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol
from weakref import WeakSet

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.certs import issue_command, throwaway_files
from coopbandits.fleet.identity.chains import (
    UNREADABLE,
    ends_of,
    find_path,
    holder_of,
    is_authority,
    read_certificates,
    read_der,
)
from coopbandits.fleet.identity.files import file_version
from coopbandits.fleet.logs import LogEvent

FINGERPRINT = 8
HALF = 32
PROOF = FINGERPRINT + 2 * HALF
"""Bytes of a proof: the certificate's fingerprint, then r and s of an ECDSA signature (P-256)."""

MAX_CERTIFICATE = 4096

MAX_KEPT_INTERMEDIATES = 16

NONCE, TAG = 12, 16
"""Bytes that a sealed message begins and ends with."""

MOST_KEYS = 1000
"""Keys shared with other agents that are kept; deriving one takes about 0.1 ms."""

ALGORITHM = ec.ECDSA(hashes.SHA256())

log = logging.getLogger(__name__)


class Author(NamedTuple):
    """The holder of a certificate of the fleet.

    Attributes
    ----------
    names : frozenset of str
        The ids in it.
    key : EllipticCurvePublicKey
        Checks signatures.
    digest : bytes
        SHA-256 of the key.
    ends : float
        When the certificate, or one on its path, expires.
    certificate : bytes
        In DER form.
    intermediates : tuple of bytes
        Those on its path, in DER form, the issuer of each before it.
    """

    names: frozenset[str]
    key: ec.EllipticCurvePublicKey
    digest: bytes
    ends: float
    certificate: bytes
    intermediates: tuple[bytes, ...] = ()


class ProofHolder(Protocol):
    """Keeps signed entries, and so needs the certificates of their authors."""

    def fingerprints(self) -> set[bytes]:
        """Return the fingerprints of the certificates behind its entries."""


class Notary:
    """Signs an agent's own entries and verifies those of others.

    Parameters
    ----------
    node : str
        The agent's id.
    files : (Path, Path, Path)
        Authority, certificate and key in PEM format; they may be replaced at any time.
    scope : (str, int)
        Cluster and epoch, which every signature covers besides the entry.
    max_authors : int
        Maximum number of certificates to keep.

    Attributes
    ----------
    authors : dict of bytes to Author
        Holders of certificates, by their fingerprints.
    trusted : list of Certificate
        The authorities.
    holders : set of ProofHolder
        Users of certificates: those that none of them needs are dropped to make room.

    Raises
    ------
    InputError
        The files cannot be used for signing.
    """

    def __init__(
        self,
        node: str,
        files: tuple[Path, Path, Path],
        scope: tuple[str, int],
        max_authors: int,
    ) -> None:
        self.node, self.files, self.max_authors = node, files, max_authors
        self.prefix = msgspec.msgpack.encode(["coopbandits entry", *scope])
        self.authors: dict[bytes, Author] = {}
        self.holders: WeakSet[ProofHolder] = WeakSet()
        self.trusted: list[x509.Certificate] = []
        self._intermediates: dict[bytes, x509.Certificate] = {}
        self._bound: dict[bytes, str] = {}  # the id under which a key is believed
        self._seen = self._versions()
        self._load()

    def _versions(self) -> list[tuple[int, int, int] | None]:
        return [file_version(path) for path in self.files]

    def _load(self) -> None:
        """Read the files, and change nothing if they cannot be used."""
        trusted = read_certificates(self.files[0])
        own, *intermediates = read_certificates(self.files[1])
        private = serialization.load_pem_private_key(self.files[2].read_bytes(), None)
        if not isinstance(private, ec.EllipticCurvePrivateKey) or not isinstance(
            private.curve, ec.SECP256R1
        ):
            raise InputError(
                f"the key {self.files[2]} is not on the curve P-256, so entries cannot be signed; "
                f"issue another with `{issue_command(self.node)}`"
            )
        if private.public_key() != own.public_key():
            raise InputError(
                f"{self.files[2]} is not the key of {self.files[1]}; give a certificate and its key"
            )
        try:
            author = certified(own, intermediates, trusted)
        except InputError as error:
            raise InputError(
                f"{self.files[1]} is {error}, so it cannot sign entries; issue another with "
                f"`{issue_command(self.node)}` and the authority {self.files[0]}"
            ) from None
        self._key, self.fingerprint = private, self.fingerprint_of(author.certificate)
        self._cipher = lru_cache(MOST_KEYS)(self._derive)
        known = [*intermediates, *filter(_is_issued, trusted), *self._intermediates.values()]
        if trusted != self.trusted:
            self.trusted, self._intermediates = trusted, {}
        for each in known:
            self._keep_intermediate(each)
        self._distrust()
        self.authors[self.fingerprint] = author
        self.bind(author, self.node)

    def _distrust(self) -> None:
        """Drop the certificates that no authority has signed which is still trusted."""
        for fingerprint, author in list(self.authors.items()):
            try:
                self.authors[fingerprint] = self._certified(author.certificate)
            except InputError:
                del self.authors[fingerprint]

    def refresh(self) -> None:
        """Read the files again if they have changed; keep the previous key if they are invalid."""
        versions = self._versions()
        if versions == self._seen:
            return
        self._seen = versions
        try:
            self._load()
        except (InputError, OSError, ValueError, TypeError) as error:
            log.warning(LogEvent("keeping the previous key", reason=error))

    def fingerprint_of(self, certificate: bytes) -> bytes:
        """Return the bytes by which proofs refer to a certificate."""
        return sha256(certificate).digest()[:FINGERPRINT]

    def learn(self, certificate: bytes) -> bytes:
        """Keep an author's certificate, or an intermediate, in DER form; return its fingerprint.

        An intermediate that cannot be used is not kept: agents may trust different ones of a path.

        Raises
        ------
        InputError
            No path leads from it to the fleet's authority, it has no id, or its key is not on the
            curve P-256; or there is no room.
        """
        fingerprint = self.fingerprint_of(certificate)
        if self.knows(fingerprint):
            return fingerprint
        found = read_der(certificate)
        if is_authority(found):
            self._keep_intermediate(found)
            return fingerprint
        if len(self.authors) >= self.max_authors:
            self._make_room()
        self.authors[fingerprint] = self._certified(certificate)
        return fingerprint

    def knows(self, fingerprint: bytes) -> bool:
        """Return whether a certificate is kept."""
        return fingerprint in self.authors or fingerprint in self._intermediates

    def _certified(self, certificate: bytes) -> Author:
        return certified(read_der(certificate), [*self._intermediates.values()], self.trusted)

    def _keep_intermediate(self, found: x509.Certificate) -> None:
        """Keep an intermediate that is signed; what it may sign is checked with every path."""
        issuers = (*self.trusted, *self._intermediates.values())
        if found in issuers[len(self.trusted) :]:
            return
        if found not in self.trusted and not any(_issued_by(found, each) for each in issuers):
            return
        if len(self._intermediates) >= MAX_KEPT_INTERMEDIATES:
            needed = {each for author in self.authors.values() for each in author.intermediates}
            self._intermediates = {
                key: each for key, each in self._intermediates.items() if _der(each) in needed
            }
        if len(self._intermediates) < MAX_KEPT_INTERMEDIATES:
            self._intermediates[self.fingerprint_of(_der(found))] = found

    def _make_room(self) -> None:
        """Drop certificates behind no kept entry, such as those from before a renewal.

        A peer that still proves an entry with one of them has its link closed, and sends the
        certificate again over the next one.
        """
        needed: set[bytes] = set().union(*(holder.fingerprints() for holder in self.holders))
        kept = {
            key: each
            for key, each in self.authors.items()
            if key in needed or key == self.fingerprint
        }
        self.authors.clear()  # in place: others hold a reference
        self.authors.update(kept)
        left = {author.digest for author in kept.values()}
        self._bound = {key: name for key, name in self._bound.items() if key in left}
        if len(self.authors) >= self.max_authors:
            raise InputError(
                f"more than {self.max_authors} certificates; no further ones are accepted"
            )

    def sign(self, entry: bytes) -> bytes:
        """Return the proof of one of this agent's entries."""
        self.refresh()
        r, s = utils.decode_dss_signature(self._key.sign(self.prefix + entry, ALGORITHM))
        return self.fingerprint + r.to_bytes(HALF, "big") + s.to_bytes(HALF, "big")

    def author(self, proof: bytes) -> Author | None:
        """Return the holder of the certificate in a proof; None if that is unknown."""
        return self.authors.get(proof[:FINGERPRINT])

    def is_bound(self, author: Author, name: str) -> bool:
        """Return whether a key was believed under another id than this one."""
        return self._bound.get(author.digest, name) != name

    def bind(self, author: Author, name: str) -> None:
        """Believe a key under this id alone from now on."""
        self._bound.setdefault(author.digest, name)

    def holds(self, entry: bytes, proof: bytes) -> bool:
        """Return whether a proof is valid for an entry; its certificate must be known."""
        if len(proof) != PROOF:  # with leading zeros, one signature would have many proofs
            return False
        r = int.from_bytes(proof[FINGERPRINT : FINGERPRINT + HALF], "big")
        s = int.from_bytes(proof[FINGERPRINT + HALF :], "big")
        try:
            key = self.authors[proof[:FINGERPRINT]].key
            key.verify(utils.encode_dss_signature(r, s), self.prefix + entry, ALGORITHM)
        except InvalidSignature:
            return False
        return True

    # Sealed messages

    def _derive(self, fingerprint: bytes) -> ChaCha20Poly1305:
        """Return the cipher shared with the owner of a certificate."""
        secret = self._key.exchange(ec.ECDH(), self.authors[fingerprint].key)
        purpose = b"coopbandits call" + self.prefix
        return ChaCha20Poly1305(HKDF(hashes.SHA256(), 32, None, purpose).derive(secret))

    def seal(self, fingerprint: bytes, plain: bytes, about: bytes) -> bytes:
        """Return bytes for the owner of a known certificate alone; `about` is covered, not hidden.

        Sealing the same bytes again gives others, with another `TAG` at the end.
        """
        nonce = os.urandom(NONCE)
        return nonce + self._cipher(fingerprint).encrypt(nonce, plain, about)

    def unseal(self, fingerprint: bytes, sealed: bytes, about: bytes) -> bytes | None:
        """Return what the owner of a known certificate has sealed for this agent, or None."""
        try:
            return self._cipher(fingerprint).decrypt(sealed[:NONCE], sealed[NONCE:], about)
        except (InvalidTag, ValueError):
            return None


def certified(
    certificate: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    trusted: Sequence[x509.Certificate],
) -> Author:
    """Return the holder of a certificate who may sign entries.

    Raises
    ------
    InputError
        No path leads to an authority, it has no id, its key is not on the curve P-256, or it is too
        long to be sent.
    """
    path = find_path(certificate, intermediates, trusted)
    holder, key = holder_of(certificate), certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InputError(
            f"a certificate of {min(holder.names)} whose key is not on the curve P-256"
        )
    # A trusted intermediate travels too: others may trust the root alone.
    own, *issuers = map(_der, [path[0], *filter(_is_issued, path[1:])])
    longest = max(map(len, (own, *issuers)))
    if longest > MAX_CERTIFICATE:  # others would not read it
        raise InputError(
            f"a certificate whose path has one of {longest} bytes; up to {MAX_CERTIFICATE} are "
            "accepted"
        )
    return Author(holder.names, key, holder.key, ends_of(path), own, tuple(reversed(issuers)))


def is_intermediate(certificate: bytes) -> bool:
    """Return whether a certificate, in DER form, may sign others."""
    try:
        return is_authority(read_der(certificate))
    except InputError:
        return False


def _issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, *UNREADABLE):
        return False
    return True


def _is_issued(certificate: x509.Certificate) -> bool:
    """Return whether a certificate is not a root."""
    return certificate.issuer != certificate.subject


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


class ThrowawayNotary(Notary):
    """A notary without files, for one machine; see `certs`."""

    def __init__(self, node: str, cluster: str, scope: tuple[str, int], max_authors: int) -> None:
        with throwaway_files(node, cluster) as files:
            super().__init__(node, files, scope, max_authors)

    def _versions(self) -> list[tuple[int, int, int] | None]:
        return []  # there are no files to read again


def pack(certificates: list[bytes]) -> bytes:
    """Concatenate certificates, each behind its length (u16)."""
    return b"".join(len(each).to_bytes(2, "little") + each for each in certificates)


def unpack(data: bytes) -> list[bytes]:
    """Undo `pack`."""
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "little")
        each = data[at + 2 : at + 2 + size]
        if len(each) < size or not 0 < size <= MAX_CERTIFICATE:
            raise InputError(f"a certificate of {size} bytes at byte {at} of {len(data)}")
        found.append(each)
        at += 2 + size
    return found

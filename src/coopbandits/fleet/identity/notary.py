"""Signed entries: an author's report of its own pulls, verifiable by agents it has no link to.

An author signs its entry with the key of its certificate. A proof travels beside the entry: the
first bytes of the certificate's SHA-256, and a signature. Certificates travel once per link and are
trusted if the fleet's authority signed them. Their dates are ignored: an entry that was valid when
it was signed stays valid. To stop trusting an author, revoke it.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol
from weakref import WeakSet

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.certs import throwaway_files
from coopbandits.fleet.identity.files import file_version
from coopbandits.fleet.logs import LogEvent

FINGERPRINT = 8
HALF = 32
PROOF = FINGERPRINT + 2 * HALF
"""Bytes of a proof: the certificate's fingerprint, then r and s of an ECDSA signature (P-256)."""

MAX_CERTIFICATE = 4096

ALGORITHM = ec.ECDSA(hashes.SHA256())

log = logging.getLogger(__name__)


class Author(NamedTuple):
    """The name, key and DER certificate of an agent that the authority has certified."""

    name: str
    key: ec.EllipticCurvePublicKey
    certificate: bytes


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
        Certified agents, by their certificates' fingerprints.
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
        self._seen = self._versions()
        self._load()

    def _versions(self) -> list[tuple[int, int, int] | None]:
        return [file_version(path) for path in self.files]

    def _load(self) -> None:
        ca, certificate, key = (path.read_bytes() for path in self.files)
        self.authorities = x509.load_pem_x509_certificates(ca)
        own = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, None)
        if not isinstance(private, ec.EllipticCurvePrivateKey) or not isinstance(
            private.curve, ec.SECP256R1
        ):
            raise InputError(
                f"the key {self.files[2]} is not on the curve P-256, so entries cannot be signed; "
                "issue another with `coopbandits certs issue`"
            )
        if private.public_key() != own.public_key():
            raise InputError(
                f"{self.files[2]} is not the key of {self.files[1]}; give a certificate and its key"
            )
        try:
            self.fingerprint = self.learn(own.public_bytes(serialization.Encoding.DER))
        except InputError as error:
            raise InputError(
                f"{self.files[1]} is {error}, so it cannot sign entries; issue another with "
                f"`coopbandits certs issue` and the authority {self.files[0]}"
            ) from None
        self._key = private

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
        """Keep an author's certificate, in DER form; return its fingerprint.

        Raises
        ------
        InputError
            It is not a certificate of the fleet's authority, with one name, on the curve P-256;
            or there is no room.
        """
        fingerprint = self.fingerprint_of(certificate)
        if fingerprint in self.authors:
            return fingerprint
        if len(self.authors) >= self.max_authors:
            self._make_room()
        try:
            found = x509.load_der_x509_certificate(certificate)
            issued = any(_issued_by(authority, found) for authority in self.authorities)
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            (name,) = names.get_values_for_type(x509.DNSName)
            key = found.public_key()
        except (ValueError, TypeError, x509.ExtensionNotFound, x509.InvalidVersion) as error:
            raise InputError(f"a certificate that cannot be read: {error}") from None
        if not issued:
            raise InputError("a certificate that the fleet's authority has not signed")
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(
            key.curve, ec.SECP256R1
        ):
            raise InputError(f"a certificate of {name} whose key is not on the curve P-256")
        self.authors[fingerprint] = Author(name, key, certificate)
        return fingerprint

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
        if len(self.authors) >= self.max_authors:
            raise InputError(
                f"more than {self.max_authors} certificates; no further ones are accepted"
            )

    def sign(self, entry: bytes) -> bytes:
        """Return the proof of one of this agent's entries."""
        self.refresh()
        r, s = utils.decode_dss_signature(self._key.sign(self.prefix + entry, ALGORITHM))
        return self.fingerprint + r.to_bytes(HALF, "big") + s.to_bytes(HALF, "big")

    def author(self, proof: bytes) -> str | None:
        """Return the author that a proof names; None if its certificate is unknown."""
        found = self.authors.get(proof[:FINGERPRINT])
        return found.name if found else None

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


def _issued_by(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


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

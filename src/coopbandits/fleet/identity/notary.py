"""Signatures of entries: who says what of its own pulls, provable to agents far away.

An author signs its entry with the key of its certificate. The proof travels beside the entry: the
first bytes of the certificate's SHA-256, and a signature. Certificates travel once per link and are
believed if the fleet's authority signed them. Their dates are not looked at: what was true when it
was signed stays true. Who must no longer be believed is revoked.
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
from coopbandits.fleet.identity.tls import file_version

FINGERPRINT = 8
HALF = 32
PROOF = FINGERPRINT + 2 * HALF
"""Bytes of a proof: whose certificate, and r and s of a signature over P-256."""

MAX_CERTIFICATE = 4096

ALGORITHM = ec.ECDSA(hashes.SHA256())

log = logging.getLogger(__name__)


class Author(NamedTuple):
    """Somebody whom the authority has certified."""

    name: str
    key: ec.EllipticCurvePublicKey
    certificate: bytes


class Book(Protocol):
    """Keeps what was signed."""

    def fingerprints(self) -> set[bytes]:
        """Return those of the certificates behind what it keeps."""


class Notary:
    """Signs an agent's own entries, and checks those of others.

    Parameters
    ----------
    node : str
        The agent's id.
    ca, certificate, key : Path
        Files in PEM format; they may be replaced at any time.
    scope : sequence
        What every signature is about, besides the entry: cluster and epoch.
    max_authors : int
        How many certificates are kept.

    Attributes
    ----------
    authors : dict of bytes to Author
        Everybody certified, by the certificate's fingerprint.
    books : set of Book
        Who needs certificates: those that nobody needs make room for new ones.

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
        self.books: WeakSet[Book] = WeakSet()
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
            raise InputError(f"{self.files[2]} is not the key of {self.files[1]}")
        try:
            self.fingerprint = self.learn(own.public_bytes(serialization.Encoding.DER))
        except InputError as error:
            raise InputError(
                f"{self.files[1]} is {error}, so that it cannot sign entries; have {self.files[0]} "
                "sign it"
            ) from None
        self._key = private

    def refresh(self) -> None:
        """Read the files again if they have changed; go on with those of before if they are bad."""
        versions = self._versions()
        if versions == self._seen:
            return
        self._seen = versions
        try:
            self._load()
        except (InputError, OSError, ValueError, TypeError) as error:
            log.warning("going on with the key of before: %s", error)

    def fingerprint_of(self, certificate: bytes) -> bytes:
        """Return what proofs name a certificate by."""
        return sha256(certificate).digest()[:FINGERPRINT]

    def learn(self, certificate: bytes) -> bytes:
        """Keep an author's certificate, in DER form; return its fingerprint.

        Raises
        ------
        InputError
            It is no certificate by the fleet's authority, of one name, on the curve P-256.
        """
        fingerprint = self.fingerprint_of(certificate)
        if fingerprint in self.authors:
            return fingerprint
        if len(self.authors) >= self.max_authors:
            self._make_room()
        try:
            found = x509.load_der_x509_certificate(certificate)
            self._require_issued(found)
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            (name,) = names.get_values_for_type(x509.DNSName)
            key = found.public_key()
        except (ValueError, TypeError, x509.ExtensionNotFound, x509.InvalidVersion) as error:
            raise InputError(f"a certificate that cannot be read: {error}") from None
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(
            key.curve, ec.SECP256R1
        ):
            raise InputError(f"a certificate of {name} whose key is not on the curve P-256")
        self.authors[fingerprint] = Author(name, key, certificate)
        return fingerprint

    def _make_room(self) -> None:
        """Drop certificates behind nothing that is kept, as those from before a renewal are.

        Who proves something with one of them has its link closed, and sends it again over the next.
        """
        needed: set[bytes] = set().union(*(book.fingerprints() for book in self.books))
        kept = {
            key: each
            for key, each in self.authors.items()
            if key in needed or key == self.fingerprint
        }
        self.authors.clear()  # others look at this very one
        self.authors.update(kept)
        if len(self.authors) >= self.max_authors:
            raise InputError(f"more than {self.max_authors} certificates; none is taken any more")

    def _require_issued(self, certificate: x509.Certificate) -> None:
        for authority in self.authorities:
            try:
                return certificate.verify_directly_issued_by(authority)
            except (InvalidSignature, ValueError, TypeError):
                continue
        raise InputError("a certificate that the fleet's authority has not signed")

    def sign(self, entry: bytes) -> bytes:
        """Return the proof of an own entry."""
        self.refresh()
        r, s = utils.decode_dss_signature(self._key.sign(self.prefix + entry, ALGORITHM))
        return self.fingerprint + r.to_bytes(HALF, "big") + s.to_bytes(HALF, "big")

    def author(self, proof: bytes) -> str | None:
        """Return who a proof says has signed; None where the certificate is not known."""
        found = self.authors.get(proof[:FINGERPRINT])
        return found.name if found else None

    def holds(self, entry: bytes, proof: bytes) -> bool:
        """Return whether the author of a proof, whose certificate is known, signed an entry."""
        if len(proof) != PROOF:  # zeros before a number change nothing but the length
            return False
        r = int.from_bytes(proof[FINGERPRINT : FINGERPRINT + HALF], "big")
        s = int.from_bytes(proof[FINGERPRINT + HALF :], "big")
        try:
            key = self.authors[proof[:FINGERPRINT]].key
            key.verify(utils.encode_dss_signature(r, s), self.prefix + entry, ALGORITHM)
        except InvalidSignature:
            return False
        return True


def pack(certificates: list[bytes]) -> bytes:
    """Return certificates one after the other, each behind its length (u16)."""
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

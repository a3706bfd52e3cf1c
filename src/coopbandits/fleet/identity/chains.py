"""What a certificate proves: the ids that its holder may use, by a path to a trusted authority.

Every certificate in the CA file is trusted by itself, a root or not: a company may list the one
intermediate that issues for the fleet instead of its root. Below it the usual rules hold for the
whole path (RFC 5280): CA flags, key usages, path lengths and name constraints. OpenSSL checks them
for links, and the path validation of `cryptography` for signed entries, whose authors may have no
link to this agent. An agent checks its own certificate by both when it starts, so what one of them
rejects is found there.

The ids in a certificate are its DNS names, in lower case, as DNS ignores it. Names that cannot be
ids, addresses and URIs prove nothing here. A wildcard stands for agents that do not exist yet, so a
certificate with one is rejected as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.names import NODE_ID

MAX_NAMES = 64
"""The most ids in a certificate."""

MAX_INTERMEDIATES = 4
"""The most certificates between an agent's and the trusted one."""


UNREADABLE = (
    ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.ExtensionNotFound,
    x509.DuplicateExtension, x509.UnsupportedGeneralNameType,
)  # fmt: skip
"""What reading a part of a certificate raises, which anybody may have made."""


class Holder(NamedTuple):
    """Who has shown a certificate.

    Attributes
    ----------
    names : frozenset of str
        The ids that it may use.
    key : bytes
        SHA-256 of its public key, which stays when a certificate is renewed.
    """

    names: frozenset[str]
    key: bytes


NO_HOLDER = Holder(frozenset(), b"")


def holder_of(certificate: x509.Certificate) -> Holder:
    """Return whose certificate this is.

    Raises
    ------
    InputError
        It has no id, too many, or a wildcard; the error begins with "a certificate".
    """
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        given, key = found.get_values_for_type(x509.DNSName), key_digest(certificate)
    except UNREADABLE as error:
        raise InputError(f"a certificate without names or key that can be read: {error}") from None
    for name in given:
        if "*" in name:
            raise InputError(
                f"a certificate with the wildcard {name!r}, which is the name of no single agent"
            )
    names = frozenset(name for name in map(str.lower, given) if NODE_ID.fullmatch(name))
    if not 0 < len(names) <= MAX_NAMES:
        raise InputError(
            f"a certificate with {len(names)} DNS names that can be ids; it must have 1 to "
            f"{MAX_NAMES}"
        )
    return Holder(names, key)


def read_holder(certificate: bytes | None) -> Holder:
    """Return whose certificate this is, from DER, as a TLS connection has it."""
    return holder_of(read_der(certificate or b""))


def read_der(certificate: bytes) -> x509.Certificate:
    """Return a certificate from its DER form."""
    try:
        return x509.load_der_x509_certificate(certificate)
    except UNREADABLE as error:
        raise InputError(f"a certificate that cannot be read: {error}") from None


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Return the certificates in a PEM file, at least one.

    Raises
    ------
    InputError
        It cannot be read, or one of them cannot.
    """
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; give a file that this user can read"
        ) from None
    except (ValueError, x509.InvalidVersion) as error:
        raise InputError(
            f"cannot read a certificate from {path}: {error}; give one in PEM format"
        ) from None


def key_digest(certificate: x509.Certificate) -> bytes:
    """Return the SHA-256 of the public key in a certificate."""
    key = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return sha256(key).digest()


def is_authority(certificate: x509.Certificate) -> bool:
    """Return whether a certificate may sign others."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except UNREADABLE:
        return False
    return found.value.ca


def find_path(
    certificate: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    trusted: Iterable[x509.Certificate],
    now: datetime | None = None,
) -> list[x509.Certificate]:
    """Return a valid path: the certificate, intermediates, and one that is trusted.

    Without `now` the path must have been valid at some time: the certificate's first moment, or as
    soon after it as all others were valid too.

    Raises
    ------
    InputError
        There is none.
    """
    reason = "no path to a trusted authority"
    for anchor in trusted:
        used = _issuers(certificate, intermediates, anchor)
        if used is None:
            continue
        begins = max(each.not_valid_before_utc for each in (certificate, *used, anchor))
        policy = PolicyBuilder().store(Store([anchor])).max_chain_depth(MAX_INTERMEDIATES)
        verifier = policy.time(now or begins).build_client_verifier()
        try:
            return verifier.verify(certificate, used).chain
        except VerificationError as error:
            reason = str(error).removeprefix("validation failed: ")
        except UNREADABLE as error:
            reason = str(error)
    raise InputError(f"a certificate that the fleet's authority has not signed: {reason}")


def _issuers(
    certificate: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    anchor: x509.Certificate,
) -> list[x509.Certificate] | None:
    """Return the intermediates up to a trusted certificate, by their names; None for no path.

    Of authorities that were renewed there may be several of one name: all are returned.
    """
    used: list[x509.Certificate] = []
    wanted = {certificate.issuer}
    for _ in range(MAX_INTERMEDIATES + 1):
        if anchor.subject in wanted:
            return used
        more = [each for each in intermediates if each.subject in wanted and each not in used]
        if not more:
            return None
        used += more
        wanted = {each.issuer for each in more}
    return None


def ends_of(path: Iterable[x509.Certificate]) -> float:
    """Return when the first certificate of a path expires, in seconds since 1970."""
    return min(each.not_valid_after_utc.timestamp() for each in path)

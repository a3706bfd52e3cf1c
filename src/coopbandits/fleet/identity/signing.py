"""Certificates and keys as objects: P-256 throughout, signed with SHA-256."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLOCK_SKEW = timedelta(hours=1)
"""Certificates are backdated by this much, for machines whose clocks are slow."""


class Authority(NamedTuple):
    """A certificate authority: its own certificate and key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_key() -> ec.EllipticCurvePrivateKey:
    """Return a new key."""
    return ec.generate_private_key(ec.SECP256R1())


def make_authority(
    name: str, now: datetime, until: datetime, key: ec.EllipticCurvePrivateKey | None = None
) -> Authority:
    """Return a new authority, by default with a new key; it may sign agents, not authorities."""
    key = key or make_key()
    subject = _subject(name)
    builder = _builder(subject, subject, key.public_key(), now, until)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def sign(
    authority: Authority,
    node: str,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    span: timedelta,
) -> x509.Certificate:
    """Return a certificate for an agent's key, valid as server and as client."""
    issuer = authority.certificate
    until = min(now + span, issuer.not_valid_after_utc)
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    both_ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(_subject(node), issuer.subject, public_key, now, until)
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage(both_ends), False),
        (x509.SubjectAlternativeName([x509.DNSName(node)]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), False),
    ):
        builder = builder.add_extension(extension, critical)
    return builder.sign(authority.key, hashes.SHA256())


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate in PEM format."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key in PEM format, unencrypted: an agent starts unattended."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )

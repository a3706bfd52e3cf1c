"""A certificate that is its own authority, for 127.0.0.1."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def contexts(
    folder: Path, left: timedelta = timedelta(hours=1)
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of a server that wants a certificate and of a client that has it."""
    path = folder / "both.pem"
    path.write_bytes(_certificate(left))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=path)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=path)
    for context in (server, client):
        context.load_cert_chain(path)
    return server, client


def _certificate(left: timedelta) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + left)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return made.public_bytes(serialization.Encoding.PEM) + secret

"""A configuration that is right, to be spoiled; and certificates for it."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coopbandits.fleet.config import NodeConfig, parse_config

NOW = datetime(2026, 6, 1, tzinfo=UTC).timestamp()

GOOD: dict[str, Any] = {
    "cluster": {
        "name": "shop",
        "epoch": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "arms": ["red", "green", "blue"],
        "reward_range": [0.0, 1.0],
    },
    "node": {"id": "shop-1", "listen": "10.0.0.1:7400", "journal": "memory/shop-1"},
    "tls": {"ca": "ca.pem", "certificate": "shop-1.pem", "key": "shop-1-key.pem"},
    "neighbors": [
        {"id": "shop-2", "address": "10.0.0.2:7400"},
        {"id": "shop-3", "address": "[fd00::3]:7401"},
    ],
}

REMOVED = object()


def spoiled(*changes: tuple[str, Any]) -> dict[str, Any]:
    """Return the good tables with some values set (``node.id``), or `REMOVED`."""
    data = copy.deepcopy(GOOD)
    for place, value in changes:
        *path, key = place.split(".")
        table: Any = data
        for name in path:
            table = table[int(name)] if isinstance(table, list) else table.setdefault(name, {})
        if value is REMOVED:
            del table[key]
        else:
            table[key] = value
    return data


def made(*changes: tuple[str, Any], insecure: bool = False) -> NodeConfig:
    return parse_config(spoiled(*changes), "here/node.toml", now=NOW, insecure=insecure)


class Authority:
    """A certificate authority that makes certificates of any kind."""

    def __init__(self, name: str = "authority", start: float = NOW, days: float = 1000) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self.name, self.key.public_key(), (), start, days)

    def issue(
        self, folder: Path, name: str, *, names: tuple[str, ...] = (), days: float = 90
    ) -> None:
        """Write NAME.pem and NAME-key.pem, and the authority's ca.pem."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key.public_key(), names or (name,), NOW, days)
        (folder / "ca.pem").write_bytes(pem(self.certificate))
        (folder / f"{name}.pem").write_bytes(pem(certificate))
        (folder / f"{name}-key.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        (folder / f"{name}-key.pem").chmod(0o600)

    def _sign(
        self, subject: x509.Name, key: Any, names: tuple[str, ...], start: float, days: float
    ) -> x509.Certificate:
        begin = datetime.fromtimestamp(start, UTC) - timedelta(days=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(days=1 + days))
        )
        if names and names != ("nobody",):
            sans = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
            builder = builder.add_extension(sans, critical=False)
        return builder.sign(self.key, hashes.SHA256())


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)

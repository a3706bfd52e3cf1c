"""Throw-away certificates, to try agents out on one machine without [tls].

Agents that are started one by one share no file, so the key of their authority follows from the
cluster's name: every process derives it, and issues a certificate for a key of its own. Links have
TLS and entries are signed as everywhere else, but these certificates prove nothing, since any
process on this machine can issue itself one. So agents that have them use loopback addresses alone.

Nothing is left behind: files are only written for as long as they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric import ec

from coopbandits.fleet.identity.notary import Notary
from coopbandits.fleet.identity.signing import make_authority, make_key, pem, pem_key, sign
from coopbandits.fleet.identity.tls import Credentials

SPAN = timedelta(days=3650)


class ThrowawayCredentials(Credentials):
    """Credentials of an agent without files."""

    loopback_only = True

    def __init__(self, node: str, cluster: str) -> None:
        with _files(node, cluster) as (ca, certificate, key):
            super().__init__(node, ca, certificate, key)

    def _versions(self) -> list[tuple[int, int, int] | None]:
        return []  # there is nothing to read again


class ThrowawayNotary(Notary):
    """A notary of an agent without files."""

    def __init__(self, node: str, cluster: str, scope: tuple[str, int], max_authors: int) -> None:
        with _files(node, cluster) as files:
            super().__init__(node, files, scope, max_authors)

    def _versions(self) -> list[tuple[int, int, int] | None]:
        return []


@contextmanager
def _files(node: str, cluster: str) -> Iterator[tuple[Path, Path, Path]]:
    """Write an authority, a certificate and its key to a private folder, for the block alone."""
    now = datetime.now(UTC)
    seed = blake2b(cluster.encode(), digest_size=31, person=b"throw-away").digest()
    shared = ec.derive_private_key(1 + int.from_bytes(seed, "big"), ec.SECP256R1())
    authority = make_authority("throw-away", now, now + SPAN, shared)
    key = make_key()
    certificate = sign(authority, node, key.public_key(), now, SPAN)
    with TemporaryDirectory(prefix="coopbandits-") as folder:
        paths = Path(folder) / "ca.pem", Path(folder) / "node.pem", Path(folder) / "key.pem"
        contents = pem(authority.certificate), pem(certificate), pem_key(key)
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        yield paths

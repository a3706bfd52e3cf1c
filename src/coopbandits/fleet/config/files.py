"""The files that a configuration names: certificates, keys and tokens, checked before the start."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.config.model import NodeConfig, TlsFiles

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

LEAST_TOKEN = 16
"""Characters of a token that nobody guesses."""

INSTALL = "the fleet's libraries are not installed; install them: pip install 'coopbandits[fleet]'"


def find_bad_files(config: NodeConfig, now: float) -> Iterator[str]:
    """Yield a sentence for everything with which an agent could not start."""
    if config.uvloop and find_spec("uvloop") is None:
        yield "[node] uvloop is true, but uvloop is not installed; install it or set it to false"
    if config.token_file is not None:
        yield from _problem(read_token, config.token_file)
    if config.tls is not None:
        yield from _problem(check_identity, config.tls, config.id, now)
    if config.api_tls is not None:
        yield from _problem(check_pair, config.api_tls, now)


def _problem(check: Callable[..., Any], *arguments: Any) -> Iterator[str]:
    try:
        check(*arguments)
    except InputError as error:
        yield str(error)


def read_token(path: Path) -> str:
    """Return the token in a file that nobody else may read."""
    token = _read_secret(path).decode("utf-8", errors="replace").strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"token file {path} holds {len(token)} characters; it must be one word of at least "
            f"{LEAST_TOKEN} ASCII characters, such as what `openssl rand -hex 32` prints"
        )
    return token


def check_identity(files: TlsFiles, node_id: str, now: float) -> None:
    """Refuse files with which the neighbours would not know this node."""
    chain = check_pair(files, now)
    names = dns_names(chain[0])
    if node_id not in names:
        raise InputError(
            f"certificate {files.certificate} is that of {', '.join(names) or 'nobody'}, but this "
            f"node is {node_id}; the two must be the same"
        )
    issuers_of = [*([other] for other in chain[1:]), read_certificates(files.ca)]
    for certificate, issuers in zip(chain, issuers_of, strict=True):
        if not any(_is_issued_by(certificate, issuer, now) for issuer in issuers):
            raise InputError(
                f"certificate {files.certificate} is not signed by {files.ca}, or the latter is "
                "not valid now; take both from the same authority"
            )


def check_pair(files: TlsFiles, now: float) -> list[Certificate]:
    """Return the certificates of a file, the own one first; refuse one without its key."""
    chain = read_certificates(files.certificate)
    own, time = chain[0], datetime.fromtimestamp(now, UTC)
    if not own.not_valid_before_utc <= time <= own.not_valid_after_utc:
        raise InputError(
            f"certificate {files.certificate} is valid from {own.not_valid_before_utc:%Y-%m-%d} to "
            f"{own.not_valid_after_utc:%Y-%m-%d}, and now it is {time:%Y-%m-%d %H:%M} UTC; "
            "renew it, or look at the clock"
        )
    if _public_key(_read_secret(files.key), files.key) != own.public_key():
        raise InputError(f"key {files.key} does not belong to certificate {files.certificate}")
    read_certificates(files.ca)
    return chain


def read_certificates(path: Path) -> list[Certificate]:
    """Return all certificates of a PEM file."""
    try:
        from cryptography.x509 import load_pem_x509_certificates
    except ImportError as error:
        raise InputError(INSTALL) from error
    content = _read(path)
    try:
        return load_pem_x509_certificates(content)
    except ValueError as error:
        raise InputError(f"{path} holds no certificate in PEM format") from error


def dns_names(certificate: Certificate) -> Sequence[str]:
    """Return the DNS names that a certificate is for."""
    from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName

    try:
        extension = certificate.extensions.get_extension_for_class(SubjectAlternativeName)
    except ExtensionNotFound:
        return []
    return extension.value.get_values_for_type(DNSName)


def _is_issued_by(certificate: Certificate, issuer: Certificate, now: float) -> bool:
    from cryptography.exceptions import InvalidSignature

    time = datetime.fromtimestamp(now, UTC)
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return issuer.not_valid_before_utc <= time <= issuer.not_valid_after_utc


def _public_key(pem: bytes, path: Path) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem, password=None).public_key()
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} holds no private key in PEM format without a password") from error


def _read_secret(path: Path) -> bytes:
    content = _read(path)
    if path.stat().st_mode & stat.S_IROTH:
        raise InputError(f"everybody can read {path}; forbid it with: chmod o-r {path}")
    return content


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; give a file that this user can read"
        ) from error

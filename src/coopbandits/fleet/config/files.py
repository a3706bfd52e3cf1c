"""The files that a configuration names: certificates, keys and tokens, checked at start."""

from __future__ import annotations

import ssl
import stat
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cryptography import x509

from coopbandits.core.errors import InputError
from coopbandits.fleet.config.model import NodeConfig, TlsFiles
from coopbandits.fleet.identity.revoked import read_ids
from coopbandits.fleet.identity.throwaway import ThrowawayCredentials
from coopbandits.fleet.identity.tls import Credentials, reason_of

LEAST_TOKEN = 16
"""The shortest token accepted, in characters."""


def find_bad_files(config: NodeConfig) -> Iterator[str]:
    """Yield a sentence for everything that would keep an agent from starting."""
    yield from _problem(require_uvloop, config)
    if config.token_file is not None:
        yield from _problem(read_token, config.token_file)
    for bandit in config.bandits.values():
        if bandit.token_file is not None:
            yield from _problem(read_token, bandit.token_file)
    if config.revoked is not None:
        yield from _problem(read_ids, config.revoked)
    if config.tls is not None:
        yield from _problem(read_credentials, config.id, config.tls)
    if config.api_tls is not None:
        yield from _problem(api_context, config.api_tls)


def _problem(check: Callable[..., Any], *arguments: Any) -> Iterator[str]:
    try:
        check(*arguments)
    except InputError as error:
        yield str(error)


def require_uvloop(config: NodeConfig) -> None:
    """Refuse a configuration that wants uvloop where there is none."""
    if config.uvloop and find_spec("uvloop") is None:
        raise InputError(
            "[node] uvloop is true, but uvloop is not installed; install it or set it to false"
        )


def read_token(path: Path) -> str:
    """Return the token in a file; refuse one that everybody may read."""
    token = _read_secret(path).decode("utf-8", errors="replace").strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"token file {path} holds {len(token)} characters; it must be one word of at least "
            f"{LEAST_TOKEN} ASCII characters, such as what `openssl rand -hex 32` prints"
        )
    return token


def credentials_of(config: NodeConfig) -> Credentials:
    """Return a node's credentials: its files, or what is made up without them."""
    if config.tls is None:
        return ThrowawayCredentials(config.id, config.cluster.name)
    return read_credentials(config.id, config.tls)


def read_credentials(node_id: str, files: TlsFiles) -> Credentials:
    """Return a node's credentials; refuse a key that everybody may read."""
    _read_secret(files.key)
    return Credentials(node_id, *files)


def api_context(files: TlsFiles) -> ssl.SSLContext:
    """Return TLS for an API that only serves clients with a certificate of the authority."""
    _read_secret(files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(files.ca)
        # Without a password OpenSSL would prompt at the terminal; "" makes it fail instead.
        context.load_cert_chain(files.certificate, files.key, password="")
    except OSError as error:
        names = ", ".join(map(str, files))
        raise InputError(
            f"[api_tls] {names} cannot be used together: {reason_of(error)}; give an authority, "
            "a certificate and its key in PEM format"
        ) from error
    return context


def dates(path: Path) -> tuple[float, float]:
    """Return from when and until when the first certificate in a file holds."""
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; give a file that this user can read"
        ) from error
    except ValueError as error:
        raise InputError(
            f"{path} holds no certificate that can be read: {error}; give one in PEM format"
        ) from None
    return found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()


def _read_secret(path: Path) -> bytes:
    try:
        content, mode = path.read_bytes(), path.stat().st_mode
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; give a file that this user can read"
        ) from error
    if mode & stat.S_IROTH:
        raise InputError(f"everybody can read {path}; forbid it with: chmod o-r {path}")
    return content

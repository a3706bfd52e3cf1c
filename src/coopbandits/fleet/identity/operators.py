"""Keys of operators, who sign the cluster's document: Ed25519, in PEM files and as text.

A public key is written as ``ed25519:`` and 64 hexadecimal digits, so that it fits on a line of a
configuration and can be compared by eye.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.files import write_file

PREFIX = "ed25519:"
KEY_BYTES, SIGNATURE_BYTES = 32, 64
HEXADECIMAL = re.compile(r"[0-9a-f]{64}")


def key_text(key: bytes) -> str:
    """Return a public key as it is written."""
    return PREFIX + key.hex()


def parse_key(what: str, value: Any) -> bytes:
    """Read a public key."""
    text = value.strip().lower() if isinstance(value, str) else ""
    digits = text.removeprefix(PREFIX)
    if digits == text or not HEXADECIMAL.fullmatch(digits):
        raise InputError(
            f"{what} is {value!r}; it must be an operator's key such as 'ed25519:3b6a…', as "
            "`coopbandits cluster keygen` prints it"
        )
    return bytes.fromhex(digits)


def make_key(path: Path, *, force: bool = False) -> bytes:
    """Write a new private key, readable by its owner alone; return the public one."""
    if path.exists() and not force:
        raise InputError(f"{path} exists; choose another name, or overwrite it with --force")
    key = Ed25519PrivateKey.generate()
    content = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_file(path, content, secret=True)
    return public_bytes(key)


def load_key(path: Path) -> Ed25519PrivateKey:
    """Return the private key in a file; refuse one that everybody may read."""
    try:
        content, mode = path.read_bytes(), path.stat().st_mode
    except OSError as error:
        raise InputError(
            f"cannot read {path} ({error.strerror}); `coopbandits cluster keygen` makes a key"
        ) from None
    if mode & stat.S_IROTH:
        raise InputError(f"everybody can read {path}; forbid it with: chmod o-r {path}")
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} holds no key that can be read: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} is no Ed25519 key; `coopbandits cluster keygen` makes one")
    return key


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    """Return the public half of a key."""
    return key.public_key().public_bytes_raw()


def holds(key: bytes, signature: bytes, data: bytes) -> bool:
    """Return whether the owner of a public key signed some bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True

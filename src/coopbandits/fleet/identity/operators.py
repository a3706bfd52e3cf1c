"""Keys of operators, who sign the cluster's document: Ed25519, in PEM files and as text.

A public key is written as ``ed25519:`` and 64 hexadecimal digits, so that it fits on a line of a
configuration and can be compared by eye.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.files import read_secret, write_file

PREFIX = "ed25519:"
KEY_BYTES, SIGNATURE_BYTES = 32, 64
HEXADECIMAL = re.compile(r"[0-9a-f]{64}")


def key_text(key: bytes) -> str:
    """Return a public key as text."""
    return PREFIX + key.hex()


def parse_key(what: str, value: Any) -> bytes:
    """Read a public key; `what` names the value in the error."""
    text = value.strip().lower() if isinstance(value, str) else ""
    digits = text.removeprefix(PREFIX)
    if digits == text or not HEXADECIMAL.fullmatch(digits):
        raise InputError(
            f"{what} is {value!r}; it must be an operator's key such as 'ed25519:3b6a…', as "
            "`coopbandits cluster keygen` prints it"
        )
    return bytes.fromhex(digits)


def make_key(path: Path, *, force: bool = False) -> bytes:
    """Write a new private key, readable by its owner only; return the public key."""
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
    """Return the private key in a file, which must not be world-readable."""
    content = read_secret(path, "make a key with `coopbandits cluster keygen`")
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"cannot read a key from {path}: {error}; make one with `coopbandits cluster keygen`"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"{path} is not an Ed25519 key; make one with `coopbandits cluster keygen`"
        )
    return key


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def verifies(key: bytes, signature: bytes, data: bytes) -> bool:
    """Return whether a public key verifies a signature of some bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True

"""Signatures of documents, which keys are trusted, and signed documents on an operator's disk.

A signature covers a short *head*, not the document itself: cluster, version, length and SHA-256 of
the content, and the keys that are trusted from this version on. So a few hundred bytes identify a
document. A neighbour sends them before the content, and two heads of one version prove that an
operator signed two contents. A *seal* is a head with its signatures.

Keys change with a document that is signed by a key trusted before it. Seals of such documents are
kept and passed on as a chain: an agent that was away follows it from the keys that it knows.

On disk, ``cluster.toml`` is signed by ``cluster.toml.sig``, which has a line per signature: key and
signature, in hexadecimal digits. The text may be reformatted afterwards, since the signed content
is its canonical form.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.values import MAX_OPERATORS
from coopbandits.fleet.document.content import (
    MAX_CONTENT,
    MAX_VERSION,
    Document,
    check_document,
    read_document,
)
from coopbandits.fleet.identity.files import file_version, write_file
from coopbandits.fleet.identity.operators import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    key_text,
    load_key,
    parse_key,
    public_bytes,
    verifies,
)
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.storage.disk import DiskError

log = logging.getLogger(__name__)

PURPOSE = "coopbandits cluster document 1"
"""Begins every head, so that no other signature of a key is valid for a document."""

MAX_SIGNATURES = 8

MAX_CHAIN = 16
"""Number of key changes to pass on; an agent that missed more needs the new keys in its file."""

MAX_FILE_BYTES = 4 * MAX_CONTENT
"""The longest file that is read: comments count as well."""

Key = Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Signature = Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class ForgedError(InputError):
    """An invalid signature in the name of a trusted key."""


class Head(msgspec.Struct, frozen=True, array_like=True):
    """The signed part; empty operators keep the previous ones."""

    purpose: Annotated[str, msgspec.Meta(max_length=40)]
    cluster: Annotated[str, msgspec.Meta(max_length=100)]
    version: Annotated[int, msgspec.Meta(ge=1, le=MAX_VERSION)]
    size: Annotated[int, msgspec.Meta(ge=0, le=MAX_CONTENT)]
    digest: Digest
    operators: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MAX_OPERATORS)] = ()


class Seal(msgspec.Struct, frozen=True):
    """A head as it was signed, and the signatures: public key and signature of each."""

    head: Annotated[bytes, msgspec.Meta(max_length=1024)]
    signatures: Annotated[
        tuple[tuple[Key, Signature], ...], msgspec.Meta(max_length=MAX_SIGNATURES)
    ]

    def open(self) -> Head:
        """Decode the head; reject anything but a head in canonical encoding."""
        try:
            head = msgspec.msgpack.decode(self.head, type=Head)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(
                f"cannot read the head of a document: {error}; sign it again"
            ) from None
        if head.purpose != PURPOSE or msgspec.msgpack.encode(head) != self.head:
            raise InputError(
                "the signed bytes are not the head of a cluster's document; sign it again"
            )
        return head

    def signed_by(self, keys: Iterable[bytes]) -> bool:
        """Return whether one of these keys has signed.

        Raises
        ------
        ForgedError
            A signature in the name of one of them is not valid.
        """
        known, found = frozenset(keys), False
        for key, signature in self.signatures:
            if key in known:
                if not verifies(key, signature, self.head):
                    raise ForgedError(f"a signature of {key_text(key)} that is not valid")
                found = True
        return found


class Signed(msgspec.Struct, frozen=True):
    """A document with its seal, and the seals of earlier documents that changed keys, in order."""

    seal: Seal
    content: Annotated[bytes, msgspec.Meta(max_length=MAX_CONTENT)]
    chain: Annotated[tuple[Seal, ...], msgspec.Meta(max_length=MAX_CHAIN)] = ()


class Trust(NamedTuple):
    """The trusted keys, the version they were trusted from, and the chain of seals to them."""

    keys: frozenset[bytes]
    version: int = 0
    followed: tuple[Seal, ...] = ()

    def follow(self, chain: Iterable[Seal], cluster: str, until: int) -> Trust:
        """Return the trust at a version, along a chain of seals.

        A chain is trusted for its signatures alone: each seal must be signed by a key that the
        previous one named. Other seals are skipped.
        """
        trust = self
        for seal in chain:
            head = seal.open()
            if head.cluster != cluster or not trust.version < head.version < until:
                continue
            if head.operators and seal.signed_by(trust.keys):
                followed = (*trust.followed, seal)
                trust = Trust(frozenset(head.operators), head.version, followed)
        return trust


def to_json(signed: Signed) -> bytes:
    """Encode a signed document for HTTP."""
    return msgspec.json.encode(signed)


def from_json(body: bytes | bytearray) -> Signed:
    """Decode what `to_json` encoded."""
    try:
        return msgspec.json.decode(body, type=Signed)
    except msgspec.ValidationError as error:
        raise InputError(
            f"not a signed document: {error}; submit one with `coopbandits cluster apply`"
        ) from None


def make_head(cluster: str, version: int, content: bytes, operators: Iterable[bytes]) -> bytes:
    """Encode the head of a document."""
    digest = sha256(content).digest()
    made = Head(PURPOSE, cluster, version, len(content), digest, tuple(operators))
    return msgspec.msgpack.encode(made)


def sign(head: bytes, keys: Iterable[Ed25519PrivateKey]) -> Seal:
    return Seal(head, tuple((public_bytes(key), key.sign(head)) for key in keys))


# Files


def load_document(path: Path) -> Document:
    """Return the document in a file, signed or not."""
    return read_document(_read(path))


def signature_file(path: Path) -> Path:
    """Return the file with the signatures of a document."""
    return path.with_name(f"{path.name}.sig")


def sign_file(
    path: Path, keys: Iterable[Path], nodes: Iterable[NodeConfig] = ()
) -> tuple[Document, list[bytes]]:
    """Sign a document, keeping other keys' signatures of the same content.

    Returns the document, and the public keys of all signers. Rejects what agents would reject, as
    far as that can be known without asking them: see `content.check_document`.
    """
    document = check_document(_read(path), nodes)
    head = _head(document)
    made = dict(sign(head, map(load_key, keys)).signatures)
    kept = {key: value for key, value in _signatures(path) if verifies(key, value, head)}
    found = kept | made
    if len(found) > MAX_SIGNATURES:
        raise InputError(
            f"{len(found)} keys have signed {path}; at most {MAX_SIGNATURES} are accepted: remove "
            f"{signature_file(path)}, and sign with fewer"
        )
    lines = [f"{key_text(key)} {value.hex()}\n" for key, value in sorted(found.items())]
    write_file(signature_file(path), "".join(lines).encode())
    return document, list(found)


def load_signed(path: Path) -> Signed:
    """Return a document with its signatures, all of which must be valid."""
    document = load_document(path)
    seal = Seal(_head(document), tuple(_signatures(path)[:MAX_SIGNATURES]))
    if not seal.signatures:
        raise InputError(f"{path} is not signed; sign it with: coopbandits cluster sign {path}")
    for key, value in seal.signatures:
        if not verifies(key, value, seal.head):
            raise InputError(
                f"{path} has changed since {key_text(key)} signed it; sign it again with: "
                f"coopbandits cluster sign {path}"
            )
    return Signed(seal, document.content)


def _head(document: Document) -> bytes:
    return make_head(document.name, document.version, document.content, document.operators)


def _signatures(path: Path) -> list[tuple[bytes, bytes]]:
    """Return keys and signatures of a document's file; none if it has not been signed."""
    beside = signature_file(path)
    text = _read(beside, missing=b"").decode("utf-8", "replace")
    found = []
    for at, line in enumerate(text.splitlines(), start=1):
        key, _, value = line.strip().partition(" ")
        try:
            signature = bytes.fromhex(value)
        except ValueError:
            signature = b""
        if len(signature) != SIGNATURE_BYTES:
            raise InputError(
                f"line {at} of {beside} is not a key and its signature; remove the file, and sign "
                "again"
            )
        found.append((parse_key(f"line {at} of {beside}", key), signature))
    return found


def _read(path: Path, missing: bytes | None = None) -> bytes:
    """Return the content of a file, or `missing` if that is given and there is no file."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        if missing is not None and isinstance(error, FileNotFoundError):
            return missing
        raise InputError(
            f"cannot read {path}: {error.strerror}; let this user read it, or give another file"
        ) from None
    if len(content) > MAX_FILE_BYTES:
        raise InputError(
            f"{path} has more than {MAX_FILE_BYTES} bytes; give the document of a cluster"
        )
    return content


class WatchedDocument:
    """A signed document on the agent's own disk, adopted whenever its files change.

    Parameters
    ----------
    path : Path or None
        The file; None if none is watched.
    adopt : callable
        Adopts a document.
    """

    def __init__(self, path: Path | None, adopt: Callable[[Signed], bool]) -> None:
        self.path, self.adopt = path, adopt
        self._seen: list[object] = [None, None]

    def refresh(self) -> None:
        """Read the files again if they have changed.

        Problems are logged, and the files are read again after the next change: an operator may be
        in the middle of copying two files.
        """
        if self.path is None:
            return
        seen: list[object] = [file_version(each) for each in (self.path, signature_file(self.path))]
        if seen == self._seen or seen[0] is None:
            return
        self._seen = seen
        try:
            self.adopt(load_signed(self.path))
        except InputError as error:
            for line in str(error).splitlines():
                log.warning(
                    LogEvent("rejected the document in a file", file=str(self.path), reason=line)
                )
        except DiskError:  # logged by the journal; try again at the next refresh
            self._seen = [None, None]

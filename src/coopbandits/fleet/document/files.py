"""A document on an operator's disk: the text that people edit, and its signatures beside it.

``cluster.toml`` is signed by ``cluster.toml.sig``, which has a line per signature: the key and the
signature, in hexadecimal digits. The text may be reformatted afterwards: what counts is what it
says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.document.check import checked
from coopbandits.fleet.document.content import Document, read_document
from coopbandits.fleet.document.seal import (
    MAX_CONTENT,
    MAX_SIGNATURES,
    Seal,
    Signed,
    make_head,
    sign,
)
from coopbandits.fleet.identity.files import file_version, write_file
from coopbandits.fleet.identity.operators import (
    SIGNATURE_BYTES,
    key_text,
    load_key,
    parse_key,
    verifies,
)
from coopbandits.fleet.storage.disk import DiskError

log = logging.getLogger(__name__)

MOST_BYTES = 4 * MAX_CONTENT
"""The longest file that is read: comments count as well."""


def load_document(path: Path) -> Document:
    """Return the document in a file, signed or not."""
    return read_document(_read(path))


def signature_file(path: Path) -> Path:
    """Return where the signatures of a document are."""
    return path.with_name(f"{path.name}.sig")


def sign_file(
    path: Path, keys: Iterable[Path], nodes: Iterable[NodeConfig] = ()
) -> tuple[Document, list[bytes]]:
    """Sign a document with some keys, beside those that have signed this content before.

    Returns the document, and the public keys of all who have signed. What agents would refuse is
    refused here, as far as it can be told without asking them: see `check.checked`.
    """
    document = checked(_read(path), nodes)
    head = _head(document)
    made = dict(sign(head, map(load_key, keys)).signatures)
    kept = {key: value for key, value in _signatures(path) if verifies(key, value, head)}
    found = kept | made
    if len(found) > MAX_SIGNATURES:
        raise InputError(f"{len(found)} keys have signed {path}; {MAX_SIGNATURES} are enough")
    lines = [f"{key_text(key)} {value.hex()}\n" for key, value in sorted(found.items())]
    write_file(signature_file(path), "".join(lines).encode())
    return document, list(found)


def load_signed(path: Path) -> Signed:
    """Return a document with its signatures; refuse one that was changed since it was signed."""
    document = load_document(path)
    seal = Seal(_head(document), tuple(_signatures(path)[:MAX_SIGNATURES]))
    if not seal.signatures:
        raise InputError(f"{path} is not signed; sign it with: coopbandits cluster sign {path}")
    for key, value in seal.signatures:
        if not verifies(key, value, seal.head):
            raise InputError(
                f"{path} is not what {key_text(key)} has signed; sign it again with: coopbandits "
                f"cluster sign {path}"
            )
    return Signed(seal, document.content)


def _head(document: Document) -> bytes:
    return make_head(document.name, document.version, document.content, document.operators)


def _signatures(path: Path) -> list[tuple[bytes, bytes]]:
    """Return keys and signatures; none where there is no file."""
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
            raise InputError(f"line {at} of {beside} is no key and its signature; sign anew")
        found.append((parse_key(f"line {at} of {beside}", key), signature))
    return found


def _read(path: Path, missing: bytes | None = None) -> bytes:
    """Return what is in a file; where it does not exist, what stands for that, if anything."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        if missing is not None and isinstance(error, FileNotFoundError):
            return missing
        raise InputError(
            f"cannot read {path}: {error.strerror}; let this user read it, or give another file"
        ) from None
    if len(content) > MOST_BYTES:
        raise InputError(f"{path} has more than {MOST_BYTES} bytes; it is no cluster's document")
    return content


class WatchedDocument:
    """A document on the agent's own disk, read whenever its files change.

    Parameters
    ----------
    path : Path or None
        The file; None where none is watched.
    adopt : callable
        Takes the document.
    """

    def __init__(self, path: Path | None, adopt: Callable[[Signed], bool]) -> None:
        self.path, self.adopt = path, adopt
        self._seen: list[object] = [None, None]

    def refresh(self) -> None:
        """Read the files again if they have changed.

        What cannot be used is logged, and looked at again after the next change: an operator may be
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
                log.warning("the document in %s is not taken: %s", self.path, line)
        except DiskError:  # the journal remembers it; the next look may find it well again
            self._seen = [None, None]

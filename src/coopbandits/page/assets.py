"""The page's files, as they go over HTTP.

All of them are read once, into one table. A request is looked up there and nothing else is ever
opened, so no path, however written, leads to another file.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

KINDS = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
"""What is served, by ending; licences and checksums lie beside these files and are not."""

INDEX = "index.html"

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        b"img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Sent with everything under /ui, data included."""


class Asset(NamedTuple):
    """One file of the page.

    Attributes
    ----------
    body : bytes
        Its contents.
    kind : bytes
        Its content type.
    etag : bytes
        Changes with the contents: a browser that shows it again needs no body.
    """

    body: bytes
    kind: bytes
    etag: bytes


def find(path: str) -> Asset | None:
    """Return the file at a path below /ui/, where "" is the page itself; None if there is none."""
    return _all().get(path or INDEX)


@cache
def _all() -> dict[str, Asset]:
    found: dict[str, Asset] = {}
    _collect(files("coopbandits.page") / "static", "", found)
    return found


def _collect(folder: Traversable, prefix: str, found: dict[str, Asset]) -> None:
    for entry in folder.iterdir():
        ending = entry.name[entry.name.rfind(".") :]
        if entry.is_dir():
            _collect(entry, f"{prefix}{entry.name}/", found)
        elif ending in KINDS:
            body = entry.read_bytes()
            etag = b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
            found[prefix + entry.name] = Asset(body, KINDS[ending], etag)

"""The page's static files, served from a table in memory.

All files are read once. A request is looked up in the table and never opens a file, so no path,
however written, leads outside.
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
"""Content types by suffix; files without one, such as licences and checksums, are not served."""

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
    """One file of the page: contents, content type, and an entity tag that depends on them."""

    body: bytes
    kind: bytes
    etag: bytes


def find(path: str) -> Asset | None:
    """Return the file at a path below /ui/, where "" is the page itself; None if there is none."""
    return _all().get(path or INDEX)


@cache
def _all() -> dict[str, Asset]:
    found: dict[str, Asset] = {}

    def collect(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            suffix = entry.name[entry.name.rfind(".") :]
            if entry.is_dir():
                collect(entry, f"{prefix}{entry.name}/")
            elif suffix in KINDS:
                body = entry.read_bytes()
                etag = b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
                found[prefix + entry.name] = Asset(body, KINDS[suffix], etag)

    collect(files("coopbandits.page") / "static", "")
    return found

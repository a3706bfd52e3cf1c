"""What is compressed: files made of Python's own standard library, of two kinds.

*Texts* are modules, one after another. *Backups* are the archives of four nights in a row: the same
modules zipped every night, one of them exchanged, so that most bytes of a night are those of the
night before. They are compressed already, so what is left to gain is the repetition. It lies more
than 32 KB back, which is as far as zlib looks; lzma looks further.
"""

from __future__ import annotations

import io
import sysconfig
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path

from coopbandits.core.errors import InputError

TEXT_BYTES = 150_000
NIGHTS = 4
NIGHT_BYTES = 38_000
"""The least size of one night's archive: zlib sees 32 768 bytes back."""
EXCHANGED = 5_000
"""The most bytes that are new in a night."""
LARGEST_MODULE = 50_000
"""Larger ones are left out, or files would differ much in size."""
COUNT = 40
"""Files of each kind."""


class Supply:
    """Hands out files, and changes their kind when told to.

    Parameters
    ----------
    texts, backups : sequence of bytes
        Files of both kinds, handed out in turn.
    """

    def __init__(self, texts: Sequence[bytes], backups: Sequence[bytes]) -> None:
        self._next, self._later = cycle(texts), cycle(backups)

    def take(self) -> bytes:
        """Return the next file."""
        return next(self._next)

    def change(self) -> None:
        """Hand out backups from now on."""
        self._next = self._later


def make_supply(folder: Path | None = None, count: int = COUNT) -> Supply:
    """Make so many files of each kind from the modules in a folder, the standard library's."""
    place = folder or Path(sysconfig.get_path("stdlib"))
    paths = sorted([*place.glob("*.py"), *place.glob("*/*.py")])
    modules = [path.read_bytes() for path in paths if path.stat().st_size <= LARGEST_MODULE]
    if sum(map(len, modules)) < TEXT_BYTES:
        raise InputError(
            f"{place} holds less than {TEXT_BYTES} bytes of Python modules, from which the demo "
            "makes the files to compress; run it with a Python that has its standard library there"
        )
    return Supply(_first(texts(cycle(modules)), count), _first(backups(cycle(modules)), count))


def _first(files: Iterator[bytes], count: int) -> list[bytes]:
    return [next(files) for _ in range(count)]


def texts(modules: Iterable[bytes]) -> Iterator[bytes]:
    """Yield modules joined to files of the same size."""
    waiting = b""
    for module in modules:
        waiting += module
        if len(waiting) >= TEXT_BYTES:
            yield waiting[:TEXT_BYTES]
            waiting = b""


def backups(modules: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the archives of some nights, joined; each night another module is in the archive."""
    more = iter(modules)
    while True:
        kept: list[bytes] = []
        size = 0
        while size < NIGHT_BYTES:
            kept.append(next(more))
            size += len(zlib.compress(kept[-1]))
        yield b"".join(zipped([*kept, next(more)[:EXCHANGED]]) for _ in range(NIGHTS))


def zipped(files: Sequence[bytes]) -> bytes:
    """Return a zip archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, data in enumerate(files):
            archive.writestr(f"{number}.py", data)
    return content.getvalue()

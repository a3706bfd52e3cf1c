"""What a fuzzing target is, and how it spells its choices out of bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  in a folder of its own
"""Where files are tried by the thousand: in memory, where there is such a disk."""

CASES = Path(__file__).with_name("cases")

Check = Callable[[bytes], None]
"""Tries one input; raises anything at all if the promise is broken."""


class Target(NamedTuple):
    """Something that reads what others wrote.

    Attributes
    ----------
    name : str
        Its name, and that of the folder of its cases.
    promise : str
        What must hold for any input, in a sentence.
    seeds : callable
        Returns inputs to begin with.
    opened : callable
        Makes what is tried, and returns the check.
    """

    name: str
    promise: str
    seeds: Callable[[], list[bytes]]
    opened: Callable[[], AbstractContextManager[Check]]

    @property
    def cases(self) -> list[Path]:
        """Return the inputs that once broke it."""
        return sorted(path for path in (CASES / self.name).glob("*") if path.is_file())


class Spelling:
    """Reads numbers and pieces out of bytes; once they are used up, zeros."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def number(self, below: int) -> int:
        """Return a number from two bytes, or four where two are too few."""
        width = 2 if below <= 1 << 16 else 4
        return int.from_bytes(self.piece(width), "little") % max(1, below)

    def piece(self, length: int) -> bytes:
        found = self._data[self._at : self._at + length]
        self._at += length
        return found

"""What a journal needs of a disk: append to one file, or replace it atomically."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Protocol

from coopbandits.core.errors import InputError

DURABILITIES = ("process", "power")
"""Failures that acknowledged rewards survive: a process crash, or power loss too."""


class DiskError(OSError):
    """A write failed, and left nothing behind."""


class Disk(Protocol):
    """Where a journal is stored.

    Attributes
    ----------
    seconds : float
        Time spent writing.
    """

    seconds: float

    def read(self) -> bytes:
        """Return what was written and survived; empty at first."""

    def append(self, data: bytes) -> None:
        """Add at the end, all or nothing: on failure a DiskError is raised."""

    def replace(self, data: bytes) -> None:
        """Replace everything, all or nothing: on failure a DiskError is raised."""

    def close(self) -> None:
        """Release it."""


class FileDisk:
    """A file in a folder that only one process at a time may use.

    Parameters
    ----------
    folder : Path
        Holds the file; created if missing.
    durability : {"process", "power"}
        What a write survives.
    """

    def __init__(self, folder: Path, durability: str = "process") -> None:
        self.path = folder / "journal"
        self.sync_every_write = durability == "power"
        self.seconds = 0.0
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InputError(
                f"journal folder {folder} cannot be used: {error.strerror}; name one that can be "
                "written"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise InputError(
                f"journal folder {folder} is in use by another process; give every agent its own"
            ) from error
        self._open()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._file).st_size

    def read(self) -> bytes:
        """Return the file."""
        return self.path.read_bytes()

    def append(self, data: bytes) -> None:
        """Add at the end; a partial write is cut off again."""
        begun = time.perf_counter()
        try:
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError(f"only {written} of {len(data)} bytes were written")
            if self.sync_every_write:
                os.fdatasync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise DiskError(f"the journal {self.path} cannot be written: {error}") from error
        self._size += written
        self.seconds += time.perf_counter() - begun

    def replace(self, data: bytes) -> None:
        """Write a new file, and rename it over the old one once it is complete."""
        fresh = self.path.with_suffix(".new")
        try:
            with fresh.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
            self._sync_folder()
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise DiskError(f"the journal {self.path} cannot be written: {error}") from error
        os.close(self._file)
        self._open()

    def _sync_folder(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Close the file and release the folder."""
        os.close(self._file)
        os.close(self._lock)


class MemoryDisk:
    """A disk in memory, for tests and for agents that need not survive their process."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.seconds = 0.0

    def read(self) -> bytes:
        """Return everything written."""
        return bytes(self.data)

    def append(self, data: bytes) -> None:
        """Add at the end."""
        self.data += data

    def replace(self, data: bytes) -> None:
        """Replace everything."""
        self.data = bytearray(data)

    def close(self) -> None:
        """Do nothing."""

"""What a disk needs of an operating system: one method per call that can fail."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import NamedTuple, Protocol

from coopbandits.fleet.identity.files import give


class Place(NamedTuple):
    """Which file it is: device, inode and size."""

    device: int
    inode: int
    size: int


class FileSystem(Protocol):
    """Calls to the operating system; each may raise OSError, and is a place to inject a fault."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, where they are missing."""

    def lock(self, path: Path) -> int:
        """Open a file and lock it; BlockingIOError if another process has."""

    def read(self, path: Path) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""

    def place(self, path: Path) -> Place | None:
        """Return which file is at a path; None if there is none."""

    def create(self, path: Path, like: Path) -> int:
        """Open an empty file for appending, in place of any at this path.

        It belongs to the owner of the file `like`, or else of the folder, where the process may
        give it away: what root restores, the agent's user has to read.
        """

    def write(self, file: int, data: bytes) -> int:
        """Append; return how many bytes were written."""

    def sync(self, file: int) -> None:
        """Return once all that was written would survive a loss of power."""

    def rename(self, path: Path, target: Path) -> None:
        """Put a file in the place of another, atomically."""

    def sync_folder(self, path: Path) -> None:
        """Return once the names in a folder would survive a loss of power."""

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""

    def close(self, file: int) -> None:
        """Close a file; the lock of one that was locked is released."""


class OperatingSystem:
    """The real calls."""

    def make_folder(self, path: Path) -> None:
        """Make a folder that is open to its owner alone, who has the one above it too."""
        try:
            path.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            if not path.is_dir():
                raise
            return
        folder = os.open(path, os.O_RDONLY)
        try:
            give(folder, path.parent.stat())
        finally:
            os.close(folder)

    def lock(self, path: Path) -> int:
        """Open and lock."""
        try:
            file = _new_like(path, os.O_RDWR, path.parent)
        except FileExistsError:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise
        return file

    def read(self, path: Path) -> bytes | None:
        """Read it whole."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def place(self, path: Path) -> Place | None:
        """Ask the system."""
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Place(found.st_dev, found.st_ino, found.st_size)

    def create(self, path: Path, like: Path) -> int:
        """Create anew: whoever holds an older file of this name keeps that one."""
        self.remove(path)
        return _new_like(path, os.O_WRONLY | os.O_APPEND, like)

    def write(self, file: int, data: bytes) -> int:
        """Append."""
        return os.write(file, data)

    def sync(self, file: int) -> None:
        """Sync the data, and the size with it."""
        os.fdatasync(file)

    def rename(self, path: Path, target: Path) -> None:
        """Rename."""
        path.replace(target)

    def sync_folder(self, path: Path) -> None:
        """Sync a folder."""
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        """Remove."""
        path.unlink(missing_ok=True)

    def close(self, file: int) -> None:
        """Close."""
        os.close(file)


def _new_like(path: Path, flags: int, like: Path) -> int:
    file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _give_like(file, like)
    except OSError:
        os.close(file)  # it is tried again every second
        raise
    return file


def _give_like(file: int, like: Path) -> None:
    """Give a file to the owner of another, or of its folder where there is no such file."""
    try:
        owner = like.stat()
    except FileNotFoundError:
        owner = like.parent.stat()
    give(file, owner)

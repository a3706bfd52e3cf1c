"""What a journal needs of a disk: append to one file, sync it, or replace it atomically.

A write or sync that failed is never tried again on the same file: the system may have dropped what
it could not write, and say that all is well the next time. The file is in doubt from then on, and
only a new one, written whole from memory, ends that.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Protocol

from coopbandits.core.errors import InputError
from coopbandits.fleet.storage.filesystem import FileSystem, OperatingSystem, Place

DURABILITIES = ("process", "power")
"""Failures that acknowledged rewards survive: a process crash, or power loss too."""


class DiskError(OSError):
    """A write failed."""


class DoubtError(DiskError):
    """What the file holds is no longer certain; it has to be replaced before it is used again."""


class InUseError(InputError):
    """Another process has the journal's folder: its agent runs."""


class Disk(Protocol):
    """Where a journal is stored. All but `check` and `close` may run in another thread than these.

    Attributes
    ----------
    durability : {"process", "power"}
        What acknowledged events must survive; with "power", appends have to be synced.
    seconds : float
        Time spent writing.
    """

    durability: str
    seconds: float

    def read(self) -> bytes | None:
        """Return what was written and survived; None if there is no file."""

    def append(self, data: bytes) -> None:
        """Add at the end; a DoubtError may leave a part of it behind."""

    def sync(self) -> None:
        """Return once all that was appended would survive a loss of power; or DoubtError."""

    def prepare(self, data: bytes) -> None:
        """Write and sync a file that is to take the place of this one; or DiskError."""

    def switch(self, tail: bytes) -> None:
        """Add to the prepared file, and use it instead of the old one from now on.

        On failure a DiskError leaves the file as it was. A DoubtError leaves the old or the new one
        in its place, whole.
        """

    def settle(self) -> None:
        """Return once the switch would survive a loss of power; or DoubtError."""

    def discard(self) -> None:
        """Drop the prepared file, if there is one."""

    def keep(self, name: str, data: bytes) -> None:
        """Put data beside the file, in one that ends in `name`, and sync; or DiskError."""

    def check(self) -> None:
        """Raise DoubtError if the file is no longer where it was, or not what was written."""

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
    files : FileSystem
        The operating system's calls.
    """

    def __init__(
        self, folder: Path, durability: str = "process", files: FileSystem | None = None
    ) -> None:
        self.path, self.durability, self.seconds = folder / "journal", durability, 0.0
        self.files: FileSystem = files or OperatingSystem()
        self._file: int | None = None
        self._prepared: tuple[int, Place] | None = None
        self._moving = threading.Lock()
        try:
            self.files.make_folder(folder)
            self._lock = self.files.lock(self._lock_path)
            try:
                self._lock_place = self.files.place(self._lock_path)
                self._place = self.files.place(self.path)
            except BaseException:
                self.files.close(self._lock)
                raise
        except BlockingIOError as error:
            raise InUseError(
                f"journal folder {folder} is in use by another process; stop that one, or give "
                "every agent its own"
            ) from error
        except OSError as error:
            raise InputError(
                f"journal folder {folder} cannot be used: {error.strerror}; name one that can be "
                "written"
            ) from error
        self._size = self._most = self._place.size if self._place else 0

    @property
    def _fresh(self) -> Path:
        return self.path.with_suffix(".new")

    @property
    def _lock_path(self) -> Path:
        return self.path.with_name("lock")

    def read(self) -> bytes | None:
        """Return the file."""
        try:
            return self.files.read(self.path)
        except OSError as error:
            raise InputError(
                f"the journal {self.path} cannot be read: {error.strerror}; restore it from a "
                "backup, or name another folder"
            ) from error

    def append(self, data: bytes) -> None:
        """Add at the end."""
        begun = time.perf_counter()
        if self._file is None:
            raise DoubtError(f"the journal {self.path} was not replaced yet")
        self._most += len(data)
        try:
            written = self.files.write(self._file, data)
            if written < len(data):
                self._write(self._file, data[written:])
        except OSError as error:
            raise DoubtError(self._told(error)) from error
        self._size += len(data)
        self.seconds += time.perf_counter() - begun

    def _write(self, file: int, data: bytes) -> None:
        while (written := self.files.write(file, data)) < len(data):
            data = data[written:]

    def sync(self) -> None:
        """Sync the file."""
        begun = time.perf_counter()
        if self._file is not None:
            try:
                self.files.sync(self._file)
            except OSError as error:
                raise DoubtError(self._told(error)) from error
        self.seconds += time.perf_counter() - begun

    def prepare(self, data: bytes) -> None:
        """Write it to `journal.new`."""
        self.discard()
        self._check_owned()
        self._prepared = self._write_fresh(self._fresh, data)

    def switch(self, tail: bytes) -> None:
        """Rename the prepared file over the old one, once it is complete."""
        assert self._prepared is not None  # noqa: S101  it was prepared before
        file, place = self._prepared
        try:
            if tail:
                self._write(file, tail)
            if tail and self.durability == "power":
                self.files.sync(file)
            self._check_owned()
        except OSError as error:
            self.discard()
            raise error if isinstance(error, DiskError) else DiskError(self._told(error)) from error
        place = place._replace(size=place.size + len(tail))
        with self._moving:
            try:
                self.files.rename(self._fresh, self.path)
            except OSError as error:
                self._settle_rename(file, place)
                raise DoubtError(self._told(error)) from error
            self._adopt(file, place)

    def _settle_rename(self, file: int, place: Place) -> None:
        """Find out what a rename did that is said to have failed."""
        with contextlib.suppress(OSError):
            if self.files.place(self.path) == place:
                self._adopt(file, place)
        self.discard()

    def _adopt(self, file: int, place: Place) -> None:
        """Use the new file from now on: the old one has no name any more."""
        old, self._file, self._prepared = self._file, file, None
        self._place = place
        self._size = self._most = place.size
        if old is not None:
            with contextlib.suppress(OSError):  # what a file without a name holds does not matter
                self.files.close(old)

    def settle(self) -> None:
        """Sync the folder."""
        try:
            self.files.sync_folder(self.path.parent)
        except OSError as error:
            raise DoubtError(self._told(error)) from error

    def discard(self) -> None:
        """Remove `journal.new`."""
        if self._prepared is not None:
            self._remove(self._prepared[0], self._fresh)
            self._prepared = None

    def _write_fresh(self, path: Path, data: bytes) -> tuple[int, Place]:
        """Return a new file, open, with these data synced; leave nothing behind on failure."""
        file = None
        try:
            file = self.files.create(path, self.path)
            self._write(file, data)
            self.files.sync(file)
            place = self.files.place(path)
            if place is None or place.size != len(data):
                raise OSError(f"{path.name} is not what was written")
        except OSError as error:
            self._remove(file, path)
            raise DiskError(self._told(error)) from error
        return file, place

    def _remove(self, file: int | None, path: Path) -> None:
        with contextlib.suppress(OSError):
            if file is not None:
                self.files.close(file)
        with contextlib.suppress(OSError):
            self.files.remove(path)

    def keep(self, name: str, data: bytes) -> None:
        """Write it to `journal.NAME`, or to `journal.NAME-2` and so on where that is taken."""
        self._check_owned()
        try:
            target, number = self.path.with_suffix(f".{name}"), 1
            while (there := self.files.read(target)) is not None and there != data:
                number += 1
                target = self.path.with_suffix(f".{name}-{number}")
            file, _ = self._write_fresh(self._fresh, data)
            self.files.close(file)
            self.files.rename(self._fresh, target)
            self.files.sync_folder(self.path.parent)
        except DiskError:
            raise
        except OSError as error:
            raise DiskError(self._told(error)) from error

    def check(self) -> None:
        """Compare device, inode and size."""
        with self._moving:
            least = self._size  # another thread may be appending
            here = self._look()
            if here is None or not self._is_ours(here, least):
                raise DoubtError(self._misplaced())

    def _check_owned(self) -> None:
        """Refuse to write where somebody else's journal may be."""
        least = self._size  # another thread may be appending
        here = self._look()
        if here is not None and not self._is_ours(here, least):
            raise DoubtError(self._misplaced())

    def _look(self) -> Place | None:
        try:
            lock, here = self.files.place(self._lock_path), self.files.place(self.path)
        except OSError as error:
            raise DoubtError(self._told(error)) from error
        if lock is None or self._lock_place is None or lock[:2] != self._lock_place[:2]:
            raise DoubtError(self._misplaced())
        return here

    def _is_ours(self, here: Place, least: int) -> bool:
        ours = self._place
        return ours is not None and here[:2] == ours[:2] and least <= here.size <= self._most

    def _misplaced(self) -> str:
        return (
            f"the journal {self.path} was removed or replaced while the agent runs; put it back as "
            "it was, or restart the agent to go on with what is there now"
        )

    def _told(self, error: OSError) -> str:
        return f"the journal {self.path} cannot be written: {error}"

    def close(self) -> None:
        """Close the file and release the folder."""
        try:
            self.discard()
            if self._file is not None:
                self.files.close(self._file)
        finally:
            self.files.close(self._lock)


class MemoryDisk:
    """A disk in memory, for tests and for agents that need not survive their process."""

    def __init__(self, data: bytes = b"", durability: str = "process") -> None:
        self.data, self.durability, self.seconds = bytearray(data), durability, 0.0
        self.kept: dict[str, bytes] = {}
        self.prepared = b""

    def read(self) -> bytes | None:
        """Return everything written."""
        return bytes(self.data) or None

    def append(self, data: bytes) -> None:
        """Add at the end."""
        self.data += data

    def sync(self) -> None:
        """Do nothing: memory does not outlive the process."""

    def prepare(self, data: bytes) -> None:
        """Remember it."""
        self.prepared = data

    def switch(self, tail: bytes) -> None:
        """Replace everything."""
        self.data = bytearray(self.prepared + tail)

    def settle(self) -> None:
        """Do nothing."""

    def discard(self) -> None:
        """Do nothing."""

    def keep(self, name: str, data: bytes) -> None:
        """Remember it under its name."""
        self.kept[name] = data

    def check(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

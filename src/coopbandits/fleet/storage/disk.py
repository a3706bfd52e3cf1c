"""The disk under a journal: append to one file, sync it, or replace it atomically.

`FileDisk` is written against `FileSystem`, which has one method per system call that can fail, so
that tests can let each of them fail.

A write or sync that failed is never retried on the same file: the system may have dropped the data
that it could not write, and report success the next time. From then on the contents of the file are
uncertain (`DoubtError`) until a new file, written completely from memory, replaces it.

The folder is locked while a `FileDisk` is open. Even so, an operator may remove, restore or copy
files under a running agent. Before replacing the file, and in `check`, the disk compares device,
inode and size with what it has written, and never overwrites a file that is not its own.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from pathlib import Path
from typing import NamedTuple, Protocol

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.files import give, require_writable, system_error


class Place(NamedTuple):
    """Identifies a file, and its size."""

    device: int
    inode: int
    size: int


class FileSystem(Protocol):
    """Calls to the operating system; each may raise OSError."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and its parents, unless it exists."""

    def lock(self, path: Path) -> int:
        """Open and lock a file; raise BlockingIOError if another process has locked it."""

    def read(self, path: Path) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""

    def place(self, path: Path) -> Place | None:
        """Return which file is at a path; None if there is none."""

    def create(self, path: Path, like: Path) -> int:
        """Open an empty file for appending; an older file of this name is unlinked.

        It is given to the owner of the file `like`, or else of the folder, if the process may do
        that: a journal restored by root must be readable by the agent's user.
        """

    def write(self, file: int, data: bytes) -> int:
        """Append; return how many bytes were written."""

    def sync(self, file: int) -> None:
        """Return once everything written would survive a loss of power."""

    def rename(self, path: Path, target: Path) -> None:
        """Replace a file by another, atomically."""

    def sync_folder(self, path: Path) -> None:
        """Return once the names in a folder would survive a loss of power."""

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""

    def close(self, file: int) -> None:
        """Close a file, and release its lock."""


class OperatingSystem:
    """The real system calls; see `FileSystem`."""

    def make_folder(self, path: Path) -> None:
        # It is accessible by its owner alone, who is the owner of the parent folder.
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
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def place(self, path: Path) -> Place | None:
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Place(found.st_dev, found.st_ino, found.st_size)

    def create(self, path: Path, like: Path) -> int:
        self.remove(path)
        return _new_like(path, os.O_WRONLY | os.O_APPEND, like)

    def write(self, file: int, data: bytes) -> int:
        return os.write(file, data)

    def sync(self, file: int) -> None:
        os.fdatasync(file)  # data and size

    def rename(self, path: Path, target: Path) -> None:
        path.replace(target)

    def sync_folder(self, path: Path) -> None:
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def close(self, file: int) -> None:
        os.close(file)


class Rehearsal(OperatingSystem):
    """System calls for opening a journal without changing anything.

    Folders and files are not made. What making them would raise is raised all the same.

    Attributes
    ----------
    locked : bool
        Whether another process has locked the folder. It can be read nevertheless.
    """

    locked = False

    def make_folder(self, path: Path) -> None:
        try:
            path.lstat()
        except FileNotFoundError:
            require_writable(next(each for each in path.parents if os.path.lexists(each)))
        else:
            if not path.is_dir():
                raise system_error(errno.EEXIST)

    def lock(self, path: Path) -> int:
        try:
            file = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            if path.parent.exists():
                require_writable(path.parent)
            return os.open(os.devnull, os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)  # at once: an agent may be about to start
        except BlockingIOError:
            self.locked = True
        return file


def _new_like(path: Path, flags: int, like: Path) -> int:
    file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            owner = like.stat()
        except FileNotFoundError:
            owner = like.parent.stat()
        give(file, owner)
    except OSError:
        os.close(file)  # the caller retries every second: descriptors must not leak
        raise
    return file


DURABILITIES = ("process", "power")
"""The failures that acknowledged rewards survive: a process crash, or power loss as well."""


class DiskError(OSError):
    """A write failed."""


class DoubtError(DiskError):
    """The contents of the file are uncertain; it must be replaced before it is used again."""


class InUseError(InputError):
    """Another process, a running agent, has locked the journal's folder."""


def in_use(folder: Path) -> InUseError:
    """Return the error of opening a folder that another process has locked."""
    return InUseError(
        f"journal folder {folder} is in use by another process; stop that process, or give every "
        "agent its own folder"
    )


class Disk(Protocol):
    """Storage of a journal. Methods other than `check` and `close` may run in another thread.

    Attributes
    ----------
    durability : {"process", "power"}
        What acknowledged events must survive; with "power", appends have to be synced.
    seconds : float
        Total time spent writing.
    """

    durability: str
    seconds: float

    def read(self) -> bytes | None:
        """Return the contents that survived; None if there is no file."""

    def append(self, data: bytes) -> None:
        """Append; a DoubtError may leave a part of the data behind."""

    def sync(self) -> None:
        """Return once everything appended would survive a loss of power; or raise DoubtError."""

    def prepare(self, data: bytes) -> None:
        """Write and sync a file that is to replace this one; or raise DiskError."""

    def switch(self, tail: bytes) -> None:
        """Append to the prepared file, and replace the old one by it.

        After a DiskError the old file is in use as before. After a DoubtError either the old or the
        new one is in its place, complete.
        """

    def settle(self) -> None:
        """Return once the switch would survive a loss of power; or raise DoubtError."""

    def discard(self) -> None:
        """Remove the prepared file, if there is one."""

    def keep(self, name: str, data: bytes) -> None:
        """Write and sync data to a file beside this one that ends in `name`; or raise DiskError."""

    def check(self) -> None:
        """Raise DoubtError if the file was moved, replaced or changed by another process."""

    def close(self) -> None:
        """Release the file and its folder."""


class FileDisk:
    """A disk that is the file `journal` in a folder, locked against other processes.

    Parameters
    ----------
    folder : Path
        The folder; created if missing.
    durability : {"process", "power"}
        The failures that a write survives.
    files : FileSystem
        The system calls.
    """

    # `_size` bytes are certainly in the file and `_most` may be: another thread may be appending.

    def __init__(
        self, folder: Path, durability: str = "process", files: FileSystem | None = None
    ) -> None:
        self.path, self.durability, self.seconds = folder / "journal", durability, 0.0
        self.files: FileSystem = files or OperatingSystem()
        self._file: int | None = None
        self._prepared: tuple[int, Place] | None = None
        self._moving = threading.Lock()  # `check` must not run between a rename and its `_adopt`
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
            raise in_use(folder) from error
        except OSError as error:
            raise InputError(
                f"cannot use journal folder {folder}: {error.strerror}; name a writable folder"
            ) from error
        self._size = self._most = self._place.size if self._place else 0

    @property
    def _fresh(self) -> Path:
        return self.path.with_suffix(".new")

    @property
    def _lock_path(self) -> Path:
        return self.path.with_name("lock")

    def read(self) -> bytes | None:
        try:
            return self.files.read(self.path)
        except OSError as error:
            raise InputError(
                f"cannot read journal {self.path}: {error.strerror}; restore it from a backup, or "
                "name another folder"
            ) from error

    def append(self, data: bytes) -> None:
        begun = time.perf_counter()
        if self._file is None:
            raise DoubtError(f"the journal {self.path} was not replaced yet")
        self._most += len(data)
        try:
            written = self.files.write(self._file, data)
            if written < len(data):
                self._write(self._file, data[written:])
        except OSError as error:
            raise DoubtError(self._unwritable(error)) from error
        self._size += len(data)
        self.seconds += time.perf_counter() - begun

    def _write(self, file: int, data: bytes) -> None:
        while (written := self.files.write(file, data)) < len(data):
            data = data[written:]

    def sync(self) -> None:
        begun = time.perf_counter()
        if self._file is not None:
            try:
                self.files.sync(self._file)
            except OSError as error:
                raise DoubtError(self._unwritable(error)) from error
        self.seconds += time.perf_counter() - begun

    def prepare(self, data: bytes) -> None:
        """Write the data to `journal.new`."""
        self.discard()
        self._check_owned()
        self._prepared = self._write_fresh(self._fresh, data)

    def switch(self, tail: bytes) -> None:
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
            raise (
                error if isinstance(error, DiskError) else DiskError(self._unwritable(error))
            ) from error
        place = place._replace(size=place.size + len(tail))
        with self._moving:
            try:
                self.files.rename(self._fresh, self.path)
            except OSError as error:
                # A rename that reports failure may have happened all the same.
                with contextlib.suppress(OSError):
                    if self.files.place(self.path) == place:
                        self._adopt(file, place)
                self.discard()
                raise DoubtError(self._unwritable(error)) from error
            self._adopt(file, place)

    def _adopt(self, file: int, place: Place) -> None:
        """Use the new file; the old one no longer has a name."""
        old, self._file, self._prepared = self._file, file, None
        self._place = place
        self._size = self._most = place.size
        if old is not None:
            with contextlib.suppress(OSError):  # the contents of an unlinked file do not matter
                self.files.close(old)

    def settle(self) -> None:
        try:
            self.files.sync_folder(self.path.parent)
        except OSError as error:
            raise DoubtError(self._unwritable(error)) from error

    def discard(self) -> None:
        if self._prepared is not None:
            self._remove(self._prepared[0], self._fresh)
            self._prepared = None

    def _write_fresh(self, path: Path, data: bytes) -> tuple[int, Place]:
        """Return a new open file with these data synced; on failure leave nothing behind."""
        file = None
        try:
            file = self.files.create(path, self.path)
            self._write(file, data)
            self.files.sync(file)
            place = self.files.place(path)
            if place is None or place.size != len(data):
                raise OSError(f"{path.name} was changed while it was written")
        except OSError as error:
            self._remove(file, path)
            raise DiskError(self._unwritable(error)) from error
        return file, place

    def _remove(self, file: int | None, path: Path) -> None:
        with contextlib.suppress(OSError):
            if file is not None:
                self.files.close(file)
        with contextlib.suppress(OSError):
            self.files.remove(path)

    def keep(self, name: str, data: bytes) -> None:
        """Write the data to `journal.NAME`, or `journal.NAME-2` and so on if that is taken."""
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
            raise DiskError(self._unwritable(error)) from error

    def check(self) -> None:
        with self._moving:
            if not self._check_owned():
                raise DoubtError(self._misplaced())

    def _check_owned(self) -> bool:
        """Raise DoubtError if a file that is not ours is in the place; return whether ours is."""
        least = self._size  # read before looking: another thread may be appending
        try:
            lock, here = self.files.place(self._lock_path), self.files.place(self.path)
        except OSError as error:
            raise DoubtError(self._unwritable(error)) from error
        if lock is None or self._lock_place is None or lock[:2] != self._lock_place[:2]:
            raise DoubtError(self._misplaced())
        if here is None:
            return False
        ours = self._place
        if ours is None or here[:2] != ours[:2] or not least <= here.size <= self._most:
            raise DoubtError(self._misplaced())
        return True

    def _misplaced(self) -> str:
        return (
            f"the journal {self.path} was removed or replaced while the agent runs; put it back as "
            "it was, or restart the agent to continue with the present file"
        )

    def _unwritable(self, error: OSError) -> str:
        return f"the journal {self.path} cannot be written: {error}"

    def close(self) -> None:
        try:
            self.discard()
            if self._file is not None:
                self.files.close(self._file)
        finally:
            self.files.close(self._lock)


class MemoryDisk:
    """A disk in memory, for tests and for checking a journal; `data` is None without a file."""

    def __init__(self, data: bytes | None = None, durability: str = "process") -> None:
        self.data, self.durability, self.seconds = bytearray(data or b""), durability, 0.0
        self._had_file = data is not None
        self.kept: dict[str, bytes] = {}
        self.prepared = b""

    def read(self) -> bytes | None:
        return bytes(self.data) if self.data or self._had_file else None

    def append(self, data: bytes) -> None:
        self.data += data

    def sync(self) -> None:
        pass

    def prepare(self, data: bytes) -> None:
        self.prepared = data

    def switch(self, tail: bytes) -> None:
        self.data = bytearray(self.prepared + tail)

    def settle(self) -> None:
        pass

    def discard(self) -> None:
        pass

    def keep(self, name: str, data: bytes) -> None:
        self.kept[name] = data

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass

"""A disk that does what a real one may do: it fails, fills up, is slow, tears, and forgets.

What was written survives the death of the process. What was not synced need not survive a loss of
power: any prefix of it may be there, or any of its sectors, with zeros where one is missing. A name
that was not synced with its folder leads to the old or to the new file.
"""

from __future__ import annotations

import errno
from pathlib import Path

from coopbandits.fleet.storage.disk import Place
from tests.torture.words import words_of

SECTOR = 512


class Killed(BaseException):
    """The process died between two operations; nothing of the program may catch this."""

    def __init__(self, *, power: bool) -> None:
        super().__init__("power" if power else "process")
        self.power = power


class Inode:
    """A file without its name: its bytes, how many were synced, and where each write began."""

    def __init__(self, number: int, data: bytes = b"", synced: int = 0) -> None:
        self.number, self.data, self.synced = number, bytearray(data), synced
        self.writes: list[int] = []


class VirtualFiles:
    """The files of one agent in memory, with the calls of an operating system.

    Parameters
    ----------
    key : int
        Of the words that decide what a loss of power leaves.

    Attributes
    ----------
    room : int or None
        Bytes that may still be written; None if there is no limit.
    failing : dict of str to int
        How many more calls of each kind fail.
    kill_in : int or None
        The process dies before so many more calls; None if it does not.
    kill_by_power : bool
        Whether it is the machine that dies then.
    delay : float
        Seconds that a sync takes.
    cost : float
        Seconds that calls took since somebody set this to 0.
    """

    def __init__(self, key: int) -> None:
        self._words = words_of(key)
        self.names: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        self.handles: dict[int, Inode] = {}
        self.inodes = self.opened = 0
        self.room: int | None = None
        self.failing: dict[str, int] = {}
        self.kill_in: int | None = None
        self.kill_by_power = False
        self.delay = self.cost = 0.0

    def _word(self) -> int:
        return next(self._words)

    def _call(self, kind: str) -> None:
        """Die or fail, if that is due."""
        if self.kill_in is not None:
            if self.kill_in <= 0:
                self.kill_in = None
                raise Killed(power=self.kill_by_power)
            self.kill_in -= 1
        if self.failing and self.failing.get(kind, 0):
            self.failing[kind] -= 1
            raise OSError(errno.EIO, "Input/output error")

    # What a disk asks of the operating system

    def make_folder(self, path: Path) -> None:
        """Do nothing: there is one folder."""

    def lock(self, path: Path) -> int:
        """Open the file of the lock; a process that died holds none."""
        if path.name not in self.names:
            self.names[path.name] = self.durable[path.name] = self._inode()
        return self._open(self.names[path.name])

    def read(self, path: Path) -> bytes | None:
        """Return a file's bytes."""
        self._call("read")
        found = self.names.get(path.name)
        return None if found is None else bytes(found.data)

    def place(self, path: Path) -> Place | None:
        """Return which file is at a path."""
        found = self.names.get(path.name)
        return None if found is None else Place(1, found.number, len(found.data))

    def create(self, path: Path, like: Path) -> int:
        """Make an empty file in the place of any other."""
        del like
        self._call("create")
        self.names[path.name] = self._inode()
        return self._open(self.names[path.name])

    def write(self, file: int, data: bytes) -> int:
        """Append, or a part of it where the process dies, the disk fails or is full."""
        inode = self.handles[file]
        inode.writes.append(len(inode.data))
        try:
            self._call("write")
        except (Killed, OSError):
            inode.data += data[: self._word() % (len(data) + 1)]
            raise
        if self.room is not None:
            if self.room <= 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            data = data[: self.room]
            self.room -= len(data)
        inode.data += data
        return len(data)

    def sync(self, file: int) -> None:
        """Make all that was written so far survive; a sync that fails may drop it."""
        inode = self.handles[file]
        self.cost += self.delay
        try:
            self._call("sync")
        except OSError:
            # As on Linux: what could not be written counts as clean afterwards, and may be gone.
            if self._word() % 2:
                inode.data[inode.synced :] = bytes(len(inode.data) - inode.synced)
            inode.synced = len(inode.data)
            raise
        inode.synced = len(inode.data)

    def rename(self, path: Path, target: Path) -> None:
        """Put a file in the place of another; one that fails may have happened all the same."""
        try:
            self._call("rename")
        except (Killed, OSError):
            if self._word() % 2:
                self.names[target.name] = self.names.pop(path.name)
            raise
        self.names[target.name] = self.names.pop(path.name)

    def sync_folder(self, path: Path) -> None:
        """Make all names survive."""
        del path
        self.cost += self.delay
        self._call("sync_folder")
        self.durable = dict(self.names)

    def remove(self, path: Path) -> None:
        """Remove a name."""
        self._call("remove")
        self.names.pop(path.name, None)

    def close(self, file: int) -> None:
        """Forget a handle."""
        self.handles.pop(file, None)

    def _inode(self) -> Inode:
        self.inodes += 1
        return Inode(self.inodes)

    def _open(self, inode: Inode) -> int:
        self.opened += 1
        self.handles[self.opened] = inode
        return self.opened

    # What befalls it

    def process_died(self) -> None:
        """Close everything; what was written stays."""
        self.handles.clear()
        self.kill_in = None

    def power_failed(self) -> None:
        """Keep what was synced, and of the rest whatever the words say."""
        self.process_died()
        new, old = self.names, self.durable
        self.names = {}
        for name in sorted({*new, *old}):
            here, there = new.get(name), old.get(name)
            chosen = here if here is there or self._word() % 2 else there
            if chosen is not None:
                self.names[name] = chosen
        for inode in {inode.number: inode for inode in self.names.values()}.values():
            self._tear(inode)
        self.durable = dict(self.names)

    def _tear(self, inode: Inode) -> None:
        lost = len(inode.data) - inode.synced
        if lost:
            word = self._word()
            if word % 4 == 0:
                self._drop_sectors(inode)
            else:
                del inode.data[inode.synced + (word >> 8) % (lost + 1) :]
        inode.synced = len(inode.data)

    def _drop_sectors(self, inode: Inode) -> None:
        """Put zeros where sectors were not written since the last sync."""
        for start in range(inode.synced // SECTOR * SECTOR, len(inode.data), SECTOR):
            begin, end = max(start, inode.synced), min(start + SECTOR, len(inode.data))
            if self._word() % 2:
                inode.data[begin:end] = bytes(end - begin)

    def flip(self, name: str, word: int) -> bool:
        """Flip one bit of a file; return whether there was one."""
        inode = self.names.get(name)
        if inode is None or not inode.data:
            return False
        at = word % (8 * len(inode.data))
        inode.data[at // 8] ^= 1 << at % 8
        return True

    def drop_write(self, name: str, word: int) -> bool:
        """Take one write out of the middle of a file; return whether there was one.

        The last two stay: a file that ends earlier looks like one to which less was written.
        """
        inode = self.names.get(name)
        if inode is None or len(inode.writes) < 3:
            return False
        at = word % (len(inode.writes) - 2)
        del inode.data[inode.writes[at] : inode.writes[at + 1]]
        return True

    def copy(self) -> dict[str, bytes]:
        """Return all files by name, as a backup."""
        return {name: bytes(self.names[name].data) for name in sorted(self.names)}

    def put_back(self, files: dict[str, bytes]) -> None:
        """Replace everything by a backup; nobody may be using it."""
        self.handles.clear()
        self.names = {}
        for name, data in files.items():
            self.inodes += 1
            self.names[name] = Inode(self.inodes, data, len(data))
        self.durable = dict(self.names)

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(len(inode.data) for inode in self.names.values())

    def heal(self) -> None:
        """Make it a good disk again."""
        self.room, self.failing, self.kill_in, self.delay = None, {}, None, 0.0

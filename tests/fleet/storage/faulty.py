"""A file system in memory whose calls fail on demand, and that can lose power."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from coopbandits.fleet.storage.disk import Place


class Killed(BaseException):
    """The process is dead: nothing that it would do next happens."""


@dataclass(eq=False)
class Inode:
    """A file: what programs see, and what the platter holds."""

    number: int
    data: bytearray = field(default_factory=bytearray)
    stored: bytearray = field(default_factory=bytearray)
    lost: list[tuple[int, int]] = field(default_factory=list)


class FaultyFiles:
    """Counts its calls, and asks `fault` what to do at each: "", "fail", "late" or "kill".

    "late" fails after the call took effect; a write takes half of its effect. A sync that fails
    drops what was to be written, and the next one succeeds without it, as Linux does.
    """

    def __init__(self, fault: Callable[[int, str], str] = lambda number, call: "") -> None:
        self.fault = fault
        self.calls: list[str] = []
        self.names: dict[Path, Inode] = {}
        self.stored_names: dict[Path, Inode] = {}
        self.open: dict[int, Inode] = {}
        self.made = 0

    def _call(self, name: str) -> str:
        self.calls.append(name)
        fault = self.fault(len(self.calls), name)
        if fault == "kill":
            raise Killed
        if fault == "fail":
            raise OSError(errno.EIO, f"no {name}")
        return fault

    @staticmethod
    def _late(fault: str) -> None:
        if fault:
            raise OSError(errno.EIO, "failed late")

    def make_folder(self, path: Path) -> None:
        self._call("make_folder")

    def lock(self, path: Path) -> int:
        self._call("lock")
        return self._open(self.names.setdefault(path, self._inode()))

    def _inode(self) -> Inode:
        self.made += 1
        return Inode(self.made)

    def _open(self, inode: Inode) -> int:
        self.made += 1
        self.open[self.made] = inode
        return self.made

    def read(self, path: Path) -> bytes | None:
        self._call("read")
        return bytes(self.names[path].data) if path in self.names else None

    def place(self, path: Path) -> Place | None:
        self._call("place")
        found = self.names.get(path)
        return Place(1, found.number, len(found.data)) if found else None

    def create(self, path: Path, like: Path) -> int:
        self._call("create")
        self.names[path] = self._inode()
        return self._open(self.names[path])

    def write(self, file: int, data: bytes) -> int:
        fault = self._call("write")
        self.open[file].data += data[: len(data) // 2] if fault else data
        self._late(fault)
        return len(data)

    def sync(self, file: int) -> None:
        inode = self.open[file]
        try:
            self._late(self._call("sync"))
        except OSError:
            inode.lost.append((len(inode.stored), len(inode.data)))
            raise
        stored = bytearray(inode.data)
        for begin, end in inode.lost:
            stored[begin:end] = bytes(end - begin)
        inode.stored = stored

    def rename(self, path: Path, target: Path) -> None:
        fault = self._call("rename")
        self.names[target] = self.names.pop(path)
        self._late(fault)

    def sync_folder(self, path: Path) -> None:
        self._late(self._call("sync_folder"))
        self.stored_names = dict(self.names)

    def remove(self, path: Path) -> None:
        self._call("remove")
        self.names.pop(path, None)

    def close(self, file: int) -> None:
        self._call("close")
        del self.open[file]

    def after_death(self) -> FaultyFiles:
        """Return what the next process finds."""
        return self._found({path: (inode, inode.data) for path, inode in self.names.items()})

    def after_power_loss(self, extra: int = 0, *, names: bool = False) -> FaultyFiles:
        """Return what the next process finds after a reboot.

        `extra` bytes that were not synced got to the disk nonetheless; `names` says whether names
        that were not synced did.
        """
        found = {}
        for path, inode in (self.names if names else self.stored_names).items():
            begin = len(inode.stored)
            found[path] = (inode, inode.stored + inode.data[begin : begin + extra])
        return self._found(found)

    def _found(self, files: dict[Path, tuple[Inode, bytearray]]) -> FaultyFiles:
        again = FaultyFiles()
        for path, (inode, data) in files.items():
            again.names[path] = Inode(inode.number, bytearray(data), bytearray(data))
        again.stored_names = dict(again.names)
        again.made = self.made
        return again


def fault_at(plan: dict[int, str]) -> Callable[[int, str], str]:
    """Return what lets calls fail by their number."""
    return lambda number, call: plan.get(number, "")

"""Journals: a file that a crash, a disk or an editor has been at.

The first byte of an input says how the rest is read: as a file, as edits of a good file, or as
records with right checksums.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

from coopbandits.core import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.process.assemble import open_bandits
from coopbandits.fleet.storage import records
from coopbandits.fleet.storage.disk import Disk, FileDisk
from coopbandits.fleet.storage.records import KINDS as EVENTS
from coopbandits.fleet.storage.replica import Replica

from ..fleet.bandits import only
from .target import SCRATCH, Check, Spelling, Target

NOW = 1_790_000_100.0
RAW, EDITS, RECORDS = range(3)
DURABILITIES = ("process", "power")
MARK = len(records.encode_mark(1))
KINDS = (1, 2, 3, *EVENTS.values(), 99)
BANDIT = only(epoch=1_790_000_000)
NUMBERS = (0, BANDIT.number, 7)


class Good(NamedTuple):
    """A journal without fault: its bytes, and where records end, with what was acknowledged."""

    data: bytes
    known: dict[int, list[int]]


def config(folder: Path, durability: str) -> NodeConfig:
    return NodeConfig(
        BANDIT.cluster,
        "shop-1",
        journal=folder,
        durability=durability,
        neighbors={"shop-2": Address("127.0.0.1", 7401)},
        bandits={BANDIT.name: BANDIT},
    )


def opened_on(disk: Disk, folder: Path, durability: str) -> Replica:
    words = count(12345)
    found = open_bandits(config(folder, durability), disk, lambda: NOW, words.__next__)
    return found.replicas[BANDIT.number]


def open_in(folder: Path, durability: str) -> Replica:
    """Open a journal, and release it; the caller only looks at what was read."""
    disk = FileDisk(folder, durability)
    try:
        return opened_on(disk, folder, durability)
    finally:
        disk.close()


@cache
def good(durability: str) -> Good:
    """Return the journal of an agent with ten rewards, written by the agent itself."""
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    disk = FileDisk(folder, durability)
    replica = opened_on(disk, folder, durability)
    whole = len((folder / "journal").read_bytes())
    known = dict.fromkeys((whole - MARK, whole), replica.own_counts.tolist())
    for number in range(10):
        ticket, _ = replica.choose(number, None, NOW)
        replica.journal.flush()
        known[(folder / "journal").stat().st_size] = replica.own_counts.tolist()
        replica.observe(ticket, 0.5)
        replica.journal.flush()
        known[(folder / "journal").stat().st_size] = replica.own_counts.tolist()
    disk.close()
    data = (folder / "journal").read_bytes()
    shutil.rmtree(folder)
    return Good(data, known)


def seeds() -> list[bytes]:
    found = []
    for at, durability in enumerate(DURABILITIES):
        data, _ = good(durability)
        found += [bytes([RAW, at]) + data, bytes([RAW, at]) + data[:-9]]
        found += [bytes([EDITS, at, op]) + bytes(range(1, 9)) for op in range(5)]
        spelt = b"".join(
            bytes([KINDS.index(one.kind), 0, NUMBERS.index(one.bandit), 0])
            + len(one.body).to_bytes(2, "little")
            + one.body
            for one in records.read_records(data).records
        )
        found.append(bytes([RECORDS, at]) + spelt)
    return found


def edited(data: bytes, how: Spelling) -> bytes:
    """Cut, flip, zero, double or insert, as often as is spelt."""
    while not how.is_over and len(data) < 1 << 16:
        op, at = how.piece(1)[0] % 5, how.number(len(data))
        if op == 0:
            data = data[:at]
        elif op == 1:
            data = (
                data[:at] + bytes([data[at] ^ 1 << how.number(8)]) + data[at + 1 :]
                if data
                else data
            )
        else:
            length = 1 + how.number(600)
            piece = (bytes(length), data[at : at + length], how.piece(length % 40))[op - 2]
            data = data[:at] + piece + data[at + (length if op == 2 else 0) :]
    return data


def spelt(how: Spelling, marked: bool) -> bytes:
    """Return a file of any records, whose checksums are right."""
    parts, sequence = [records.encode_file_header(marked=marked)], 1
    while not how.is_over:
        kind = KINDS[how.number(256) % len(KINDS)]
        number = NUMBERS[how.number(256) % len(NUMBERS)]
        parts.append(records.encode_record(sequence, kind, how.piece(how.number(4096)), number))
        sequence += 1
    return b"".join((*parts, records.encode_mark(sequence)))


class Opening:
    """Opens inputs in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "journal"

    def __call__(self, data: bytes) -> None:
        mode, at = (*data[:2], 0, 0)[:2]
        durability, how = DURABILITIES[at % 2], Spelling(data[2:])
        if mode % 3 == EDITS:
            original = good(durability)
            file = edited(original.data, how)
            replica = self.try_to_open(file, durability)
            if replica is not None:
                require_acknowledged(original, file, replica, durability)
        elif mode % 3 == RECORDS:
            self.try_to_open(spelt(how, at % 2 == 1), durability)
        else:
            self.try_to_open(data[2:], durability)

    def try_to_open(self, file: bytes, durability: str) -> Replica | None:
        """Open a file; if it is refused, it must be there as it was, and nothing else."""
        self.folder.mkdir()
        try:
            (self.folder / "journal").write_bytes(file)
            try:
                replica = open_in(self.folder, durability)
            except InputError as error:
                assert str(error).count("\n") == 0, "more than one sentence"
                left = {path.name: path.read_bytes() for path in self.folder.iterdir()}
                assert left.pop("lock") == b""
                assert left == {"journal": file}, "a refused file was changed"
                return None
            self.require_kept(file, replica, durability)
            return replica
        finally:
            shutil.rmtree(self.folder)

    def require_kept(self, file: bytes, replica: Replica, durability: str) -> None:
        """What was cut off is kept, and the new file opens to the same state."""
        if replica.journal.torn:
            assert (self.folder / "journal.cut").read_bytes() == file[-replica.journal.torn :]
        again = open_in(self.folder, durability)
        assert again.own_counts.tolist() == replica.own_counts.tolist()
        assert again.tickets.open.keys() == replica.tickets.open.keys()


def require_acknowledged(good: Good, file: bytes, replica: Replica, durability: str) -> None:
    """What was opened is what was known where the file first differs, and that is the end of it."""
    pairs = enumerate(zip(good.data, file, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(good.data), len(file)))
    end = max((place for place in good.known if place <= same), default=0)
    assert end, "the beginning is damaged, and it was opened"
    assert replica.own_counts.tolist() == good.known[end], "not what was acknowledged"
    lost = good.data[end:]
    if durability == "power":
        marks = {place for place in good.known if place > same}
        behind = file[same:]
        assert not any(good.data[place - MARK : place] in behind for place in marks), "marks follow"
    else:
        assert not lost or len(file) < len(good.data), "nothing is missing, and rewards are lost"
        following = [place for place in good.known if place > end]
        assert not following or len(file) < min(following), "more than a torn record was cut off"


@contextmanager
def opened() -> Iterator[Check]:
    with tempfile.TemporaryDirectory(prefix="cb-fuzz-", dir=SCRATCH) as folder:
        yield Opening(Path(folder))


JOURNAL = Target(
    "journal",
    "refused in one sentence and left as it was, or opened to what was acknowledged before the "
    "first byte that differs, with nothing but a torn end cut off and kept",
    seeds,
    opened,
)

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
from coopbandits.fleet.process.declare import open_bandits
from coopbandits.fleet.storage import records
from coopbandits.fleet.storage.bandits import Bandits
from coopbandits.fleet.storage.disk import FileDisk
from coopbandits.fleet.storage.replica import Replica
from tests.fleet.bandits import only

from .target import SCRATCH, Check, Spelling, Target

NOW = 1_790_000_100.0
BANDIT = only(arms=("a", "b"), epoch=1_790_000_000)
RAW, EDITS, RECORDS = range(3)
DURABILITIES = ("process", "power")
MARK = len(records.encode_mark(1))
KINDS = (1, 2, 3, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 32, 99)
NUMBERS = (0, BANDIT.number, 7)
"""Bandits that records are about: none, the declared one, and an unknown one."""


class Good(NamedTuple):
    """A journal without fault: its bytes, and where records end, with what was acknowledged."""

    data: bytes
    known: dict[int, list[int]]


def config(folder: Path, durability: str) -> NodeConfig:
    neighbors = {"shop-2": Address("127.0.0.1", 7401)}
    return NodeConfig(
        BANDIT.cluster, "shop-1", journal=folder, durability=durability, neighbors=neighbors,
        bandits={BANDIT.name: BANDIT},
    )  # fmt: skip


def opened_on(disk: FileDisk, folder: Path, durability: str) -> Bandits:
    return open_bandits(config(folder, durability), disk, lambda: NOW, count(12345).__next__)


def own(bandits: Bandits) -> Replica:
    return bandits.replicas[BANDIT.number]


def open_in(folder: Path, durability: str) -> Bandits:
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
    replica = own(opened_on(disk, folder, durability))
    whole = len((folder / "journal").read_bytes())
    known = dict.fromkeys((whole - MARK, whole), replica.own_counts.tolist())
    for number in range(10):
        ticket, _ = replica.choose(number, None, NOW)
        known[(folder / "journal").stat().st_size] = replica.own_counts.tolist()
        replica.observe(ticket, 0.5)
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
            b"".join(
                part.to_bytes(2, "little")
                for part in (KINDS.index(one.kind), NUMBERS.index(one.bandit), len(one.body))
            )
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
        bandit = NUMBERS[how.number(256) % len(NUMBERS)]
        parts.append(records.encode_record(sequence, kind, how.piece(how.number(4096)), bandit))
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
            bandits = self.try_to_open(file, durability)
            if bandits is not None:
                require_acknowledged(original, file, own(bandits), durability)
        elif mode % 3 == RECORDS:
            self.try_to_open(spelt(how, at % 2 == 1), durability)
        else:
            self.try_to_open(data[2:], durability)

    def try_to_open(self, file: bytes, durability: str) -> Bandits | None:
        """Open a file; if it is refused, it must be there as it was, and nothing else."""
        self.folder.mkdir()
        try:
            (self.folder / "journal").write_bytes(file)
            try:
                bandits = open_in(self.folder, durability)
            except InputError as error:
                assert str(error).count("\n") == 0, "more than one sentence"
                left = {path.name: path.read_bytes() for path in self.folder.iterdir()}
                assert left.pop("lock") == b""
                assert left == {"journal": file}, "a refused file was changed"
                return None
            self.require_kept(file, bandits, durability)
            return bandits
        finally:
            shutil.rmtree(self.folder)

    def require_kept(self, file: bytes, bandits: Bandits, durability: str) -> None:
        """What was cut off is kept, and the new file opens to the same state."""
        if torn := bandits.journal.torn:
            assert (self.folder / "journal.cut").read_bytes() == file[-torn:]
        replica, again = own(bandits), own(open_in(self.folder, durability))
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

"""The journal: whole records or none, whose it is, and batches that share a sync."""

from __future__ import annotations

import pytest

from coopbandits.core import InputError
from coopbandits.fleet.storage.disk import DiskError, DoubtError, MemoryDisk
from coopbandits.fleet.storage.events import Ended, Observed, Spoke
from coopbandits.fleet.storage.journal import Journal

IDENTITY = {"node": "shop-1", "epoch": 5, "arms": ["a", "b"]}
ORIGIN = {"word": 2**64 - 1}
STATE = {"rounds": 3}


def event(number: int) -> Observed:
    return Observed(number, 0.5)


def opened(disk: MemoryDisk) -> Journal:
    return Journal(disk, IDENTITY, ORIGIN)


def filled(events: int = 3, durability: str = "process") -> MemoryDisk:
    disk = MemoryDisk(durability=durability)
    journal = opened(disk)
    journal.compact(STATE)
    for number in range(events):
        journal.append(event(number))
    return disk


def test_a_new_journal_keeps_its_origin_and_is_empty() -> None:
    disk = MemoryDisk()
    journal = opened(disk)
    assert journal.is_new
    assert not disk.data, "opening writes nothing"
    journal.compact({})
    again = Journal(disk, IDENTITY, {"word": 3})
    assert not again.is_new
    assert (again.origin, again.snapshot, again.events) == (ORIGIN, {}, [])


@pytest.mark.parametrize("durability", ["process", "power"])
def test_events_come_back_behind_the_snapshot(durability: str) -> None:
    disk = filled(durability=durability)
    journal = opened(disk)
    assert journal.snapshot == STATE
    assert journal.events == [event(0), event(1), event(2)]
    assert journal.size == len(disk.data)
    journal.compact(STATE)
    journal.append(event(3))
    assert journal.size == len(disk.data)
    assert opened(disk).events == [event(3)]


def test_what_is_held_back_goes_on_disk_with_the_next_event() -> None:
    disk = filled(0)
    journal = opened(disk)
    journal.compact(STATE)
    journal.hold(Spoke())
    journal.hold(Ended({}))
    assert opened(MemoryDisk(bytes(disk.data))).events == []
    journal.append(event(1))
    journal.append(event(2))
    assert opened(disk).events == [Spoke(), Ended({}), event(1), event(2)]
    assert journal.size == len(disk.data)


def test_what_is_held_back_is_in_a_new_snapshot() -> None:
    disk = filled()
    journal = opened(disk)
    journal.hold(Spoke())
    journal.compact({"rounds": 4})
    journal.append(event(9))
    assert opened(disk).events == [event(9)]


@pytest.mark.parametrize("key", IDENTITY)
def test_a_journal_of_another_configuration_is_refused_and_kept(key: str) -> None:
    disk = filled()
    before = disk.read()
    with pytest.raises(InputError, match=f"another configuration: its {key} is"):
        Journal(disk, IDENTITY | {key: "other"}, ORIGIN)
    assert disk.read() == before


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="no journal of coopbandits"):
        opened(MemoryDisk(b"#!/bin/sh\n"))


def test_a_journal_that_lost_its_head_is_not_taken_for_a_new_one() -> None:
    made = filled(0)
    whole = len(made.data) - 29  # without the mark, which is no event
    for size in range(1, whole):
        with pytest.raises(InputError, match="damaged at byte"):
            opened(MemoryDisk(bytes(made.data[:size])))


def test_it_is_long_when_events_outgrow_the_snapshot() -> None:
    journal = opened(MemoryDisk())
    journal.compact({"state": "x" * 300_000})
    long = []
    for _ in range(9):
        journal.append(Ended({1: b"y" * 299_000}))
        long.append(journal.is_long)
    assert long == [False] * 8 + [True]
    journal.compact({})
    assert not journal.is_long


class Failing(MemoryDisk):
    """A disk that fails at one call, on demand."""

    failing = ""

    def append(self, data: bytes) -> None:
        if self.failing == "append":
            self.data += data[:5]
            raise DoubtError("no append")
        super().append(data)

    def replace(self, data: bytes) -> None:
        if self.failing in ("append", "replace"):
            raise DiskError("no replace")
        super().replace(data)


def test_after_a_failed_write_nothing_is_taken_until_the_file_is_written_anew() -> None:
    disk = Failing()
    journal = opened(disk)
    journal.compact(STATE)
    disk.failing = "append"
    for _ in range(3):
        with pytest.raises(DiskError, match="no append"):
            journal.append(event(1))
    assert len(disk.data) == journal.size + 5, "the second was not even tried"
    with pytest.raises(DiskError, match="no replace"):
        journal.compact(STATE)
    disk.failing = ""
    with pytest.raises(DiskError, match="no replace"):
        journal.append(event(2))
    journal.compact(STATE)
    journal.append(event(3))
    assert opened(disk).events == [event(3)]


def test_a_snapshot_that_cannot_be_written_leaves_the_journal_as_it_was() -> None:
    disk = Failing()
    journal = opened(disk)
    journal.compact(STATE)
    disk.failing = "replace"
    with pytest.raises(DiskError):
        journal.compact(STATE)
    assert not journal.trouble
    journal.append(event(1))
    assert opened(disk).events == [event(1)]


class Gathering:
    """A committer that is told, and does nothing by itself."""

    def __init__(self, journal: Journal) -> None:
        self.waiting = self.done = 0
        journal.committer = self

    def gathered(self) -> None:
        self.waiting += 1

    def stored(self) -> None:
        self.done += 1


def test_a_batch_is_one_write_with_one_mark_and_the_next_gathers_meanwhile() -> None:
    disk = filled(0, "power")
    journal = opened(disk)
    journal.compact(STATE)
    size = len(disk.data)
    committer = Gathering(journal)
    for number in range(3):
        journal.append(event(number))
    assert (committer.waiting, len(disk.data)) == (3, size), "nothing is written yet"
    batch = journal.take()
    assert batch is not None
    journal.append(event(3))
    assert journal.take() is None, "one at a time, in order"
    journal.write(batch)
    assert journal.stored == 0
    journal.finish(batch, None)
    assert (journal.stored, journal.appended) == (3, 4)
    assert opened(disk).events == [event(0), event(1), event(2)]
    assert disk.data.count(b"\x01\0\0\0\0\0\0\0\x03\0\0\0") == 2, "one mark more"


def test_a_snapshot_takes_the_place_of_a_batch_under_way() -> None:
    disk = filled(0, "power")
    journal = opened(disk)
    journal.compact(STATE)
    Gathering(journal)
    journal.append(event(0))
    batch = journal.take()
    journal.append(event(1))
    assert batch is not None
    journal.compact({"rounds": 5})
    assert journal.stored == journal.appended == 2
    journal.write(batch)
    journal.finish(batch, DiskError("too late to matter"))
    journal.append(event(2))
    batch = journal.take()
    assert batch is not None
    journal.write(batch)
    again = opened(disk)
    assert (again.snapshot, again.events) == ({"rounds": 5}, [event(2)])

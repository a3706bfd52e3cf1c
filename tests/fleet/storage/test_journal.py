"""The journal: whole records or none, whose it is, and batches that share a sync."""

from __future__ import annotations

import pytest

from coopbandits.core import InputError
from coopbandits.fleet.storage.disk import DiskError, DoubtError, MemoryDisk
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.records import Ended, Event, Observed, Spoke

IDENTITY = {"node": "shop-1", "cluster": "shop", "epoch": 5}
BANDIT = 7
ORIGIN = {"word": 2**64 - 1, "number": 7}
STATE = {"rounds": 3}


def event(number: int) -> Observed:
    return Observed(number, 0.5)


def events_in(journal: Journal) -> list[Event]:
    """Return what is told of the one bandit."""
    assert journal.events.keys() <= {BANDIT}
    return journal.events.get(BANDIT, [])


def opened(disk: MemoryDisk) -> Journal:
    return Journal(disk, IDENTITY, ORIGIN)


def write(journal: Journal, *events: Event) -> None:
    """Write events of the one bandit as one batch."""
    for each in events:
        journal.append(each, BANDIT)
    journal.flush()


def filled(events: int = 3, durability: str = "process") -> MemoryDisk:
    disk = MemoryDisk(durability=durability)
    journal = opened(disk)
    journal.compact(STATE)
    for number in range(events):
        write(journal, event(number))
    return disk


def test_a_new_journal_keeps_its_origin_and_is_empty() -> None:
    disk = MemoryDisk()
    journal = opened(disk)
    assert not journal.snapshot
    assert not disk.data, "opening writes nothing"
    journal.compact({})
    again = Journal(disk, IDENTITY, {"word": 3, "number": 8})
    assert (again.origin, again.snapshot, events_in(again)) == (ORIGIN, {}, [])


@pytest.mark.parametrize("durability", ["process", "power"])
def test_events_come_back_behind_the_snapshot(durability: str) -> None:
    disk = filled(durability=durability)
    journal = opened(disk)
    assert journal.snapshot == STATE
    assert events_in(journal) == [event(0), event(1), event(2)]
    assert journal.size == len(disk.data)
    journal.compact(STATE)
    write(journal, event(3))
    assert journal.size == len(disk.data)
    assert events_in(opened(disk)) == [event(3)]


def test_events_of_several_bandits_come_back_by_number_and_what_is_held_of_one_comes_first() -> (
    None
):
    disk = filled(1)
    journal = opened(disk)
    journal.compact(STATE)
    journal.append(event(1), BANDIT)
    journal.hold(event(2), 2**31)
    journal.append(event(3), BANDIT)
    journal.flush()
    before = bytes(disk.data)
    journal.append(event(4), 2**31)
    journal.flush()
    assert Journal(disk, IDENTITY, ORIGIN).events == {
        BANDIT: [event(1), event(3)],
        2**31: [event(2), event(4)],
    }
    assert Journal(MemoryDisk(before), IDENTITY, ORIGIN).events == {
        BANDIT: [event(1), event(3)],
        2**31: [event(2)],
    }


def test_what_is_held_back_goes_on_disk_with_the_next_event() -> None:
    disk = filled(0)
    journal = opened(disk)
    journal.compact(STATE)
    journal.hold(Spoke(), BANDIT)
    journal.hold(Ended({}), BANDIT)
    journal.flush()
    assert events_in(opened(MemoryDisk(bytes(disk.data)))) == []
    write(journal, event(1), event(2))
    assert events_in(opened(disk)) == [Spoke(), Ended({}), event(1), event(2)]
    assert journal.size == len(disk.data)


@pytest.mark.parametrize("durability", ["process", "power"])
def test_what_gathered_is_written_at_once(durability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = filled(0, durability)
    journal, append = opened(disk), disk.append
    writes: list[bytes] = []

    def written(data: bytes) -> None:
        writes.append(data)
        append(data)

    monkeypatch.setattr(disk, "append", written)
    journal.append(event(1), BANDIT)
    journal.append(event(2), BANDIT)
    assert (writes, journal.stored, journal.appended) == ([], 0, 2)
    journal.flush()
    assert (len(writes), journal.stored, journal.appended) == (1, 2, 2)
    journal.flush()
    assert len(writes) == 1, "there was nothing to write"
    write(journal, event(3))
    assert events_in(opened(disk)) == [event(1), event(2), event(3)]
    assert journal.size == len(disk.data)


def test_what_is_held_back_is_in_a_new_snapshot() -> None:
    disk = filled()
    journal = opened(disk)
    journal.hold(Spoke(), BANDIT)
    journal.compact({"rounds": 4})
    write(journal, event(9))
    assert events_in(opened(disk)) == [event(9)]


@pytest.mark.parametrize("key", IDENTITY)
def test_a_journal_of_another_configuration_is_refused_and_kept(key: str) -> None:
    disk = filled()
    before = disk.read()
    with pytest.raises(InputError, match=rf"its {key}\b"):
        Journal(disk, IDENTITY | {key: "other"}, ORIGIN)
    assert disk.read() == before


@pytest.mark.parametrize("key", ["arms", "bandits"])
def test_a_journal_of_a_form_that_is_no_longer_read_is_refused_and_kept(key: str) -> None:
    disk = MemoryDisk()
    Journal(disk, IDENTITY | {key: ["a", "b"]}, ORIGIN).compact(STATE)
    before = disk.read()
    with pytest.raises(InputError, match=f"has {key}, which this version does not read; install"):
        opened(disk)
    assert disk.read() == before


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"#!/bin.* not a coopbandits journal"):
        opened(MemoryDisk(b"#!/bin/sh\n"))


def test_a_journal_that_lost_its_head_is_not_taken_for_a_new_one() -> None:
    made = filled(0)
    whole = len(made.data) - 29  # without the mark, which is no event
    for size in range(1, whole):
        with pytest.raises(InputError, match="at byte"):
            opened(MemoryDisk(bytes(made.data[:size])))


def test_it_is_long_when_events_outgrow_the_snapshot() -> None:
    journal = opened(MemoryDisk())
    journal.compact({"state": "x" * 300_000})
    long = []
    for _ in range(9):
        write(journal, Ended({1: b"y" * 299_000}))
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

    def prepare(self, data: bytes) -> None:
        if self.failing in ("append", "prepare"):
            raise DiskError("no prepare")
        super().prepare(data)


def test_after_a_failed_write_nothing_is_taken_until_the_file_is_written_anew() -> None:
    """What failed to be written took effect, and is in the snapshot that ends the trouble."""
    disk = Failing()
    journal = opened(disk)
    journal.compact(STATE)
    disk.failing = "append"
    write(journal, event(1))
    assert (journal.trouble, journal.stored, journal.appended) == ("no append", 0, 1)
    for _ in range(3):
        with pytest.raises(DiskError, match="no append"):
            write(journal, event(2))
        journal.flush()
    assert len(disk.data) == journal.size + 5, "the second was not even tried"
    with pytest.raises(DiskError, match="no prepare"):
        journal.compact({"rounds": 4})
    disk.failing = ""
    with pytest.raises(DiskError, match="no prepare"):
        write(journal, event(2))
    journal.compact({"rounds": 4})
    assert (journal.trouble, journal.stored, journal.appended) == ("", 1, 1)
    write(journal, event(3))
    again = opened(disk)
    assert (again.snapshot, events_in(again)) == ({"rounds": 4}, [event(3)])


def test_a_snapshot_that_cannot_be_written_leaves_the_journal_as_it_was() -> None:
    disk = Failing()
    journal = opened(disk)
    journal.compact(STATE)
    disk.failing = "prepare"
    with pytest.raises(DiskError):
        journal.compact(STATE)
    assert not journal.trouble
    write(journal, event(1))
    assert events_in(opened(disk)) == [event(1)]


@pytest.mark.parametrize("failing", ["", "append"])
def test_a_snapshot_has_what_gathered_though_it_cannot_be_written_to_the_old_file(
    failing: str,
) -> None:
    disk = Failing()
    journal = opened(disk)
    journal.compact(STATE)
    journal.append(event(1), BANDIT)
    disk.failing = failing
    rewrite = journal.begin_rewrite({"rounds": 4})
    assert journal.trouble == ("no append" if failing else "")
    disk.failing = ""
    journal.replace_file(rewrite)
    journal.finish_rewrite(rewrite, None)
    assert (journal.trouble, journal.stored) == ("", 1)
    write(journal, event(2))
    again = opened(disk)
    assert (again.snapshot, events_in(again)) == ({"rounds": 4}, [event(2)])


class Gathering:
    """A committer that is told, and does nothing by itself."""

    def __init__(self, journal: Journal) -> None:
        self.waiting = 0
        journal.committer = self

    def gathered(self) -> None:
        self.waiting += 1


def test_a_batch_is_one_write_with_one_mark_and_the_next_gathers_meanwhile() -> None:
    disk = filled(0, "power")
    journal = opened(disk)
    journal.compact(STATE)
    size = len(disk.data)
    committer = Gathering(journal)
    for number in range(3):
        journal.append(event(number), BANDIT)
    assert (committer.waiting, len(disk.data)) == (3, size), "nothing is written yet"
    batch = journal.take()
    assert batch is not None
    journal.append(event(3), BANDIT)
    assert journal.take() is None, "one at a time, in order"
    journal.write(batch)
    assert journal.stored == 0
    journal.finish(batch, None)
    assert (journal.stored, journal.appended) == (3, 4)
    assert events_in(opened(disk)) == [event(0), event(1), event(2)]
    assert disk.data.count(b"\x01\0\0\0\0\0\0\0\x03\0\0\0") == 2, "one mark more"


def test_a_snapshot_takes_the_place_of_what_gathered_and_the_next_gathers_meanwhile() -> None:
    disk = filled(0, "power")
    journal = opened(disk)
    journal.compact(STATE)
    Gathering(journal)
    journal.hold(event(0), BANDIT)
    journal.append(event(1), BANDIT)
    journal.hold(event(2), BANDIT)
    rewrite = journal.begin_rewrite({"rounds": 5})
    journal.append(event(3), BANDIT)
    journal.replace_file(rewrite)
    assert (journal.stored, journal.appended) == (0, 3)
    journal.finish_rewrite(rewrite, None)
    assert (journal.stored, journal.appended) == (2, 3)
    batch = journal.take()
    assert batch is not None
    journal.write(batch)
    again = opened(disk)
    assert (again.snapshot, events_in(again)) == ({"rounds": 5}, [event(3)])


def test_what_gathered_is_written_as_a_batch_where_the_snapshot_fails() -> None:
    disk = Failing(durability="power")
    journal = opened(disk)
    journal.compact(STATE)
    Gathering(journal)
    journal.append(event(1), BANDIT)
    rewrite = journal.begin_rewrite({"rounds": 5})
    journal.append(event(2), BANDIT)
    disk.failing = "prepare"
    with pytest.raises(DiskError, match="no prepare") as raised:
        journal.replace_file(rewrite)
    journal.finish_rewrite(rewrite, raised.value)
    assert journal.rewrite_error is raised.value
    batch = journal.take()
    assert batch is not None
    journal.write(batch)
    again = opened(disk)
    assert (again.snapshot, events_in(again)) == (STATE, [event(1), event(2)])


def test_what_is_written_while_a_file_is_prepared_is_in_both() -> None:
    disk = filled(0)
    journal = opened(disk)
    journal.compact(STATE)
    journal.append(event(0), BANDIT)
    journal.hold(event(1), BANDIT)
    rewrite = journal.begin_rewrite({"rounds": 5})
    journal.prepare(rewrite)
    write(journal, event(2))
    journal.hold(event(3), BANDIT)
    write(journal, event(4))
    old = opened(MemoryDisk(bytes(disk.data)))
    assert (old.snapshot, events_in(old)) == (STATE, [event(number) for number in range(5)])
    journal.switch(rewrite)
    journal.finish_rewrite(rewrite, None)
    write(journal, event(5))
    new = opened(disk)
    assert (new.snapshot, events_in(new)) == (
        {"rounds": 5},
        [event(2), event(3), event(4), event(5)],
    )
    assert journal.size == len(disk.data)


def test_a_file_is_not_used_if_the_old_one_failed_while_it_was_prepared() -> None:
    disk = Failing()
    journal = opened(disk)
    journal.compact(STATE)
    rewrite = journal.begin_rewrite({"rounds": 5})
    journal.prepare(rewrite)
    disk.failing = "append"
    write(journal, event(1))
    with pytest.raises(DiskError, match="no append") as raised:
        journal.switch(rewrite)
    journal.finish_rewrite(rewrite, raised.value)
    assert journal.trouble == "no append"
    disk.failing = ""
    journal.compact({"rounds": 6})
    assert opened(disk).snapshot == {"rounds": 6}


def test_a_disk_that_hangs_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coopbandits.fleet.storage.journal.MOST_TAIL", 100)
    disk = filled(0)
    journal = opened(disk)
    journal.compact(STATE)
    rewrite = journal.begin_rewrite(STATE)
    journal.prepare(rewrite)
    for number in range(10):
        write(journal, event(number))
    assert len(rewrite.tail) <= 100
    with pytest.raises(DiskError, match="100 bytes") as raised:
        journal.switch(rewrite)
    journal.finish_rewrite(rewrite, raised.value)
    assert not journal.trouble
    assert events_in(opened(disk)) == [event(number) for number in range(10)]

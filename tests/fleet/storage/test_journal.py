"""The journal: whole records or none, whatever is torn, and nobody else's."""

from __future__ import annotations

import pytest

from coopbandits.core import InputError
from coopbandits.fleet.storage.disk import MemoryDisk
from coopbandits.fleet.storage.journal import MAGIC, NOTHING, Journal, frame, split_records

IDENTITY = {"node": "shop-1", "epoch": 5, "arms": ["a", "b"]}
ORIGIN = {"word": 2**64 - 1}


def filled(events: int = 3) -> MemoryDisk:
    disk = MemoryDisk()
    journal = Journal(disk, IDENTITY, ORIGIN)
    journal.compact(b"snapshot")
    for at in range(events):
        journal.append(b"event %d" % at)
    return disk


def test_a_new_journal_keeps_its_origin_and_is_empty() -> None:
    disk = MemoryDisk()
    assert Journal(disk, IDENTITY, ORIGIN).is_new
    again = Journal(disk, IDENTITY, {"word": 3})
    assert not again.is_new
    assert (again.origin, again.snapshot, again.events) == (ORIGIN, NOTHING, [])


def test_events_come_back_behind_the_snapshot() -> None:
    disk = filled()
    journal = Journal(disk, IDENTITY, ORIGIN)
    assert journal.snapshot == b"snapshot"
    assert journal.events == [b"event 0", b"event 1", b"event 2"]
    assert journal.size == len(disk.data)
    journal.append(b"more")
    assert journal.size == len(disk.data)


def test_what_is_held_back_goes_on_disk_with_the_next_event() -> None:
    disk = filled(1)
    journal = Journal(disk, IDENTITY, ORIGIN)
    journal.hold(b"held 1")
    journal.hold(b"held 2")
    assert Journal(MemoryDisk(disk.read()), IDENTITY, ORIGIN).events == [b"event 0"]
    journal.append(b"next")
    journal.append(b"last")
    expected = [b"event 0", b"held 1", b"held 2", b"next", b"last"]
    assert Journal(disk, IDENTITY, ORIGIN).events == expected
    assert journal.size == len(disk.data)


def test_what_is_held_back_is_in_a_new_snapshot() -> None:
    disk = filled()
    journal = Journal(disk, IDENTITY, ORIGIN)
    journal.hold(b"held")
    journal.compact(b"snapshot of all")
    journal.append(b"next")
    assert Journal(disk, IDENTITY, ORIGIN).events == [b"next"]


def test_whatever_is_torn_off_the_end_only_whole_records_are_left() -> None:
    data = filled().read()
    start = len(filled(0).data)
    for end in range(start, len(data)):
        disk = MemoryDisk(data[:end])
        journal = Journal(disk, IDENTITY, ORIGIN)
        assert len(journal.events) == (end - start) // 15
        journal.append(b"next")
        assert Journal(disk, IDENTITY, ORIGIN).events == [*journal.events, b"next"]


@pytest.mark.parametrize("tail", [bytes(20), frame(b"x" * 9)[:-1] + b"?", b"\xff" * 7])
def test_a_tail_that_was_never_whole_is_cut_off(tail: bytes) -> None:
    disk = MemoryDisk(filled().read() + tail)
    journal = Journal(disk, IDENTITY, ORIGIN)
    assert len(journal.events) == 3
    assert journal.torn == len(tail)
    assert disk.read() == filled().read()


def test_damage_in_the_middle_is_refused_and_nothing_is_changed() -> None:
    data = bytearray(filled().read())
    data[-20] ^= 1
    disk = MemoryDisk(bytes(data))
    with pytest.raises(InputError, match=r"damaged at byte .* restore the folder from a backup"):
        Journal(disk, IDENTITY, ORIGIN)
    assert disk.data == data


@pytest.mark.parametrize("key", IDENTITY)
def test_a_journal_of_another_configuration_is_refused_and_kept(key: str) -> None:
    disk = filled()
    before = disk.read()
    with pytest.raises(InputError, match=f"another configuration: its {key} is"):
        Journal(disk, IDENTITY | {key: "other"}, ORIGIN)
    assert disk.read() == before


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="no journal of coopbandits"):
        Journal(MemoryDisk(b"#!/bin/sh\n"), IDENTITY, ORIGIN)


def test_a_journal_that_lost_its_head_is_not_taken_for_a_new_one() -> None:
    made = MemoryDisk()
    Journal(made, IDENTITY, ORIGIN)
    for size in range(1, len(made.data)):
        with pytest.raises(InputError, match="damaged at byte"):
            Journal(MemoryDisk(made.read()[:size]), IDENTITY, ORIGIN)


def test_it_is_long_when_events_outgrow_the_snapshot() -> None:
    journal = Journal(MemoryDisk(), IDENTITY, ORIGIN)
    journal.compact(b"x" * 300_000)
    long = []
    for _ in range(5):
        journal.append(b"y" * 299_000)
        long.append(journal.is_long)
    assert long == [False, False, False, False, True]
    journal.compact(b"x")
    assert not journal.is_long


def test_records_know_their_file() -> None:
    assert list(split_records(MAGIC)) == []

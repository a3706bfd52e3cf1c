"""The format: any damage that a crash cannot have made is refused, and nothing is changed."""

from __future__ import annotations

import zlib
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from coopbandits.core import InputError
from coopbandits.fleet.storage import records
from coopbandits.fleet.storage.disk import MemoryDisk
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.records import (
    Chose,
    Ended,
    Expired,
    Observed,
    encode_record,
    read_records,
)

from .test_journal import BANDIT, IDENTITY, ORIGIN, events_in, write

DURABILITIES = ["process", "power"]
SECTOR = 512


def filled(durability: str, events: int = 3, state: int = 10) -> bytes:
    disk = MemoryDisk(durability=durability)
    journal = Journal(disk, IDENTITY, ORIGIN)
    journal.compact({"rounds": 7, "state": "x" * state})
    for number in range(events):
        write(journal, Chose(number % 2, 1.5 * number))
        write(journal, Observed(number + 1, 0.5))
        write(journal, Ended({3: bytes(range(40))}))
    write(journal, Expired(list(range(9))))
    return bytes(disk.data)


def pieces(data: bytes) -> list[bytes]:
    """Return the file header and all records."""
    starts = [record.at for record in read_records(data).records]
    cuts = [0, *starts, len(data)]
    return [data[begin:end] for begin, end in pairwise(cuts)]


def assert_refused(data: bytes, durability: str) -> None:
    disk = MemoryDisk(data, durability)
    with pytest.raises(InputError, match="journal") as caught:
        Journal(disk, IDENTITY, ORIGIN)
    assert str(caught.value).count("\n") == 0
    assert bytes(disk.data) == data
    assert not disk.kept


@pytest.mark.covering(1)
@pytest.mark.parametrize("durability", DURABILITIES)
def test_any_single_flipped_bit_is_refused(durability: str) -> None:
    data = filled(durability, 2)
    for at in range(len(data)):
        for bit in range(8):
            assert_refused(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], durability)


@pytest.mark.covering(1)
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("times", [500, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_flipped_bit_in_a_long_journal_is_refused(durability: str, times: int) -> None:
    data, dice = bytearray(filled(durability, 100, 20_000)), np.random.default_rng(1)  # noqa: TID251  not a tape
    for _ in range(times):
        at, bit = dice.integers(len(data)), 1 << dice.integers(8)
        data[at] ^= bit
        assert_refused(bytes(data), durability)
        data[at] ^= bit


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("times", [150, pytest.param(500, marks=pytest.mark.slow)])
def test_damage_of_many_bytes_is_refused(durability: str, times: int) -> None:
    data, dice = filled(durability, 100, 3000), np.random.default_rng(2)  # noqa: TID251  not a tape
    end = len(data) - (SECTOR if durability == "power" else 0)  # see the test on lost sectors
    for _ in range(times):
        size = int(dice.choice([2, 3, 8, 40, SECTOR]))
        at = int(dice.integers(end - size))
        noise = (bytes(size), dice.bytes(size), b"\xff" * size)[dice.integers(3)]
        if noise != data[at : at + size]:
            assert_refused(data[:at] + noise + data[at + size :], durability)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_records_that_are_swapped_doubled_or_missing_are_refused(durability: str) -> None:
    whole = pieces(filled(durability, 4))
    for at in range(1, len(whole) - 1):
        one, other = whole[at : at + 2]
        before, after = whole[:at], whole[at + 2 :]
        assert_refused(b"".join([*before, other, one, *after]), durability)
        assert_refused(b"".join([*before, one, one, other, *after]), durability)
        assert_refused(b"".join([*before, other, *after]), durability)
    assert_refused(b"".join([*whole, whole[-1]]), durability)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_middle_that_is_missing_is_refused(durability: str) -> None:
    data, dice = filled(durability, 50), np.random.default_rng(3)  # noqa: TID251  not a tape
    mark = len(records.encode_mark(1))
    for _ in range(200):
        at = int(dice.integers(len(data) - 200))
        size = int(dice.integers(1, len(data) - mark - at))  # something whole is left at the end
        if durability == "power" or size < 30:
            assert_refused(data[:at] + data[at + size :], durability)


def test_a_strict_prefix_of_the_last_record_is_cut_off_and_kept() -> None:
    data = filled("process")
    *rest, last = pieces(data)
    start = len(data) - len(last)
    assert b"".join(rest) == data[:start]
    for size in range(1, len(last)):
        disk = MemoryDisk(data[: start + size])
        journal = Journal(disk, IDENTITY, ORIGIN)
        assert len(events_in(journal)) == 9
        assert journal.torn == size
        assert disk.data == data[: start + size], "opening writes nothing"
        journal.compact({"rounds": 8})
        assert disk.kept == {"cut": last[:size]}


@pytest.mark.parametrize("tail", [bytes(20), b"\xff" * 7, bytes(600), b"\x00"])
def test_a_tail_that_is_no_beginning_of_a_record_is_refused(tail: bytes) -> None:
    assert_refused(filled("process") + tail, "process")


def test_after_a_loss_of_power_whatever_is_behind_the_last_mark_is_cut_off_and_kept() -> None:
    data, dice = filled("power"), np.random.default_rng(4)  # noqa: TID251  not a tape
    whole = pieces(data)
    batch = len(whole[-1]) + len(whole[-2])
    last = data[-batch:]
    for size in range(1, batch):
        for tail in (last[:size], last[:size] + bytes(batch - size), bytes(batch), b"\xff" * size):
            if tail == last:
                continue
            disk = MemoryDisk(data[:-batch] + tail, "power")
            journal = Journal(disk, IDENTITY, ORIGIN)
            assert len(events_in(journal)) == 9
            journal.compact({"rounds": 8})
            assert disk.kept == {"cut": tail}
    garbage = dice.bytes(SECTOR)
    assert Journal(MemoryDisk(data + garbage, "power"), IDENTITY, ORIGIN).torn == SECTOR


def test_a_batch_that_is_damaged_before_its_mark_is_refused() -> None:
    data = filled("power")
    mark = len(pieces(data)[-1])
    for at in range(len(data) - mark - 30, len(data) - mark):
        assert_refused(data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :], "power")


def long_batch() -> tuple[bytes, int]:
    """Return a file whose last batch takes many sectors, some of them zeros; where it begins."""
    disk = MemoryDisk(filled("power"), "power")
    journal, behind = Journal(disk, IDENTITY, ORIGIN), len(disk.data)
    bodies = (bytes(range(256)) * 4, bytes(1500), bytes(range(1, 256)) * 5)
    write(journal, *(Ended({3: body}) for body in bodies))
    return bytes(disk.data), behind


def without_sector(data: bytes, start: int, behind: int) -> bytes:
    begin, end = max(start, behind), min(start + SECTOR, len(data))
    return data[:begin] + bytes(end - begin) + data[end:]


def test_of_the_last_batch_a_loss_of_power_may_leave_the_mark_and_not_all_before_it() -> None:
    """A disk writes sectors in any order."""
    data, behind = long_batch()
    starts = range(behind // SECTOR * SECTOR, len(data) - records.MARK_SIZE - SECTOR, SECTOR)
    assert len(starts) >= 6
    lost = {start: without_sector(data, start, behind) for start in starts}
    assert sum(torn == data for torn in lost.values()) == 2, "those of zeros can be lost unnoticed"
    for torn in [torn for torn in lost.values() if torn != data]:
        disk = MemoryDisk(torn, "power")
        journal = Journal(disk, IDENTITY, ORIGIN)
        assert len(events_in(journal)) == 10
        journal.compact({"rounds": 8})
        assert disk.kept == {"cut": torn[behind:]}


def test_any_sector_of_the_last_batch_may_be_lost_wherever_the_batch_begins() -> None:
    for pad in range(SECTOR):
        before = filled("power", 1, pad + 1)
        behind, whole = len(before), read_records(before)
        batch = [Ended({3: b"\x55" * size}) for size in (*[1] * 40, 600)]
        disk = MemoryDisk(before, "power")
        journal = Journal(disk, IDENTITY, ORIGIN)
        write(journal, *batch)
        data = bytes(disk.data)
        for start in range(behind // SECTOR * SECTOR, len(data), SECTOR):
            contents = read_records(without_sector(data, start, behind))
            assert contents == whole, f"batch at {behind}, without the sector at {start}"


@pytest.mark.slow
def test_a_flipped_bit_is_no_lost_sector() -> None:
    data, behind = long_batch()
    for at in range(behind, len(data)):
        flipped = data[at] ^ 1 << at % 8
        assert_refused(data[:at] + bytes([flipped]) + data[at + 1 :], "power")


def test_a_sector_that_is_lost_before_the_last_batch_is_refused() -> None:
    data, behind = long_batch()
    later = data + encode_record(read_records(data).sequence + 1, 17, b"\x80")
    later += records.encode_mark(read_records(data).sequence + 2)
    start = (behind // SECTOR + 1) * SECTOR
    assert_refused(without_sector(later, start, behind), "power")


def test_what_a_file_was_written_for_decides_and_not_what_is_asked_now() -> None:
    assert_refused(filled("process") + bytes(30), "power")
    assert Journal(MemoryDisk(filled("power") + bytes(30)), IDENTITY, ORIGIN).torn == 30


def with_record(kind: int, body: object) -> bytes:
    data = filled("process")
    return data + encode_record(
        read_records(data).sequence + 1, kind, msgspec.msgpack.encode(body), BANDIT
    )


def test_fields_of_a_later_version_are_ignored() -> None:
    data = with_record(17, {"number": 1, "reward": 0.5, "weight": [2.0, {"later": True}]})
    assert events_in(Journal(MemoryDisk(data), IDENTITY, ORIGIN))[-1] == Observed(1, 0.5)


def test_kinds_and_formats_of_a_later_version_are_refused() -> None:
    with pytest.raises(InputError, match=r"kind 99 at byte \d+"):
        Journal(MemoryDisk(with_record(99, {})), IDENTITY, ORIGIN)
    with pytest.raises(InputError, match="missing required field"):
        Journal(MemoryDisk(with_record(17, {"number": 1})), IDENTITY, ORIGIN)
    head = records.FILE_HEADER.pack(records.MAGIC, 2, 0)
    later = head + records.CHECKSUM.pack(zlib.crc32(head))
    with pytest.raises(InputError, match="has format 2, and this version reads format 1"):
        read_records(later)


@pytest.mark.parametrize(
    ("head", "snapshot"),
    [(b"\xc1", b"\x80"), ({"identity": IDENTITY}, {}), ({"identity": IDENTITY, "origin": {}}, {}),
     ({"identity": [], "origin": ORIGIN}, {}), ({"identity": IDENTITY, "origin": ORIGIN}, [1])],
)  # fmt: skip
def test_right_checksums_of_other_things_are_refused_in_a_sentence(
    head: object, snapshot: object
) -> None:
    bodies = [each if isinstance(each, bytes) else msgspec.msgpack.encode(each)
              for each in (head, snapshot)]  # fmt: skip
    parts = [encode_record(at, at, body) for at, body in enumerate(bodies, start=1)]
    data = records.encode_file_header(marked=False) + b"".join(parts)
    with pytest.raises(InputError, match=r"at byte \d+"):
        Journal(MemoryDisk(data), IDENTITY, ORIGIN)

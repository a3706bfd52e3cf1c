"""The virtual disk keeps what a real one would, and loses what a real one may."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.files import Killed, VirtualFiles

JOURNAL, NEW = Path("/virtual/journal"), Path("/virtual/journal.new")


def with_journal(data: bytes, key: int = 1) -> tuple[VirtualFiles, int]:
    files = VirtualFiles(key)
    file = files.create(JOURNAL, JOURNAL)
    files.write(file, data)
    files.sync(file)
    files.sync_folder(JOURNAL.parent)
    return files, file


def test_what_was_written_survives_the_process() -> None:
    files, file = with_journal(b"synced")
    files.write(file, b" written")
    files.process_died()
    assert files.read(JOURNAL) == b"synced written"


def test_a_loss_of_power_keeps_what_was_synced_and_some_of_the_rest() -> None:
    left = set()
    for key in range(200):
        files, file = with_journal(b"synced", key)
        files.write(file, b"12345678")
        files.power_failed()
        found = files.read(JOURNAL)
        assert found is not None
        assert found.startswith(b"synced")
        left.add(found.rstrip(b"\0"))
    assert {b"synced", b"synced1234", b"synced12345678"} <= left


def test_sectors_may_be_missing_in_the_middle() -> None:
    found = set()
    for key in range(100):
        files, file = with_journal(b"a" * 512, key)
        files.write(file, b"b" * 512 + b"c" * 512)
        files.power_failed()
        found.add(bytes(files.read(JOURNAL) or b"")[512:])
    assert any(left.startswith(b"\0" * 512) and b"c" * 512 in left for left in found)


def test_a_name_that_was_not_synced_leads_to_either_file() -> None:
    found = set()
    for key in range(50):
        files, _ = with_journal(b"old", key)
        file = files.create(NEW, JOURNAL)
        files.write(file, b"new")
        files.sync(file)
        files.rename(NEW, JOURNAL)
        files.power_failed()
        found.add(files.read(JOURNAL))
    assert found == {b"old", b"new"}


def test_a_process_dies_at_the_call_it_was_told() -> None:
    files, file = with_journal(b"")
    files.kill_in = 2
    files.write(file, b"one")
    files.sync(file)
    with pytest.raises(Killed):
        files.write(file, b"two")
    found = files.read(JOURNAL)
    assert found is not None
    assert b"onetwo".startswith(found)


def test_a_full_disk_takes_a_part() -> None:
    files, file = with_journal(b"")
    files.room = 5
    assert files.write(file, b"1234567") == 5
    with pytest.raises(OSError, match="No space left"):
        files.write(file, b"67")
    files.heal()
    assert files.write(file, b"67") == 2


def test_a_failing_call_fails_as_often_as_it_was_told() -> None:
    files, file = with_journal(b"")
    files.failing["sync"] = 1
    with pytest.raises(OSError, match="Input/output"):
        files.sync(file)
    files.sync(file)


def test_a_write_is_lost_from_the_middle_and_never_the_last_two() -> None:
    found = set()
    for word in range(10):
        files, file = with_journal(b"1")
        for data in (b"2", b"3", b"4"):
            files.write(file, data)
        assert files.drop_write("journal", word)
        found.add(files.read(JOURNAL))
    assert found == {b"234", b"134"}
    files, file = with_journal(b"1")
    files.write(file, b"2")
    assert not files.drop_write("journal", 0)
    assert files.read(JOURNAL) == b"12"


def test_a_backup_is_put_back_whole() -> None:
    files, file = with_journal(b"first")
    copy = files.copy()
    files.write(file, b" second")
    files.put_back(copy)
    assert files.read(JOURNAL) == b"first"
    assert files.flip("journal", 0)
    assert files.read(JOURNAL) == b"girst"

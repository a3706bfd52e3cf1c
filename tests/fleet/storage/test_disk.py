"""A file that only grows: whole writes, one owner, and what a kill at any instant leaves behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coopbandits.core import InputError
from coopbandits.fleet.storage.disk import FileDisk, OperatingSystem, Place
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.records import Observed

WRITER = """
import os, sys
from pathlib import Path
from coopbandits.fleet.storage.disk import FileDisk
from coopbandits.fleet.storage.records import Observed
from coopbandits.fleet.storage.journal import Journal
journal = Journal(FileDisk(Path(sys.argv[1])), {"node": "x"}, {"word": 1, "number": 7})
journal.compact({"number": 0})
number = 0
while True:
    number += 1
    journal.append(Observed(number, 0.5), 7)
    journal.flush()
    os.write(1, b"%d\\n" % number)
    if number % 97 == 0:
        journal.compact({"number": number})
"""


@pytest.mark.parametrize("durability", ["process", "power"])
def test_what_was_written_is_read(tmp_path: Path, durability: str) -> None:
    disk = FileDisk(tmp_path / "new" / "folder", durability)
    assert disk.read() is None
    disk.prepare(b"one")
    disk.switch(b"")
    disk.settle()
    disk.append(b"two")
    disk.sync()
    assert disk.read() == b"onetwo"
    disk.prepare(b"thr")
    disk.append(b"more")
    assert disk.read() == b"onetwomore"
    disk.switch(b"ee")
    disk.append(b"four")
    disk.check()
    assert disk.read() == b"threefour"
    disk.prepare(b"never used")
    disk.close()
    again = FileDisk(tmp_path / "new" / "folder")
    assert again.read() == b"threefour"
    again.close()
    assert {found.name for found in (tmp_path / "new" / "folder").iterdir()} == {"journal", "lock"}


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    with pytest.raises(InputError, match="another process"):
        FileDisk(tmp_path)
    disk.close()
    FileDisk(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Not a directory"):
        FileDisk(tmp_path / "file" / "journal")


@pytest.mark.covering(2)
@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.1])
def test_a_kill_at_any_instant_loses_nothing_that_was_told(tmp_path: Path, delay: float) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        told = (first + writer.stdout.read()).splitlines()
    journal = Journal(disk := FileDisk(tmp_path), {"node": "x"}, {"word": 1, "number": 7})
    numbers = [event.number for event in journal.events.get(7, []) if isinstance(event, Observed)]
    disk.close()
    first_number = int(journal.snapshot["number"]) + 1
    assert numbers == list(range(first_number, first_number + len(numbers)))
    assert first_number - 1 + len(numbers) - int(told[-1]) in (0, 1)


def test_what_is_appended_while_a_journal_is_rewritten_is_no_other_journal(tmp_path: Path) -> None:
    """The rewriting thread looks at the file, and the event loop goes on before it compares."""

    class Meanwhile(OperatingSystem):
        def place(self, path: Path) -> Place | None:
            found = super().place(path)
            if news and path == disk.path:
                disk.append(news.pop())
            return found

    news: list[bytes] = []
    disk = FileDisk(tmp_path, files=Meanwhile())
    disk.prepare(b"one")
    disk.switch(b"")
    news.append(b" and two")
    disk.prepare(b"three")
    disk.check()


def test_a_file_that_cannot_be_given_to_its_owner_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, owner: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("coopbandits.fleet.storage.disk.give", refuse)
    before = sorted(Path("/proc/self/fd").iterdir()) if Path("/proc").exists() else []
    for _ in range(3):
        with pytest.raises(OSError, match="not permitted"):
            OperatingSystem().create(tmp_path / "new", tmp_path)
    with pytest.raises(OSError, match="not permitted"):
        OperatingSystem().lock(tmp_path / "lock")
    assert (sorted(Path("/proc/self/fd").iterdir()) if before else []) == before


@pytest.mark.parametrize("place", [1, 2])
def test_a_folder_is_released_though_it_cannot_be_looked_at(tmp_path: Path, place: int) -> None:
    class Failing(OperatingSystem):
        looks = 0

        def place(self, path: Path) -> Place | None:
            self.looks += 1
            if self.looks == place:
                raise OSError(5, "Input/output error")
            return super().place(path)

    for _ in range(2):
        with pytest.raises(InputError, match="Input/output error"):
            FileDisk(tmp_path, files=Failing())
    FileDisk(tmp_path).close()


def test_a_folder_is_released_though_its_journal_cannot_be_closed(tmp_path: Path) -> None:
    class Failing(OperatingSystem):
        def close(self, file: int) -> None:
            super().close(file)
            if file == disk._file:
                raise OSError(5, "Input/output error")

    disk = FileDisk(tmp_path, files=Failing())
    disk.prepare(b"one")
    disk.switch(b"")
    with pytest.raises(OSError, match="Input/output error"):
        disk.close()
    FileDisk(tmp_path).close()

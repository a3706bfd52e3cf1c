"""Whatever call fails, wherever the process dies or the power goes: what was told is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coopbandits.fleet.storage.disk import DiskError, FileDisk
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.records import Event, Observed

from .faulty import FaultyFiles, Killed, fault_at

BANDIT, IDENTITY, ORIGIN = 7, {"node": "x"}, {"word": 1, "number": 7}
FOLDER = Path("/memory")
Numbers = list[int]


def numbers_in(journal: Journal) -> Numbers:
    return [*journal.snapshot.get("numbers", []), *map(number_of, journal.events.get(BANDIT, []))]


def number_of(event: Event) -> int:
    assert isinstance(event, Observed)
    return event.number


class Writer:
    """Writes numbers as a replica writes events, and notes those that it could tell somebody."""

    def __init__(self, files: FaultyFiles, durability: str) -> None:
        self.files, self.durability = files, durability
        self.done: Numbers = []  # what took effect
        self.told: Numbers = []

    def gathered(self) -> None:
        """There is something to write."""

    def open(self, *, batches: bool = False) -> None:
        self.journal = Journal(FileDisk(FOLDER, self.durability, self.files), IDENTITY, ORIGIN)
        self.done = numbers_in(self.journal)
        self.repair()
        if batches:
            self.journal.committer = self

    def repair(self) -> None:
        try:
            self.journal.compact({"numbers": self.done})
        except DiskError:
            return
        self.told = list(self.done)

    def add(self, number: int) -> None:
        self.hurry(number)
        if self.journal.trouble:
            self.repair()

    def hurry(self, number: int) -> None:
        """Add a number; if it cannot be written, repair nothing yet."""
        if failure(lambda: self.journal.append(Observed(number, 0.5), BANDIT)) is not None:
            return
        self.done.append(number)
        self.journal.flush()
        if self.journal.stored == self.journal.appended:
            self.told = list(self.done)

    def commit(self) -> None:
        batch = self.journal.take()
        if batch is None:
            return
        done = len(self.done)
        self.add(1000 + done)  # gathers meanwhile
        error = failure(lambda: self.journal.write(batch))
        self.journal.finish(batch, error)
        self.landed(done, error)

    def landed(self, done: int, error: DiskError | None) -> None:
        if error is None and not self.journal.trouble:
            self.told = max(self.told, self.done[:done], key=len)
        else:
            self.repair()

    def rewrite(self) -> None:
        """Write a snapshot as it is done beside an event loop, with events in between."""
        done = len(self.done)
        rewrite = self.journal.begin_rewrite({"numbers": self.done})
        if self.durability == "power":
            if self.journal.committer is not None:
                self.add(2000 + done)  # gathers meanwhile
            error = failure(lambda: self.journal.replace_file(rewrite))
            self.journal.finish_rewrite(rewrite, error)
            self.landed(done, error)
            return
        error = failure(lambda: self.journal.prepare(rewrite))
        self.hurry(2000 + done)
        error = error or failure(lambda: self.journal.switch(rewrite))
        self.journal.finish_rewrite(rewrite, error)
        if error is None:
            self.hurry(3000 + done)
            self.journal.finish_settling(failure(self.journal.disk.settle))
        if self.journal.trouble:
            self.repair()


def failure(call: Callable[[], None]) -> DiskError | None:
    try:
        call()
    except DiskError as error:
        return error
    return None


def play(writer: Writer, *, batches: bool) -> None:
    try:
        writer.open(batches=batches)
        for number in range(6):
            writer.add(number)
            if batches and number % 2:
                writer.commit()
            if number == 3:
                writer.rewrite()
    except Killed:
        pass


def check(writer: Writer, files: FaultyFiles) -> None:
    """Open what is left; all that was told is there, in order, and nothing that never was."""
    again = Writer(files, writer.durability)
    again.open()
    found = again.done
    assert found[: len(writer.told)] == writer.told
    assert found == writer.done[: len(found)]
    again.add(99)
    assert again.told[-1] == 99


def leftovers(writer: Writer) -> list[FaultyFiles]:
    files = writer.files
    if writer.durability == "process":
        return [files.after_death()]
    sizes = (0, 1, 10, 30, 60, 10**6)
    return [files.after_death()] + [
        files.after_power_loss(extra, names=names) for extra in sizes for names in (False, True)
    ]


def calls_of_a_run(durability: str, *, batches: bool) -> int:
    writer = Writer(FaultyFiles(), durability)
    play(writer, batches=batches)
    assert len(writer.told) >= 6
    return len(writer.files.calls)


FAULTS = ("fail", "late", "kill")
MODES = [("process", False), ("power", False), ("power", True)]


@pytest.mark.parametrize(("durability", "batches"), MODES)
@pytest.mark.parametrize("fault", FAULTS)
def test_any_call_may_fail_or_be_the_last(durability: str, batches: bool, fault: str) -> None:
    for number in range(6, calls_of_a_run(durability, batches=batches) + 1):
        writer = Writer(FaultyFiles(fault_at({number: fault})), durability)
        play(writer, batches=batches)
        for files in leftovers(writer):
            check(writer, files)


@pytest.mark.covering(4)
@pytest.mark.parametrize(("durability", "batches"), MODES)
@pytest.mark.parametrize("seed", range(5))
def test_any_calls_may_fail_together(durability: str, batches: bool, seed: int) -> None:
    dice = np.random.default_rng(seed)  # noqa: TID251  not a tape
    size = 2 * calls_of_a_run(durability, batches=batches)
    for _ in range(60):
        plan = {int(dice.integers(6, size)): FAULTS[dice.integers(3)] for _ in range(6)}
        writer = Writer(FaultyFiles(fault_at(plan)), durability)
        play(writer, batches=batches)
        for files in leftovers(writer):
            check(writer, files)


def test_a_folder_that_is_not_synced_after_the_rename_takes_no_events_until_it_is() -> None:
    files = FaultyFiles()
    writer = Writer(files, "process")
    writer.open()
    files.fault = lambda number, call: "fail" if call == "sync_folder" else ""
    with pytest.raises(DiskError, match="no sync_folder"):
        writer.journal.compact({"numbers": []})
    with pytest.raises(DiskError, match="no sync_folder"):
        writer.journal.append(Observed(1, 0.5), BANDIT)
    files.fault = lambda number, call: ""
    writer.repair()
    writer.add(1)
    check(writer, files.after_death())
    check(writer, files.after_power_loss(10**6))


def test_a_sync_that_failed_is_not_tried_again_on_the_same_file() -> None:
    files = FaultyFiles()
    writer = Writer(files, "power")
    writer.open()
    files.fault = lambda number, call: "fail" if call == "sync" else ""
    writer.hurry(1)
    assert not writer.told
    files.fault = lambda number, call: ""
    with pytest.raises(DiskError, match="no sync"):
        writer.journal.append(Observed(2, 0.5), BANDIT)
    writer.repair()
    assert writer.told == [1]
    writer.add(3)
    assert writer.told == [1, 3]
    for left in leftovers(writer):
        check(writer, left)


def test_a_batch_is_not_written_to_a_file_in_doubt() -> None:
    files = FaultyFiles()
    writer = Writer(files, "power")
    writer.open(batches=True)
    writer.add(1)
    files.fault = lambda number, call: "fail" if call == "sync_folder" else ""
    writer.repair()
    assert writer.journal.trouble
    assert writer.journal.take() is None
    for left in leftovers(writer):
        check(writer, left)

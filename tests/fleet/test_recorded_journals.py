"""Journals that agents of version 0.1 left behind are opened, and nothing in them is lost."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.process.assemble import open_replica
from coopbandits.fleet.service.application import ApplicationService
from coopbandits.fleet.storage import records
from coopbandits.fleet.storage.disk import FileDisk

from .recorded import config_in, contents, next_arms, opened
from .storage.faulty import FaultyFiles, Inode, Killed, fault_at

RECORDED = Path(__file__).parents[1] / "recorded" / "journal-0.1"
AGENTS = sorted(path.parent.relative_to(RECORDED) for path in RECORDED.glob("*/*/node.toml"))


@pytest.fixture(params=AGENTS, ids=str)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of an agent's folder, since opening a journal rewrites it."""
    return shutil.copytree(RECORDED / request.param, tmp_path / "agent")


def check(service: ApplicationService, expected: dict[str, Any]) -> None:
    found = contents(service)
    assert found["own"] == expected["own"]
    for name, numbers in expected["estimate"].items():
        assert found["estimate"][name] == pytest.approx(numbers, rel=1e-9, abs=1e-9), name


def test_a_journal_of_0_1_is_opened_and_kept(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    with opened(folder) as service:
        check(service, expected)
    with opened(folder) as service:  # from the snapshot that this version wrote
        check(service, expected)
        assert next_arms(service) == expected["next_arms"]


def test_the_original_is_kept_and_one_line_says_so(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    original = (folder / "journal" / "journal").read_bytes()
    for _ in range(2):
        with opened(folder):
            pass
    assert (folder / "journal" / "journal.v1").read_bytes() == original
    assert (folder / "journal" / "journal").read_bytes().startswith(records.MAGIC)
    assert caplog.text.count("converted the journal of version 0.1") == 1


def test_tickets_of_0_1_take_their_rewards(folder: Path) -> None:
    with opened(folder) as service:
        word = service.replica.journal.origin["word"]
        numbers = list(service.replica.tickets.open)
        assert numbers
        ends = min(ticket.expires for ticket in service.replica.tickets.open.values())
        service.node.clock = lambda: ends - 1.0  # their lifetime is over by now
        for number in numbers:
            assert not service.observe(f"{word:016x}-{number}", 1.0).duplicate


FIRST = RECORDED / AGENTS[0]
PLACE = Path("/memory/journal")


def files_of_version1(fault: Callable[[int, str], str]) -> FaultyFiles:
    files = FaultyFiles(fault)
    data = (FIRST / "journal" / "journal").read_bytes()
    files.names[PLACE] = Inode(-1, bytearray(data), bytearray(data))
    files.stored_names = dict(files.names)
    return files


def counts(files: FaultyFiles) -> list[int]:
    disk = FileDisk(PLACE.parent, "power", files)
    replica = open_replica(config_in(FIRST), disk, 1_800_000_000.0, 1, 2)
    return [int(count) for count in replica.own_counts]


@pytest.mark.parametrize("fault", ["fail", "late", "kill"])
def test_a_conversion_that_is_interrupted_leaves_a_journal_that_can_be_opened(fault: str) -> None:
    whole = files_of_version1(lambda number, call: "")
    expected = counts(whole)
    assert sum(expected)
    for number in range(6, len(whole.calls) + 1):
        files = files_of_version1(fault_at({number: fault}))
        with contextlib.suppress(Killed):
            assert counts(files) == expected
        for left in (
            files.after_death(),
            files.after_power_loss(),
            files.after_power_loss(10**6),
            files.after_power_loss(10**6, names=True),
        ):
            assert counts(left) == expected
            assert PLACE.with_suffix(".v1") in left.names


def test_a_damaged_journal_of_0_1_is_refused_and_left_as_it_is() -> None:
    data = (FIRST / "journal" / "journal").read_bytes()
    end = len(data) - 100  # a damaged last record cannot be told from a torn one in that format
    for at in range(0, end, 7):
        flipped = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        files = files_of_version1(lambda number, call: "")
        files.names[PLACE].data = bytearray(flipped)
        with pytest.raises(InputError, match="journal"):
            counts(files)
        assert files.names[PLACE].data == flipped
        assert set(files.names) == {PLACE, PLACE.with_name("lock")}

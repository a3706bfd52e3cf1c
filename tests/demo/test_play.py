"""The demo with real agents, real files and a real kill."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.demo.applications import DEFAULT, OPTIONS
from coopbandits.demo.play import BACK, CHANGED, DOWN, KILL, LONGEST, SHORTEST, play

SECONDS = SHORTEST


@pytest.mark.slow
@pytest.mark.plays
def test_the_demo_finds_the_best_option_notices_a_change_and_survives_a_kill() -> None:
    lines: list[str] = []
    asked: list[Sequence[str]] = []

    @asynccontextmanager
    async def beside(addresses: Sequence[str]) -> AsyncIterator[None]:
        asked.append(addresses)
        yield

    folders = set(Path(tempfile.gettempdir()).glob("coopbandits-demo-*"))
    outcome = play(SECONDS, lines.append, beside)
    story = outcome.story

    assert outcome.holds, outcome.sentences
    assert not outcome.interrupted
    assert [len(addresses) for addresses in asked] == [6]
    assert set(Path(tempfile.gettempdir()).glob("coopbandits-demo-*")) <= folders

    killed, back, change = (mark.moment for mark in story.marks)
    assert [mark.text for mark in story.marks] == ["a02 killed", "a02 back", "files change"]
    assert killed >= KILL * SECONDS
    assert back >= killed + DOWN * SECONDS
    assert change == pytest.approx(story.change)
    assert change >= back + BACK * SECONDS
    assert story.end >= change + CHANGED * SECONDS

    # What was best before is worth nothing after, and the agents have turned to what is best now.
    before, after = story.leader(change), story.leader(story.end)
    assert before is not None
    assert after is not None
    assert (before.option, after.option) == ("zlib-1", "lzma-0")
    assert story.noticed is not None
    ours, blind = (sum(d.found.reward for d in each) / len(each)
                   for each in (story.advised, story.blind))  # fmt: skip
    assert ours > 1.2 * blind

    # The application of the dead agent went on, with its own default.
    its = [deed for deed in story.advised if deed.who == "a02"]
    alone = [deed.option for deed in its if killed + 0.5 < deed.moment < back - 1]
    assert alone
    assert set(alone) == {DEFAULT}
    later = [deed.option for deed in its if deed.moment > back + 3]
    assert later.count(DEFAULT) < len(later) / 2

    assert {deed.option for deed in story.blind} == set(OPTIONS)
    seconds = [int(found[1]) for line in lines if (found := re.match(r" *(\d+) s  \d of 6", line))]
    assert len(seconds) >= SECONDS / 2
    assert seconds == sorted(seconds)


def running_in(group: int) -> list[int]:
    """Return the processes of a session."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                fields = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(fields[3]) == group and fields[0] != "Z":
                found.append(int(process.name))
    return found


SMALL = """
from functools import partial
from coopbandits.__main__ import main
from coopbandits.demo import play
play.GRAPH, play.make_supply = "cycle:3", partial(play.make_supply, count=4)
main()
"""


@pytest.mark.plays
@pytest.mark.parametrize(
    ("program", "agents"),
    [(("-c", SMALL), 3), pytest.param(("-m", "coopbandits"), 6, marks=pytest.mark.slow)],
    ids=["a small demo", "the demo"],
)
def test_an_interrupt_ends_it_in_order(
    tmp_path: Path, program: tuple[str, str], agents: int
) -> None:
    command = [sys.executable, *program, "demo", "--no-browser", "--out", str(tmp_path)]
    environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line)
            if re.match(rf" *\d+ s  {agents} of {agents}", line):
                process.send_signal(signal.SIGINT)
                break
        told += process.stdout.readlines()
        assert process.wait(60) == 130
    text = "".join(told)
    assert "the page is at http://127.0.0.1:" in text
    assert "The agents preferred" in text
    assert "each counted exactly once" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "demo.png", "measurements.csv", "temporary",
    ]  # fmt: skip
    assert list((tmp_path / "temporary").iterdir()) == []
    with (tmp_path / "measurements.csv").open() as file:
        assert list(csv.DictReader(file))
    deadline = time.monotonic() + 90.0
    while running_in(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running_in(process.pid) == []


@pytest.mark.parametrize("seconds", [SHORTEST - 1, LONGEST + 1])
def test_a_demo_of_another_length_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="15 to 600"):
        play(seconds, print)

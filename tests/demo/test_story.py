"""What is said of a demo follows from what was measured."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from PIL import Image

from coopbandits.demo.applications import Deed, Measurement
from coopbandits.demo.story import HEAD, Mark, Story, table, write_report


def deed(moment: float, option: str, saved: float, who: str = "a00") -> Deed:
    return Deed(moment, who, option, Measurement(1000, round(1000 * (1 - saved)), 0.0))


def story(turned: float | None = 26.0) -> Story:
    """Zlib-1 up to a moment, 6 s after the change or never, then lzma-0; ten files a second."""
    moments = [number / 10 for number in range(1, 401)]
    early = [turned is None or moment <= turned for moment in moments]
    advised = [
        deed(moment, "zlib-1" if first else "lzma-0", 0.6 if moment <= 20 or not first else 0.0)
        for moment, first in zip(moments, early, strict=True)
    ]
    blind = [deed(moment, "bz2-9", 0.25, "blind") for moment in moments]
    marks = [Mark(10.0, "a02 killed"), Mark(20.0, "files change")]
    return Story(advised, blind, marks, change=20.0, end=40.0)


def test_shares_are_of_the_last_seconds() -> None:
    found = story()
    shares = found.shares()
    assert shares.shape == (len(found.times), 5)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert shares[found.times == 20.0].tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0]]
    assert shares[found.times == 28.0].tolist() == [[0.5, 0.0, 0.0, 0.5, 0.0]]


def test_rewards_are_means_of_the_last_seconds() -> None:
    found = story()
    rewards = found.rewards(found.advised)
    assert rewards[found.times == 20.0] == pytest.approx(0.6)
    assert rewards[found.times == 22.0] == pytest.approx(0.3)
    assert found.rewards(found.blind) == pytest.approx(0.25)


def test_what_was_found_is_said() -> None:
    preferred, gained = story().sentences()
    assert re.search(r"zlib-1 \(100%\).*lzma-0 \(100%.* 8 s ", preferred)
    assert re.search(r"0\.51 .*0\.25 .*2\.0 times", gained)


def test_a_change_that_was_not_noticed_is_said_too() -> None:
    found = story(turned=None)
    assert found.noticed is None
    assert "not settled on another" in found.sentences()[0]


def test_an_early_end_says_what_there_is() -> None:
    assert Story().sentences() == []
    found = story()
    found.change = None
    assert "lzma-0 (100%" in found.sentences()[0]


def test_the_table_has_all_measurements_in_order() -> None:
    rows = list(csv.reader(io.StringIO(table(story()))))
    assert tuple(rows[0]) == HEAD
    assert len(rows) == 801
    assert rows[1] == ["0.100", "a00", "zlib-1", "1000", "400", "0.0", "0.6000"]
    assert [float(row[0]) for row in rows[1:]] == sorted(float(row[0]) for row in rows[1:])


def test_the_report_is_two_files(tmp_path: Path) -> None:
    paths = write_report(story(), tmp_path / "new")
    assert [path.name for path in paths] == ["demo.png", "measurements.csv"]
    with Image.open(paths[0]) as figure:
        assert figure.size[0] > 500


def test_a_demo_that_ended_at_once_still_has_a_report(tmp_path: Path) -> None:
    write_report(Story(), tmp_path)
    assert (tmp_path / "measurements.csv").read_text() == ",".join(HEAD) + "\n"

"""`coopbandits gallery`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from coopbandits.cli import app
from coopbandits.core.errors import InputError
from coopbandits.experiments import gallery
from coopbandits.experiments.gallery import ENTRIES, Outcome, Series
from coopbandits.sim import SweepInterrupted

SERIES = (Series("line", np.array([1.0, 2.0]), np.array([[3.0], [6.0]])),)


def test_it_lists_all() -> None:
    done = CliRunner().invoke(app, ["gallery"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(ENTRIES)


def test_it_plays_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def play(*args: object, **more: object) -> Outcome:
        given.extend([*args, more])
        return Outcome("eta", ENTRIES["eta"], SERIES)

    monkeypatch.setattr(gallery, "run_gallery", play)
    command = ["gallery", "eta", "--out", str(tmp_path), "--runs", "3", "--seed", "4", "--retry"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0
    assert given == ["eta", 3, 4, tmp_path, {"workers": None, "engine": "auto", "retry": True}]
    assert "line: 3.0 at 1, 6.0 at 2; fitted power of x: 1.00." in done.stdout
    assert done.stdout.endswith(f"written to {tmp_path}: eta.csv, eta.svg, eta.png\n")


def test_what_failed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = Outcome("eta", ENTRIES["eta"], SERIES, ("dducb: no room",))
    monkeypatch.setattr(gallery, "run_gallery", lambda *args, **more: outcome)
    done = CliRunner().invoke(app, ["gallery", "eta", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "set aside: dducb: no room" in done.stderr


def test_an_interruption_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object, **more: object) -> Outcome:
        raise SweepInterrupted("interrupted: 3 of 14 cells")

    monkeypatch.setattr(gallery, "run_gallery", stop)
    done = CliRunner().invoke(app, ["gallery", "eta", "--out", str(tmp_path)])
    assert done.exit_code == 130
    assert "interrupted: 3 of 14 cells" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["etta"], "did you mean 'eta'"), (["eta"], "add --out FOLDER")],
)
def test_bad_arguments(arguments: list[str], sentence: str) -> None:
    done = CliRunner().invoke(app, ["gallery", *arguments])
    assert isinstance(done.exception, InputError)
    assert sentence in str(done.exception)

from __future__ import annotations

from pathlib import Path

import pytest

from .calls import Call, refused


def test_what_is_no_folder_is_refused(call: Call, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    message = refused(call("dashboard", missing))
    assert missing in message
    assert "--keep watch --out FOLDER" in message


def test_a_folder_without_frames_names_the_command(call: Call, tmp_path: Path) -> None:
    assert "holds no result" in refused(call("dashboard", str(tmp_path)))
    simulate = ("simulate", "--graph", "cycle:4", "--policy", "dducb", "--horizon", "30", "--runs",
                "1", "--engine", "reference", "--no-figures", "--out")  # fmt: skip
    assert call(*simulate, str(tmp_path / "plain")).status == 0
    assert "simulate … --keep watch" in refused(call("dashboard", str(tmp_path / "plain")))


def test_frames_are_kept_on_request_and_their_size_is_told(call: Call, tmp_path: Path) -> None:
    done = call(
        "simulate", "--graph", "cycle:4", "--policy", "dducb", "--horizon", "30", "--runs", "1",
        "--engine", "reference", "--no-figures", "--keep", "watch", "--out", str(tmp_path / "w"),
    )  # fmt: skip
    assert done.status == 0
    size = (tmp_path / "w" / "result.nc").stat().st_size
    told = f"result.nc ({size / 1000:.0f} kB with watch), meta.json"
    assert done.out.splitlines()[-1] == f"written to {tmp_path / 'w'}: {told}"


@pytest.mark.parametrize("wrong", ["wach", "arm"])
def test_what_cannot_be_kept_is_refused(call: Call, tmp_path: Path, wrong: str) -> None:
    message = refused(
        call("simulate", "--graph", "cycle:4", "--policy", "dducb", "--keep", wrong,
             "--out", str(tmp_path / "w"))
    )  # fmt: skip
    assert f"unknown value of keep '{wrong}'" in message

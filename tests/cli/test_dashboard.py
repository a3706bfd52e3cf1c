from __future__ import annotations

import re
import signal
import subprocess
import sys
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ftp://a:1"], "'ftp://a:1'"),
        (["http://a:1/arms"], "a:1"),
        (["a:1", "--token-file", "missing"], "cannot read missing"),
        (["a:1", "--key", "missing"], "belong together"),
        (["127.0.0.1:1", "--port", "70000"], "the port is 70000"),
        ([".", "a:1"], "stored simulation"),
        ([".", "--token-file", "x"], "stored simulation"),
    ],
)
def test_what_is_no_fleet_is_refused(call: Call, arguments: list[str], words: str) -> None:
    assert words in refused(call("dashboard", *arguments))


def test_a_fleet_is_shown_until_interrupted(tmp_path: Path) -> None:
    """With a token the printed address has another one; nobody needs to answer for that."""
    token = "0123456789abcdef"
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    command = [sys.executable, "-m", "coopbandits", "dashboard", "127.0.0.1:1", "--no-browser",
               "--token-file", str(tmp_path / "token")]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as made:
        assert made.stdout is not None
        line = made.stdout.readline()
        made.send_signal(signal.SIGINT)
        out, err = made.communicate(timeout=30)
    assert re.fullmatch(r"the page is at http://127\.0\.0\.1:\d+/ui/#token=[\w-]{32} .*\n", line)
    assert token not in line
    assert (out, err, made.returncode) == ("", "", 0)


def test_frames_are_kept_on_request_and_their_size_is_told(call: Call, tmp_path: Path) -> None:
    done = call(
        "simulate", "--graph", "cycle:4", "--policy", "dducb", "--horizon", "30", "--runs", "1",
        "--engine", "reference", "--no-figures", "--keep", "watch", "--out", str(tmp_path / "w"),
    )  # fmt: skip
    assert done.status == 0
    size = (tmp_path / "w" / "result.nc").stat().st_size
    told = f"result.nc ({size / 1000:.0f} kB with watch), meta.json"
    look = f"to watch it: coopbandits dashboard {tmp_path / 'w'}"
    assert done.out.splitlines()[-1] == f"written to {tmp_path / 'w'}: {told}; {look}"


@pytest.mark.parametrize("wrong", ["wach", "arm"])
def test_what_cannot_be_kept_is_refused(call: Call, tmp_path: Path, wrong: str) -> None:
    message = refused(
        call("simulate", "--graph", "cycle:4", "--policy", "dducb", "--keep", wrong,
             "--out", str(tmp_path / "w"))
    )  # fmt: skip
    assert f"keep '{wrong}'" in message

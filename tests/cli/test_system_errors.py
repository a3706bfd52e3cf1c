"""What the system refuses is one sentence, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.identity.certs import init_authority

from .calls import Call, refused

LONG = "x" * 300

NODE = """
[cluster]
name = "shop"
epoch = 2026-01-31T12:00:00Z
[bandits.button]
arms = ["red", "green"]
reward_range = [0.0, 1.0]
[node]
id = "shop-1"
listen = "127.0.0.1:0"
api = "127.0.0.1:8400"
journal = "j"
[api_tls]
ca = "gone.pem"
certificate = "gone.pem"
key = "gone-key.pem"
"""


@pytest.mark.parametrize(
    "words", [("cluster", "keygen", LONG), ("certs", "init", LONG), ("cluster", "diff", LONG, "x")]
)
def test_a_name_that_is_too_long(
    call: Call, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refused(call(*words))
    assert LONG in message
    assert "File name too long" in message


def test_a_folder_in_the_place_of_the_authority(call: Call, tmp_path: Path) -> None:
    init_authority(tmp_path)
    (tmp_path / "out" / "ca.pem").mkdir(parents=True)
    message = refused(call("certs", "issue", str(tmp_path), "a", "--out", str(tmp_path / "out")))
    assert f"{tmp_path}/out/ca.pem exists" in message


def test_a_folder_that_may_not_be_looked_into(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, **_: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(self))

    place = str(tmp_path / "closed" / "key")
    for words in (("cluster", "keygen", place), ("cluster", "diff", place, "new.toml")):
        with monkeypatch.context() as patch:  # root may look everywhere
            patch.setattr(Path, "stat", refuse)
            message = refused(call(*words))
        assert f"{place}: Permission denied" in message


def test_an_error_that_names_no_file(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("coopbandits.cli.cluster.make_key", refuse)
    assert "Too many open files" in refused(call("cluster", "keygen", "key"))


def test_a_drain_with_files_that_are_missing(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(NODE)
    message = refused(call("fleet", "drain", str(path)))
    assert f"[api_tls] {tmp_path}/gone.pem" in message
    assert "No such file or directory" in message


def typed(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coopbandits", *words]
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, stderr=subprocess.PIPE, text=True, check=False, **more
    )
    return done


@pytest.mark.covering(2)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [("cluster", "keygen", "key"), ("doctor",), ("--help",)])
def test_standard_output_that_is_full(
    words: tuple[str, ...], unbuffered: str, tmp_path: Path
) -> None:
    settings = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = typed(*words, stdout=full, cwd=tmp_path, env=settings)
    assert done.returncode == 2
    message = " ".join(done.stderr.split())
    assert message.startswith("error: standard output")
    assert "No space left on device" in message


def test_a_reader_that_has_gone_is_not_told(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = typed("cluster", "keygen", "key", stdout=writing, cwd=tmp_path)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")

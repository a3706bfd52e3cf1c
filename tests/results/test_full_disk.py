"""Places that cannot be written: a quota, a full disk, a read-only one."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.results import Result

from .conftest import Make


@contextlib.contextmanager
def quota(size: int) -> Iterator[None]:
    """Let no file grow beyond a size; Python ignores the signal, so writing raises EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Mount a small disk in memory, or skip the test where that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here; a quota is tested in its place")
    if done.returncode:
        pytest.skip(f"mounting is not allowed ({done.stderr.strip()}); a quota is tested instead")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.covering(1)
@pytest.mark.parametrize("size", [1000, 0])
def test_quota(make: Make, tmp_path: Path, size: int) -> None:
    make().save(tmp_path)
    make().plot(path=tmp_path / "regret.png")
    before = contents(tmp_path)
    newer = make()
    newer.dataset["regret"] += 1.0
    with quota(size):
        with pytest.raises(InputError, match=r"result\.nc") as caught:
            newer.save(tmp_path)
        with pytest.raises(InputError, match=r"regret\.png"):
            newer.plot(path=tmp_path / "regret.png")
        with pytest.raises(InputError, match=r"report\.html"):
            newer.report(tmp_path / "report.html")
    assert "\n" not in str(caught.value)
    assert contents(tmp_path) == before
    assert Result.load(tmp_path).dataset.identical(make().dataset)


def test_room_for_the_numbers_but_not_for_the_rest(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second file fails: the first must not have been replaced."""
    make().save(tmp_path)
    before = contents(tmp_path)
    newer = make()
    newer.dataset["regret"] += 1.0
    written: list[int] = []

    def full_after_one(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full_after_one)
    with pytest.raises(InputError, match=r"meta\.json.*No space left on device"):
        newer.save(tmp_path)
    assert len(written) == 2
    assert contents(tmp_path) == before
    assert Result.load(tmp_path).dataset.identical(make().dataset)


def test_full_disk(make: Make, tmp_path: Path) -> None:
    large = make(runs=2000)
    large.meta["settings"] = make().meta["settings"]
    with mounted(tmp_path, "size=256k"):
        make().save(tmp_path / "out")
        before = contents(tmp_path / "out")
        with pytest.raises(InputError, match=r"result\.nc.*No space left on device"):
            large.save(tmp_path / "out")
        assert contents(tmp_path / "out") == before
        assert Result.load(tmp_path / "out").dataset.identical(make().dataset)


def test_read_only_disk(make: Make, tmp_path: Path) -> None:
    with mounted(tmp_path, "size=256k,ro"):
        with pytest.raises(InputError, match="Read-only file system"):
            make().save(tmp_path / "out")
        with pytest.raises(InputError, match="Read-only file system"):
            make().plot(path=tmp_path / "regret.svg")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; a read-only disk is tested")
def test_forbidden_folder(make: Make, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="Permission denied"):
        make().save(tmp_path / "out")
    tmp_path.chmod(0o700)

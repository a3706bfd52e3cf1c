"""`coopbandits doctor`, on this installation and on ones that are broken on purpose."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import coopbandits
from coopbandits.cli import checkup

SOURCE = Path(coopbandits.__file__).parent


class Told(NamedTuple):
    status: int
    text: str

    def line(self, what: str) -> str:
        (found,) = re.findall(rf"^{re.escape(what)} +(.*)$", self.text, re.MULTILINE)
        return str(found)

    def mend(self, what: str) -> str:
        (found,) = re.findall(rf"^{re.escape(what)} .*\n +mend: (.*)$", self.text, re.MULTILINE)
        return str(found)


def run(command: str, *folders: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command, with some folders before all others on Python's path."""
    path = os.pathsep.join(map(str, [*folders, SOURCE.parent]))
    done = subprocess.run(
        [sys.executable, "-m", "coopbandits", *command.split()],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path} | settings,
    )
    assert "Traceback" not in done.stderr
    return done


def ask(*folders: Path, **settings: str) -> Told:
    done = run("doctor", *folders, **settings)
    return Told(done.returncode, done.stdout)


def pretend(folder: Path, *needs: str) -> Path:
    """Write the metadata of an installation that needs other libraries."""
    info = folder / "coopbandits_base-9.9.dist-info"
    info.mkdir()
    head = "Metadata-Version: 2.1\nName: coopbandits-base\nVersion: 9.9\n"
    (info / "METADATA").write_text(head + "".join(f"Requires-Dist: {need}\n" for need in needs))
    return folder


def test_a_sound_installation() -> None:
    told = ask()
    assert told.status == 0, told.text
    assert told.text.endswith("\nall that is needed works\n")
    assert "BROKEN" not in told.text
    for what in ("Python", "coopbandits", "numpy", "extra [fleet]", "CPU threads", "GPU"):
        assert told.line(what)
    assert re.fullmatch(r"ok +[\d.]+ MB at .*", told.line("cache of kernels"))


def test_broken_libraries(tmp_path: Path) -> None:
    (tmp_path / "h5netcdf.py").write_text("raise ImportError('no\\n luck')")
    (tmp_path / "xarray.py").write_text("import os; os.abort()")
    told = ask(pretend(tmp_path, "numpy>=99", "h5netcdf", "xarray", "nosuchlibrary>=1.2"))
    assert told.status == 1
    count = told.text.count("BROKEN")  # with what does not work without these
    assert f"{count} broken" in told.text.splitlines()[-1]
    assert re.match(r"BROKEN +[\d.]+.* 99\b", told.line("numpy"))
    assert told.mend("numpy") == "pip install --upgrade 'numpy>=99'"
    assert re.match(r"BROKEN +not installed", told.line("nosuchlibrary"))
    raises, crashes = "ImportError: no luck", "crashed"
    for library, wrong in (("h5netcdf", raises), ("xarray", crashes)):
        line = told.line(library)
        assert line.startswith("BROKEN") and wrong in line
        assert "--force-reinstall" in told.mend(library)


@pytest.mark.slow
def test_notes_break_nothing(tmp_path: Path) -> None:
    """An extra that is missing, a cache that is elsewhere, and a terminal without Greek."""
    needs = ("rich", "nosuchlibrary>=1; extra == 'parquet'", "nosuchtool; extra == 'dev'")
    (tmp_path / "file").touch()
    wanted = str(tmp_path / "file" / "cache")
    told = ask(pretend(tmp_path, *needs), NUMBA_CACHE_DIR=wanted, PYTHONIOENCODING="ascii")
    assert told.status == 0, told.text
    assert re.match(r"note +nosuchlibrary not installed", told.line("extra [parquet]"))
    assert told.mend("extra [parquet]") == "pip install 'coopbandits[parquet]'"
    assert "nosuchtool" not in told.text
    assert told.line("cache of kernels").startswith("note ")
    assert f"NUMBA_CACHE_DIR asks for {wanted}" in told.text
    assert told.mend("cache of kernels") == checkup.CACHE_ELSEWHERE
    assert told.line("output").startswith("note ")
    assert told.mend("output") == "export PYTHONUTF8=1"


@pytest.mark.slow
def test_no_place_for_kernels(tmp_path: Path) -> None:
    """Files where the folders would have to be: so nobody can write there, not even root."""
    copy = tmp_path / "src" / "coopbandits"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in copy.rglob("cpu"):
        (folder / "__pycache__").touch()
    (tmp_path / "file").touch()
    home = str(tmp_path / "file")
    settings = {"HOME": home, "XDG_CACHE_HOME": home, "NUMBA_CACHE_DIR": f"{home}/cache"}
    settings |= {"PYTHONDONTWRITEBYTECODE": "1"}
    told = ask(copy.parent, **settings)
    assert told.status == 1
    assert re.match("BROKEN", told.line("compiled engine"))
    assert told.mend("compiled engine") == checkup.CACHE_ELSEWHERE
    assert told.line("cache of figures").startswith("note ")

    command = f"simulate --graph cycle:4 --policy dducb --horizon 9 --out {tmp_path / 'out'}"
    done = run(command, copy.parent, **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert "NUMBA_" in done.stderr

    mended = ask(copy.parent, **settings | {"NUMBA_CACHE_DIR": str(tmp_path / "elsewhere")})
    assert mended.status == 0, mended.text
    assert str(tmp_path / "elsewhere") in mended.line("cache of kernels")


@pytest.mark.parametrize(
    ("older", "newer"),
    [("1.9", "1.10"), ("0.61.2", "0.62"), ("2024.10", "2025.1"), ("2", "2.0.1rc1")],
)
def test_versions_compare_as_numbers(older: str, newer: str) -> None:
    assert checkup.numbers(older) < checkup.numbers(newer)

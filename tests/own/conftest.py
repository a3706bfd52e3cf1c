"""A user's own file, and the same as an installed package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .playing import SOURCE, Command, Mine

ENTRY_POINTS = """
[coopbandits.policies]
offered-policy = own_things:MyPolicy
[coopbandits.problems]
offered-problem = own_things:MyProblem
offered-lottery = own_things:MyLottery
[coopbandits.faults]
offered-fault = own_things:MyLoss
[coopbandits.graphs]
offered-wheel = own_things:wheel
[coopbandits.clocks]
offered-clocks = own_things:MyClocks
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path; what is imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("my_module", "own_things"):
        sys.modules.pop(name, None)


@pytest.fixture
def mine(folder: Path) -> Mine:
    """A user's own file, imported."""
    (folder / "my_module.py").write_text(SOURCE)
    return __import__("my_module")


@pytest.fixture
def package(folder: Path) -> Mine:
    """The same as an installed package with entry points."""
    (folder / "own_things.py").write_text(SOURCE)
    info = folder / "own_things-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-things\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return __import__("own_things")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Call the installed command in a folder that holds a user's module."""
    (tmp_path / "my_module.py").write_text(SOURCE)
    (tmp_path / "random.py").write_text("raise RuntimeError('a file that hides a library')")
    script = Path(sys.executable).parent / "coopbandits"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [script, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run

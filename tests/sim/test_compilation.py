"""The first start compiles and says so; later starts find the kernels cached, until they change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import coopbandits

# As many rounds as arms: the initial pulls alone, which one kernel plays.
PROGRAM = """
import coopbandits as cb
problem, network = cb.GaussianBandit([1.0, 0.5]), cb.Network.from_spec("path:2")
result = cb.simulate(problem, network, cb.IndependentUCB(), horizon=2, engine="cpu")
print(cb.__file__, float(result.realized_regret[0, 0, -1]))
"""
NOTE = "note: compiling the CPU engine"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the package that may be changed."""
    source = Path(coopbandits.__file__).parent
    shutil.copytree(source, tmp_path / "coopbandits", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def start(folder: Path) -> tuple[float, str]:
    """Run the program on the copy; return the regret it printed and what it noted."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "PYTHONPATH": str(folder),
            "NUMBA_CACHE_DIR": str(folder / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    origin, regret = done.stdout.split()
    assert Path(origin).parent.parent == folder
    return float(regret), done.stderr


@pytest.mark.slow
def test_compiled_once_and_again_after_a_change(folder: Path) -> None:
    regret, noted = start(folder)
    assert noted.count(NOTE) == 1
    again, silent = start(folder)
    assert NOTE not in silent
    assert again == regret
    # Kernels are built from leaves in other files; a changed leaf must not leave an old kernel.
    leaf = folder / "coopbandits" / "problems" / "rewards.py"
    text = leaf.read_text()
    changed = text.replace("float(table[arm, 0] + ", "float(1.0 + table[arm, 0] + ")
    assert changed != text
    leaf.write_text(changed)
    higher, noted = start(folder)
    assert higher == pytest.approx(regret - 4.0), "an outdated kernel was used"
    assert NOTE in noted

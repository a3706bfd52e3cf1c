"""The tools behind `make check` catch what they are there for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the source to spoil."""
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("src", "benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def run(tree: Path, *command: str) -> tuple[int, str]:
    """Run a tool in the copy, so that it sees the copy's settings and package."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "COLUMNS": "200"}
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def spoil(tree: Path, module: str, line: str) -> None:
    """Add a module of one statement to the package."""
    path = tree / "src" / "coopbandits" / module
    path.write_text(f'"""Nothing good."""\n\n{line}\n', encoding="utf-8")


def test_make_check_runs_these_tools() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.split("\ncheck:")[1].split("\n\n")[0]
    for tool in ("ruff format --check", "ruff check", "mypy", "lint-imports"):
        assert f"$(BIN)/{tool}" in recipe


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("import random\n\nWORD = random.random()", "TID251"),
        ("import numpy as np\n\nWORD = np.random.default_rng()", "TID251"),
        ("import pickle\n\nSTATE = pickle.dumps(1)", "TID251"),
        ("import math", "F401"),
        ("class Part:\n    pass", "D101"),
        ('print("debug")', "T201"),
    ],
)
def test_ruff(tree: Path, line: str, rule: str) -> None:
    target = ("ruff", "check", "--no-cache", "src/coopbandits/core")
    code, output = run(tree, *target)
    assert code == 0, output
    spoil(tree, "core/spoiled.py", line)
    code, output = run(tree, *target)
    assert code == 1
    assert rule in output
    assert "spoiled.py" in output


def test_ruff_format(tree: Path) -> None:
    spoil(tree, "core/spoiled.py", "WORD = { 'a':1 }")
    code, output = run(tree, "ruff", "format", "--check", "--no-cache", "src")
    assert code == 1
    assert "spoiled.py" in output


@pytest.mark.slow
def test_mypy_is_strict(tree: Path) -> None:
    path = tree / "spoiled.py"
    path.write_text("def good(x: int) -> int:\n    return x\n", encoding="utf-8")
    command = ("mypy", "--cache-dir", ".cache", "--config-file", "pyproject.toml", str(path))
    code, output = run(tree, *command)
    assert code == 0, output
    spoiled = [
        "def untyped(x):\n    return x",
        "def half(x: list) -> None: ...",
        "def wrong(x: int) -> str:\n    return x",
    ]
    path.write_text("\n".join(spoiled) + "\n", encoding="utf-8")
    code, output = run(tree, *command)
    assert code == 1
    for rule in ("[no-untyped-def]", "[type-arg]", "[return-value]"):
        assert rule in output


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("core/spoiled.py", "import scipy", "coopbandits.core.spoiled -> scipy"),
        ("core/spoiled.py", "import time", "coopbandits.core.spoiled -> time"),
        ("core/spoiled.py", "import coopbandits.network", "core.spoiled -> coopbandits.network"),
        ("network/spoiled.py", "import coopbandits.sim", "network.spoiled -> coopbandits.sim"),
        ("plots/spoiled.py", "import coopbandits.results", "plots.spoiled -> coopbandits.results"),
        ("cli/spoiled.py", "import benchmarks.engine", "cli.spoiled -> benchmarks.engine"),
        ("testing/spoiled.py", "import tests.torture", "testing.spoiled -> tests"),
    ],
)
def test_imports_point_one_way(tree: Path, module: str, line: str, broken: str) -> None:
    command = ("lint-imports", "--no-cache")
    if line == "import scipy":  # the unspoiled tree, once
        code, output = run(tree, *command)
        assert code == 0, output
    spoil(tree, module, line)
    code, output = run(tree, *command)
    assert code == 1
    assert "BROKEN" in output
    assert broken in output

"""A policy of one's own is short, keeps the contract, and runs next to the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.plays

EXAMPLE = Path(__file__).parents[2] / "examples" / "new_policy.py"


def test_the_example_runs_and_compares_its_policy() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "neighborhood-ucb" in done.stdout


def test_the_policy_takes_at_most_forty_lines_with_imports_and_blank_ones() -> None:
    policy, _, use = EXAMPLE.read_text().partition("cb.check_policy(")
    assert len(policy.rstrip().splitlines()) <= 40
    assert "cb.simulate(" in use

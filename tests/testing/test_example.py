"""Parts of one's own are short, keep the contract, and run beside ours at full speed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.plays

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "policies"),
    [
        pytest.param(
            "own_index", ["running-consensus*lai", "tree-sums*lai"], marks=pytest.mark.slow
        ),
        ("own_aggregation", ["late-consensus*ucb"]),
    ],
)
def test_an_example_runs_and_compares_its_policies(name: str, policies: list[str]) -> None:
    example = EXAMPLES / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(policy in done.stdout for policy in policies)
    assert "reference engine" not in done.stderr


@pytest.mark.parametrize(("name", "most"), [("own_index", 15), ("own_aggregation", 40)])
def test_an_example_is_short(name: str, most: int) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    part, _, use = text.partition("@dataclass")[2].partition("cb.register_")
    assert len([line for line in part.splitlines() if line.strip()]) <= most
    assert "cb.check_policy(" in use and "cb.simulate(" in use

"""The script behind the tables of the field plays, tunes and resumes."""

from __future__ import annotations

import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coopbandits.sim.ledger import Ledger

SCRIPT = Path(__file__).parents[2] / "examples" / "field.py"


@pytest.fixture
def field(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("field", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "field", module)
    spec.loader.exec_module(module)
    return module


def shorten(field: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave two policies, two constants and one instance of each kind beside the field."""
    few = ("independent-ucb", "independent-ts")
    monkeypatch.setattr(field, "FIELD", field.FIELD._replace(policies=few))
    monkeypatch.setattr(field, "GRID", (field.GRID[0], field.COMMON))
    monkeypatch.setattr(field, "TUNING", field.TUNING[:1])
    alone = field.PRECONDITIONS[0]._replace(policies=few)
    monkeypatch.setattr(field, "PRECONDITIONS", (alone,))


def test_tables_and_resuming(field: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(field, monkeypatch)
    with ThreadPoolExecutor(1) as executor:
        text = field.main(tmp_path, 2, 0.02, executor)
        monkeypatch.setattr(Ledger, "store", None)  # nothing is left to play
        assert field.main(tmp_path, 2, 0.02, executor) == text
    assert text == (tmp_path / "tables.md").read_text()
    assert (tmp_path / "field.svg").read_text().rstrip().endswith("</svg>")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if "`independent" in line]
    assert [row[:2] for row in rows[:2]] == [["`independent-ucb`", "2"], ["`independent-ts`", "–"]]
    assert rows[0][2].split(",")[0] == rows[0][3]  # its own constant is the common one
    assert "($B = " in rows[0][4]
    assert rows[1][3:] == ["–", "–"]


def test_every_policy_has_the_common_constant_or_none(field: Any) -> None:
    for policy in field.named(field.FIELD):
        common = field.at(policy, field.COMMON)
        if policy.bonus_constant is None or policy.name in ("coop-ucb", "coop-ucb2"):
            assert common is None
        else:
            assert common.bonus_constant == 2.0

"""Journals that agents of version 0.1 left behind are opened, and nothing in them is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.service.application import ApplicationService

from .recorded import contents, next_arms, opened

RECORDED = Path(__file__).parents[1] / "recorded" / "journal-0.1"
AGENTS = sorted(path.parent.relative_to(RECORDED) for path in RECORDED.glob("*/*/node.toml"))


@pytest.fixture(params=AGENTS, ids=str)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of an agent's folder, since opening a journal rewrites it."""
    return shutil.copytree(RECORDED / request.param, tmp_path / "agent")


def check(service: ApplicationService, expected: dict[str, Any]) -> None:
    found = contents(service)
    assert found["own"] == expected["own"]
    for name, numbers in expected["estimate"].items():
        assert found["estimate"][name] == pytest.approx(numbers, rel=1e-9, abs=1e-9), name


def test_a_journal_of_0_1_is_opened_and_kept(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    with opened(folder) as service:
        check(service, expected)
    with opened(folder) as service:  # from the snapshot that this version wrote
        check(service, expected)
        assert next_arms(service) == expected["next_arms"]

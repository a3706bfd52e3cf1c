"""Policies play the arms that version 0.1 played, and send what it sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .recorded import facts, play

pytestmark = pytest.mark.plays

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "recorded" / "arms.json").read_text(encoding="utf-8")
)
# Every policy in some world; the other worlds are played by `make test-slow`.
PLAYS = [
    pytest.param(world, policy, marks=[] if (place + number) % 3 == 0 else pytest.mark.slow)
    for place, (world, recorded) in enumerate(RECORDED.items())
    for number, policy in enumerate(recorded["plays"])
]


@pytest.mark.parametrize(("world", "policy"), PLAYS)
def test_the_same_arms_as_recorded(world: str, policy: str) -> None:
    recorded = RECORDED[world]
    assert facts(play(recorded, policy)) == recorded["plays"][policy]

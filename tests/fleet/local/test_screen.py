"""What is shown of a fleet, without one."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from coopbandits.fleet.address import Address
from coopbandits.fleet.local.agents import Members, Place, names
from coopbandits.fleet.local.applications import Player, Reward, Tape, Verdict
from coopbandits.fleet.local.faults import Cuts
from coopbandits.fleet.local.run import LINE_SECONDS, LocalFleet, Screen, summary_data, summary_text
from coopbandits.fleet.local.settings import make_settings


@pytest.fixture
def stage(tmp_path: Path) -> LocalFleet:
    """Return a stage on which nothing runs, as if two of three agents had been played."""
    settings = make_settings("path:3", "0.6,0.5", kill_every=1.0, pause=1.0, partition=1.0)
    places = [Place(name, tmp_path, Address("127.0.0.1", 0), "unix:none") for name in names(3)]
    players = [Player(place, Tape(settings.problem, 0, 0), 1.0) for place in places]
    for player, arm in [(0, 0), (0, 0), (0, 1), (1, 1)]:
        players[player].record(Reward("1", arm, 0.5, arm == 1))
    members = Members(places)
    members.all[0].state, members.all[1].state = "up", "paused"
    members.all[1].pauses, members.all[0].kills = 1, 12
    members.all[0].readiness = [0.5, 0.75, 1.25]
    health = {"round": 1234, "links": {"a01": "up", "a02": "down: gone"}, "open_tickets": 7}
    return LocalFleet(settings, members, players, Cuts([]), {"a00": health})


def shown(stage: LocalFleet, *, terminal: bool) -> str:
    """Return what a screen writes when it is looked at once."""
    console = Console(width=80, height=24, force_terminal=terminal, file=io.StringIO())
    with Screen(console, stage) as screen:
        screen.show()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_table_on_a_terminal(stage: LocalFleet) -> None:
    stage.began -= 3.0
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown(stage, terminal=True))
    lines = [line for line in re.split(r"[\r\n]+", text) if line]
    line = "regret 0.2 · best arm 50% · kills 12 · pauses 1 · partitions 0 · 17 s left"
    assert lines[0] == line
    rows = [line.split() for line in lines[1:5]]
    assert rows[0] == [
        "agent",
        "state",
        "round",
        "links",
        "pulls",
        "best",
        "arm",
        "open",
        "tickets",
    ]
    assert rows[1] == ["a00", "up", "1,234", "1/2", "3", "67%", "7"]
    assert rows[2] == ["a01", "paused", "–", "–", "1", "0%", "–"]
    assert rows[3] == ["a02", "dead", "–", "–", "0", "0%", "–"]


def test_lines_without_a_terminal(stage: LocalFleet) -> None:
    assert shown(stage, terminal=False) == ""
    stage.began -= LINE_SECONDS
    (line,) = shown(stage, terminal=False).splitlines()
    assert "1 of 3 up · round 1,234 · pulls 4 · regret 0.2 · best arm 50% · kills 12" in line
    stage.began -= 60.0
    (line,) = shown(stage, terminal=False).splitlines()
    assert line.endswith("waiting until all agents know all")


def test_summary(stage: LocalFleet) -> None:
    account = np.array([1.0, 1.0, 2.0, 2.0])
    verdict = Verdict(account, account, {"a00": account}, account, "", 2, 3)
    text = summary_text(stage, verdict, 20.0)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.startswith("path:3, flood-ts, 20.0 s, seed 0\n")
    for line in (
        "holds: 4 rewards acknowledged, each counted exactly once",
        "best arm found by  2 of 3 agents",
        "regret             0.2; 50% of 4 pulls were best",
        "trouble            kills 12, pauses 1, partitions 0",
        "answers lost       2",
        "longest restart    1.25 s until ready",
    ):
        assert line in text
    plain = summary_data(stage, verdict, 20.0)
    assert json.loads(json.dumps(plain)) == plain
    assert plain["agents"]["a00"]["kills"] == 12

"""The benchmark of agents: all its rows are there, from real processes; its arithmetic and words.

That agents are cheap is shown by its figures, not here.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.fleet import fleets
from benchmarks.fleet.bandits import Shape
from benchmarks.fleet.processes import Window
from benchmarks.fleet.rows import Row, as_json
from benchmarks.fleet.run import (
    FEATURES,
    PLAN,
    Case,
    Plan,
    cost_rows,
    run_bench,
    table,
)
from benchmarks.fleet.servers import Version, agent
from benchmarks.fleet.serving import Serving
from coopbandits import InputError

TINY = Plan(
    num_agents=3,
    num_arms=2,
    windows=1,
    seconds=0.3,
    calls=20,
    repeats=1,
    cases=(Case("flood-ts", 100.0, 20.0),),
    loops=(False,),
    serving=Serving(connections=()),
    shape=Shape(bandits=2, arms=3, rounds=2),
)


def test_an_agent_takes_as_many_features_as_are_timed() -> None:
    features = {f"x{k}": (0.0, 1.0) for k in range(FEATURES)}
    with agent(Version(), "process", PLAN.num_arms, features) as server:
        assert server.port > 0


@pytest.mark.slow
def test_three_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "WARM_SECONDS", 0.1)
    parts = list(run_bench(TINY))
    assert len(parts) == TINY.parts
    rows = {row.what: row for part in parts for row in part}
    for row in rows.values():
        assert math.isfinite(row.value), row
        assert row.value > 0.0, row
    assert list(rows) == [
        "bare ping-pong: computing per agent-round",
        "bare ping-pong: pace",
        "bare ping-pong, 100/s: computing per agent-round",
        "bare ping-pong, 100/s: pace",
        "flood-ts, 100/s, 20 pulls/s: computing per agent-round",
        "flood-ts, 100/s, 20 pulls/s: pace",
        "flood-ts, 100/s, 20 pulls/s: memory",
        "flood-ts, 100/s, 20 pulls/s: pace with a dead agent, over before",
        "flood-ts, 20/s: choose, median",
        "flood-ts, 20/s: choose, 99th percentile",
        "flood-ts, 20/s: killed, to first round",
        "one agent, 20 features: choose, median",
        "one agent, 20 features: choose, 99th percentile",
        "2 bandits of 3 arms: computing per bandit with news and round",
        "2 bandits of 3 arms: computing per round without news",
        "2 bandits of 3 arms: bytes per round and neighbour, over one with 6",
        "2 bandits of 3 arms: memory of two agents",
        "2 bandits of 3 arms: memory, over one with 6",
    ]
    assert rows["bare ping-pong: pace"].value > 20.0  # nothing paces it
    assert 1.0 < rows["bare ping-pong, 100/s: pace"].value < 150.0
    assert 1.0 < rows["flood-ts, 100/s, 20 pulls/s: pace"].value < 150.0
    assert 20.0 < rows["flood-ts, 100/s, 20 pulls/s: memory"].value < 200.0
    median, tail = (
        rows[f"flood-ts, 20/s: choose, {what}"].value for what in ("median", "99th percentile")
    )
    assert 0.0 < median <= tail


def test_the_plan_of_the_command() -> None:
    assert (PLAN.num_agents, PLAN.num_arms, PLAN.parts) == (8, 17, 20)
    for case in PLAN.cases:
        settings = PLAN.settings(case, uvloop=True)
        assert (settings.uvloop, settings.network.num_agents) == (True, 8)
    assert PLAN.settings(PLAN.cases[0], uvloop=False).policy == "flood-ts"


def test_the_cheapest_window_counts() -> None:
    windows = [Window(400.0, 0.1, 2.0, 4), Window(200.0, 0.04, 1.0, 4)]
    assert [window.cost for window in windows] == pytest.approx([250.0, 200.0])
    assert [window.pace for window in windows] == [50.0, 50.0]
    cost, pace = cost_rows("dec-ts", True, windows, 100.0)
    assert [cost.value, cost.ratio] == pytest.approx([200.0, 2.0])
    assert (cost.target, cost.met) == (150.0, False)
    assert (pace.value, pace.met) == (50.0, None)
    assert cost_rows("dec-ts", False, windows, 100.0)[0].met
    assert cost_rows("bare ping-pong", False, windows, 200.0)[0].target is None
    assert Window(0.0, 0.5, 1.0, 4).cost == pytest.approx(5e5)  # nobody got to a round


def test_targets_are_limits_from_above_or_below() -> None:
    assert Row("", "", 1.0, "", 1.0).met
    assert not Row("", "", 1.01, "", 1.0).met
    assert Row("", "", 1.0, "", 1.0, rising=True).met
    assert not Row("", "", 0.99, "", 1.0, rising=True).met


@pytest.mark.parametrize("wrk", [None, "/usr/bin/wrk"])
def test_table_and_json(monkeypatch: pytest.MonkeyPatch, wrk: str | None) -> None:
    monkeypatch.setattr("shutil.which", lambda name: wrk)
    rows = [
        Row("a thing", "uvloop", 123.4, "µs", 150.0, ratio=1.2),
        Row("more", "", 0.5, "", 0.9, True),
    ]
    title, blank, header, first, second, *notes = table(rows).splitlines()
    assert any("wrk is not installed" in note for note in notes) == (wrk is None)
    assert title.startswith("real agents: a ring of 8, 17 arms, mutual TLS")
    assert blank == ""
    assert header.split() == ["agents", "loop", "value", "unit", "target", "met", "×", "bare"]
    assert first.split() == ["a", "thing", "uvloop", "123", "µs", "≤", "150", "yes", "1.20"]
    assert second.split() == ["more", "0.5", "≥", "0.9", "no"]
    found = json.loads(json.dumps(as_json(rows)))
    assert [row["met"] for row in found] == [True, False]
    assert found[0]["ratio"] == 1.2


def test_a_system_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: False)
    with pytest.raises(InputError, match="/proc"):
        next(run_bench(TINY))

"""`python -m benchmarks` as it is typed."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks import engine, settings
from benchmarks.__main__ import main
from benchmarks.fleet import rows, run
from tests.cli.calls import Call, caller


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return caller(main, monkeypatch, capsys)


@pytest.fixture
def tiny_bench(monkeypatch: pytest.MonkeyPatch) -> engine.Case:
    """Let the benchmark time one tiny case, once, without a second process."""
    case = engine.Case("tiny", "dducb", "cycle:4", num_arms=2, horizon=30, runs=2)
    run_bench = engine.run_bench
    monkeypatch.setattr(engine, "run_bench", lambda: run_bench((case,), 1))
    monkeypatch.setattr(engine, "time_threads", lambda: engine.SpeedUp(1.5, 2.0))
    return case


def without_notes(text: str) -> str:
    """Leave out what is said of compiling, if nobody has played such a policy before."""
    return "".join(line for line in text.splitlines() if not line.startswith("note: compiling"))


def test_bench(call: Call, tiny_bench: engine.Case) -> None:
    outcome = call("--engine")
    assert (outcome.status, without_notes(outcome.err)) == (0, "")
    assert outcome.out.startswith("cost of one agent-round; 1 draw = ")
    assert re.search(r"^tiny: dducb +cycle:4 +2 +30( +[\d.]+){3}$", outcome.out, re.MULTILINE)
    assert outcome.out.endswith("ratio 0.75\n")


def test_bench_as_json(call: Call, tiny_bench: engine.Case) -> None:
    outcome = call("--engine", "--json")
    assert (outcome.status, without_notes(outcome.err)) == (0, "")
    data = json.loads(outcome.out)
    assert set(data) == {"timings", "speed_up", "versions", "platform"}
    (timing,) = data["timings"]
    assert timing["case"]["policy"] == tiny_bench.policy
    assert timing["draws"] > 0


@pytest.fixture
def tiny_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the benchmark of agents find one row; its own tests start agents."""
    row = rows.Row("ping-pong", "uvloop", 99.0, "µs", 150.0, ratio=1.0)
    monkeypatch.setattr(run, "run_bench", lambda plan: iter([[row]]))


@pytest.mark.usefixtures("tiny_fleet")
def test_real_agents_only(call: Call) -> None:
    outcome = call("--fleet")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("real agents: a ring of 8, ")
    assert re.search(r"^ping-pong +uvloop +99 +µs +≤ 150 +yes +1.00$", outcome.out, re.MULTILINE)


@pytest.fixture
def tiny_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one setting have cost something; its own tests play."""
    play = settings.Play("tree-ts")
    setting = settings.Setting("tiny", play, play, most_times=1.2)
    costs = [settings.Cost(setting, 100.0, 130.0)]
    monkeypatch.setattr(settings, "time_settings", lambda: iter(costs))


@pytest.mark.usefixtures("tiny_settings")
def test_settings_only(call: Call) -> None:
    outcome = call("--settings")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("what settings cost per agent-round")
    line = r"^tiny: tree-ts +plain +100 +130 +1.30 +0.03 +≤ 1.20 times +no *$"
    assert re.search(line, outcome.out, re.MULTILINE)


@pytest.mark.usefixtures("tiny_bench", "tiny_fleet", "tiny_settings")
@pytest.mark.parametrize("words", [(), ("--engine", "--settings", "--fleet")])
def test_all(call: Call, words: tuple[str, ...]) -> None:
    text = call(*words).out
    assert text.index("cost of one agent-round; ") < text.index("what settings cost ")
    assert text.index("what settings cost ") < text.index("real agents: ")
    data = json.loads(call("--json", *words).out)
    assert set(data) == {"timings", "speed_up", "settings", "agents", "versions", "platform"}
    assert data["settings"][0]["met"] is False
    assert data["agents"][0]["met"] is True

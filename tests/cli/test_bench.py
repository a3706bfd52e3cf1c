"""`coopbandits bench` as it is typed."""

from __future__ import annotations

import json
import re

import pytest

from coopbandits.experiments import bench

from .calls import Call


@pytest.fixture
def tiny_bench(monkeypatch: pytest.MonkeyPatch) -> bench.Case:
    """Let the benchmark time one tiny case, once, without a second process."""
    case = bench.Case("tiny", "dducb", "cycle:4", num_arms=2, horizon=30, runs=2)
    run_bench = bench.run_bench
    monkeypatch.setattr(bench, "run_bench", lambda: run_bench((case,), 1))
    monkeypatch.setattr(bench, "time_threads", lambda: bench.SpeedUp(1.5, 2.0))
    return case


def test_bench(call: Call, tiny_bench: bench.Case) -> None:
    outcome = call("bench")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("cost of one agent-round; 1 draw = ")
    assert re.search(r"^tiny: dducb +cycle:4 +2 +30( +[\d.]+){3}$", outcome.out, re.MULTILINE)
    assert outcome.out.endswith("ratio 0.75\n")


def test_bench_as_json(call: Call, tiny_bench: bench.Case) -> None:
    outcome = call("bench", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    data = json.loads(outcome.out)
    assert set(data) == {"timings", "speed_up", "versions", "platform"}
    (timing,) = data["timings"]
    assert timing["case"]["policy"] == tiny_bench.policy
    assert timing["draws"] > 0

"""The benchmark's arithmetic and its words; that it is fast is shown by its figures, not here."""

from __future__ import annotations

import json
import re
import time

import numba
import pytest

from benchmarks import engine
from benchmarks.engine import Case, SpeedUp, Timing
from coopbandits.core.registry import parse_index
from coopbandits.sim.cpu.choices import compiled_choice

TINY = Case("tiny", "dducb", "cycle:4", num_arms=2, horizon=30, runs=2)
TIMING = Timing(TINY, draws=2.5, nanoseconds=25.25, unit_nanoseconds=10.1, peak_megabytes=321.4)


def test_agent_rounds() -> None:
    assert TINY.agent_rounds == 4 * 30 * 2
    assert Case("", "dducb", "grid:2x3", horizon=10, runs=1).agent_rounds == 60


def test_cases_are_told_apart_and_can_be_set_up() -> None:
    assert len(set(engine.CASES)) == len(engine.CASES)
    for case in engine.CASES:
        if case.group != "agents":  # large graphs take a while to make
            case.player()
    assert {case.threads for case in engine.CASES} == {1}


@pytest.mark.slow
def test_own_indices_are_timed_compiled() -> None:
    """The slow engine would play them too, and the figures would say nothing."""
    indices = {case.policy.partition("*")[2] for case in engine.CASES if "parts:" in case.policy}
    assert len(indices) == 4
    for index in indices:
        compiled_choice(parse_index(index))


def test_the_smallest_times_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock of our own: unit and case take turns, and the smallest of each is taken."""
    took = iter([1.0, 50.0, 0.5, 70.0, 2.0, 60.0])  # unit, case, unit, case, …
    now = 0.0
    started = False

    def clock() -> float:
        nonlocal now, started
        started = not started
        now += 0.0 if started else next(took)
        return now

    play: list[str] = []
    monkeypatch.setattr(time, "perf_counter", clock)
    monkeypatch.setattr(engine, "make_unit", lambda: lambda: play.append("unit"))
    monkeypatch.setattr(Case, "player", lambda case: lambda: play.append("case"))
    timing = engine.time_case(TINY, repeats=3)
    assert play == ["case", *["unit", "case"] * 3]  # the first one compiles and is not timed
    assert timing.unit_nanoseconds == pytest.approx(0.5e9 / (20 * 100_000))
    assert timing.nanoseconds == pytest.approx(50e9 / TINY.agent_rounds)
    assert timing.draws == pytest.approx(timing.nanoseconds / timing.unit_nanoseconds)


def test_run_bench() -> None:
    other = Case("tiny", "independent-ucb", "cycle:4", num_arms=2, horizon=30)
    timings = list(engine.run_bench((TINY, other), repeats=2))
    assert [timing.case for timing in timings] == [TINY, other]
    for timing in timings:
        assert timing.draws > 0
        assert timing.unit_nanoseconds > 0
        assert timing.draws * timing.unit_nanoseconds == pytest.approx(timing.nanoseconds)
        assert timing.peak_megabytes > 10


def test_peak_memory_is_in_megabytes() -> None:
    before = engine.peak_megabytes()
    ballast = bytearray(int(before * 2**20) + 50 * 2**20)
    ballast[::4096] = b"x" * len(ballast[::4096])
    assert before + 50 <= engine.peak_megabytes() <= 3 * before + 500
    del ballast


@pytest.mark.slow
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one core")
def test_time_threads() -> None:
    speed_up = engine.time_threads(TINY, repeats=1)
    assert speed_up is not None
    assert speed_up.threads > 0
    assert speed_up.processes > 0


def test_ratio() -> None:
    assert SpeedUp(threads=1.5, processes=2.0).ratio == 0.75


def test_table() -> None:
    text = engine.table([TIMING], SpeedUp(1.5, 2.0))
    first, blank, header, row, *_, last = text.splitlines()
    assert "1 draw = 10.1 ns" in first
    assert blank == ""
    assert tuple(header.replace("peak MB", "peak_MB").split()) == (
        *("case", "graph", "K", "T", "draws", "ns", "peak_MB"),
    )
    assert row.split() == ["tiny:", "dducb", "cycle:4", "2", "30", "2.50", "25.2", "321"]
    assert re.search(r"1\.50 times.* 2\.00 times.*ratio 0\.75$", last)


def test_json() -> None:
    data = json.loads(json.dumps(engine.as_json([TIMING], SpeedUp(1.5, 2.0))))
    assert set(data) == {"timings", "speed_up"}
    assert data["speed_up"] == {"threads": 1.5, "processes": 2.0, "ratio": 0.75}
    (timing,) = data["timings"]
    assert timing["case"]["graph"] == "cycle:4"
    assert set(timing) == {"case", "draws", "nanoseconds", "unit_nanoseconds", "peak_megabytes"}

"""Which engine plays a task: the fastest that can, or the one asked for."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.sim import asynchronous, cpu, engine, reference
from coopbandits.sim.cpu import flood
from coopbandits.sim.engine import Engine, choose, reach, reference_seconds, too_much
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.setup import Setup

from .policies import Fixed

PROBLEM = cb.GaussianBandit([1.0, 0.5])
NETWORK = cb.Network.from_spec("cycle:4")


def task(policy: Any, clocks: str = "none") -> Task:
    setup = Setup(PROBLEM, NETWORK, 9, np.array([9]), clocks=cb.parse_clocks(clocks))
    return Task(setup, policy)


@pytest.mark.parametrize(
    ("wanted", "policy", "clocks", "chosen"),
    [
        ("auto", cb.DDUCB(), "none", cpu),
        ("cpu", cb.DDUCB(), "none", cpu),
        ("reference", cb.DDUCB(), "none", reference),
        ("auto", Fixed(), "none", reference),
        ("cpu", Fixed(), "none", reference),
        ("auto", cb.FloodUCB(), "poisson", cpu),
        ("cpu", cb.FloodUCB(), "poisson", cpu),
        ("auto", Fixed(), "poisson", asynchronous),
        ("cpu", Fixed(), "poisson", asynchronous),
        ("reference", cb.FloodUCB(), "poisson", asynchronous),
    ],
)
def test_the_first_without_an_obstacle_plays(
    wanted: str, policy: Any, clocks: str, chosen: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert choose(wanted, task(policy, clocks)) is chosen.ENGINE
    noted = capsys.readouterr().err
    assert bool(noted) == (wanted != "reference" and chosen is not cpu)


def test_names_are_those_of_the_table() -> None:
    assert engine.NAMES == ("auto", "gpu", "cpu", "reference")
    for name, module in engine.ENGINES:
        assert import_module(module).ENGINE.name == name
    with pytest.raises(
        cb.InputError,
        match=r"engine 'tpu'.*auto, cpu, gpu, reference",
    ):
        choose("tpu", task(cb.DDUCB()))


class Counting:
    """An engine that has the reference engine play, and says how often."""

    name = "counting"

    def __init__(self) -> None:
        self.batches: list[range] = []
        self.threads: list[int | None] = []

    def obstacle(self, task: Task) -> str | None:
        return None if isinstance(task.policy, Fixed) else "cannot be counted"

    def run_bytes(self, task: Task) -> int:
        return 200_000_000

    def session(self, threads: int | None) -> AbstractContextManager[None]:
        self.threads.append(threads)
        return engine.one_thread(threads)

    def play(self, task: Task, runs: range, tick: Tick) -> Record:
        self.batches.append(runs)
        return reference.ENGINE.play(task, runs, tick)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    module: Any = ModuleType("counting_engine")
    module.ENGINE = made = Counting()
    monkeypatch.setitem(sys.modules, "counting_engine", module)
    added = ("counting", "counting_engine")
    monkeypatch.setattr(engine, "ENGINES", (engine.ENGINES[0], added, *engine.ENGINES[1:]))
    monkeypatch.setattr(engine, "NAMES", (*engine.NAMES, "counting"))
    return made


def test_one_line_in_the_table_is_another_engine(
    counting: Counting, capsys: pytest.CaptureFixture[str]
) -> None:
    typed: Engine = counting
    assert choose("auto", task(Fixed())) is typed
    assert capsys.readouterr().err == ""  # only the slow engine is worth a note
    result = cb.simulate(PROBLEM, NETWORK, [Fixed(), Fixed(1)], 9, 5, engine="counting", threads=1)
    assert result.meta["engines"] == ["counting", "counting"]
    runs = [range(2), range(2, 4), range(4, 5)]  # what BATCH_BYTES has room for
    assert counting.batches == [batch for batch in runs for _ in range(2)]
    assert counting.threads == [1]
    same = cb.simulate(PROBLEM, NETWORK, [Fixed(), Fixed(1)], 9, 5, engine="reference")
    assert result.dataset.identical(same.dataset)


def test_a_named_engine_that_cannot_is_replaced_by_the_reference_engine(
    counting: Counting, capsys: pytest.CaptureFixture[str]
) -> None:
    assert choose("counting", task(cb.DDUCB())) is reference.ENGINE
    noted = " ".join(capsys.readouterr().err.split())
    assert "dducb cannot be counted" in noted and "reference engine" in noted
    assert not counting.batches


def test_single_runs_where_one_engine_asks_for_them(counting: Counting) -> None:
    policies = [Fixed(), cb.DDUCB()]
    result = cb.simulate(PROBLEM, NETWORK, policies, 9, 3, engine="counting", progress=False)
    assert result.meta["engines"] == ["counting", "reference"]
    assert counting.batches == [range(1), range(1, 2), range(2, 3)]


@pytest.mark.parametrize("threads", [0, 1.5, True])
def test_engines_of_one_thread_refuse_no_threads(threads: Any) -> None:
    with pytest.raises(cb.InputError, match=f"threads.* {threads}"):
        cb.simulate(PROBLEM, NETWORK, Fixed(), 9, engine="reference", threads=threads)


def test_memory_grows_with_what_a_run_holds() -> None:
    flood, plain = task(cb.FloodTS()), task(cb.CentralUCB())
    assert (cpu.ENGINE.run_bytes(task(cb.TreeTS())) or 0) > (cpu.ENGINE.run_bytes(plain) or 0) > 0
    assert cpu.ENGINE.run_bytes(flood) == 4 * 2 * 100 + 32 * 4**2 + 16 * 4 * 9
    assert reference.ENGINE.run_bytes(plain) is None


def test_engines_are_loaded_when_something_is_played() -> None:
    code = "import sys, coopbandits.sim; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def make_task(policy: Any, graph: str, horizon: int, runs: int = 1, faults: str = "none") -> Task:
    network, rounds = cb.Network.from_spec(graph), np.array([horizon])
    setup = Setup(PROBLEM, network, horizon, rounds, runs, faults=cb.parse_faults(faults))
    return Task(setup, policy)


def test_a_flood_too_large_for_both_engines_is_refused_with_what_would_fit() -> None:
    large = make_task(cb.FloodTS(), "cycle:100000", 10_000)
    with pytest.raises(cb.InputError) as caught:
        choose("auto", large)
    message = str(caught.value)
    assert message.startswith("flood-ts")
    assert "100000 agents and 10000 rounds" in message
    assert 'engine="reference"' in message
    assert "5791 agents" in message
    assert "\n" not in message
    assert choose("reference", large) is reference.ENGINE


@pytest.mark.parametrize("horizon", [1, 100, 10_000])
def test_the_flood_that_is_said_to_fit_does_and_one_more_agent_does_not(horizon: int) -> None:
    said = flood.excess(make_task(cb.FloodTS(), "cycle:100000", horizon))
    assert said is not None
    fits = int(said.partition("(up to ")[2].split()[0])
    assert flood.excess(make_task(cb.FloodTS(), f"cycle:{fits}", horizon)) is None
    assert flood.excess(make_task(cb.FloodTS(), f"cycle:{fits + 1}", horizon)) is not None


def test_pulls_whose_messages_are_too_large_are_left_to_the_reference_engine() -> None:
    """Without faults no message is made, however far pulls travel."""
    for faults, missing in (("none", None), ("loss=0.1", "500 agents with 124750 links.* GB")):
        found = cpu.ENGINE.obstacle(make_task(cb.MPUCB(2), "complete:500", 10, faults=faults))
        assert found is missing is None or re.search(missing or "", found or "")
    assert cpu.ENGINE.obstacle(make_task(cb.MPUCB(10), "cycle:500", 10, faults="loss=0.1")) is None
    assert (
        cpu.ENGINE.obstacle(make_task(cb.MPUCB(10), "cycle:500", 10, faults="delay=20")) is not None
    )


def test_weeks_are_refused_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    long = make_task(Fixed(), "cycle:1000", 10_000, runs=100)
    for wanted in ("auto", "cpu"):
        with pytest.raises(cb.InputError, match=r"\d+ hours.*\b4 hours"):
            choose(wanted, long)
    assert capsys.readouterr().err == ""
    assert choose("reference", long) is reference.ENGINE


def test_the_rounds_that_are_said_to_fit_are_played(capsys: pytest.CaptureFixture[str]) -> None:
    said = too_much(make_task(Fixed(), "cycle:1000", 10_000, runs=100))
    assert said is not None
    rounds = int(said.partition("for about ")[2].split()[0])
    assert choose("auto", make_task(Fixed(), "cycle:1000", rounds, runs=100)) is reference.ENGINE
    noted = " ".join(capsys.readouterr().err.split())
    assert "about 4 hours" in noted


def test_what_is_compiled_is_never_refused() -> None:
    assert choose("auto", make_task(cb.DDUCB(), "cycle:1000", 10**9, runs=1000)) is cpu.ENGINE


def test_more_memory_than_there_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    late = make_task(cb.FloodTS(), "complete:100", 100)
    monkeypatch.setattr("coopbandits.sim.cpu.obstacle", lambda _: " for a test")
    assert too_much(late) is None
    monkeypatch.setattr(engine, "physical_memory", lambda: 4e5)
    with pytest.raises(cb.InputError, match=r"0\.0004 GB.* 83 agents"):
        choose("auto", late)


def test_news_spreads_no_farther_than_there_are_rounds() -> None:
    assert reach(make_task(cb.FloodTS(), "cycle:1000", 10)) == 21
    assert reach(make_task(cb.FloodTS(), "cycle:10", 1000)) == 10


@pytest.mark.plays
@pytest.mark.parametrize(
    ("policy", "graph", "horizon"),
    [
        (cb.IndependentUCB(), "cycle:50", 60),
        (cb.UCBNetwork(), "cycle:50", 40),
        (cb.TreeTS(), "complete:20", 20),
        (cb.FloodTS(), "complete:30", 20),
    ],
    ids=lambda value: str(value),
)
def test_the_estimate_has_the_right_order(policy: Any, graph: str, horizon: int) -> None:
    """Within a factor of ten, in CPU time: machines differ, and minutes must not pass for weeks."""
    played = make_task(policy, graph, horizon)
    began = time.process_time()
    reference.ENGINE.play(played, range(1), lambda done: None)
    measured = time.process_time() - began
    assert measured / 10 < reference_seconds(played) < 10 * measured

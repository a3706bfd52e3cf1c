"""A fallback to the reference engine that nobody would wait for is refused."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.sim import cost, cpu, reference
from coopbandits.sim.cpu import flood
from coopbandits.sim.engine import choose
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup

from .policies import Fixed

PROBLEM = cb.GaussianBandit([1.0, 0.5])


def task(policy: Any, graph: str, horizon: int, runs: int = 1, faults: str = "none") -> Task:
    network, rounds = cb.Network.from_spec(graph), np.array([horizon])
    setup = Setup(PROBLEM, network, horizon, rounds, runs, faults=cb.parse_faults(faults))
    return Task(setup, policy)


def test_a_flood_too_large_for_both_engines_is_refused_with_what_would_fit() -> None:
    large = task(cb.FloodTS(), "cycle:100000", 10_000)
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
    said = flood.excess(task(cb.FloodTS(), "cycle:100000", horizon))
    assert said is not None
    fits = int(said.partition("(up to ")[2].split()[0])
    assert flood.excess(task(cb.FloodTS(), f"cycle:{fits}", horizon)) is None
    assert flood.excess(task(cb.FloodTS(), f"cycle:{fits + 1}", horizon)) is not None


def test_pulls_whose_messages_are_too_large_are_left_to_the_reference_engine() -> None:
    """Without faults no message is made, however far pulls travel."""
    for faults, missing in (("none", None), ("loss=0.1", "500 agents with 124750 links.* GB")):
        found = cpu.ENGINE.obstacle(task(cb.MPUCB(2), "complete:500", 10, faults=faults))
        assert found is missing is None or re.search(missing or "", found or "")
    assert cpu.ENGINE.obstacle(task(cb.MPUCB(10), "cycle:500", 10, faults="loss=0.1")) is None
    assert cpu.ENGINE.obstacle(task(cb.MPUCB(10), "cycle:500", 10, faults="delay=20")) is not None


def test_weeks_are_refused_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    long = task(Fixed(), "cycle:1000", 10_000, runs=100)
    for wanted in ("auto", "cpu"):
        with pytest.raises(cb.InputError, match=r"\d+ hours.*\b4 hours"):
            choose(wanted, long)
    assert capsys.readouterr().err == ""
    assert choose("reference", long) is reference.ENGINE


def test_the_rounds_that_are_said_to_fit_are_played(capsys: pytest.CaptureFixture[str]) -> None:
    said = cost.obstacle(task(Fixed(), "cycle:1000", 10_000, runs=100))
    assert said is not None
    rounds = int(said.partition("for about ")[2].split()[0])
    assert choose("auto", task(Fixed(), "cycle:1000", rounds, runs=100)) is reference.ENGINE
    noted = " ".join(capsys.readouterr().err.split())
    assert "about 4 hours" in noted


def test_what_is_compiled_is_never_refused() -> None:
    assert choose("auto", task(cb.DDUCB(), "cycle:1000", 10**9, runs=1000)) is cpu.ENGINE


def test_more_memory_than_there_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    late = task(cb.FloodTS(), "complete:100", 100)
    monkeypatch.setattr("coopbandits.sim.cpu.obstacle", lambda _: " for a test")
    assert cost.obstacle(late) is None
    monkeypatch.setattr(cost, "physical_memory", lambda: 4e5)
    with pytest.raises(cb.InputError, match=r"0\.0004 GB.* 83 agents"):
        choose("auto", late)


def test_news_spreads_no_farther_than_there_are_rounds() -> None:
    assert cost.reach(task(cb.FloodTS(), "cycle:1000", 10)) == 21
    assert cost.reach(task(cb.FloodTS(), "cycle:10", 1000)) == 10


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
    played = task(policy, graph, horizon)
    began = time.process_time()
    reference.ENGINE.play(played, range(1), lambda done: None)
    measured = time.process_time() - began
    assert measured / 10 < cost.seconds(played) < 10 * measured

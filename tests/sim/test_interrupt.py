"""Ctrl-C: what was finished is kept, and said."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from coopbandits import (
    DDUCB,
    CentralUCB,
    GaussianBandit,
    IndependentUCB,
    Network,
    Policy,
    Result,
    SimulationInterrupted,
    simulate,
)
from coopbandits.sim.record import Record, Task, Tick

from .policies import InterruptedAt

module = import_module("coopbandits.sim.simulate")  # the package has a function of that name
PROBLEM = GaussianBandit([1.0, 0.5])
NETWORK = Network.from_spec("cycle:4")

# Python ignores Ctrl-C where a shell started it in the background; a test must not depend on that.
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from coopbandits.cli import main
main()
"""


def interrupted(policies: list[Policy]) -> SimulationInterrupted:
    with pytest.raises(SimulationInterrupted) as caught:
        simulate(PROBLEM, NETWORK, policies, 12, 5, seed=8, progress=False)
    assert isinstance(caught.value, KeyboardInterrupt)
    return caught.value


@pytest.mark.parametrize("first", [True, False])
def test_runs_that_every_policy_finished_are_kept(first: bool) -> None:
    stops = InterruptedAt(run=2, num_agents=4)
    policies: list[Policy] = [DDUCB(), IndependentUCB()]
    policies.insert(0 if first else 2, stops)
    stop = interrupted(policies)
    assert "2 of 5 runs" in str(stop)
    assert stop.result is not None
    assert stop.result.dataset.sizes["run"] == 2
    assert stop.result.meta["settings"]["runs"] == 2
    whole = simulate(PROBLEM, NETWORK, [DDUCB(), IndependentUCB()], 12, 5, seed=8)
    kept = stop.result.dataset.drop_sel(policy="interrupted")
    assert kept.equals(whole.dataset.isel(run=slice(2)))


def test_nothing_is_kept_when_no_run_was_finished() -> None:
    stop = interrupted([InterruptedAt(run=0, num_agents=4), IndependentUCB()])
    assert stop.result is None
    assert "0 of 5 runs" in str(stop)


def test_policies_that_finished_are_kept_where_no_run_is_complete() -> None:
    stop = interrupted([IndependentUCB(), InterruptedAt(run=0, num_agents=4), DDUCB()])
    assert re.search("1 of 5 runs.*independent-ucb", str(stop))
    assert stop.result is not None
    assert stop.result.policies == ["independent-ucb"]
    assert stop.result.meta["settings"]["policies"] == ["independent-ucb"]
    assert stop.result.meta["engines"] == ["cpu"]
    whole = simulate(PROBLEM, NETWORK, IndependentUCB(), 12, 1, seed=8)
    assert stop.result.dataset.equals(whole.dataset)


def test_compiled_runs_are_played_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C late in a simulation must not lose its beginning, however fast an engine is."""
    monkeypatch.setattr(module, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(module, "FIRST_SHARE", 10**15)
    played: list[range] = []
    engine = import_module("coopbandits.sim.cpu").ENGINE

    def stop_later(self: object, task: Task, runs: range, tick: Tick) -> Record:
        if runs.start >= 4:
            raise KeyboardInterrupt
        played.append(runs)
        record: Record = real(self, task, runs, tick)
        return record

    real = type(engine).play
    monkeypatch.setattr(type(engine), "play", stop_later)
    with pytest.raises(SimulationInterrupted) as caught:
        simulate(PROBLEM, NETWORK, [IndependentUCB(), CentralUCB()], 12, 50, seed=8, threads=2)
    assert played == [range(2), range(2), range(2, 4), range(2, 4)]
    assert "4 of 50 runs" in str(caught.value)
    monkeypatch.undo()
    whole = simulate(PROBLEM, NETWORK, [IndependentUCB(), CentralUCB()], 12, 50, seed=8)
    assert caught.value.result is not None
    assert caught.value.result.dataset.equals(whole.dataset.isel(run=slice(4)))


def test_partial_results_are_results(tmp_path: Path) -> None:
    stop = interrupted([InterruptedAt(run=3, num_agents=4)])
    assert stop.result is not None
    stop.result.save(tmp_path)
    assert Result.load(tmp_path).dataset.equals(stop.result.dataset)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to draw the bar on")
def test_a_real_ctrl_c_on_the_command_line(tmp_path: Path) -> None:
    """Sent as soon as the bar is seen, which is after a second of many short runs."""
    out = tmp_path / "out"
    arguments = (
        "simulate --graph cycle:4 --policy dducb --means 1,0.5 --horizon 40 --runs 100000 "
        f"--seed 3 --engine reference --out {out}"
    )
    screen, terminal = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments.split()],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(terminal)
    try:
        assert b"simulating" in read_screen(screen, until=b"simulating")
        child.send_signal(signal.SIGINT)
        said = read_screen(screen, until=b"\0").decode()
        assert child.wait(30) == 130
    finally:
        child.kill()
        child.communicate()
        os.close(screen)
    told = re.search(r"kept (\d+) of 100000 runs; written to (\S+): result.nc", said)
    assert told is not None, said
    runs, folder = int(told[1]), Path(told[2])
    assert folder.is_relative_to(out)
    result = Result.load(folder)
    assert 1 <= runs == result.dataset.sizes["run"]
    same = simulate(PROBLEM, NETWORK, DDUCB(), 40, runs, 3)
    assert np.array_equal(result.regret, same.regret)


def read_screen(screen: int, until: bytes, seconds: float = 60.0) -> bytes:
    """Read what is drawn until a text appears or the program ends."""
    seen, deadline = b"", time.monotonic() + seconds
    while until not in seen and time.monotonic() < deadline:
        if not select.select([screen], [], [], 0.2)[0]:
            continue
        try:
            part = os.read(screen, 65536)
        except OSError:  # how Linux says that the other side was closed
            break
        if not part:
            break
        seen += part
    return seen

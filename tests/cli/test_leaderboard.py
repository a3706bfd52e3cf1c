"""`coopbandits leaderboard` as it is typed."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coopbandits import Cell, Result, Sweep
from coopbandits.experiments import leaderboard, matrix
from coopbandits.experiments.suite import Plan, make_plan
from coopbandits.sim.ledger import Ledger, run_cell

from .calls import Call

SMALL = (
    "leaderboard", "--scenario", "few-agents", "--scenario", "two-arms", "--policy", "dducb",
    "--runs", "2", "--horizon", "40",
)  # fmt: skip
OWN = """
from dataclasses import dataclass
from coopbandits import UCB, LocalSums, Policy
from coopbandits.core.policy import Parts

class Own(LocalSums):
    @staticmethod
    def estimate(s, totals, certain, about):
        {}.get("nothing")  # numba has no dictionaries without types
        LocalSums.estimate(s, totals, certain, about)

@dataclass(frozen=True)
class Steady(Policy):
    bonus: float = 2.0

    @property
    def parts(self):
        return Parts(LocalSums(), UCB(self.bonus))
"""
FILES = (
    "leaderboard.csv, leaderboard.svg, leaderboard.png, traffic.svg, traffic.png, leaderboard.html"
)


@pytest.fixture(autouse=True)
def in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play cells in a thread of this process."""
    play = leaderboard.play

    def in_a_thread(plan: Plan, folder: Path, **how: Any) -> Sweep:
        with ThreadPoolExecutor(1) as thread:
            return play(plan, folder, thread, **how)

    monkeypatch.setattr(leaderboard, "play", in_a_thread)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Write a word in place of tables and figures; return of what."""
    plans = []

    def deliver(plan: Plan, done: Sweep, folder: Path) -> str:
        assert len(done.results) == len(list((folder / "cells").iterdir()))
        plans.append(plan)
        (folder / "leaderboard.csv").write_text("played")
        return f"played into {folder}"

    monkeypatch.setattr(leaderboard, "deliver", deliver)
    return plans


def test_leaderboard(call: Call, tmp_path: Path, undrawn: list[Plan]) -> None:
    outcome = call(*SMALL, "--seed", "3", "--out", str(tmp_path))
    assert outcome == (0, f"played into {tmp_path}\n", "")
    assert undrawn == [make_plan(["few-agents", "two-arms"], ["dducb"], 2, 3, 40)]


@pytest.mark.slow
def test_a_leaderboard_is_drawn(call: Call, tmp_path: Path) -> None:
    outcome = call(*SMALL, "--seed", "3", "--out", str(tmp_path))
    assert (outcome.status, outcome.err) == (0, "")
    plan = make_plan(["few-agents", "two-arms"], ["dducb"], 2, 3, 40)
    done = leaderboard.play(plan, tmp_path)
    assert outcome.out == leaderboard.deliver(plan, done, tmp_path) + "\n"
    assert outcome.out.endswith(f"written to {tmp_path}: {FILES}\n")


@pytest.mark.usefixtures("undrawn")
def test_interrupted_and_resumed(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Ledger.store

    def store_and_stop(self: Ledger, cell: Cell, result: Result) -> None:
        store(self, cell, result)
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "store", store_and_stop)
    outcome = call(*SMALL, "--out", str(tmp_path))
    assert (outcome.status, outcome.out) == (130, "")
    assert f"1 of 6 cells are in {tmp_path}" in " ".join(outcome.err.split())
    assert not (tmp_path / "leaderboard.csv").exists()

    monkeypatch.setattr(Ledger, "store", store)
    assert call(*SMALL, "--out", str(tmp_path)).status == 0
    assert len(list((tmp_path / "cells").iterdir())) == 6


@pytest.mark.slow
def test_a_cell_that_fails_is_named_and_can_be_retried(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flaky(cell: Cell) -> Result:
        if cell.policy.name == "dducb" and cell.network.num_agents == 5:
            raise RuntimeError("no luck")
        return run_cell(cell)

    module = sys.modules["coopbandits.sim.sweep"]  # the name leads to the function
    monkeypatch.setattr(module, "run_cell", flaky)
    outcome = call(*SMALL, "--out", str(tmp_path))
    assert (outcome.status, outcome.out) == (1, "")
    for policy in ("dducb", "dducb:bonus_factor=1"):  # with its own constant, and with B = 2
        line = f"{policy} on cycle:5, seed 0: RuntimeError: no luck"
        assert line in outcome.err

    monkeypatch.setattr(module, "run_cell", run_cell)
    assert call(*SMALL, "--out", str(tmp_path)).status == 1
    assert call(*SMALL, "--out", str(tmp_path), "--retry").status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scenario", "cycle-10"), "'cycle-10'.*'cycle-100'"),
        (("--policy", "ddcub"), "'ddcub'.*'dducb'"),
        (("--policy", "dducb:eta=2"), r"\bdducb\b.*twice"),
        (("--runs", "0"), r"runs.* 0\b"),
        (("--horizon", "0"), r"horizon.* 0\b"),
        (("--workers", "0"), r"workers.* 0\b"),
    ],
)
def test_bad_wishes(call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    outcome = call(*SMALL, *arguments, "--out", str(tmp_path / "out"))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert re.search(message, outcome.err)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_pairs_and_own_policies_by_name(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_policies.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    own = "my_policies:Steady:bonus=3"
    wishes = ("--policy", "tree-sums*kl-ucb", "--policy", own, "--out", str(tmp_path / "out"))
    outcome = call(*SMALL, *wishes)
    assert (outcome.status, outcome.err) == (0, "")
    for name in ("tree-sums*kl-ucb", own):
        assert f"  {name}  " in outcome.out
    assert call(*SMALL, *wishes).out == outcome.out


@pytest.mark.slow
def test_an_own_policy_without_a_kernel_is_played_where_all_is_well(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_slow_policies.py").write_text(OWN.replace("LocalSums()", "Own()"))
    monkeypatch.syspath_prepend(tmp_path)
    outcome = call(
        "leaderboard", "--scenario", "few-agents", "--scenario", "loss-30", "--runs", "1",
        "--horizon", "30", "--policy", "my_slow_policies:Steady", "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert outcome.status == 0
    assert outcome.out.count(" my_slow_policies:Steady ") >= 1
    assert len(list((tmp_path / "out" / "cells").iterdir())) == 5  # two yardsticks in both


MATRIX = (
    "leaderboard", "--matrix", "--scenario", "few-agents", "--runs", "1", "--horizon", "20",
)  # fmt: skip


@pytest.mark.slow
def test_matrix(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = partial(matrix.make_matrix, aggregations=["tree-sums", "local-sums"], indices=["ucb"])
    monkeypatch.setattr(matrix, "make_matrix", make)
    outcome = call(*MATRIX, "--seed", "3", "--out", str(tmp_path))
    assert (outcome.status, outcome.err) == (0, "")
    plan = make(["few-agents"], 1, 3, 20)
    assert outcome.out == matrix.deliver(plan, leaderboard.play(plan, tmp_path), tmp_path) + "\n"
    assert outcome.out.endswith("matrix.csv, matrix.svg, matrix.png, matrix.html\n")

    outcome = call("leaderboard", *MATRIX[2:], "--policy", "dducb", "--out", str(tmp_path))
    assert outcome.status == 2
    assert "other settings" in outcome.err


def test_a_matrix_is_of_all_pairs(call: Call, tmp_path: Path) -> None:
    outcome = call(*MATRIX, "--policy", "dducb", "--out", str(tmp_path / "out"))
    assert (outcome.status, outcome.out) == (2, "")
    assert "--policy dducb" in outcome.err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("undrawn")
def test_other_settings_are_refused(call: Call, tmp_path: Path) -> None:
    assert call(*SMALL, "--out", str(tmp_path)).status == 0
    before = (tmp_path / "leaderboard.csv").read_bytes()
    outcome = call(*SMALL, "--seed", "1", "--out", str(tmp_path))
    assert (outcome.status, outcome.out) == (2, "")
    assert "other settings" in outcome.err
    assert (tmp_path / "leaderboard.csv").read_bytes() == before

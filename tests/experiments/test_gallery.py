"""The gallery: its data make sense, and what it says follows from its numbers."""

from __future__ import annotations

import csv
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.experiments.gallery import ENTRIES, Entry, Point, Series, run_gallery
from coopbandits.experiments.gallery.bounds import bound_factors
from coopbandits.experiments.gallery.entries import PER_AGENT, TOTAL_PULLS, cycle_lambda
from coopbandits.experiments.gallery.outcome import seen, slopes
from coopbandits.experiments.gallery.run import cell_of
from coopbandits.network import Network
from coopbandits.sim import Cell, Sweep
from coopbandits.sim.ledger import run_cell

TINY = Entry(
    "Is it tiny?",
    "agents",
    (
        Point("ours", 4, "cycle:4", "dducb", 30, "1,0.5"),
        Point("ours", 8, "cycle:8", "dducb", 30, "1,0.5"),
        Point("alone", 4, "cycle:4", "independent-ucb", 30, "1,0.5"),
    ),
)
LINE = Series("line", np.array([1.0, 2.0, 4.0]), np.array([[3.0, 1.0], [12.0, 4.0], [48.0, 16.0]]))


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.points])
def test_entries_can_be_played(name: str) -> None:
    points = ENTRIES[name].points
    small = [point for point in points if name != "scale" or point.x < 2000]  # others take minutes
    cells = [cell_of(point, runs=2, seed=0) for point in small]
    assert len({cell.id for cell in cells}) == len(small)
    assert len({(point.series, point.x) for point in points}) == len(points)
    for before, after in pairwise(points):
        assert before.series != after.series or before.x < after.x


def test_pulls_are_shared_fairly() -> None:
    for point in ENTRIES["agents"].points:
        assert point.x * point.horizon == TOTAL_PULLS
        assert Network.from_spec(point.graph).num_agents == point.x


@pytest.mark.parametrize("agents", [5, 16, 96])
def test_lambda_of_a_cycle(agents: int) -> None:
    assert cycle_lambda(agents) == pytest.approx(Network.from_spec(f"cycle:{agents}").lambda2)


def test_slopes_are_those_of_power_laws() -> None:
    np.testing.assert_allclose(slopes(LINE), [2.0, 2.0])
    assert seen(LINE) == "line: 2.0 at 1, 32.0 at 4; fitted power of x: 2.00."
    valley = Series("valley", LINE.x, np.array([[9.0], [2.0], [5.0]]))
    assert seen(valley).startswith("valley: 9.0 at 1, 5.0 at 4, lowest 2.0 at 2; fitted power")


def test_what_is_written_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENTRIES, "tiny", TINY)
    with ThreadPoolExecutor(1) as executor:
        outcome = run_gallery("tiny", 2, 3, tmp_path, executor, progress=False)
    assert [series.label for series in outcome.series] == ["ours", "alone"]
    assert outcome.series[0].values.shape == (2, 2)
    assert outcome.failed == ()
    lines = str(outcome).splitlines()
    assert lines[:2] == ["Is it tiny?", "regret of the network (y) against agents (x)"]
    assert sum(line.startswith("ours  ") for line in lines) == 2
    rows = list(csv.reader((tmp_path / "tiny.csv").read_text().splitlines()))
    assert rows[0] == ["series", "agents", "run", "regret of the network"]
    assert [float(row[3]) for row in rows[1:5]] == outcome.series[0].values.ravel().tolist()
    assert (tmp_path / "tiny.png").stat().st_size > 1000
    assert "<svg" in (tmp_path / "tiny.svg").read_text()
    monkeypatch.setattr("coopbandits.experiments.gallery.run.write", lambda *drawn: None)
    # The executor is shut down and would refuse, but nothing is left to play.
    again = run_gallery("tiny", 2, 3, tmp_path, executor, progress=False)
    assert str(again) == str(outcome)


@pytest.mark.slow
def test_how_long_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENTRIES, "tiny", replace(TINY, timed=True))
    with ThreadPoolExecutor(1) as executor:
        run_gallery("tiny", 1, 3, tmp_path, executor, progress=False)
    rows = list(csv.reader((tmp_path / "tiny-seconds.csv").read_text().splitlines()))
    assert rows[0][3] == "seconds for all runs"
    assert [row[:3] for row in rows[1:]] == [
        ["ours", "4.0", "0"],
        ["ours", "8.0", "0"],
        ["alone", "4.0", "0"],
    ]
    assert all(float(row[3]) > 0 for row in rows[1:])
    assert "<svg" in (tmp_path / "tiny-seconds.svg").read_text()


def test_regret_per_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    per_agent = Entry(TINY.question, TINY.xlabel, TINY.points, PER_AGENT)
    monkeypatch.setattr("coopbandits.experiments.gallery.run.write", lambda *drawn: None)
    for name, entry in {"total": TINY, "share": per_agent}.items():
        monkeypatch.setitem(ENTRIES, name, entry)
    with ThreadPoolExecutor(1) as executor:
        total, share = (
            run_gallery(name, 1, 3, tmp_path, executor, progress=False).series[0].values
            for name in ("total", "share")
        )
    np.testing.assert_allclose(total, share * [[4], [8]])


def test_bounds_on_cycles() -> None:
    agents = 51
    b_coop, b_ours, a_coop, a_ours = bound_factors(agents)
    eigenvalues = np.cos(2 * np.pi * np.arange(1, agents) / agents)
    squares, sizes = eigenvalues**2, np.abs(eigenvalues)
    rounds = math.ceil(
        math.log(2 * agents * 22) / math.sqrt(-2 * math.log(math.cos(math.pi / agents)))
    )
    assert a_ours == pytest.approx(32 * (1 + 1 / 11))
    assert b_ours == pytest.approx(agents * (6 * rounds + 1) + 4)
    assert a_coop == pytest.approx(32 * (1 + (squares / (1 - squares)).sum()))
    mixing = math.sqrt(agents) * (sizes / (1 - sizes)).sum()
    assert b_coop == pytest.approx(agents * (2 + mixing))


def test_bounds_are_computed_without_playing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coopbandits.experiments.gallery.bounds.NUM_AGENTS", (11, 21))
    outcome = run_gallery("cycle-bounds", out=tmp_path)
    assert len(outcome.series) == 4
    assert (tmp_path / "cycle-bounds.csv").exists()
    assert not (tmp_path / "cells").exists()


def test_a_point_that_failed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_but_the_last(cells: list[Cell], *args: object, **more: object) -> Sweep:
        done = [(cell, run_cell(cell)) for cell in cells[:-1]]
        return Sweep(done, [(cells[-1], "MemoryError: no room")])

    monkeypatch.setitem(ENTRIES, "tiny", TINY)
    monkeypatch.setattr("coopbandits.experiments.gallery.run.sweep", all_but_the_last)
    outcome = run_gallery("tiny", 1, out=tmp_path)
    assert [series.label for series in outcome.series] == ["ours"]
    assert outcome.failed == ("independent-ucb on cycle:4, seed 0: MemoryError: no room",)


def test_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'etta'.*'eta'"):
        run_gallery("etta", out=tmp_path)


@pytest.mark.parametrize(("name", "runs", "seed"), [("runs", 0, 0), ("seed", 1, -1)])
def test_bad_numbers(tmp_path: Path, name: str, runs: int, seed: int) -> None:
    with pytest.raises(InputError, match=f"{name} is"):
        run_gallery("eta", runs, seed, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_could_be_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(cells: list[Cell], *args: object, **more: object) -> Sweep:
        return Sweep([], [(cell, "MemoryError: no room") for cell in cells])

    monkeypatch.setattr("coopbandits.experiments.gallery.run.sweep", none)
    with pytest.raises(InputError, match=r"eta\b.*MemoryError: no room"):
        run_gallery("eta", out=tmp_path)
    assert not list(tmp_path.iterdir())

"""All cells of a sweep in one table, seeds apart or pooled."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.errors import InputError
from coopbandits.results.intervals import mean_interval
from coopbandits.sim import merge
from coopbandits.sim.ledger import run_cell

PROBLEM = cb.GaussianBandit([1.0, 0.5])
NETWORK = cb.Network.from_spec("path:3")


@pytest.fixture(scope="module")
def done() -> cb.Sweep:
    """Two policies, two seeds, three runs each."""
    cells = [
        cb.Cell(PROBLEM, NETWORK, policy, 20, 3, seed)
        for seed in (4, 5)
        for policy in (cb.IndependentUCB(), cb.CentralUCB())
    ]
    return cb.Sweep([(cell, run_cell(cell)) for cell in cells])


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_one_file_for_the_whole_sweep(done: cb.Sweep, tmp_path: Path) -> None:
    rows = read(done.to_csv(tmp_path / "new" / "summary.csv"))
    assert [(row["policy"], row["seed"], row["runs"]) for row in rows] == [
        ("independent-ucb", "4", "3"), ("central-ucb", "4", "3"),
        ("independent-ucb", "5", "3"), ("central-ucb", "5", "3"),
    ]  # fmt: skip
    final = done.results[2][1].regret.isel(policy=0, round=-1).values
    assert float(rows[2]["regret"]) == final.mean()
    assert (float(rows[2]["low"]), float(rows[2]["high"])) == mean_interval(final)
    assert {row["graph"] for row in rows} == {"path:3"}


def test_seeds_pooled_where_asked(done: cb.Sweep, tmp_path: Path) -> None:
    rows = read(done.to_csv(tmp_path / "pooled.csv", pool_seeds=True))
    assert [(row["policy"], row["seeds"], row["runs"]) for row in rows] == [
        ("independent-ucb", "2", "6"), ("central-ucb", "2", "6")
    ]  # fmt: skip
    assert "seed" not in rows[0]
    final = np.concatenate([done.results[i][1].regret.values[0, :, -1] for i in (0, 2)])
    assert float(rows[0]["regret"]) == final.mean()
    assert (float(rows[0]["low"]), float(rows[0]["high"])) == mean_interval(final)


def test_every_round_of_every_cell(done: cb.Sweep) -> None:
    frame = done.to_dataframe()
    assert list(frame.columns[:9]) == [
        "problem", "graph", "weights", "faults", "clocks", "horizon", "policy", "seed", "run"
    ]  # fmt: skip
    last = frame[frame["round"] == 20]
    assert len(last) == 2 * 2 * 3
    assert last["regret"].mean() == pytest.approx(
        np.mean([result.regret.values[..., -1].mean() for _, result in done.results])
    )


def test_nothing_finished() -> None:
    assert cb.Sweep().to_dataframe().empty
    assert cb.Sweep().summary_frame(pool_seeds=True).empty


def test_arms_are_named_as_today(tmp_path: Path) -> None:
    """Names are no part of what a cell is, so a ledger finds it under old ones."""
    cell = cb.Cell(PROBLEM, NETWORK, cb.IndependentUCB(), 20)
    named = cb.Cell(PROBLEM.named(["left", "right"]), NETWORK, cb.IndependentUCB(), 20)
    assert cell.id == named.id
    first = cb.sweep([cell], tmp_path, workers=1, progress=False)
    again = cb.sweep([named], tmp_path, workers=1, progress=False)
    assert first.results[0][1].pulls["arm"].values.tolist() == [0, 1]
    assert again.results[0][1].pulls["arm"].values.tolist() == ["left", "right"]
    with pytest.raises(InputError, match="name their arms"):
        merge([again.results[0][1], run_cell(cb.Cell(PROBLEM, NETWORK, cb.CentralUCB(), 20))])

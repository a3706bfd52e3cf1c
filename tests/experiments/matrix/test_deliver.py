"""The matrix on disk and on screen."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coopbandits import InputError
from coopbandits.experiments.leaderboard import play
from coopbandits.experiments.matrix import deliver, make_matrix
from coopbandits.experiments.matrix.deliver import as_csv, as_text, draw, grid_rows, split
from coopbandits.experiments.scores import Score, score
from coopbandits.experiments.suite import make_plan
from coopbandits.sim.ledger import Ledger

from .made_up import made_up

SCENARIOS = ["two-arms", "loss-30"]
PARTS: dict[str, Any] = {
    "aggregations": ["tree-sums", "flooded-pulls", "central-totals"],
    "indices": ["ucb", "normal-draw"],
}
PLAN = make_matrix(SCENARIOS, runs=2, seed=3, horizon=40, **PARTS)
FILES = {
    "matrix.csv", "matrix.html", "matrix.svg", "matrix.png", "matrix-faults.svg",
    "matrix-faults.png",
}  # fmt: skip

Delivered = tuple[Path, str, list[Score]]


@pytest.fixture
def thread() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture(scope="module")
def delivered(tmp_path_factory: pytest.TempPathFactory) -> Delivered:
    """A finished matrix: its folder, its text, its scores."""
    folder = tmp_path_factory.mktemp("matrix")
    with ThreadPoolExecutor(1) as executor:
        done = play(PLAN, folder, executor)
    return folder, deliver(PLAN, done, folder), score(PLAN, done.results)


def test_files(delivered: Delivered) -> None:
    folder, text, _ = delivered
    assert {path.name for path in folder.iterdir()} == {*FILES, "meta.json", "cells"}
    last = text.splitlines()[-1]
    assert last.startswith(f"written to {folder}: ")
    assert all(name in last for name in FILES)
    assert (folder / "matrix.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "matrix-faults.svg").read_text().rstrip().endswith("</svg>")


def test_the_table_on_disk_has_a_line_per_pair_that_was_played(delivered: Delivered) -> None:
    folder, _, scores = delivered
    with (folder / "matrix.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    pairs = {(line["scenario"], line["aggregation"], line["index"]): line for line in lines}
    assert len(pairs) == len(lines) == 6 + 6
    for row in scores:
        if row.policy in PLAN.pairs:
            line = pairs[(row.scenario, *PLAN.pairs[row.policy])]
            assert float(line["score"]) == row.score
            assert float(line["mean"]) == row.mean
            assert line["played"] == row.played


def test_the_text_has_a_table_per_kind_of_scenario(delivered: Delivered) -> None:
    _, text, scores = delivered
    well, ill = split(PLAN, scores)
    assert text.startswith("1 scenario with normal rewards, 2 runs each, seed 3; scores are mean ")
    assert "1 scenario with faults, 2 runs each, seed 3; " in text
    assert well.grid.aggregations[0] == "central-totals"
    assert set(well.grid.aggregations) == set(PARTS["aggregations"])
    assert set(ill.grid.aggregations) == set(PARTS["aggregations"])
    found = {row.policy: row.score for row in well.scores}
    lines = [line.split() for line in text.splitlines()]
    first = next(line for line in lines if line[:1] == ["tree-sums"])
    shown = [f"{found[f'tree-sums*{index}']:.2f}" for index in well.grid.indices]
    assert first[1:3] == shown
    assert "which part matters, among" in text
    assert text.count("the largest score of one scenario") == 2


def test_central_totals_and_a_normal_draw_are_the_yardstick(delivered: Delivered) -> None:
    (row,) = (
        row
        for row in delivered[2]
        if (row.scenario, row.policy) == ("two-arms", "central-totals*normal-draw")
    )
    assert row.score == 1.0


def test_the_page_has_a_table_for_every_scenario(delivered: Delivered) -> None:
    page = (delivered[0] / "matrix.html").read_text()
    for scenario in PLAN.scenarios:
        assert f"<h2>{scenario.name}: {scenario.probes}</h2>" in page
    assert page.count("<svg") == 2
    assert page.count("Which part matters</caption>") == 2


@pytest.mark.slow
def test_a_second_start_plays_nothing(
    delivered: Delivered, monkeypatch: pytest.MonkeyPatch, thread: Executor
) -> None:
    folder, text, _ = delivered

    def never(*arguments: Any) -> None:
        raise AssertionError("nothing is missing")

    monkeypatch.setattr(Ledger, "store", never)
    assert deliver(PLAN, play(PLAN, folder, thread), folder) == text


def test_an_aggregation_that_was_not_played_comes_last_with_dashes() -> None:
    def holed(scenario: str, aggregation: str, index: str) -> float | None:
        return None if (scenario, aggregation) == ("loss-30", "flooded-pulls") else 2.0

    _, ill = split(PLAN, made_up(PLAN, holed))
    assert grid_rows(ill.grid)[-2] == ("flooded-pulls", "–", "–", "–")


def test_a_leaderboard_does_not_go_into_its_folder(delivered: Delivered, thread: Executor) -> None:
    twin = make_plan(SCENARIOS, PLAN.policies, 2, 3, 40)
    with pytest.raises(InputError, match="other settings"):
        play(twin, delivered[0], thread)


def test_the_figure_has_margins_and_dashes() -> None:
    def holed(scenario: str, aggregation: str, index: str) -> float | None:
        hole = (scenario, aggregation, index) == ("two-arms", "tree-sums", "ucb")
        return None if hole else 2.0 if index == "ucb" else 1.5

    plan = make_matrix(["two-arms", "few-agents"], **PARTS)
    (part,) = split(plan, made_up(plan, holed))
    axes = draw(part).axes[0]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    columns = [label.get_text() for label in axes.get_xticklabels()]
    assert rows[:2] == ["overall", "central-totals"]
    assert columns[0] == "overall"
    shown = {text.get_position(): text.get_text() for text in axes.texts}
    at = columns.index("ucb") + 0.5
    assert shown[at, rows.index("tree-sums") + 0.5] == "–"
    assert shown[at, rows.index("flooded-pulls") + 0.5] == "2.00"


def test_the_whole_matrix_can_be_read() -> None:
    plan = make_matrix()
    scores = made_up(plan, lambda *_: 123.4)
    parts = list(split(plan, scores))
    assert [part.kind for part in parts] == ["gaussian", "bernoulli", "faults"]
    assert [len(part.scenarios) for part in parts] == [15, 3, 17]
    text = as_text(plan, parts)
    columns = 1 + len(plan.indices)  # 9 characters each, with names on two lines
    assert max(map(len, text.splitlines())) <= 18 + 9 * columns
    assert len(grid_rows(parts[0].grid)) == 1 + len(plan.aggregations) + 1
    assert as_csv(plan, scores).count("\n") == 1 + len(scores)

"""The leaderboard on disk and on screen: complete, true, and done once."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coopbandits import Cell, InputError, Result, SweepInterrupted
from coopbandits.experiments.leaderboard import as_csv, as_text, deliver, draw, group, play
from coopbandits.experiments.scores import Score, score
from coopbandits.experiments.suite import Plan, make_plan
from coopbandits.sim.ledger import Ledger

PLAN = make_plan(["few-agents", "fair-coins"], ["dducb", "dec-ts"], runs=3, seed=4, horizon=40)
FILES = {
    *(f"leaderboard.{ending}" for ending in ("csv", "svg", "png", "html")),
    "traffic.svg",
    "traffic.png",
}


@pytest.fixture
def thread() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture(scope="module")
def delivered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[Score]]:
    """A finished leaderboard: its folder, its text, its scores."""
    folder = tmp_path_factory.mktemp("board")
    with ThreadPoolExecutor(1) as executor:
        done = play(PLAN, folder, executor)
    return folder, deliver(PLAN, done, folder), score(PLAN, done.results)


Delivered = tuple[Path, str, list[Score]]


def test_files(delivered: Delivered) -> None:
    folder, text, scores = delivered
    assert {path.name for path in folder.iterdir()} == {*FILES, "meta.json", "cells"}
    assert text.startswith(as_text(PLAN, list(group(PLAN, scores))))
    last = text.splitlines()[-1]
    assert last.startswith(f"written to {folder}: ")
    assert all(name in last for name in FILES)
    assert (folder / "leaderboard.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "leaderboard.svg").read_text().rstrip().endswith("</svg>")


def test_the_table_on_disk_is_exact(delivered: Delivered) -> None:
    folder, _, scores = delivered
    with (folder / "leaderboard.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(scores) == 2 * 3
    for line, row in zip(lines, scores, strict=True):
        assert (line["scenario"], line["policy"], line["played"]) == (
            row.scenario, row.policy, row.played,
        )  # fmt: skip
        assert line["bonus_constant"] == ("4.0" if row.policy == "dducb" else "")
        numbers = {
            "mean": row.mean, "mean_low": row.interval[0], "mean_high": row.interval[1],
            "quantile_95": row.quantile, "values_per_agent_round": row.values,
            "score": row.score, "score_low": row.score_interval[0],
            "score_high": row.score_interval[1], "rank": row.rank,
            "worst_agent": row.worst_agent, "blind": 0.0,
        }  # fmt: skip
        assert {key: float(line[key]) for key in numbers} == numbers
        assert 0.0 < row.worst_agent <= row.mean
        other = {"scenario", "policy", "played", "bonus_constant", "score_common"}
        assert set(line) == {*other, *numbers}
        assert float(line["score_common"]) == row.common or row.policy != "dducb"
        assert math.isnan(row.common) == (line["bonus_constant"] == "")


def test_the_companion_says_where_it_comes_from(delivered: Delivered) -> None:
    meta = json.loads((delivered[0] / "meta.json").read_text())
    assert meta["settings"]["seed"] == 4
    assert meta["settings"]["policies"] == list(PLAN.policies)
    assert [scenario["graph"] for scenario in meta["settings"]["scenarios"]] == [
        "cycle:5", "cycle:30",
    ]  # fmt: skip
    assert set(meta["versions"]) >= {"coopbandits", "numpy", "numba"}


def test_the_page_has_a_table_for_every_scenario(delivered: Delivered) -> None:
    page = (delivered[0] / "leaderboard.html").read_text()
    for scenario in PLAN.scenarios:
        assert f"<h2>{scenario.name}: {scenario.probes}</h2>" in page
    assert page.count("<table>") == 1 + len(PLAN.scenarios)
    assert page.count("dec-ts:family=bernoulli") == 1
    assert "<svg" in page


def test_the_text_names_the_best_decentralised_policy(delivered: Delivered) -> None:
    _, text, scores = delivered
    lines = text.splitlines()
    assert lines[0] == (
        "2 scenarios where all is well, 3 runs each, seed 4; "
        "scores are mean regrets relative to central-ts"
    )
    for scenario in PLAN.scenarios:
        own = [row for row in scores if row.scenario == scenario.name and row.decentralised]
        best = min(own, key=lambda row: row.mean)
        (line,) = (line for line in lines if line.startswith(scenario.name))
        assert line.split()[1] == "40"
        assert f"  {best.policy}  " in line


def test_the_figure_has_the_best_on_top(delivered: Delivered) -> None:
    scores = delivered[2]
    (part,) = group(PLAN, scores)
    overall = part.standings
    axes = draw(part).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [s.policy for s in overall]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "overall", "few-agents", "fair-coins",
    ]  # fmt: skip
    shown = {text.get_position(): text.get_text() for text in axes.texts}
    for at, standing in enumerate(overall):
        (row,) = (r for r in scores if (r.policy, r.scenario) == (standing.policy, "fair-coins"))
        assert float(shown[2.5, at + 0.5]) == pytest.approx(row.score, abs=0.006)


def made_up(plan: Plan) -> list[Score]:
    """Scores of a whole suite, wide numbers."""
    return [
        Score(
            scenario=scenario.name, policy=policy, played=policy, decentralised=True,
            bonus_constant=2.02, mean=123456.7 + at, interval=(123000.0, 124000.0),
            quantile=130000.0, values=1234.56, score=(123456.7 + at) / 123456.7,
            score_interval=(1000.0, 1200.0), rank=at + 1, common=1234.5,
        )
        for scenario in plan.scenarios
        for at, policy in enumerate(dict.fromkeys((scenario.yardstick, *plan.policies)))
    ]  # fmt: skip


def test_the_whole_suite_fits_into_a_hundred_columns() -> None:
    plan = make_plan()
    scores = made_up(plan)
    groups = list(group(plan, scores))
    text = as_text(plan, groups)
    assert max(map(len, text.splitlines())) <= 100
    rows = len(groups) * len(plan.policies) + len(plan.scenarios)
    assert len(text.splitlines()) <= rows + 8 * len(groups), "heads and notes are short"
    assert all(f" {policy} " in text for policy in plan.policies)
    assert all(f"\n{scenario.name} " in text for scenario in plan.scenarios)
    assert as_csv(scores).count("\n") == 1 + len(scores)


@pytest.mark.slow
def test_faults_are_a_table_and_a_figure_of_their_own(tmp_path: Path, thread: Executor) -> None:
    plan = make_plan(["two-arms", "loss-30"], ["tree-ts", "dducb"], runs=2, horizon=30)
    assert plan.policies == ("tree-ts", "dducb", "central-ts", "flood-ts")
    played = play(plan, tmp_path, thread)
    assert {cell.faults.spelling for cell, _ in played.results} == {"none", "loss=0.3"}
    text = deliver(plan, played, tmp_path)
    assert (tmp_path / "bad-networks.png").read_bytes().startswith(b"\x89PNG")
    well, ill = group(plan, score(plan, played.results))
    assert [standing.policy for standing in well.standings].count("dducb") == 1
    assert "dducb" not in [standing.policy for standing in ill.standings]  # no kernel for faults
    assert [row.score for row in ill.scores if row.policy == "flood-ts"] == [1.0]
    assert "1 scenario with faults, 2 runs each, seed 0" in text


@pytest.mark.slow
def test_policies_that_look_at_no_features_are_told_apart(tmp_path: Path, thread: Executor) -> None:
    plan = make_plan(["linear", "two-arms"], ["tree-sums*lin-ts", "tree-ts"], runs=2, horizon=40)
    text = deliver(plan, play(plan, tmp_path, thread), tmp_path)
    without, told = text.split("1 scenario with features, 2 runs each, seed 0")
    assert "blind" not in without
    assert told.count("tree-ts (blind)") == told.count("central-ts (blind)") == 1
    assert "lin-ts (blind)" not in told
    assert "blind: " in text
    (line,) = (line for line in text.splitlines() if line.startswith("linear"))
    assert "  tree-sums*lin-ts  " in line
    with (tmp_path / "leaderboard.csv").open(newline="") as file:
        marks = {(row["scenario"], row["policy"]): row["blind"] for row in csv.DictReader(file)}
    assert marks == {
        ("linear", "tree-sums*lin-ts"): "0", ("linear", "tree-ts"): "1",
        ("linear", "central-ts"): "1", ("linear", "central-totals*lin-ts"): "0",
        ("two-arms", "tree-ts"): "0", ("two-arms", "central-ts"): "0",
    }  # fmt: skip
    assert (tmp_path / "contexts.svg").exists()
    assert "tree-ts (blind)" in (tmp_path / "leaderboard.html").read_text()


def test_central_policies_alone(tmp_path: Path, thread: Executor) -> None:
    plan = make_plan(["two-arms"], ["central-ucb"], runs=1, horizon=30)
    text = deliver(plan, play(plan, tmp_path, thread), tmp_path)
    (line,) = (line for line in text.splitlines() if line.startswith("two-arms"))
    assert line.split()[-2:] == ["–", "–"]
    assert "[" not in text  # one run has no intervals


@pytest.mark.slow
def test_a_second_start_plays_nothing(
    delivered: Delivered, monkeypatch: pytest.MonkeyPatch, thread: Executor
) -> None:
    folder, text, _ = delivered
    before = {path.name: path.read_bytes() for path in folder.glob("leaderboard.*")}

    def never(*arguments: Any) -> None:
        raise AssertionError("nothing is missing")

    monkeypatch.setattr(Ledger, "store", never)
    assert deliver(PLAN, play(PLAN, folder, thread), folder) == text
    assert {path.name: path.read_bytes() for path in folder.glob("leaderboard.*")} == before


@pytest.mark.parametrize("wish", [{"runs": 2}, {"seed": 5}, {"horizon": 41}, {"policies": []}])
def test_other_settings_are_refused(delivered: Delivered, wish: dict[str, Any]) -> None:
    wishes: dict[str, Any] = {
        "scenarios": ["few-agents", "fair-coins"], "policies": ["dducb", "dec-ts"], "runs": 3,
        "seed": 4, "horizon": 40,
    }  # fmt: skip
    other = make_plan(**(wishes | wish))
    with pytest.raises(InputError, match="other settings"):
        play(other, delivered[0])


def test_no_workers_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"workers.* 0\b"):
        play(PLAN, tmp_path / "out", workers=0)
    assert not (tmp_path / "out").exists()


def test_interrupted_and_resumed(
    delivered: Delivered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thread: Executor
) -> None:
    store = Ledger.store
    stored: list[str] = []
    allowed = 2

    def store_some(self: Ledger, cell: Cell, result: Result) -> None:
        if len(stored) == allowed:
            raise KeyboardInterrupt
        store(self, cell, result)
        stored.append(cell.id)

    monkeypatch.setattr(Ledger, "store", store_some)
    with pytest.raises(SweepInterrupted, match="2 of 8 cells"):
        play(PLAN, tmp_path, thread)
    with pytest.raises(InputError, match="other settings"):
        play(make_plan(runs=9), tmp_path, thread)

    allowed = 8
    done = play(PLAN, tmp_path, thread)
    assert len(stored) == len(set(stored)) == 8
    assert as_csv(score(PLAN, done.results)) == (delivered[0] / "leaderboard.csv").read_text()

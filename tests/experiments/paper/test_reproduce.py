from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopbandits import InputError, Result, SweepInterrupted, read_experiment, sweep
from coopbandits.experiments.paper import Reproduction, reproduce
from coopbandits.experiments.paper.play import make_part
from coopbandits.experiments.paper.settings import FIGURES, LINES

from .synthetic import HORIZON, NAMES, RUNS

EXAMPLE = Path(__file__).parents[3] / "examples" / "paper.toml"
SMALL: dict[str, Any] = {"runs": RUNS, "seed": 5, "horizon": HORIZON, "progress": False}


def regrets(found: Reproduction) -> dict[str, np.ndarray[Any, Any]]:
    return {one.figure.name: one.result.regret.values for one in found.played}


def test_figures_with_all_lines(small: Reproduction) -> None:
    assert tuple(one.figure.name for one in small.played) == NAMES
    for one in small.played:
        assert one.lines == LINES
        assert one.result.regret.shape[:2] == (len(LINES), RUNS)
        assert one.result.horizon == HORIZON
    assert [row.label for row in small.agreements] == ["DDUCB", "DDUCB, bonus 4η"]
    assert small.agrees


@pytest.mark.slow
def test_a_second_start_plays_nothing(
    small: Reproduction, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coopbandits.experiments.paper.play.simulate", None)
    again = reproduce(folder, ["grid-100"], **SMALL)
    assert np.array_equal(regrets(again)["grid-100"], regrets(small)["grid-100"])


@pytest.mark.slow
def test_threads_change_nothing(small: Reproduction, tmp_path: Path) -> None:
    one = reproduce(tmp_path, ["grid-100"], threads=1, **SMALL)
    assert np.array_equal(regrets(one)["grid-100"], regrets(small)["grid-100"])


def test_interrupted_and_resumed(
    small: Reproduction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["coopbandits.experiments.paper.play"]
    simulate = module.simulate
    calls: list[str] = []

    def stopped(problem: Any, network: Any, policy: Any, *more: Any, **keywords: Any) -> Result:
        calls.append(policy.spelling)
        if len(calls) == 4:
            raise KeyboardInterrupt
        result: Result = simulate(problem, network, policy, *more, **keywords)
        return result

    monkeypatch.setattr(module, "simulate", stopped)
    with pytest.raises(SweepInterrupted) as stop:
        reproduce(tmp_path, ["cycle-100"], **SMALL)
    assert f"3 of 12 cells are in {tmp_path}" in str(stop.value)
    found = reproduce(tmp_path, ["cycle-100"], **SMALL)
    assert len(calls) == 4 + 9  # the fourth once more, those before it not again
    assert np.array_equal(regrets(found)["cycle-100"], regrets(small)["cycle-100"])


@pytest.mark.parametrize("change", [{"runs": 2}, {"seed": 6}, {"horizon": 61}])
def test_results_of_other_settings_are_left_alone(
    small: Reproduction, folder: Path, change: dict[str, int]
) -> None:
    before = (folder / "meta.json").read_bytes()
    with pytest.raises(InputError, match="other settings"):
        reproduce(folder, **(SMALL | change))
    assert (folder / "meta.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"figures": ["grid-10"]}, "'grid-10'.*'grid-100'"),
        ({"runs": 0}, "runs is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"threads": 1000}, "threads is 1000"),
        ({"figures": ["grid-225"], "check": True}, "grid-225"),
    ],
)
def test_bad_input_leaves_nothing_behind(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        reproduce(tmp_path / "out", **(SMALL | arguments))
    assert not (tmp_path / "out").exists()


def test_the_example_file_has_the_same_cells() -> None:
    """All but the line whose policy hangs on the graph; silent lines are played on one graph."""
    lines = [line for line in LINES if line.key != "unaccelerated"]
    parts = [make_part(f, line, 10_000, 10, 0) for f in FIGURES.values() for line in lines]
    theirs = {cell.id: cell for cell in read_experiment(EXAMPLE)}
    assert {part.cell.id for part in parts} <= theirs.keys()
    assert {str(cell) for cell in theirs.values()} == {
        f"{line.policy(f.network).spelling} on {f.graph}, seed 0"
        for f in FIGURES.values()
        for line in lines
    }
    left_out = re.findall(r"mixing_rounds=(\d+)", EXAMPLE.read_text())
    assert left_out == [f"{FIGURES['cycle-100'].network.mixing_rounds()}"]


@pytest.mark.parametrize("place", ["thread", pytest.param("process", marks=pytest.mark.slow)])
def test_a_sweep_gives_the_same_numbers(small: Reproduction, tmp_path: Path, place: str) -> None:
    """In a process of its own, or in one thread as such a process would play it."""
    overrides = [
        *(f"horizon={HORIZON}", f"runs={RUNS}", "seeds=[5]", 'graphs=["grid:10x10"]'),
        'policies=["dducb", "coop-ucb:gamma=1.01"]',
    ]
    cells = read_experiment(EXAMPLE, overrides)
    with ThreadPoolExecutor(1) if place == "thread" else nullcontext() as executor:
        done = sweep(cells, tmp_path, executor, workers=1, progress=False)
    one = small.played[1].result
    assert len(done.results) == 2
    for cell, result in done.results:
        expected = one.regret.sel(policy=cell.policy.spelling)
        assert np.array_equal(result.regret.isel(policy=0), expected)


def test_a_wrong_oracle_is_noticed_and_an_audit_is_run_when_asked_for(
    small: Reproduction, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def run_audit(*arguments: Any) -> list[Any]:
        asked.append(arguments)
        return ["finding"]

    monkeypatch.setattr("coopbandits.experiments.audit.run_audit", run_audit)
    assert small.agrees
    assert small.audit == ()
    wrong = {"cycle-100": {"dducb": (1.0, 0.1)}}
    found = reproduce(folder, ["cycle-100"], check=True, oracle=wrong, audit=True, **SMALL)
    assert not found.agrees
    assert found.audit == run_audit()
    assert asked == [(RUNS, 5, HORIZON, False), ()]

"""Own parts from entry points, in experiment files and on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import coopbandits as cb
from coopbandits.network import parse_graph
from coopbandits.problems import make_problem

from .playing import Command, Mine


def test_entry_points(package: Mine) -> None:
    policy = cb.parse_policy("offered-policy:constant=2")
    assert (policy, policy.spelling) == (package.MyPolicy(2.0), "offered-policy:constant=2")
    assert package.MyPolicy().spelling == "offered-policy"
    assert cb.parse_problem("offered-problem:gap=1") == package.MyProblem(1)
    assert make_problem("own", {"kind": "offered-problem", "gap": 1}) == package.MyProblem(1)
    assert cb.parse_problem("offered-lottery:0.5,0.2") == package.MyLottery([0.5, 0.2])
    assert cb.parse_faults("offered-fault=0.3") == cb.Faults(package.MyLoss(0.3))
    assert cb.Faults(package.MyLoss(0.3)).spelling == "offered-fault=0.3"
    assert cb.Network.from_spec("offered-wheel:6").num_edges == 10
    clocks = cb.parse_clocks("offered-clocks")
    assert (clocks, clocks and clocks.spelling) == (package.MyClocks(), "offered-clocks")
    with pytest.raises(cb.InputError, match=r"offered-wheel:SIZE\[,seed=S\]"):
        parse_graph("offered-wheel:six")


EXPERIMENT = """
horizon = 12
runs = 1
policies = ["{0}:MyPolicy:constant=2", "gossip-ts"]
graphs = ["{0}:wheel:5"]
faults = ["{0}:MyLoss=0.5"]
[problems]
lottery = "{0}:MyLottery:0.5,0.25,prize=2"
[problems.mine]
kind = "{0}:MyProblem"
gap = 1.0
"""


@pytest.mark.slow  # one of an installed package is played so in every run
def test_an_experiment_in_worker_processes(mine: Mine, folder: Path) -> None:
    (folder / "e.toml").write_text(EXPERIMENT.format("my_module"))
    cells = cb.read_experiment(folder / "e.toml")
    assert cells[0].settings["policy"] == "my_module:MyPolicy:constant=2"
    done = cb.sweep(cells, folder / "ledger", workers=1, progress=False)
    assert not done.failed
    for cell, result in done.results:
        assert result.policies == [cell.policy.spelling]
        assert result.meta["settings"]["faults"] == "my_module:MyLoss=0.5"
    assert cb.sweep(cells, folder / "ledger", progress=False).results[0][1].policies


def test_the_command_finds_modules_in_the_current_folder(command: Command, tmp_path: Path) -> None:
    done = command(
        "simulate", "--graph", "my_module:wheel:5", "--policy", "my_module:MyPolicy:constant=2",
        "--problem", "my_module:MyProblem:gap=1,arms=2", "--faults", "my_module:Nap=0.1",
        "--horizon", "10", "--runs", "1", "--out", "out", "--no-figures",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = cb.Result.load(tmp_path / "out")
    assert result.policies == ["my_module:MyPolicy:constant=2"]
    assert result.meta["settings"]["problem"] == {"problem": "own", "means": [1.0, 0.0]}


@pytest.mark.slow
def test_experiments_find_modules_in_the_current_folder(command: Command, tmp_path: Path) -> None:
    fewer = EXPERIMENT.replace(', "gossip-ts"', "").partition("[problems.mine]")[0]
    (tmp_path / "e.toml").write_text(fewer.format("my_module"))
    done = command("run", "e.toml", "--out", "swept", "--workers", "1")
    assert done.returncode == 0, done.stderr

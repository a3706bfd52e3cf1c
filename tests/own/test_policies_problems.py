"""Users' own policies and problems, by name, wherever ours are named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.problems import make_problem

from .playing import SOURCE, Mine, play

# Policies


def test_policies(mine: Mine) -> None:
    for policy, spelling in [
        (mine.MyPolicy(), "my_module:MyPolicy"),
        (mine.MyPolicy(2.0), "my_module:MyPolicy:constant=2"),
        (mine.Needy(2.5, 3), "my_module:Needy:constant=2.5,step=3"),
    ]:
        assert policy.spelling == spelling
        assert cb.parse_policy(spelling) == policy
    assert type(cb.parse_policy("my_module:Plain")) is mine.Plain
    result = play(policy=[cb.parse_policy("my_module:MyPolicy:constant=2"), cb.IndependentUCB()])
    assert result.policies == ["my_module:MyPolicy:constant=2", "independent-ucb"]
    assert np.array_equal(*result.regret.values)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("my_module:MyPolcy", "'MyPolcy'.*'MyPolicy'"),
        (
            "my_module:MyPolicy:contsant=2",
            "my_module:MyPolicy 'contsant'.*'constant'",
        ),
        ("my_module:Plain:constant=2", "my_module:Plain.*'constant=2'"),
        ("my_module:MyLoss", r"my_module:MyLoss\b.*class"),
        ("my_module:Thawed", "my_module:Thawed.*frozen dataclass"),
        (
            "my_module:Needy:step=-1",
            "my_module:Needy.*ValueError: step must not be negative",
        ),
    ],
)
def test_policies_refused(mine: Mine, text: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        cb.parse_policy(text)


@pytest.mark.slow
def test_a_class_of_the_script_keeps_its_name() -> None:
    source = f"{SOURCE}\nprint(MyPolicy(2.0).spelling, Needy().spelling)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("mine:constant=2 Needy\n", "")


# Problems


def test_problems(mine: Mine) -> None:
    expected = mine.MyProblem(0.5, arms=2)
    table = {"kind": "my_module:MyProblem", "gap": 0.5, "arms": 2}
    assert make_problem("mine", table) == expected
    assert cb.parse_problem("my_module:MyProblem:gap=0.5,arms=2") == expected
    assert cb.parse_problem("my_module:MyProblem: means = 1, 0x2 ,gap=0") == mine.MyProblem(
        0, means=[1.0, 0.0, 0.0]
    )
    assert cb.parse_problem("my_module:two_arms:gap=0.5") == cb.GaussianBandit([0.5, 0.0])
    same = [play(problem) for problem in (expected, cb.GaussianBandit([0.5, 0.0]))]
    assert same[0].regret.equals(same[1].regret)


@pytest.mark.plays
def test_a_reward_function_is_played_by_every_engine(mine: Mine) -> None:
    problem = cb.parse_problem("my_module:MyLottery:0.5,0.25,0.125,prize=8")
    assert problem == mine.MyLottery([0.5, 0.25, 0.125], 8.0)
    fast, slow = (play(problem, engine=engine, keep="arms") for engine in ("auto", "reference"))
    assert fast.meta["engines"] == ["cpu"]
    assert fast.arms.equals(slow.arms)
    np.testing.assert_allclose(fast.realized_regret, slow.realized_regret, atol=1e-9)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gaussian:means=1,0.8x2", cb.GaussianBandit([1.0, 0.8, 0.8])),
        ("gaussian:means=1, 0.8x2, sigma=2", cb.GaussianBandit([1.0, 0.8, 0.8], 2.0)),
        ("gaussian:sigma=1/2,means=-1,1e-1", cb.GaussianBandit([-1.0, 0.1], 0.5)),
        ("bernoulli:means=0.5x1", cb.BernoulliBandit([0.5])),
        ("beta:a=2,1,b=1,3", cb.BetaBandit([2, 1], [1, 3])),
    ],
)
def test_spelled_problems(text: str, problem: cb.Problem) -> None:
    assert cb.parse_problem(text) == problem


def test_a_spelled_log(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("left,right\n1,0\n3,4\n")
    problem = cb.parse_problem(f"logged:file={tmp_path}/log.csv,sigma=0.5")
    assert (problem.means.tolist(), problem.sigma) == ([2.0, 2.0], 0.5)


@pytest.mark.parametrize("text", ["bernoulli:0.5", "bernoulli:means=0.5", "beta:a=2,b=2"])
def test_one_number_is_a_list_of_one(text: str) -> None:
    assert cb.parse_problem(text).means.tolist() == [0.5]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gausian:means=1", "'gausian'.*'gaussian'"),
        ("gaussian", r"gaussian.*\bmeans\b"),
        ("gaussian:means", "'means'.*gaussian.*name=value"),
        ("gaussian:means=1,means=2", "means.*gaussian.*twice"),
        ("gaussian:means=1,0,sigme=2", "gaussian 'sigme'.*'sigma'"),
        ("gaussian:means=1,x", "'x'"),
        ("my_module:MyProblem", r"my_module:MyProblem.*\bgap\b"),
        ("my_module:MyProblem:gpa=1", "my_module:MyProblem 'gpa'.*'gap'"),
        ("my_module:two_arms:gap=wide", "means.*wide"),
        (
            "my_module:MyProblem:gap=1,arms=0.5",
            r"my_module:MyProblem\b",
        ),
        ("my_module:no_problem", r"my_module:no_problem.* 3\b.*class"),
        ("my_module:no_problem:k=1", "my_module:no_problem.*'k'"),
        ("my_module:MyPolicy", r"my_module:MyPolicy\b.*class"),
        ("my_module:MyProblme", "'MyProblme'.*'MyProblem'"),
    ],
)
def test_problems_refused(mine: Mine, text: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        cb.parse_problem(text)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"kind": "my_module:MyProblem"}, r"'own'.*my_module:MyProblem.*\bgap\b"),
        ({"kind": "my_module:MyProblem", "gpa": 1}, "'own' 'gpa'.*'gap'"),
        (
            {"kind": "gaussian:means=1"},
            "'own'.*'gaussian:means=1'.*means=1",
        ),
        ({"kind": "no_module:X"}, "no_module:X"),
    ],
)
def test_tables_refused(mine: Mine, table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        make_problem("own", table)

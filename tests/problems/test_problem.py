from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from coopbandits.core.errors import InputError
from coopbandits.problems import (
    BernoulliBandit,
    BetaBandit,
    BoundedBandit,
    GaussianBandit,
    LoggedBandit,
    Problem,
)


def make() -> list[Problem]:
    return [
        GaussianBandit([0.8, 1.0, 0.8], sigma=0.5),
        BernoulliBandit([0.2, 0.9, 0.5]),
        BetaBandit([1.0, 3.0, 0.5], [1.0, 1.0, 0.5]),
        BoundedBandit([stats.uniform(0, 2), stats.triang(0.5, 1, 1), stats.arcsine(0, 1)], high=2),
        LoggedBandit([[0.0, 2.0, 1.0], [1.0, 3.0, np.nan]], arm_names=["a", "b", "c"]),
    ]


PROBLEMS = make()
names = [type(problem).__name__ for problem in PROBLEMS]


@pytest.mark.parametrize("problem", PROBLEMS, ids=names)
def test_contract(problem: Problem) -> None:
    assert problem.num_arms == 3
    assert problem.best_arm == 1
    assert problem.means.dtype == np.float64
    np.testing.assert_array_equal(problem.gaps, problem.means.max() - problem.means)
    assert problem.gaps[problem.best_arm] == 0
    assert not problem.means.flags.writeable
    assert not problem.gaps.flags.writeable
    form = problem.kernel_form()
    assert form.table.shape[0] == 3
    assert form.table.dtype == np.float64
    assert form.table.flags["C_CONTIGUOUS"]
    assert not form.table.flags.writeable
    assert type(problem.sigma) is float


@pytest.mark.parametrize("problem", PROBLEMS, ids=names)
def test_rewards_have_the_stated_means(problem: Problem) -> None:
    uniform = (np.arange(2**18) + 0.5) / 2**18
    variates = ndtri(uniform) if problem.variate == "normal" else uniform
    for arm, mean in enumerate(problem.means):
        rewards = problem.rewards(np.full(variates.size, arm), variates)
        assert rewards.mean() == pytest.approx(mean, abs=5e-6)
        assert rewards.std() <= problem.sigma * (1 + 1e-9)


@pytest.mark.parametrize("problem", PROBLEMS, ids=names)
def test_shapes_pass_through(problem: Problem) -> None:
    assert problem.rewards(np.zeros((2, 0), dtype=int), np.zeros((2, 0))).shape == (2, 0)
    assert problem.rewards(np.ones((2, 3), dtype=np.int32), np.full((2, 3), 0.5)).shape == (2, 3)
    assert problem.rewards(0, 0.5).shape == ()


@pytest.mark.parametrize("place", range(len(names)), ids=names)
def test_equal_settings_make_equal_problems(place: int) -> None:
    one, two = PROBLEMS[place], make()[place]
    assert one == two
    assert hash(one) == hash(two)
    assert all(one != other for other in PROBLEMS if other is not one)
    assert json.loads(json.dumps(one.describe())) == two.describe()
    assert isinstance(one.describe()["problem"], str)


def test_other_settings_make_other_problems() -> None:
    assert GaussianBandit([1.0]) != GaussianBandit([1.0], sigma=2.0)
    assert GaussianBandit([0.5]) != BernoulliBandit([0.5])
    assert LoggedBandit({0: [0.0, 1.0]}) != LoggedBandit({0: [0.0, 0.5, 1.0]})


def test_repr_is_short() -> None:
    assert repr(GaussianBandit([1.0] + [0.8] * 16)) == (
        "GaussianBandit(means=[1.0, 0.8x16], sigma=1.0)"
    )
    assert len(repr(GaussianBandit(np.arange(1000) / 7))) < 250


def test_ties_give_the_lowest_best_arm() -> None:
    assert GaussianBandit([0.0, 1.0, 1.0]).best_arm == 1


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20))
def test_gaps_are_never_negative(means: list[float]) -> None:
    problem = GaussianBandit(means)
    assert problem.gaps.min() == 0
    assert problem.means[problem.best_arm] == max(means)


@pytest.mark.parametrize(
    ("arms", "variates", "sentence"),
    [
        ([0, 1], [0.5], r"\(2,\).*\(1,\)"),
        ([3], [0.5], r"arm 3\b.* 0 to 2\b"),
        ([0, -1], [0.5, 0.5], r"arm -1\b"),
        (7, 0.5, r"arm 7\b"),
        ([0.0], [0.5], "float64"),
    ],
)
def test_wrong_pulls_are_refused(arms: Any, variates: Any, sentence: str) -> None:
    for problem in PROBLEMS:
        with pytest.raises(InputError, match=sentence):
            problem.rewards(arms, variates)


def test_importing_is_light() -> None:
    heavy = "{'scipy', 'pandas', 'pyarrow', 'numba'}"
    code = f"import sys, coopbandits.problems; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from coopbandits.core.errors import InputError
from coopbandits.problems import GaussianBandit


def test_paper_instance() -> None:
    problem = GaussianBandit(means=[1.0] + [0.8] * 16)
    assert (problem.num_arms, problem.best_arm, problem.sigma) == (17, 0, 1.0)
    assert problem.variate == "normal"
    np.testing.assert_allclose(problem.gaps, [0.0] + [0.2] * 16)


def test_mean_and_variance() -> None:
    problem = GaussianBandit([-1.0, 2.0], sigma=3.0)
    normals = ndtri((np.arange(10**5) + 0.5) / 10**5)
    rewards = problem.rewards(np.ones(normals.size, dtype=int), normals)
    assert rewards.mean() == pytest.approx(2.0, abs=1e-9)
    assert rewards.var() == pytest.approx(9.0, rel=1e-3)


def test_one_arm() -> None:
    problem = GaussianBandit([0.3])
    assert problem.gaps.tolist() == [0.0]
    assert problem.rewards([0], [2.0]).tolist() == [2.3]


@pytest.mark.parametrize(
    ("means", "sigma", "sentence"),
    [
        ([], 1.0, "means.*no arms"),
        ([1.0, float("nan")], 1.0, r"means.*arm 1\b.* nan"),
        ([[1.0], [2.0]], 1.0, r"means.*\(2, 1\)"),
        ([1.0], 0.0, r"sigma.* 0\.0"),
        ([1.0], -1.0, r"sigma.* -1\.0"),
        ([1.0], float("inf"), "sigma.* inf"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], "sigma.* 3 .* 2 arms"),
        ([1.0, 2.0], [1.0, 0.0], r"sigma.*arm 1\b.* 0\.0"),
        ([1.0, 2.0], "wide", "sigma.* 'wide'"),
    ],
)
def test_refuses(means: Any, sigma: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        GaussianBandit(means, sigma)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import hyp1f1

from coopbandits.core.errors import InputError
from coopbandits.problems import BetaBandit, BoundedBandit

MIDPOINTS = (np.arange(2**17) + 0.5) / 2**17


class Law:
    """A distribution whose quantiles and mean are whatever a test wants."""

    def __init__(self, quantile: Any, mean: float) -> None:
        self.quantile, self.stated = quantile, mean

    def ppf(self, q: NDArray[np.float64]) -> Any:
        return self.quantile(q)

    def mean(self) -> float:
        return self.stated


def test_beta_basics() -> None:
    problem = BetaBandit([3.0, 1.0], [1.0, 1.0])
    assert problem.means.tolist() == [0.75, 0.5]
    assert problem.variate == "uniform"
    assert problem.sigma == pytest.approx((1 / 12) ** 0.5)


@pytest.mark.parametrize(("a", "b"), [(2.0, 20.0), (0.05, 2.0), (0.5, 0.5), (5.0, 1.0)])
def test_beta_mean_and_variance_of_rewards(a: float, b: float) -> None:
    rewards = BetaBandit([a], [b]).rewards(np.zeros(MIDPOINTS.size, dtype=int), MIDPOINTS)
    assert rewards.mean() == pytest.approx(a / (a + b), abs=1e-9)
    assert rewards.var() == pytest.approx(stats.beta(a, b).var(), rel=1e-4)
    assert rewards.min() >= 0
    assert rewards.max() <= 1


@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 2.0, 30.0])
@pytest.mark.parametrize("b", [0.05, 1.0, 7.0])
def test_beta_sigma_is_a_proxy(a: float, b: float) -> None:
    x = np.linspace(-40, 40, 161)
    log_mgf = np.log(hyp1f1(a, a + b, x)) - x * a / (a + b)
    assert (log_mgf <= x**2 * BetaBandit([a], [b]).sigma ** 2 / 2 + 1e-12).all()


def test_extreme_beta_parameters() -> None:
    problem = BetaBandit([1e-4, 1e5, 1e-100], [1e-4, 1e5, 1.0])
    rewards = problem.rewards(np.repeat([0, 1, 2], MIDPOINTS.size), np.tile(MIDPOINTS, 3))
    np.testing.assert_allclose(rewards.reshape(3, -1).mean(axis=1), problem.means, atol=1e-8)


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        ([], [], r"\ba\b.*no arms"),
        ([1.0, 2.0], [1.0], r"\ba\b.* 2 .*\bb\b.* 1\b"),
        ([1.0, 0.0], [1.0, 1.0], r"\ba\b.*arm 1\b.* 0\.0"),
        ([1.0], [-2.0], r"\bb\b.*arm 0\b.* -2\.0"),
        ([1.0], [float("inf")], r"\bb\b.*arm 0\b.* inf"),
        ([1.0, 1e20], [1.0, 1e20], r"Beta\(1e\+20, 1e\+20\).*arm 1\b"),
        ([1e308], [1e308], r"arm 0\b.*accurately"),
        ([[1.0]], [1.0], r"\ba\b.*\(1, 1\)"),
    ],
)
def test_beta_refuses(a: Any, b: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        BetaBandit(a, b)


@pytest.mark.parametrize(
    "law",
    [
        stats.uniform(-1, 2),
        stats.triang(0.3, -1, 2),
        stats.truncnorm(-2, 1, loc=0, scale=0.5),
        stats.arcsine(-1, 2),
        stats.beta(2, 20),
        stats.beta(0.05, 2),
        stats.bernoulli(0.3),
        stats.rv_histogram((np.array([1, 0, 3]), np.array([-1, 0, 0.5, 1])), density=True),
    ],
    ids=lambda law: getattr(getattr(law, "dist", law), "name", None),
)
def test_bounded_mean_and_variance_of_rewards(law: Any) -> None:
    problem = BoundedBandit([law], low=-1.0, high=1.0)
    assert problem.means[0] == pytest.approx(law.mean(), abs=1e-9)
    assert problem.sigma == 1.0
    rewards = problem.rewards(np.zeros(MIDPOINTS.size, dtype=int), MIDPOINTS)
    assert rewards.mean() == pytest.approx(problem.means[0], abs=1e-9)
    assert rewards.var() == pytest.approx(law.var(), rel=1e-3)
    assert np.abs(rewards).max() <= 1


def test_bounded_means_are_those_of_the_table() -> None:
    problem = BoundedBandit([stats.beta(2, 5), stats.uniform(0.1, 0.2)])
    np.testing.assert_array_equal(problem.means, problem.kernel_form().table.mean(axis=1))


def test_bounded_takes_the_ulp_beyond_the_interval() -> None:
    assert (
        BoundedBandit([stats.uniform(0.1, 0.2)], low=0.1, high=0.3).kernel_form().table.max() <= 0.3
    )


@pytest.mark.parametrize(
    ("laws", "low", "high", "sentence"),
    [
        ([], 0, 1, "distributions.*no arms"),
        ([stats.norm()], 0, 1, r"arm 0\b.* -7\.0.*low.* 0\.0.*high.* 1\.0"),
        ([stats.uniform(0, 2)], 0, 1, r"arm 0\b.*low.* 0\.0.*high.* 1\.0"),
        ([stats.uniform(0, float("nan"))], 0, 1, r"arm 0\b.* nan"),
        ([stats.uniform()], 1, 0, r"low.* 1\b.*high.* 0\b"),
        ([stats.uniform()], 0, float("inf"), "bounds.* inf"),
        ([stats.uniform(), 0.5], 0, 1, r"arm 1\b.* float\b.*ppf.*mean"),
        ([Law(lambda u: 1 - u, 0.5)], 0, 1, r"ppf.*arm 0\b"),
        ([Law(lambda u: u, 0.6)], 0, 1, r"arm 0\b.* 0\.6\b.* 0\.5\b"),
        ([Law(lambda u: u, float("nan"))], 0, 1, r"arm 0\b.* nan"),
    ],
)
def test_bounded_refuses(laws: Any, low: float, high: float, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        BoundedBandit(laws, low, high)

"""Counts, exponential rewards, heavy tails and mixtures against scipy's quantiles and moments."""

from __future__ import annotations

import json
import math
import pickle  # noqa: TID251  as executors do
from typing import Any

import numpy as np
import pytest
from scipy import stats

from coopbandits import (
    BernoulliBandit,
    ExponentialBandit,
    GaussianBandit,
    InputError,
    MixtureBandit,
    ParetoBandit,
    PoissonBandit,
    Problem,
    StudentTBandit,
    parse_problem,
)

UNIFORM = np.concatenate([(np.arange(4001) + 0.5) / 4001, [1e-12, 1e-6, 1 - 1e-6, 1 - 1e-12]])


def quantiles(problem: Problem, arm: int = 0) -> Any:
    return problem.rewards(np.full(UNIFORM.size, arm), UNIFORM)


@pytest.mark.parametrize("mean", [0.01, 1.0, 2.5, 300.0, 1e6])
def test_poisson_quantiles(mean: float) -> None:
    """Exactly scipy's; beyond a mean of 10⁴ its own are off by one far out."""
    found, expected = quantiles(PoissonBandit([mean])), stats.poisson.ppf(UNIFORM, mean)
    np.testing.assert_allclose(found, expected, atol=0.0 if mean < 1e4 else 1.0, rtol=0)


@pytest.mark.parametrize("mean", [1e-3, 1.0, 77.0])
def test_exponential_quantiles(mean: float) -> None:
    found = quantiles(ExponentialBandit([mean]))
    np.testing.assert_allclose(found, stats.expon.ppf(UNIFORM, scale=mean), rtol=1e-14)


@pytest.mark.parametrize("shape", [0.5, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("scale", [0.1, 2.0])
def test_pareto_quantiles_and_means(shape: float, scale: float) -> None:
    problem = ParetoBandit([shape], scale, cap=50.0)
    exact = stats.pareto(shape, scale=scale)
    np.testing.assert_allclose(quantiles(problem), np.minimum(exact.ppf(UNIFORM), 50.0), rtol=1e-13)
    below = exact.expect(lambda x: x, lb=scale, ub=50.0)
    assert problem.means[0] == pytest.approx(below + 50.0 * exact.sf(50.0), rel=1e-9)


@pytest.mark.covering(2)
@pytest.mark.parametrize("degrees", [2.0, 2.5, 3.0, 10.0, 1e4])
def test_student_quantiles(degrees: float) -> None:
    problem = StudentTBandit([1.0, 1.0], degrees, [1.0, 0.5], cap=1e7)
    expected = stats.t.ppf(UNIFORM, degrees)
    np.testing.assert_allclose(quantiles(problem) - 1.0, expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(quantiles(problem, 1) - 1.0, expected / 2, rtol=1e-10, atol=1e-13)
    cut = StudentTBandit([1.0], degrees, cap=2.0)
    np.testing.assert_allclose(
        quantiles(cut), 1.0 + np.clip(expected, -2.0, 2.0), rtol=1e-10, atol=1e-13
    )


def test_a_mixture_has_the_chances_and_the_parts_it_was_given() -> None:
    calm, rough = GaussianBandit([1.0, 0.0], 0.1), ExponentialBandit([2.0, 3.0])
    problem = MixtureBandit([0.75, 0.25], [calm, rough])
    np.testing.assert_allclose(problem.means, [1.25, 0.75])
    for arm in range(2):
        ends = np.sort(quantiles(problem, arm))
        scale, mean = rough.means[arm], calm.means[arm]
        for at in np.linspace(-0.2, 8.0, 30):
            expected = 0.75 * stats.norm.cdf(at, mean, 0.1) + 0.25 * stats.expon.cdf(
                at, scale=scale
            )
            assert np.searchsorted(ends, at) / ends.size == pytest.approx(expected, abs=2e-3)


def test_a_mixture_of_one_is_that_one() -> None:
    problem = MixtureBandit([1.0], [PoissonBandit([2.0, 3.0])])
    assert np.array_equal(quantiles(problem), quantiles(PoissonBandit([2.0, 3.0])))
    assert problem.sigma == PoissonBandit([2.0, 3.0]).sigma


def test_the_ends_of_a_mixture_are_finite() -> None:
    problem = MixtureBandit([0.5, 0.5], [GaussianBandit([0.0])] * 2)
    assert np.isfinite(problem.rewards(np.zeros(3, int), [0.5, 2.0**-53, 1 - 2.0**-53])).all()


PROBLEMS: list[Problem] = [
    PoissonBandit([0.5, 4.0]),
    ExponentialBandit([0.5, 2.0]),
    ParetoBandit([1.2, 2.5], [1.0, 0.5], cap=30.0),
    StudentTBandit([0.0, 1.0], [2.0, 4.0], [1.0, 0.5], cap=10.0),
    MixtureBandit([0.9, 0.1], [BernoulliBandit([0.1, 0.9]), GaussianBandit([5.0, -5.0])]),
    GaussianBandit([0.0, 1.0], [0.5, 2.0]),
]
names = [type(problem).__name__ for problem in PROBLEMS]


@pytest.mark.parametrize("problem", PROBLEMS, ids=names)
def test_sigma_is_a_variance_proxy(problem: Problem) -> None:
    """On the words of the tape, the rarest included, and tight where Hoeffding's bound is loose."""
    lower = np.concatenate([np.geomspace(2.0**-53, 1e-3, 2000), np.arange(1.1e-3, 0.5, 1e-4)])
    uniform = np.concatenate([lower, 1.0 - lower[::-1]])
    mass = np.gradient(uniform)
    variates = stats.norm.ppf(uniform) if problem.variate == "normal" else uniform
    for arm, mean in enumerate(problem.means):
        away = problem.rewards(np.full(uniform.size, arm), variates) - mean
        for x in np.concatenate([np.geomspace(1e-2, 20, 60), -np.geomspace(1e-2, 20, 60)]):
            size = x / problem.sigma
            top = (size * away).max()
            log_mgf = top + math.log(np.sum(mass * np.exp(size * away - top)))
            assert log_mgf <= x**2 / 2 * 1.01 + 1e-3


@pytest.mark.parametrize("problem", PROBLEMS, ids=names)
def test_problems_are_values(problem: Problem) -> None:
    copied = pickle.loads(pickle.dumps(problem))  # noqa: S301  our own bytes
    assert copied == problem
    drawn = UNIFORM[::50]
    assert np.array_equal(
        copied.rewards(np.ones(drawn.size, int), drawn),
        problem.rewards(np.ones(drawn.size, int), drawn),
    )
    assert json.loads(json.dumps(problem.describe())) == problem.describe()
    assert problem.named(["a", "b"]).arm_names == ("a", "b")
    low, high = problem.bounds or (0.0, 0.0)
    assert low <= problem.means.min() <= problem.means.max() <= high


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("poisson:1,2,3", PoissonBandit([1, 2, 3])),
        ("poisson:means=1x2,sigma=2", PoissonBandit([1, 1], 2.0)),
        ("exponential:1,2", ExponentialBandit([1, 2])),
        ("pareto:1.5,2,cap=1e2", ParetoBandit([1.5, 2], cap=100)),
        (
            "pareto:1.5,2,cap=1e2,scale=1,2,sigma=3",
            ParetoBandit([1.5, 2], [1, 2], cap=100, sigma=3),
        ),
        ("student-t:1,0.8x2,cap=20", StudentTBandit([1, 0.8, 0.8], cap=20)),
        ("student-t:1,0,cap=20,degrees=2,4,scale=2", StudentTBandit([1, 0], [2, 4], 2, cap=20)),
        ("gaussian:1,0.5,sigma=2,0.1", GaussianBandit([1, 0.5], [2, 0.1])),
        (
            "mixture:0.9*gaussian:1,0.5,sigma=0.1+0.1*pareto:2,3,cap=1e+2",
            MixtureBandit(
                [0.9, 0.1], [GaussianBandit([1, 0.5], 0.1), ParetoBandit([2, 3], cap=100)]
            ),
        ),
        (
            "mixture: 1/2 * bernoulli:0.5,0.25 + 1/2 * poisson:1,2",
            MixtureBandit([0.5, 0.5], [BernoulliBandit([0.5, 0.25]), PoissonBandit([1, 2])]),
        ),
    ],
)
def test_spelled(text: str, problem: Problem) -> None:
    assert parse_problem(text) == problem


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pareto:1.5,2", r"pareto.*\bcap\b"),
        ("student-t:1,2", r"student-t.*\bcap\b"),
        ("pareto:1.5,2,cap=1", r"cap.* 1\b.*arm 0\b.* 1\b"),
        ("pareto:1.5,0,cap=9", r"shapes.*arm 1\b.* 0\.0"),
        ("pareto:1.5,2,cap=9,scale=1,2,3", "scale.* 3 .* 2 arms"),
        ("student-t:1,2,cap=0", r"cap.* 0\b"),
        (
            "student-t:1,2,cap=9,degrees=1.5",
            r"degrees.*arm 0\b.* 1\.5.* 2\b",
        ),
        ("poisson:0,1", r"means.*arm 0\b.* 0\.0"),
        ("poisson:1,1e7", r"means.*arm 1\b.* 1e\+07"),
        ("exponential:1,-1", r"means.*arm 1\b.* -1\.0"),
        ("mixture:gaussian:1,2", r"'gaussian:1,2'.*weight.*chance\*"),
        ("mixture:half*gaussian:1,2", r"'half\*gaussian:1,2'.*weight"),
        ("mixture", r"mixture.*\bparts\b"),
        ("mixture:0.5*gaussian:1,2", r"weights.* 0\.5\b.* 1\b"),
        ("mixture:0*gaussian:1,2+1*gaussian:1,2", r"weights.* 0\.0\b"),
        ("mixture:0.5*gaussian:1,2+0.5*gaussian:1,2,3", "2 and 3 arms"),
    ],
)
def test_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_problem(text)


def test_refused_in_python() -> None:
    with pytest.raises(InputError, match=r"\bcap\b"):
        ParetoBandit([1.5])
    with pytest.raises(InputError, match=r"\bcap\b"):
        StudentTBandit([1.5])
    with pytest.raises(InputError, match=r"problem 3\b.*mixture"):
        MixtureBandit([1.0], [3])  # type: ignore[list-item]  # it is refused
    with pytest.raises(InputError, match=r"2 weights.* 1 problem"):
        MixtureBandit([0.5, 0.5], [GaussianBandit([1.0])])

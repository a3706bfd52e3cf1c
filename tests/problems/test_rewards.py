from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from coopbandits.problems import (
    BernoulliBandit,
    BetaBandit,
    BoundedBandit,
    GaussianBandit,
    LoggedBandit,
    Problem,
    reward_from_variate,
)
from coopbandits.problems.rewards import LINEAR, LOCATION_SCALE, STEP, THRESHOLD

LOG = [[0.1, 3.0, np.nan], [0.7, np.nan, -2.0], [0.3, 1.0, np.nan], [1 / 3, np.nan, np.nan]]

PROBLEMS = {
    LOCATION_SCALE: GaussianBandit([1.0, 0.8, -1 / 3], sigma=0.7),
    THRESHOLD: BernoulliBandit([0.0, 1.0, 1 / 3]),
    LINEAR: BetaBandit([0.05, 2.0, 30.0], [2.0, 20.0, 0.5]),
    STEP: LoggedBandit(LOG, reading="wide"),
}

EXTREME = [5e-324, 1e-17, 0.25, 1 / 3, 1 - 2**-53, np.nextafter(1 / 3, 1)]


@pytest.fixture(scope="module")
def compiled() -> Any:
    leaf: Any = numba.njit(reward_from_variate)

    @numba.njit  # type: ignore[untyped-decorator]  # numba is not typed where kernels are
    def kernel(form: Any, arms: Any, variates: Any, out: Any) -> None:
        for i in range(arms.size):
            out[i] = leaf(form.kind, form.table, arms[i], variates[i])

    return kernel


def pulls(problem: Problem) -> tuple[Any, Any]:
    uniform = np.append((np.arange(20011) + 0.5) / 20011, EXTREME)
    variates = ndtri(uniform) if problem.variate == "normal" else uniform
    arms = np.repeat(np.arange(problem.num_arms), variates.size)
    return arms, np.tile(variates, problem.num_arms)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_compiled_leaf_equals_rewards_bit_for_bit(kind: int, compiled: Any) -> None:
    problem = PROBLEMS[kind]
    arms, variates = pulls(problem)
    out = np.empty(arms.size)
    form = problem.kernel_form()
    assert form.kind == kind
    compiled(form, arms, variates, out)
    np.testing.assert_array_equal(
        out.view(np.int64), problem.rewards(arms, variates).view(np.int64)
    )


@pytest.mark.parametrize("kind", PROBLEMS)
def test_plain_leaf_equals_rewards_bit_for_bit(kind: int) -> None:
    problem = PROBLEMS[kind]
    form = problem.kernel_form()
    arms, variates = (column[::97] for column in pulls(problem))
    plain = [reward_from_variate(*form, k, v) for k, v in zip(arms, variates, strict=True)]
    np.testing.assert_array_equal(plain, problem.rewards(arms, variates))
    assert type(plain[0]) is float


def test_tabulated_arms_of_other_kinds_use_the_same_form(compiled: Any) -> None:
    problem = BoundedBandit([stats.triang(0.3, 2, 3)], low=2, high=5)
    arms, variates = pulls(problem)
    out = np.empty(arms.size)
    compiled(problem.kernel_form(), arms, variates, out)
    np.testing.assert_array_equal(out, problem.rewards(arms, variates))


@pytest.mark.parametrize("kind", [THRESHOLD, LINEAR, STEP])
def test_a_variate_rounded_up_to_one_stays_in_the_row(kind: int) -> None:
    problem = PROBLEMS[kind]
    last = reward_from_variate(*problem.kernel_form(), problem.num_arms - 1, 1.0)
    assert last == problem.rewards([problem.num_arms - 1], [1.0])[0]
    assert last == pytest.approx(problem.rewards([problem.num_arms - 1], [1 - 2**-53])[0])


def test_formulas_on_paper() -> None:
    table = np.array([[0.0, 0.5, 0.5, 2.0], [2.0, 7.0, 9.0, 0.0]])
    assert reward_from_variate(LOCATION_SCALE, table, 1, -0.5) == 2.0 - 3.5
    assert reward_from_variate(THRESHOLD, np.array([[0.25]]), 0, 0.2499) == 1.0
    assert reward_from_variate(THRESHOLD, np.array([[0.25]]), 0, 0.25) == 0.0
    assert reward_from_variate(LINEAR, table, 0, 0.25) == 0.25
    assert reward_from_variate(LINEAR, table, 0, 0.75) == 1.25
    assert reward_from_variate(STEP, table, 1, 0.4999) == 7.0
    assert reward_from_variate(STEP, table, 1, 0.5) == 9.0

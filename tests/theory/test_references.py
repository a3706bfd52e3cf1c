from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.problems import BernoulliBandit, GaussianBandit
from coopbandits.theory import is_vacuous, lai_robbins, lower_bound_shape, worst_arm_regret

PROBLEM = GaussianBandit([1.0, 0.5, 0.75], sigma=2.0)
PAW = Network([(1, 2), (2, 3), (1, 3), (3, 4)])


def test_lai_robbins() -> None:
    expected = (2 * 4 / 0.5 + 2 * 4 / 0.25) * math.log(4 * 50)
    assert lai_robbins(PROBLEM, PAW, 50) == pytest.approx(expected, rel=1e-12)


def test_lai_robbins_is_for_normal_rewards() -> None:
    with pytest.raises(InputError, match=r"BernoulliBandit.*GaussianBandit or lower_bound_shape"):
        lai_robbins(BernoulliBandit([0.5, 0.25]), PAW, 50)


def test_lower_bound_shape() -> None:
    expected = (4 / 0.5 + 4 / 0.25) * math.log(50 * 4) + (4 / 3 + 1) * 0.75
    assert lower_bound_shape(PROBLEM, PAW, 50) == pytest.approx(expected, rel=1e-12)


def test_worst_arm_regret() -> None:
    assert worst_arm_regret(PROBLEM, PAW, 50) == 4 * 50 * 0.5
    np.testing.assert_array_equal(worst_arm_regret(PROBLEM, PAW, np.array([1, 2])), [2.0, 4.0])


def test_vacuous_is_more_than_the_worst_arm() -> None:
    assert is_vacuous(100.5, PROBLEM, PAW, 50) is True
    assert is_vacuous(100.0, PROBLEM, PAW, 50) is False


def test_vacuous_along_a_curve() -> None:
    flags = is_vacuous(np.array([50.0, 50.0]), PROBLEM, PAW, np.array([10, 50]))
    np.testing.assert_array_equal(flags, [True, False])


def test_one_value_per_round() -> None:
    with pytest.raises(InputError, match=r"\(3,\).*\(2,\)"):
        is_vacuous(np.ones(3), PROBLEM, PAW, np.array([1, 2]))


def test_lai_robbins_goes_by_the_spread_of_each_arm() -> None:
    problem = GaussianBandit([1.0, 0.5, 0.75], sigma=[5.0, 2.0, 0.5])
    expected = (2 * 4 / 0.5 + 2 * 0.25 / 0.25) * math.log(4 * 50)
    assert lai_robbins(problem, PAW, 50) == pytest.approx(expected, rel=1e-12)


def test_lai_robbins_is_not_for_functions_of_normals() -> None:
    class Cut(GaussianBandit):
        @staticmethod
        def reward(numbers: Any, variate: float) -> float:
            return float(numbers[0] + max(-1.0, min(1.0, variate)))

    with pytest.raises(InputError, match=r"\bCut\b"):
        lai_robbins(Cut([0.5, 0.25]), PAW, 50)

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit
from coopbandits.theory.curves import inverse_gaps, logarithmic, over_rounds, total_gap

PAIR = Network([(0, 1)])


def test_one_round_gives_a_float_and_many_an_array() -> None:
    one = over_rounds(lambda T: 2 * T, 3)
    many = over_rounds(lambda T: 2 * T, np.array([[1, 2], [3, 4]]))
    assert type(one) is float
    assert one == 6.0
    np.testing.assert_array_equal(many, [[2.0, 4.0], [6.0, 8.0]])


def test_numpy_integers_and_no_rounds_at_all() -> None:
    one: Any = np.int64(7)
    assert type(over_rounds(lambda T: T, one)) is float
    assert over_rounds(lambda T: T, np.array([], dtype=int)).shape == (0,)


@pytest.mark.parametrize(
    ("horizon", "sentence"),
    [
        (2.5, r"horizon.* 2\.5"),
        (True, "horizon.* True"),
        ("9", "horizon.* '9'"),
        (0, r"horizon.* 0\b"),
        (np.array([5, -2]), r"horizon.* -2\b"),
    ],
)
def test_what_is_no_number_of_rounds(horizon: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        over_rounds(lambda T: T, horizon)


def test_logarithmic() -> None:
    assert logarithmic(3.0, 5.0, PAIR, 10) == pytest.approx(3 * math.log(20) + 5)


def test_sums_over_gaps() -> None:
    problem = GaussianBandit([1.0, 0.5, 0.75, 1.0], sigma=3.0)
    assert inverse_gaps(problem) == pytest.approx(9 / 0.5 + 9 / 0.25)
    assert total_gap(problem) == pytest.approx(0.5 + 0.25)
    assert inverse_gaps(GaussianBandit([1.0, 1.0])) == 0.0

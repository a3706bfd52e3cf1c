from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.problems.checks import arm_values, frozen, positive_number


def test_arm_values_are_a_frozen_copy() -> None:
    mine = np.array([1.0, 2.0])
    values = arm_values("means", mine)
    mine[0] = 5.0
    assert values.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 3.0


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([], "means.*no arms"),
        ([1.0, float("nan")], r"means.*arm 1\b.* nan"),
        ([float("inf")], r"means.*arm 0\b.* inf"),
        ([[1.0, 2.0]], r"means.*\(1, 2\)"),
        (1.0, r"means.*\(\)"),
        (["a"], r"means.*\['a'\]"),
        ([[1.0], [1.0, 2.0]], "means.*numbers"),
    ],
)
def test_arm_values_refuses(values: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        arm_values("means", values)


def test_long_values_are_shortened_in_the_sentence() -> None:
    with pytest.raises(InputError) as caught:
        arm_values("means", ["word"] * 1000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "one", None, [1, 2]])
def test_positive_number_refuses(value: Any) -> None:
    with pytest.raises(InputError, match=f"sigma.* {re.escape(repr(value))}"):
        positive_number("sigma", value)


def test_positive_number_takes_numpy_scalars() -> None:
    assert type(positive_number("sigma", np.float64(0.5))) is float


def test_frozen_is_contiguous() -> None:
    assert frozen(np.ones((4, 4))[:, ::2]).flags["C_CONTIGUOUS"]

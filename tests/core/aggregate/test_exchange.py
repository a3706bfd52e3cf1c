"""What aggregations share: whether vectors are finite, and how old pulls count."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.core.aggregate.exchange import all_finite, largest


@pytest.mark.parametrize("values", [[], [0.0], [1.0, -2.0], [1e200, -1e200], [1.7e308] * 3])
def test_finite(values: list[float]) -> None:
    assert all_finite(np.array(values, dtype=np.float64))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("size", [1, 2, 34, 1000])
def test_one_value_that_is_not_finite_is_found_anywhere(bad: float, size: int) -> None:
    for at in {0, size // 2, size - 1}:
        values = np.full(size, 1e200)  # squares overflow
        values[at] = bad
        assert not all_finite(values)
        values = np.ones(size)
        values[at] = bad
        assert not all_finite(values)


@pytest.mark.parametrize("size", [3, 300])
def test_the_largest_value(size: int) -> None:
    values = np.linspace(-3.0, 2.0, size)
    assert largest(values) == 3.0
    assert largest(-values) == 3.0
    values[1] = math.nan
    assert math.isnan(largest(values))
    assert largest(values[:0]) == 0.0

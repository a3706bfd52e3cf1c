"""MOSS: a bonus that ends with an arm's share of all pulls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import MOSS, Estimate, InputError

from ..fleet import values_of

ESTIMATE = Estimate(np.array([20.0, 9.0, -1.0]), np.array([80.0, 20.0, 5.0]), 105.0, 5.0)


@pytest.mark.parametrize("horizon", [None, 105, 3000])
@pytest.mark.parametrize("constant", [4.0, 1.5])
def test_formula(horizon: int | None, constant: float) -> None:
    s = 105 if horizon is None else horizon
    expected = []
    for total, count in zip(ESTIMATE.sums, ESTIMATE.counts, strict=True):
        ratio = s / (3 * count)
        bonus = math.sqrt(constant * 0.25 * math.log(ratio) / count) if ratio > 1 else 0.0
        expected.append(total / count + bonus)
    found = values_of(MOSS(horizon, constant), ESTIMATE, sigma=0.5)
    assert found.tolist() == pytest.approx(expected, rel=1e-13)


def test_an_arm_with_its_share_of_pulls_has_no_bonus() -> None:
    assert values_of(MOSS(), ESTIMATE)[0] == 0.25


@pytest.mark.parametrize("count", [0.0, -0.3, 5e-12])
def test_no_information_is_plus_infinity(count: float) -> None:
    values = values_of(MOSS(), ESTIMATE._replace(counts=np.array([80.0, count, 5.0])))
    assert values[1] == math.inf
    assert np.isfinite(values[[0, 2]]).all()


@pytest.mark.parametrize("horizon", [0, -3, 1.5, True, "long"])
def test_horizon_is_a_whole_number(horizon: Any) -> None:
    with pytest.raises(InputError, match=f"horizon.* {horizon!r}"):
        MOSS(horizon)


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan, "big"])
def test_a_bonus_that_is_no_bonus(constant: Any) -> None:
    with pytest.raises(InputError, match=f"constant.* {constant!r}"):
        MOSS(constant=constant)

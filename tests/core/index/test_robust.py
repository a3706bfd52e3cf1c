"""Robust UCB: values by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.core import Estimate, InputError, RobustUCB

from ..fleet import values_of


def test_values_by_hand() -> None:
    known = Estimate(np.array([30.0, 4.0, 0.0]), np.array([20.0, 8.0, 0.0]), 28.0, 2.0)
    for p in (1.25, 2.0):
        found = values_of(RobustUCB(3.0, p), known, sigma=7.0)
        bonus = [4 * 3 ** (1 / p) * (2 * math.log(28) / n) ** ((p - 1) / p) for n in (20, 8)]
        np.testing.assert_allclose(found, [1.5 + bonus[0], 0.5 + bonus[1], math.inf])


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"moment.* 1\b"):
        RobustUCB(moment=1)
    with pytest.raises(InputError, match=r"limit.* 0\b"):
        RobustUCB(0)
    with pytest.raises(InputError, match=r"constant.* 0\b"):
        RobustUCB(constant=0)
    assert RobustUCB().bonus_constant is None

"""Compiled draws and quantiles agree with their sources."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from coopbandits.core import draws
from coopbandits.core.index import quantile
from coopbandits.sim.cpu import indices

KEYS = draws.words(3, np.arange(50_000, dtype=np.uint64))
CUBICS = draws.normal_cubics()


@njit  # type: ignore[untyped-decorator, unused-ignore]  # by numba
def compiled_gammas(keys, shape, cubics):  # type: ignore[no-untyped-def]  # numba infers
    values = np.empty(keys.size)
    for i in range(keys.size):
        values[i] = indices.gamma(keys[i], shape, cubics)
    return values


@pytest.mark.parametrize("shape", [1.0, 1.0 + 1e-9, 1.3, 2.0, 7.7, 100.0, 1e4, 1e6])
def test_gammas(shape: float) -> None:
    """The squeeze, which spares logarithms, changes no decision."""
    expected = draws.gammas(KEYS, np.full(KEYS.size, shape))
    np.testing.assert_allclose(compiled_gammas(KEYS, shape, CUBICS), expected, rtol=1e-12)


def test_huge_gammas() -> None:
    """There the logarithm's last bit may decide between a trial and the next; hardly ever."""
    expected = draws.gammas(KEYS, np.full(KEYS.size, 1e8))
    found = compiled_gammas(KEYS, 1e8, CUBICS)
    assert (np.abs(found / expected - 1.0) < 1e-12).mean() > 0.9999


@pytest.mark.parametrize("tail", [1.0, 0.5, 0.3, 1e-3, 1e-17, 1e-200, 1e-300])
def test_upper_quantile(tail: float) -> None:
    assert indices.upper_quantile(tail) == pytest.approx(quantile.upper_quantile(tail), rel=1e-14)

"""Compiled draws agree with their sources."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from coopbandits.core import draws
from coopbandits.sim.cpu import leaves

KEYS = draws.words(3, np.arange(50_000, dtype=np.uint64))


@njit  # type: ignore[untyped-decorator, unused-ignore]  # by numba
def compiled_gammas(keys, shape):  # type: ignore[no-untyped-def]  # numba infers
    values = np.empty(keys.size)
    for i in range(keys.size):
        values[i] = leaves.gamma_of(keys[i], shape)
    return values


@pytest.mark.parametrize("shape", [1.0, 1.0 + 1e-9, 1.3, 2.0, 7.7, 100.0, 1e4, 1e6])
def test_gammas(shape: float) -> None:
    """That most trials are taken without logarithms changes no variate."""
    expected = draws.gammas(KEYS, np.full(KEYS.size, shape))
    np.testing.assert_allclose(compiled_gammas(KEYS, shape), expected, rtol=1e-12)


def test_huge_gammas() -> None:
    """There the logarithm's last bit may decide between a trial and the next; hardly ever."""
    expected = draws.gammas(KEYS, np.full(KEYS.size, 1e8))
    found = compiled_gammas(KEYS, 1e8)
    assert (np.abs(found / expected - 1.0) < 1e-12).mean() > 0.9999


def test_normals() -> None:
    normal_of = njit(lambda word: leaves.normal_of(word))
    found = [normal_of(word) for word in KEYS[:5000]]
    assert found == draws.normals(KEYS[:5000]).tolist()

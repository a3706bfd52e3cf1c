"""Compiled draws agree with their sources."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from coopbandits.core import draws
from coopbandits.sim.cpu import draws as compiled

KEYS = draws.words(3, np.arange(50_000, dtype=np.uint64))
CUBICS = draws.normal_cubics()


@njit  # type: ignore[untyped-decorator, unused-ignore]  # by numba
def compiled_gammas(keys, shape, cubics):  # type: ignore[no-untyped-def]  # numba infers
    values = np.empty(keys.size)
    for i in range(keys.size):
        values[i] = compiled.gamma(keys[i], shape, cubics)
    return values


@pytest.mark.parametrize("shape", [1.0, 1.0 + 1e-9, 1.3, 2.0, 7.7, 100.0, 1e4, 1e6])
def test_gammas(shape: float) -> None:
    expected = draws.gammas(KEYS, np.full(KEYS.size, shape))
    np.testing.assert_allclose(compiled_gammas(KEYS, shape, CUBICS), expected, rtol=1e-12)


def test_huge_gammas() -> None:
    """There the logarithm's last bit may decide between a trial and the next; hardly ever."""
    expected = draws.gammas(KEYS, np.full(KEYS.size, 1e8))
    found = compiled_gammas(KEYS, 1e8, CUBICS)
    assert (np.abs(found / expected - 1.0) < 1e-12).mean() > 0.9999


@pytest.mark.parametrize("largest", [0.0, 1.0, 30.0, 1e6])
def test_betas(largest: float) -> None:
    """That most trials are taken without logarithms changes no variate."""
    counts = largest * draws.uniforms(draws.words(4, np.arange(34, dtype=np.uint64)))
    scratch = np.empty((5, 17))
    for word in draws.words(5, np.arange(3000, dtype=np.uint64)):
        scratch[1:3] = 1.0 + counts.reshape(2, 17)
        arm = compiled.play_betas(word, scratch, CUBICS)
        expected = draws.betas(int(word), 1.0 + counts[:17], 1.0 + counts[17:])
        np.testing.assert_allclose(scratch[0], expected, rtol=1e-12)
        assert arm == expected.argmax()


def test_normals() -> None:
    scratch = np.empty((5, 17))
    scratch[1], scratch[2] = 0.5, np.linspace(0.0, 1.0, 17)
    for word in draws.words(6, np.arange(3000, dtype=np.uint64)):
        arm = compiled.play_normals(word, scratch, 2.0, CUBICS)
        z = draws.normals(draws.words(int(word), np.arange(17, dtype=np.uint64)))
        np.testing.assert_allclose(scratch[0], 0.5 * (scratch[2] + 2.0 * z), rtol=1e-15)
        assert arm == scratch[0].argmax()


def test_ties_go_to_the_lowest_arm() -> None:
    scratch = np.zeros((5, 4))
    scratch[1], scratch[2] = 1.0, [0.0, 1e6, 1e6, 0.0]
    assert compiled.play_normals(np.uint64(1), scratch, 0.0, CUBICS) == 1

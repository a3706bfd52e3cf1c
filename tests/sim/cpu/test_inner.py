"""Functions that are parts of the kernels that call them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.errors import NumbaError

from coopbandits.sim.cpu.inner import inner, no_collections


@inner(forceinline=True)  # type: ignore[untyped-decorator]  # as numba's
def square(x: Any) -> Any:
    return x * x


@inner
def add_squares(values: Any, row: Any) -> None:
    for i in range(values.size):
        row[i] += square(values[i])


@inner(allocates=True)  # type: ignore[untyped-decorator]  # as numba's
def squares(values: Any) -> Any:
    made = np.zeros(values.size)
    add_squares(values, made)
    return made


@njit  # type: ignore[untyped-decorator]  # numba has no types
def twice(values: Any) -> Any:
    made = squares(values)
    add_squares(values, made)
    return made


@njit  # type: ignore[untyped-decorator]  # numba has no types
def largest(values: Any) -> Any:
    return squares(values).max() + square(3)


def test_kernels_share_parts() -> None:
    for _ in range(100):  # whoever lost a reference would soon crash
        assert twice(np.array([1.0, 2.0, 3.0])).tolist() == [2.0, 8.0, 18.0]
        assert largest(np.array([1.0, 5.0])) == 34.0
    assert len(squares.parts) == 1
    assert len(square.parts) == 2  # of a whole number, too


def test_without_a_kernel_they_are_plain_functions() -> None:
    assert square(3) == 9


@inner
def wasteful(size: int) -> Any:
    return np.zeros(size).sum()


@njit  # type: ignore[untyped-decorator]  # numba has no types
def waste() -> Any:
    return wasteful(3)


def test_an_allocation_has_to_be_declared() -> None:
    with pytest.raises(NumbaError, match="returning of array"):
        waste()


def test_garbage_is_collected_again_after_compiling() -> None:
    with pytest.raises(NumbaError), no_collections():
        assert not gc.isenabled()
        with no_collections():  # as where a kernel compiles its choice
            pass
        assert not gc.isenabled()
        waste()
    assert gc.isenabled()

"""What needs the inside of numba: functions that are parts of their callers, and calls of C."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from numba import cfunc, errors, njit, types

from coopbandits.sim.cpu.compiling import calling, inner, listening, no_collections


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
    with pytest.raises(errors.NumbaError, match="returning of array"):
        waste()


def test_garbage_is_collected_again_after_compiling() -> None:
    with pytest.raises(errors.NumbaError), no_collections():
        assert not gc.isenabled()
        with no_collections():  # as where a kernel compiles its choice
            pass
        assert not gc.isenabled()
        waste()
    assert gc.isenabled()


def test_a_kernel_is_announced_and_a_small_function_is_not() -> None:
    told: list[None] = []

    @inner(is_long=True)  # type: ignore[untyped-decorator]  # as numba's
    def long(x: Any) -> Any:
        return square(x)

    @cfunc(types.int64(types.int64))  # type: ignore[untyped-decorator]  # numba has no types
    def kernel(x: int) -> Any:
        return long(x)

    with listening(lambda: told.append(None)):
        inner(square.py_func).part((types.int64,))
        assert told == []
        inner(long.py_func, is_long=True).part((types.int64,))
    assert len(told) == 1
    assert kernel.ctypes(3) == 9


@cfunc(types.float64(types.CPointer(types.float64), types.int64))  # type: ignore[untyped-decorator]
def at_place(values: Any, place: int) -> Any:
    return values[place]


read_at = calling(types.float64(types.CPointer(types.float64), types.int64))


@njit  # type: ignore[untyped-decorator]  # numba has no types
def read(address: int, values: Any, place: Any) -> Any:
    return read_at(address, values, place)


def test_a_c_function_is_called_at_its_address() -> None:
    assert read(at_place.address, np.array([1.5, 2.5]), 1) == 2.5
    assert read(at_place.address, np.array([[1.5, 2.5]]), np.uint8(0)) == 1.5


@pytest.mark.parametrize("values", [np.arange(4), np.arange(8.0)[::2]])
def test_only_arrays_of_the_right_kind_are_handed_to_it(values: Any) -> None:
    with pytest.raises(errors.NumbaError, match="an array of float64 in C order is needed"):
        read(at_place.address, values, 0)

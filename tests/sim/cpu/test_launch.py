"""Work started from Python: each task is done once, with all that it was given."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import cfunc, errors, njit, types

from coopbandits.sim.cpu.compiling import calling, for_threads, inner, listening, no_collections
from coopbandits.sim.cpu.launch import launch, launch_rounds


class Given(NamedTuple):
    values: Any
    factor: float
    is_negative: bool
    nothing: Any


@for_threads
def note(task: int, out: Any, given: Any, shift: int) -> None:
    sign = -1.0 if given.is_negative else 1.0
    for k in range(given.values.shape[2]):
        out[task] += sign * given.factor * given.values[task, 1, k] + shift
    out[task] += given.nothing.shape[0] + 10 * given.nothing.shape[1]


@pytest.mark.parametrize("tasks", [0, 1, 2, 1000])
@pytest.mark.parametrize("is_negative", [False, True])
def test_every_task_is_done_once(tasks: int, is_negative: bool) -> None:
    values, out = np.arange(6.0 * tasks).reshape(tasks, 2, 3), np.zeros(tasks)
    given = Given(values, 0.5, is_negative, np.zeros((0, 4), dtype=np.uint8))
    launch(note, tasks, (out, given, -2))
    sign = -1.0 if is_negative else 1.0
    assert np.array_equal(out, sign * 0.5 * values[:, 1].sum(axis=1) - 6 + 40)


@for_threads
def follow(task: int, first: int, stop: int, out: Any) -> None:
    for r in range(first, stop):
        out[r, task] = 1 if r == 0 else out[r - 1].sum()


@pytest.mark.parametrize("at_once", [1, 5])
def test_rounds_wait_for_all_tasks_of_those_before(at_once: int) -> None:
    tasks = 3 if at_once == 1 else 1
    out = np.zeros((5, tasks), dtype=np.int64)
    launch_rounds(follow, tasks, 5, at_once, (out,))
    assert out[:, 0].tolist() == [tasks**r for r in range(5)]


class Own(NamedTuple):
    tables: Any
    shared: Any
    flat: Any
    number: int


@for_threads
def add_rows(task: int, first: int, stop: int, out: Any, own: Any, line: Any) -> None:
    for r in range(first, stop):
        out[task] += own.tables[1, r] + own.shared[r] + own.flat[r] + own.number * line.sum()


@pytest.mark.parametrize("parts", [1, 3])
def test_tasks_see_the_rows_of_their_run(parts: int) -> None:
    tables, line = np.arange(20.0).reshape(2, 2, 5), np.arange(8.0).reshape(2, 4)
    own, out = Own(tables, np.arange(5.0)[None], np.ones(5), 7), np.zeros(2 * parts)
    launch_rounds(add_rows, 2 * parts, 5, 5, (out,), (own, line), parts)
    by_run = tables[:, 1].sum(axis=1) + 10 + 5 + 5 * 7 * line.sum(axis=1)
    assert out.tolist() == np.repeat(by_run, parts).tolist()


def test_only_arrays_in_c_order_are_handed_over() -> None:
    with pytest.raises(TypeError, match="C order"):
        launch_rounds(follow, 1, 1, 1, (np.zeros((2, 4), dtype=np.int64)[:, ::2],))


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

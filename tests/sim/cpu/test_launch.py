"""Work started from Python: each task is done once, with all that it was given."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from coopbandits.sim.cpu.compiling import for_threads
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

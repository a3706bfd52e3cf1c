"""Tasks in threads: each is done once, with all that it was given."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit

from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.parallel import in_threads


class Given(NamedTuple):
    values: Any
    factor: float


@inner
def note(task: int, out: Any, given: Any, shift: int, is_negative: bool) -> None:
    sign = -1.0 if is_negative else 1.0
    mine = given.values[task]
    for k in range(mine.size):
        out[task] += sign * given.factor * mine[k] + shift


@njit  # type: ignore[untyped-decorator]  # numba has no types
def launch(out: Any, given: Any, shift: int, is_negative: bool) -> None:
    in_threads(note, out.size, (out, given, shift, is_negative))


@pytest.mark.parametrize("tasks", [0, 1, 2, 1000])
@pytest.mark.parametrize("is_negative", [False, True])
def test_every_task_is_done_once(tasks: int, is_negative: bool) -> None:
    values = np.arange(3.0 * tasks).reshape(tasks, 3)
    out = np.zeros(tasks)
    launch(out, Given(values, 0.5), 2, is_negative)
    sign = -1.0 if is_negative else 1.0
    assert np.array_equal(out, sign * 0.5 * values.sum(axis=1) + 6)


def test_arrays_keep_their_owners() -> None:
    """Tasks count no references, so none may be lost or left over."""
    values, out = np.ones((50, 3)), np.zeros(50)
    launch(out, Given(values, 1.0), 0, False)
    before = sys.getrefcount(values), sys.getrefcount(out)
    for _ in range(100):
        launch(out, Given(values, 1.0), 0, False)
    assert (sys.getrefcount(values), sys.getrefcount(out)) == before
    assert out[0] == 303.0


@njit  # type: ignore[untyped-decorator]  # numba has no types
def launch_often(times: int, out: Any, given: Any) -> None:
    for _ in range(times):
        in_threads(note, out.size, (out, given, 0, False))


def test_a_loop_of_launches_does_not_use_up_the_stack() -> None:
    out = np.zeros(1)
    launch_often(200_000, out, Given(np.ones((1, 1)), 1.0))
    assert out[0] == 200_000.0

"""A problem's own reward function, compiled from the very source that the reference engine calls.

Kernels are compiled once for all problems. In the place of a form's kind they are handed the
address of a C function, which reads one row of numbers and writes down the reward. It is filed as
choices are, under a digest of all code and constants it is made of.
"""

from __future__ import annotations

from typing import Any

from numba import carray, types

from coopbandits.problems import Problem
from coopbandits.sim.cpu.choices import CannotCompileError, filed

_FLOATS = types.CPointer(types.float64)
_SIGNATURE = types.int64(_FLOATS, types.int64, types.float64, _FLOATS)

reward: Any = None  # the place of the problem's own


def _paying(digest: str) -> Any:
    def pay(row_at: Any, width: int, variate: float, paid_at: Any) -> int:
        carray(paid_at, 1)[0] = reward(carray(row_at, width), variate)
        return len(digest)  # where the function raised, 0 comes back instead

    return pay


def form_kind(problem: Problem) -> int:
    """Return the kind of a problem's form, or the address of its compiled function."""
    own = problem.reward_function()
    if own is None:
        return problem.kernel_form().kind
    return filed(type(problem).__name__, _paying, {"reward": own}, {}, _SIGNATURE).address


def obstacle(problem: Problem) -> str | None:
    """Return why numba cannot compile a problem's rewards, or None."""
    try:
        form_kind(problem)
    except CannotCompileError as error:
        return f"numba cannot compile reward of {type(problem).__name__} ({error})"
    return None

"""A problem's own reward function, compiled from the very source that the reference engine calls.

Kernels are compiled once for all problems. In the place of a form's kind they are handed the
address of a C function, which reads one row of numbers and returns the reward, NaN where it raised.
It is filed as choices are, under a digest of all code and constants it is made of.
"""

from __future__ import annotations

import math
from typing import Any

from numba import carray

from coopbandits.problems import Problem
from coopbandits.sim.cpu.choices import CannotCompileError, filed
from coopbandits.sim.cpu.leaves import REWARD

reward: Any = None  # the place of the problem's own


def _paying(digest: str) -> Any:
    def pay(row_at: Any, width: int, variate: float) -> float:
        try:
            return float(reward(carray(row_at, width), variate)) if len(digest) > 0 else math.nan
        except Exception:
            return math.nan

    return pay


def form_kind(problem: Problem) -> int:
    """Return the kind of a problem's form, or the address of its compiled function."""
    own = problem.reward_function()
    if own is None:
        return problem.kernel_form().kind
    return filed(type(problem).__name__, _paying, {"reward": own}, {}, REWARD).address


def obstacle(problem: Problem) -> str | None:
    """Return why numba cannot compile a problem's rewards, or None."""
    try:
        form_kind(problem)
    except CannotCompileError as error:
        return f"numba cannot compile reward of {type(problem).__name__} ({error})"
    return None

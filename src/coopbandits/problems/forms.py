"""What a group of agents or a segment of rounds may be given: means, or a problem of its own.

Where rewards depend on features, coefficients stand in the place of means.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.problems.parse import format_means
from coopbandits.problems.problem import Problem

Form = int | tuple[Any, ...] | Problem
"""By how many places the arms have moved on; or other means; or another problem."""

UNCHANGED = 0


def read_form(owner: str, given: Any, base: Problem) -> Form:
    """Return means (or coefficients) or a problem that can stand beside the base, or refuse."""
    if isinstance(given, Problem):
        if _shape(given) != _shape(base):
            told = " and the same features" if base.num_features else ""
            raise InputError(
                f"{owner} is a {type(given).__name__} with {given.num_arms} arms beside a "
                f"{type(base).__name__} with {base.num_arms}; give the same kind with as many arms"
                f"{told}"
            )
        return given
    levels = base.read_levels(owner, given)
    base.moved(levels - base.levels)  # refuses means that the problem cannot have
    return as_form(levels)


def as_form(levels: NDArray[np.float64]) -> tuple[Any, ...]:
    """Return means, or coefficients per arm, as tuples."""
    return tuple(as_form(row) if row.ndim else float(row) for row in levels)


def _shape(problem: Problem) -> tuple[Any, ...]:
    parts = tuple(_shape(part) for part in getattr(problem, "problems", ()))
    kind = problem.kernel_form().kind
    told = problem.describe().get("features")  # contexts are one thing for the whole world
    return type(problem), kind, problem.variate, problem.num_arms, problem.levels.shape, told, parts


def formed(form: Form, block: Problem, base: Problem) -> Problem:
    """Return a block as it is under a form; what was changed before is kept, as a difference."""
    if isinstance(form, int):
        return block.turned(np.roll(np.arange(base.num_arms), form)) if form else block
    if isinstance(form, Problem):
        return form if block is base else form.moved(block.levels - base.levels)
    return block.moved(np.array(form) - base.levels)


def plain(form: Form) -> Any:
    """Return a form as plain data."""
    if isinstance(form, Problem):
        return form.describe()
    return form if isinstance(form, int) else np.array(form).tolist()


def shown(form: Form) -> str:
    """Return a form in few words."""
    if isinstance(form, Problem):
        return repr(form)
    if isinstance(form, int):
        return f"arms moved on by {form}"
    if isinstance(form[0], tuple):
        return f"{len(form)} models"
    return f"[{format_means(form, most=8)}]"

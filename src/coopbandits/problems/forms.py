"""What a group of agents or a segment of rounds may be given: means, or a problem of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.core.errors import InputError
from coopbandits.problems.checks import arm_values
from coopbandits.problems.parse import format_means, parse_means
from coopbandits.problems.problem import Problem

Form = int | tuple[float, ...] | Problem
"""By how many places the arms have moved on; or other means; or another problem."""

UNCHANGED = 0


def read_form(owner: str, given: Any, base: Problem) -> Form:
    """Return means or a problem that can stand beside the base, or refuse."""
    if isinstance(given, Problem):
        if _shape(given) != _shape(base):
            raise InputError(
                f"{owner} is a {type(given).__name__} with {given.num_arms} arms beside a "
                f"{type(base).__name__} with {base.num_arms}; give the same kind with as many arms"
            )
        return given
    means = arm_values(f"means of {owner}", parse_means(given) if isinstance(given, str) else given)
    if means.size != base.num_arms:
        raise InputError(
            f"{owner} has {means.size} means for {base.num_arms} arms; give one per arm"
        )
    base.moved(means - base.means)  # refuses means that the problem cannot have
    return tuple(means.tolist())


def _shape(problem: Problem) -> tuple[Any, ...]:
    parts = tuple(_shape(part) for part in getattr(problem, "problems", ()))
    kind = problem.kernel_form().kind
    return type(problem), kind, problem.variate, problem.num_arms, parts


def formed(form: Form, block: Problem, base: Problem) -> Problem:
    """Return a block as it is under a form; what was changed before is kept, as a difference."""
    if isinstance(form, int):
        places = np.roll(np.arange(base.num_arms), form)
        return block._like(block.means[places], block.kernel_form().table[places])
    if isinstance(form, Problem):
        return form if block is base else form.moved(block.means - base.means)
    return block.moved(np.array(form) - base.means)


def plain(form: Form) -> Any:
    """Return a form as plain data."""
    if isinstance(form, Problem):
        return form.describe()
    return form if isinstance(form, int) else list(form)


def shown(form: Form) -> str:
    """Return a form in few words."""
    if isinstance(form, Problem):
        return repr(form)
    if isinstance(form, int):
        return f"arms moved on by {form}"
    return f"[{format_means(form, most=8)}]"

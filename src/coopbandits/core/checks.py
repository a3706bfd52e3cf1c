"""Checks of settings: each returns nothing or says in one sentence what is accepted."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from coopbandits.core.errors import InputError


def require_flag(name: str, value: Any) -> None:
    """Check that the value is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; it must be true or false")


def require_count(name: str, value: Any, least: int = 1) -> None:
    """Check that the value is a whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        spelled = isinstance(value, float) and value.is_integer() and value >= least
        hint = f": write {value:.0f}" if spelled else ""
        raise InputError(f"{name} is {value!r}; it must be a whole number, at least {least}{hint}")


def require_number(name: str, value: Any, accepted: str, low: float, high: float) -> None:
    """Check that the value is a number strictly between two; `accepted` says so in words."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low < to_float(value) < high:
        raise InputError(f"{name} is {value!r}; it must be {accepted}")


def to_float(value: Real) -> float:
    """Return a number as a float, infinite if it is a whole number beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def require_positive(name: str, value: Any) -> None:
    """Check that the value is a positive finite number."""
    require_number(name, value, "a positive finite number", 0.0, math.inf)


def require_nonnegative(name: str, value: Any) -> None:
    """Check that the value is a finite number, 0 or more."""
    require_number(name, value, "a finite number, at least 0", -math.ulp(0.0), math.inf)


def require_epsilon(epsilon: Any) -> None:
    """Check that ε is infinite, for no noise, or large enough for finite noise."""
    if epsilon != math.inf:
        accepted = "a number above 1e-100, or inf for no noise"
        require_number("epsilon", epsilon, accepted, 1e-100, math.inf)


def require_lambda(name: str, value: Any) -> None:
    """Check that the value is a number in [0, 1)."""
    require_number(name, value, "a number in [0, 1)", -math.ulp(0.0), 1.0)


def require_moment(moment: float) -> None:
    """Check that 1 < p ≤ 2."""
    accepted = "a number above 1, and at most 2"
    require_number("moment", moment, accepted, 1.0, math.nextafter(2.0, math.inf))

"""Custom index functions that fail when compiled where they fail in plain Python.

Compiled code would go on where Python raises: 1/0 would be ∞, log(−1) NaN. So custom functions are
compiled with Python's rules for division and with the functions of `math` below. A C function
cannot raise, so each function of an index is called through a guard, which turns an exception into
a result that `choice_forms` looks for. The driver then plays the run again in plain Python, up to
the round that failed, and raises what happens there (`runs.py`).

One operator is left: `x**y` with a zero base or an overflow stays infinite when compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

from coopbandits.sim.cpu.compiling import alone

_ONE = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "expm1",
    "gamma", "lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_TWO = ("fmod", "hypot", "pow")
"""Functions of `math` that raise on a domain error or an overflow, by their number of arguments."""


def _checked_one(function: Callable[[float], float]) -> Any:
    def checked(x: Any) -> float:
        found = function(x)
        if found - found != 0.0 and x - x == 0.0:  # not finite, of a finite number
            raise ValueError("math domain or range error")
        return found

    return alone(checked, forceinline=True)


def _checked_two(function: Callable[[float, float], float]) -> Any:
    def checked(x: Any, y: Any) -> float:
        found = function(x, y)
        if found - found != 0.0 and x - x == 0.0 and y - y == 0.0:
            raise ValueError("math domain or range error")
        return found

    return alone(checked, forceinline=True)


CHECKED: dict[Any, Any] = {
    **{getattr(math, name): _checked_one(getattr(math, name)) for name in _ONE},
    **{getattr(math, name): _checked_two(getattr(math, name)) for name in _TWO},
}
"""Functions of `math` → forms that raise as they do; compiled where they are used."""

CHECKED_MATH = ModuleType("math")
CHECKED_MATH.__dict__.update(
    {name: CHECKED.get(value, value) for name, value in vars(math).items() if value.__hash__}
)


def checked_value(value: Any) -> Any:
    """Return what custom compiled code uses in place of `math` and its functions."""
    if value is math:
        return CHECKED_MATH
    return CHECKED.get(value, value) if callable(value) and value.__hash__ else value


def _guarded_prepare(prepare: Any) -> Any:
    def guard(estimate: Any, word: Any, numbers: Any, scratch: Any) -> bool:
        try:
            prepare(estimate, word, numbers, scratch)
        except Exception:
            return False
        return True

    return guard


def _guarded_value(value: Any) -> Any:
    def guard(arm: Any, estimate: Any, word: Any, numbers: Any, scratch: Any) -> float:
        try:
            return float(value(arm, estimate, word, numbers, scratch))
        except Exception:
            return math.nan

    return guard


def _guarded_pick(pick: Any) -> Any:
    def guard(values: Any, estimate: Any, word: Any, numbers: Any, scratch: Any) -> Any:
        try:
            return int(pick(values, estimate, word, numbers, scratch))
        except Exception:
            return -1

    return guard


def _guarded_bonus(bonus: Any) -> Any:
    def guard(estimate: Any, numbers: Any, scratch: Any) -> tuple[float, float]:
        try:
            growth, offset = bonus(estimate, numbers, scratch)
            return float(growth), float(offset)
        except Exception:
            return math.nan, math.nan

    return guard


_GUARDS = {
    "prepare": _guarded_prepare,
    "value": _guarded_value,
    "bound": _guarded_value,
    "bonus": _guarded_bonus,
    "pick": _guarded_pick,
}


def guarded(name: str, function: Any) -> Any:
    """Return a compiled function of an index so that it does not raise.

    `prepare` returns whether it succeeded, `pick` −1 if it failed; the others return NaN.
    """
    guard = _GUARDS.get(name)
    return function if guard is None else alone(guard(function), forceinline=True)

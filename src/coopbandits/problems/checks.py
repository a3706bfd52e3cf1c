"""Checks of a problem's arguments: they return a clean array, or raise one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.errors import InputError


def arm_values(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return a read-only copy of one finite number per arm, or refuse."""
    array = float_array(name, values, "a list with one number per arm")
    if array.ndim != 1:
        raise InputError(
            f"{name} has shape {array.shape}; pass a list with one number per arm, "
            "since the arms are the same for every agent"
        )
    if array.size == 0:
        raise InputError(f"{name} is empty, so there are no arms; pass at least one number")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise InputError(
            f"{name} of arm {bad[0]} is {array[bad[0]]}; every arm needs a finite number, "
            "so replace it or leave the arm out"
        )
    return frozen(array)


def float_array(name: str, values: ArrayLike, accepted: str) -> NDArray[np.float64]:
    """Return a float64 copy, or refuse anything but numbers in a regular shape."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} {_shorten(values)} cannot be read as numbers; pass {accepted}"
        ) from None


def within(name: str, values: NDArray[np.float64], low: float, high: float) -> None:
    """Refuse values outside [low, high]."""
    bad = np.flatnonzero((values < low) | (values > high))
    if bad.size:
        raise InputError(
            f"{name} of arm {bad[0]} is {values[bad[0]]}; accepted are numbers from {low} to "
            f"{high}, so change it or use another problem"
        )


def above_zero(name: str, values: NDArray[np.float64]) -> None:
    """Refuse values that are not positive."""
    bad = np.flatnonzero(values <= 0)
    if bad.size:
        raise InputError(
            f"{name} of arm {bad[0]} is {values[bad[0]]}; accepted are numbers above 0, "
            "so change it"
        )


def positive_values(name: str, values: ArrayLike, num_arms: int) -> NDArray[np.float64]:
    """Return one positive number per arm, given as a list or as one number for all."""
    if np.ndim(values) == 0:
        return frozen(np.full(num_arms, positive_number(name, values)))  # type: ignore[arg-type]  # no list
    array = arm_values(name, values)
    if array.size != num_arms:
        raise InputError(
            f"{name} has {array.size} numbers for {num_arms} arms; pass one per arm, or one for all"
        )
    above_zero(name, array)
    return array


def positive_number(name: str, value: float) -> float:
    """Return one finite positive number, or refuse."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(
            f"{name} is {_shorten(value)}; it must be one finite number above 0, for example 1.0"
        )
    return number


def frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the array, C-contiguous and no longer writeable."""
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def distinct_names(names: Sequence[str], num_arms: int) -> tuple[str, ...]:
    """Return one name per arm as text, or refuse them."""
    single = isinstance(names, str) or not isinstance(names, Iterable)
    chosen = () if single else tuple(str(name) for name in names)
    if len(chosen) != num_arms or len(set(chosen)) != num_arms:
        raise InputError(
            f"arm_names are {names if single else list(chosen)!r} for {num_arms} arms; "
            "pass one name per arm, all different"
        )
    return chosen

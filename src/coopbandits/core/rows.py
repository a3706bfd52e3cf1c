"""Operations on rows of numbers, for functions that run both in plain Python and compiled.

In plain Python they are numpy calls, for which a loop over numbers would be slow; compiled they are
loops, which numba makes faster than expressions of whole arrays. Both give the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = NDArray[Any]


def copy(row: Row, other: Row) -> None:
    """Set a row to another one."""
    row[:] = other


def fill(row: Row, value: float) -> None:
    """Set all numbers of a row."""
    row[:] = value


def add(row: Row, other: Row) -> None:
    """Add another row."""
    row += other


def add_up(row: Row, first: Row, second: Row) -> None:
    """Set a row to the sum of two others."""
    np.add(first, second, out=row)


def subtract(row: Row, other: Row) -> None:
    """Subtract another row."""
    row -= other


def add_scaled(row: Row, factor: float, other: Row) -> None:
    """Add another row `factor` times."""
    row += factor * other


def add_difference(row: Row, factor: float, first: Row, second: Row) -> None:
    """Add the difference of two others `factor` times."""
    row += factor * (first - second)


def set_scaled(row: Row, factor: float, other: Row) -> None:
    """Set a row to `factor` times another one."""
    np.multiply(other, factor, out=row)


def scale(row: Row, factor: float) -> None:
    """Multiply all numbers of a row."""
    row *= factor


def multiply(row: Row, factors: Row) -> None:
    """Multiply every number by one of its own."""
    row *= factors


def lower(row: Row, other: Row) -> None:
    """Keep the smaller one of every two numbers."""
    row[:] = [min(pair) for pair in zip(row.tolist(), other.tolist(), strict=True)]


def lift(row: Row, other: Row) -> None:
    """Keep the larger one of every two numbers."""
    np.maximum(row, other, out=row)


def sort(row: Row) -> None:
    """Put all numbers in ascending order."""
    row.sort()


def total_at(row: Row, places: Row) -> Any:
    """Return the sum of the numbers at some places, which ascend."""
    return float(np.add.reduce(row[places]))


def is_below(row: Row, other: Row, places: Row) -> bool:
    """Return whether a number at one of some places is smaller than that of another row."""
    return bool((row[places] < other[places]).any())


def total(row: Row) -> Any:
    """Return the sum, added up from the first number to the last."""
    return sum(row.tolist())

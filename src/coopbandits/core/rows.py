"""Operations on rows of numbers, for functions that run both in plain Python and compiled.

In plain Python they are numpy calls, for which a loop over numbers would be slow; compiled they are
loops, which numba makes faster than expressions of whole arrays. Both give the same numbers.
"""

from __future__ import annotations

import math
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


def find(row: Row, value: float, near: int) -> int:
    """Return where a value is, or belongs, in an ascending row; it may be near some place."""
    del near
    return int(row.searchsorted(value))


def find_above(places: Row, row: Row, limit: float, others: Row, besides: float) -> int:
    """Write where a row is above a limit and another one is not `besides`; return how many are."""
    found = ((row > limit) & (others != besides)).nonzero()[0]
    places[: found.size] = found
    return int(found.size)


def gather(row: Row, table: Row, places: Row) -> None:
    """Write some rows of a table one after another."""
    table.take(places, axis=0, out=row.reshape(places.size, -1), mode="clip")


def open_row(table: Row, at: int, used: int) -> None:
    """Make room for a row in a table of which so many rows are used; those behind it move on."""
    table[at + 1 : used + 1] = table[at:used]


def add_rows(row: Row, table: Row) -> None:
    """Set a row to the sum of all rows of a table."""
    np.add.reduce(table, axis=0, out=row)


def add_weighted(row: Row, table: Row, weights: Row) -> None:
    """Set a row to the sum of all rows of a table, each times its weight."""
    np.add.reduce(table * weights[:, None], axis=0, out=row)


def dot(row: Row, other: Row) -> Any:
    """Return the sum of products, added up from the first to the last."""
    return np.add.accumulate(row * other)[-1]


def cut(row: Row, least: float) -> None:
    """Replace smaller numbers by the least."""
    np.maximum(row, least, out=row)


def raise_to(row: Row, base: float) -> None:
    """Set every number to a power of a base, with this number as its exponent."""
    np.power(base, row, out=row)


def largest(row: Row) -> Any:
    """Return the largest number."""
    return row.max()


def floor(number: float) -> float:
    """Return the largest whole number that is not above: compiled, without an integer between."""
    return float(math.floor(number))

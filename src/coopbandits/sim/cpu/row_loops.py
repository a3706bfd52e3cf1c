"""Operations on rows of numbers as loops: compiled forms of `core.rows`, each under its name."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from coopbandits.core import rows
from coopbandits.sim.cpu.compiling import inner
from coopbandits.sim.cpu.leaves import sum_of


def copy(row: Any, other: Any) -> None:
    for w in range(row.size):
        row[w] = other[w]


def fill(row: Any, value: Any) -> None:
    for w in range(row.size):
        row[w] = value


def add(row: Any, other: Any) -> None:
    for w in range(row.size):
        row[w] += other[w]


def add_up(row: Any, first: Any, second: Any) -> None:
    for w in range(row.size):
        row[w] = first[w] + second[w]


def subtract(row: Any, other: Any) -> None:
    for w in range(row.size):
        row[w] -= other[w]


def add_scaled(row: Any, factor: Any, other: Any) -> None:
    for w in range(row.size):
        row[w] += factor * other[w]


def add_difference(row: Any, factor: Any, first: Any, second: Any) -> None:
    for w in range(row.size):
        row[w] += factor * (first[w] - second[w])


def set_scaled(row: Any, factor: Any, other: Any) -> None:
    for w in range(row.size):
        row[w] = other[w] * factor


def scale(row: Any, factor: Any) -> None:
    for w in range(row.size):
        row[w] *= factor


def multiply(row: Any, factors: Any) -> None:
    for w in range(row.size):
        row[w] *= factors[w]


def lower(row: Any, other: Any) -> None:
    for w in range(row.size):
        row[w] = min(row[w], other[w])


def lift(row: Any, other: Any) -> None:
    for w in range(row.size):
        row[w] = max(row[w], other[w])


def sort(row: Any) -> None:  # Shell's: in place, in few lines, fast for up to some hundreds
    gap = row.size // 2
    while gap > 0:
        for w in range(gap, row.size):
            value, at = row[w], w
            while at >= gap and row[at - gap] > value:
                row[at] = row[at - gap]
                at -= gap
            row[at] = value
        gap //= 2


def total_at(row: Any, places: Any) -> Any:
    size = places.size
    if size > 0 and places[size - 1] - places[0] == size - 1:  # they ascend: none is left out
        return sum_of(row, places[0], size)
    one, two, three, four = 0.0, 0.0, 0.0, 0.0  # one sum would wait for every addition
    whole = places.size - places.size % 4
    for k in range(0, whole, 4):
        one += row[places[k]]
        two += row[places[k + 1]]
        three += row[places[k + 2]]
        four += row[places[k + 3]]
    for k in range(whole, places.size):
        one += row[places[k]]
    return (one + two) + (three + four)


def is_below(row: Any, other: Any, places: Any) -> Any:
    for k in range(places.size):  # noqa: SIM110  what is compiled has no generators
        if row[places[k]] < other[places[k]]:
            return True
    return False


def total(row: Any) -> Any:
    found = 0.0
    for w in range(row.size):
        found += row[w]
    return found


def find(row: Any, value: Any, near: Any) -> Any:
    at = near if near < row.size and row[near] <= value else 0
    while at < row.size and row[at] < value:
        at += 1
    return at


def find_above(places: Any, row: Any, limit: Any, others: Any, besides: Any) -> Any:
    found = 0
    for w in range(row.size):
        if row[w] > limit and others[w] != besides:
            places[found] = w
            found += 1
    return found


def gather(row: Any, table: Any, places: Any) -> None:
    width = table.shape[1]
    for e in range(places.size):
        place, start = places[e], e * width
        for w in range(width):
            row[start + w] = table[place, w]


def open_row(table: Any, at: Any, used: Any) -> None:
    for place in range(used, at, -1):
        for w in range(table.shape[1]):
            table[place, w] = table[place - 1, w]


def add_rows(row: Any, table: Any) -> None:
    for w in range(row.size):
        row[w] = 0.0
    for e in range(table.shape[0]):
        for w in range(row.size):
            row[w] += table[e, w]


def add_weighted(row: Any, table: Any, weights: Any) -> None:
    for w in range(row.size):
        row[w] = 0.0
    for e in range(table.shape[0]):
        for w in range(row.size):
            row[w] += weights[e] * table[e, w]


def dot(row: Any, other: Any) -> Any:
    found = 0.0
    for w in range(row.size):
        found += row[w] * other[w]
    return found


def cut(row: Any, least: Any) -> None:
    for w in range(row.size):
        row[w] = max(row[w], least)


def raise_to(row: Any, base: Any) -> None:
    for w in range(row.size):
        row[w] = base ** row[w]


def largest(row: Any) -> Any:
    found = row[0]
    for w in range(1, row.size):
        found = max(found, row[w])
    return found


def floor(number: Any) -> Any:
    return np.floor(number)


ROWS = {
    operation: inner(globals()[name], forceinline=True)
    for name, operation in vars(rows).items()
    if isinstance(operation, FunctionType)
}
"""Operations → their compiled forms."""

"""Where the features of arms come from: words of a tape become points, or rows of a table."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.draws import Words, normals, uniforms, words_of
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.problems.checks import float_array, frozen

Floats = NDArray[np.float64]

DRAWN = ("sphere", "gaussian")
"""Points on the unit sphere, and independent standard normals."""


@dataclass(frozen=True, eq=False)
class Features:
    """The features that arms have in a context: K rows, or one for all arms.

    Attributes
    ----------
    kind : {"sphere", "gaussian", "table"}
        How they are drawn.
    rows : int
        K, or 1 where all arms share them.
    size : int
        d.
    table : array of shape (M, rows or 1, d)
        What a table is drawn from, each of its M entries equally likely; else empty.
    """

    kind: str
    rows: int
    size: int
    table: Floats

    @property
    def words(self) -> int:
        """How many words of a tape one context takes."""
        if self.kind != "table":
            return self.rows * self.size
        return int(self.rows // self.table.shape[1])

    def draw(self, keys: Words, first: int, rounds: int) -> Floats:
        """Return contexts (agents, rounds, rows, d) of some rounds, of agents with these keys."""
        counters = np.arange(first * self.words, (first + rounds) * self.words, dtype=np.uint64)
        tape = words_of(keys[:, None], counters[None, :])
        shape = (keys.size, rounds, self.rows, self.size)
        if self.kind == "table":
            drawn = (uniforms(tape) * len(self.table)).astype(np.int64)
            return self.table[np.minimum(drawn, len(self.table) - 1)].reshape(shape)
        from scipy.special import ndtri  # imported late: it takes a noticeable time

        points = normals(tape, ndtri).reshape(shape)  # many at once: a call for each takes longer
        if self.kind == "sphere":
            points /= np.sqrt((points * points).sum(axis=-1, keepdims=True))
        return points

    def describe(self) -> Any:
        """Return what identifies them, as plain data."""
        if self.kind != "table":
            return self.kind
        digest = hashlib.sha256(self.table.tobytes()).hexdigest()
        return {"contexts": len(self.table), "table_sha256": digest}


def make_features(given: str | ArrayLike, rows: int, size: int) -> Features:
    """Return features as a problem is told of them, or refuse them."""
    if isinstance(given, str):
        if given not in DRAWN:
            raise unknown_name("kind of features", given, DRAWN)
        return Features(given, rows, size, np.empty((0, 1, size)))
    table = float_array("features", given, "an array of contexts")
    if table.ndim == 2:
        table = table[:, None, :]
    if (
        table.ndim != 3
        or table.shape[1] not in (1, rows)
        or table.shape[2] != size
        or not len(table)
    ):
        alone = "" if rows == 1 else f", or (contexts, {rows}, {size}) for a row per arm"
        raise InputError(
            f"features have shape {np.shape(given)}; theta has {size} coefficients, so give an "
            f"array of shape (contexts, {size}){alone}"
        )
    if not np.isfinite(table).all():
        raise InputError("features have values that are not finite; leave such contexts out")
    return Features("table", rows, size, frozen(table))

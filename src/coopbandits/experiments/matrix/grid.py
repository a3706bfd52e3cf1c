"""Scores of pairs as a table with margins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopbandits.experiments.matrix.plan import Matrix
from coopbandits.experiments.scores import Score, geometric_mean

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Grid:
    """Scores by aggregation (row) and index (column), best first, central rows on top.

    Attributes
    ----------
    aggregations, indices : list of str
        Spellings; those without any score are left out.
    scores : array of shape (rows, columns)
        Geometric means over scenarios; NaN for a pair that was not played in all of them.
    central, talks : array of bool
        Of every row: whether all is known in one place, and whether messages are sent.
    """

    aggregations: list[str]
    indices: list[str]
    scores: Numbers
    central: NDArray[np.bool_]
    talks: NDArray[np.bool_]

    @property
    def by_aggregation(self) -> Numbers:
        """Geometric mean of every row."""
        return means(self.scores, axis=1)

    @property
    def by_index(self) -> Numbers:
        """Geometric mean of every column; central rows do not count."""
        return means(self.scores[~self.central], axis=0)

    @property
    def overall(self) -> float:
        """Geometric mean of all, without central rows."""
        return float(means(self.scores[~self.central], axis=None))


def make_grid(plan: Matrix, scores: Sequence[Score]) -> Grid:
    """Sum up the scores of some scenarios."""
    found: dict[tuple[str, str], list[Score]] = defaultdict(list)
    for row in scores:
        if row.policy in plan.pairs:
            found[plan.pairs[row.policy]].append(row)
    num_scenarios = len({row.scenario for row in scores})
    played = {
        pair: geometric_mean([row.score for row in rows])
        for pair, rows in found.items()
        if len(rows) == num_scenarios
    }
    rows, columns = (list(dict.fromkeys(pair[part] for pair in played)) for part in (0, 1))
    values = [[played.get((row, column), np.nan) for column in columns] for row in rows]
    decentralised, talking = (
        {pair[0] for pair, told in found.items() if any(getattr(row, key) for row in told)}
        for key in ("decentralised", "values")
    )
    return _in_order(
        Grid(
            rows, columns, np.array(values).reshape(len(rows), len(columns)),
            np.array([row not in decentralised for row in rows], dtype=bool),
            np.array([row in talking for row in rows], dtype=bool),
        )
    )  # fmt: skip


def _in_order(grid: Grid) -> Grid:
    rows = np.lexsort([grid.by_aggregation, ~grid.central])
    columns = np.argsort(grid.by_index, kind="stable")
    return Grid(
        [grid.aggregations[row] for row in rows],
        [grid.indices[column] for column in columns],
        grid.scores[np.ix_(rows, columns)],
        grid.central[rows],
        grid.talks[rows],
    )


def means(values: Numbers, axis: int | None) -> Numbers:
    """Return geometric means: NaN where one is missing, or where there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.exp(np.sum(np.log(values), axis) / np.size(values, axis)))

"""Scores of pairs as a table with margins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
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
        Spellings; indices without any score are left out.
    scores : array of shape (rows, columns)
        Geometric means over scenarios; NaN for a pair that was not played in all of them.
    worst : array of shape (rows, columns)
        The largest score of one scenario.
    central, talks : array of bool
        For every row: whether it is central, and whether it sends messages.
    """

    aggregations: list[str]
    indices: list[str]
    scores: Numbers
    worst: Numbers
    central: NDArray[np.bool_]
    talks: NDArray[np.bool_]

    @property
    def by_aggregation(self) -> Numbers:
        """Geometric mean of every row."""
        return means(self.scores, axis=1)

    @property
    def by_index(self) -> Numbers:
        """Geometric mean of every column, over rows that are not central and have scores."""
        return means(self.scores[self.counts], axis=0)

    @property
    def overall(self) -> float:
        """Geometric mean of all scores, without central rows."""
        return float(means(self.scores[self.counts], axis=None))

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Which rows enter the means."""
        empty = np.isnan(self.scores).all(axis=1)
        return np.asarray(~self.central & ~empty)


def make_grid(plan: Matrix, scores: Sequence[Score], rows: Sequence[str]) -> Grid:
    """Average the scores of some scenarios; `rows` are the aggregations to show."""
    found: dict[tuple[str, str], list[Score]] = defaultdict(list)
    for row in scores:
        if row.policy in plan.pairs:
            found[plan.pairs[row.policy]].append(row)
    num_scenarios = len({row.scenario for row in scores})
    played = {
        pair: [row.score for row in told]
        for pair, told in found.items()
        if len(told) == num_scenarios
    }
    columns = [index for index in plan.indices if any(index == pair[1] for pair in played)]
    central = {pair[0] for pair, told in found.items() if not told[0].decentralised}
    talking = {pair[0] for pair, told in found.items() if any(row.values for row in told)}

    def table(sum_up: Callable[[list[float]], float]) -> Numbers:
        values = {pair: sum_up(told) for pair, told in played.items()}
        cells = [values.get((row, column), np.nan) for row in rows for column in columns]
        return np.array(cells, dtype=np.float64).reshape(len(rows), len(columns))

    return _in_order(
        Grid(
            list(rows), columns, table(geometric_mean), table(max),
            np.array([row in central for row in rows], dtype=bool),
            np.array([row in talking for row in rows], dtype=bool),
        )
    )  # fmt: skip


def rows_played(plan: Matrix, scores: Sequence[Score]) -> list[str]:
    """Return the aggregations that were played at all."""
    found = {plan.pairs[row.policy][0] for row in scores if row.policy in plan.pairs}
    return [aggregation for aggregation in plan.aggregations if aggregation in found]


def _in_order(grid: Grid) -> Grid:
    rows = np.lexsort([grid.by_aggregation, ~grid.central])
    columns = np.argsort(grid.by_index, kind="stable")
    return Grid(
        [grid.aggregations[row] for row in rows],
        [grid.indices[column] for column in columns],
        grid.scores[np.ix_(rows, columns)],
        grid.worst[np.ix_(rows, columns)],
        grid.central[rows],
        grid.talks[rows],
    )


def means(values: Numbers, axis: int | None) -> Numbers:
    """Return geometric means: NaN where a value is missing, or all are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.exp(np.sum(np.log(values), axis) / np.size(values, axis)))

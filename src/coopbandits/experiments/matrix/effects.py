r"""Which part matters: log scores as aggregation + index + interaction.

.. math:: \ln S_{ai} = μ + α_a + β_i + γ_{ai}

α and β are the means of rows and columns, minus μ. The shares of Σα², Σβ² and Σγ², summed over all
pairs, in the total sum of squares say how much of the difference between policies comes from either
part, and how much from their interaction. γ also contains the noise of few runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopbandits.experiments.matrix.grid import Grid, Numbers


@dataclass(frozen=True)
class Effects:
    """The decomposition of one table.

    Attributes
    ----------
    aggregations, indices : dict
        The factor of a part on scores, relative to the average part; best first.
    shares : tuple of float
        Of the aggregation, the index and their interaction, in the variance of log scores.
    spread : float
        Standard deviation of log scores, as a factor.
    """

    aggregations: dict[str, float]
    indices: dict[str, float]
    shares: tuple[float, float, float]
    spread: float


def find_effects(grid: Grid, wanted: NDArray[np.bool_]) -> Effects | None:
    """Decompose the wanted rows; None unless two rows and two columns differ.

    Rows with a hole are left out.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(grid.scores)
    kept = np.flatnonzero(wanted & np.isfinite(logs).all(axis=1))
    logs = logs[kept]
    if min(logs.shape) < 2 or np.ptp(logs) == 0.0:
        return None
    by_row, by_column = logs.mean(axis=1) - logs.mean(), logs.mean(axis=0) - logs.mean()
    both = logs - logs.mean() - by_row[:, None] - by_column
    squares = [float(np.mean(part**2)) for part in (by_row, by_column, both)]
    first, second, third = (square / sum(squares) for square in squares)
    return Effects(
        _factors([grid.aggregations[row] for row in kept], by_row),
        _factors(grid.indices, by_column),
        (first, second, third),
        float(np.exp(logs.std())),
    )


def _factors(names: list[str], effects: Numbers) -> dict[str, float]:
    found = {name: float(np.exp(effect)) for name, effect in zip(names, effects, strict=True)}
    return dict(sorted(found.items(), key=lambda item: item[1]))

"""Scores of policies in scenarios, as a heat map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.plots.canvas import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

COLOURS = "viridis_r"
"""Dark is bad; works for colour-blind readers, and in greyscale."""

DARK = 0.5
"""Numbers are white above this fraction of the scale."""

MISSING, MISSING_COLOUR = "–", "0.93"
"""The text of a cell without a score."""


def score_figure(
    policies: Sequence[str],
    scenarios: Sequence[str],
    overall: ArrayLike,
    scores: ArrayLike,
    *,
    title: str = "",
    top_is_overall: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Draw overall scores (policy) and those of every scenario (policy, scenario).

    Scores are positive, the smaller the better, coloured on a log scale; NaN where there is none.
    Every cell shows its number, so that colours need not be read exactly. A line separates the
    first column, and the first row if that is an overall one too.
    """
    values = np.column_stack([overall, scores]).astype(np.float64)
    columns = ["overall", *scenarios]
    size = (3.2 + 0.52 * len(columns), 1.9 + 0.3 * len(policies))
    figure, axes = canvas(ax, size)
    norm = _scale(values)
    axes.set_facecolor(MISSING_COLOUR)
    image = axes.pcolormesh(values, norm=norm, cmap=COLOURS, edgecolors="white", linewidth=1.0)
    for (row, column), value in np.ndenumerate(values):
        ink = "white" if value > 0.0 and norm(value) > DARK else "black"
        axes.text(
            column + 0.5, row + 0.5, short(value), color=ink, ha="center", va="center", size=7.5
        )
    axes.axvline(1.0, color="black", linewidth=1.2)
    if top_is_overall:
        axes.axhline(1.0, color="black", linewidth=1.2)
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=40, ha="right")
    axes.set_yticks(np.arange(len(policies)) + 0.5, policies)
    axes.tick_params(length=0)
    axes.invert_yaxis()
    axes.set_title(title, wrap=True)  # it is wider than few columns
    figure.colorbar(image, ax=axes, label="score", pad=0.01)
    return figure


def _scale(values: NDArray[np.float64]) -> LogNorm:
    """Return a log scale over all positive values, even if they are all the same."""
    from matplotlib.colors import LogNorm

    shown = values[values > 0.0]
    low, high = (shown.min(), shown.max()) if shown.size else (1.0, 1.0)
    return LogNorm(low, max(high, 1.01 * low))


def short(value: float) -> str:
    """Write a score in at most four characters below 10 000; a dash for NaN."""
    if math.isnan(value):
        return MISSING
    for below, digits in ((9.995, 2), (99.95, 1)):
        if value < below:
            return f"{value:.{digits}f}"
    return f"{value:.0f}"

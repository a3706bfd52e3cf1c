"""Where a figure is drawn: a new one, or axes that the caller has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(size: tuple[float, float] | None = None) -> Figure:
    """Return an empty figure that notebooks show as a value, and only then."""
    from coopbandits.plots.shown import ShownFigure

    return ShownFigure(figsize=size, layout="constrained")


def canvas(ax: Axes | None, size: tuple[float, float]) -> tuple[Figure, Axes]:
    """Return the caller's axes and their figure, or those of a new figure."""
    if ax is not None:
        return ax.figure.figure, ax  # a subfigure's figure is the whole one
    figure = new_figure(size)
    return figure, figure.subplots()

"""Several regret figures side by side under one legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coopbandits.plots.canvas import new_figure
from coopbandits.plots.regret import Curve, draw_regret

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTHS = (7.2, 10.4)
"""Width in inches of one panel, and of two side by side; a row holds at most two."""
PANEL_HEIGHT, LEGEND_LINE = 3.9, 0.22
SHORTEST_STEP = 1 / 100
"""Points closer together than this share of the axis cannot be distinguished, and are dropped."""


class Panel(NamedTuple):
    """One of the figures; the note goes inside it, at the bottom right."""

    title: str
    curves: Sequence[Curve]
    bounds: Sequence[Curve] = ()
    note: str = ""


def panel_figure(panels: Sequence[Panel], *, xlabel: str = "round", log: str = "") -> Figure:
    """Draw panels in rows of two; a curve with the same name and position looks the same in all.

    It lays out a whole figure; `draw_regret` draws a single one onto given axes.
    """
    columns = min(len(WIDTHS), len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = new_figure()
    grid = figure.subplots(rows, columns, squeeze=False)
    for panel, axes in zip(panels, grid.flat, strict=False):
        curves = [thin(curve, log="x" in log) for curve in panel.curves]
        bounds = [thin(curve, log="x" in log) for curve in panel.bounds]
        draw_regret(axes, curves, bounds, xlabel=xlabel, log=log)
        axes.set_title(panel.title)
        axes.annotate(
            panel.note, (0.98, 0.02), xycoords="axes fraction", ha="right", fontsize="small"
        )
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 1:].flat:
        axes.set_ylabel("")
    legend_lines = _legend(figure, columns + 1)
    figure.set_size_inches(WIDTHS[columns - 1], PANEL_HEIGHT * rows + LEGEND_LINE * legend_lines)
    figure.draw_without_rendering()  # the layout takes as long as drawing, so compute it once
    figure.set_layout_engine("none")
    return figure


def _legend(figure: Figure, columns: int) -> int:
    """Add one legend below all panels; return its number of lines of text."""
    lines = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
    figure.legend(
        list(lines.values()), list(lines), loc="outside lower center", ncols=columns,
        frameon=False, fontsize="small", handlelength=3.0,
    )  # fmt: skip
    return math.ceil(len(lines) / columns)


def thin(curve: Curve, *, log: bool) -> Curve:
    """Drop points that would overlap, but never the first or the last."""
    x = np.asarray(curve.x, dtype=np.float64)
    shown = np.flatnonzero(x > 0) if log else np.arange(x.size)
    if shown.size < 2:
        return curve
    place = np.log(x[shown]) if log else x[shown]
    steps = np.floor((place - place[0]) / (np.ptp(place) or 1.0) / SHORTEST_STEP)
    first = np.flatnonzero(np.diff(steps, prepend=-1.0))
    kept = shown[np.union1d(first, [shown.size - 1])]
    low, high = (part if part is None else np.asarray(part)[kept] for part in curve[3:])
    return Curve(curve.label, x[kept], np.asarray(curve.y)[kept], low, high)

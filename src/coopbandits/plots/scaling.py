"""How a number depends on a setting: points with intervals on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from coopbandits.plots.canvas import canvas
from coopbandits.plots.regret import COLOURS, SIZE, STYLES, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vP*"


def scaling_figure(
    curves: Sequence[Curve], *, xlabel: str, ylabel: str, title: str = "", ax: Axes | None = None
) -> Figure:
    """Draw curves through marked points, with bands; power laws are straight lines."""
    figure, axes = canvas(ax, SIZE)
    for i, curve in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(
            curve.x, curve.y, label=curve.label, color=colour, linewidth=1.8, markersize=5,
            linestyle=STYLES[i % len(STYLES)], marker=MARKERS[i % len(MARKERS)],
        )  # fmt: skip
        if curve.low is not None and curve.high is not None:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    settings = np.unique(np.concatenate([np.ravel(curve.x) for curve in curves]))
    axes.set_xticks(settings, [f"{x:.4g}" for x in settings])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title)
    axes.grid(alpha=0.25, which="both")
    axes.legend(frameon=False, fontsize="small")
    return figure

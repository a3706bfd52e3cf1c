"""Regret of single agents: all of them, with the luckiest and the unluckiest by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from coopbandits.plots.canvas import canvas
from coopbandits.plots.regret import SIZE, Curve, draw_regret, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 7
"""Up to so many agents have a colour and a name each."""
CROWD = "0.75"


def agents_figure(
    curves: Sequence[Curve], *, log: str = "", title: str = "", ax: Axes | None = None
) -> Figure:
    """Draw one curve per agent; many are grey lines, with the two extremes and the mean named."""
    figure, axes = canvas(ax, SIZE)
    shown = list(curves)
    if len(shown) > NAMED:
        for curve in shown:
            axes.plot(curve.x, curve.y, color=CROWD, linewidth=0.7, zorder=1.5)
        shown = _telling(shown)
    draw_regret(axes, shown, log=log)
    axes.set_ylabel("cumulative regret of one agent (reward)")
    legend(axes)
    axes.set_title(title)
    return figure


def _telling(curves: list[Curve]) -> list[Curve]:
    """Return the curves that end highest and lowest, and the mean of all."""
    ends = [float(np.asarray(curve.y)[-1]) for curve in curves]
    highest, lowest = curves[int(np.argmax(ends))], curves[int(np.argmin(ends))]
    mean = np.mean([np.asarray(curve.y) for curve in curves], axis=0)
    return [
        highest._replace(label=f"highest: {highest.label}"),
        Curve(f"mean of {len(curves)} agents", curves[0].x, mean),
        lowest._replace(label=f"lowest: {lowest.label}"),
    ]

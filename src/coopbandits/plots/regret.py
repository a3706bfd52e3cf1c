"""Regret curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from coopbandits.plots.canvas import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, safe for colour-blind readers; line styles differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREYS = ("0.25", "0.5", "0.7")
STYLES = ("-", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
REGRET = "cumulative regret of the network (reward)"
SIZE = (7.2, 4.6)
"""Of a figure with one set of axes, in inches."""
INSIDE_LEGEND = 8
BESIDE_LEGEND = 20
"""Most lines in a legend inside the axes, and in one column beside them."""


class Curve(NamedTuple):
    """One line, with its band where there is one."""

    label: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None


def regret_figure(
    curves: Sequence[Curve],
    bounds: Sequence[Curve] = (),
    *,
    xlabel: str = "round",
    ylabel: str = REGRET,
    log: str = "",
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw curves with bands, and bounds as dashed grey lines, onto `ax` or a new figure."""
    figure, axes = canvas(ax, SIZE)
    draw_regret(axes, curves, bounds, xlabel=xlabel, ylabel=ylabel, log=log)
    legend(axes)
    if ax is None and len(curves) + len(bounds) > BESIDE_LEGEND:  # two columns take their room
        figure.set_size_inches(1.7 * SIZE[0], SIZE[1])
    axes.set_title(title)
    return figure


def draw_regret(
    axes: Axes,
    curves: Sequence[Curve],
    bounds: Sequence[Curve] = (),
    *,
    xlabel: str = "round",
    ylabel: str = REGRET,
    log: str = "",
) -> None:
    """Draw onto given axes, without a legend, so that several can be combined into a figure."""
    for i, curve in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        style = STYLES[(i % len(COLOURS) + i // len(COLOURS)) % len(STYLES)]
        # Dashed lines go on top of solid ones, or two that coincide would look like one.
        above = 2.0 + STYLES.index(style) / len(STYLES)
        _line(axes, curve, color=colour, linestyle=style, linewidth=1.8, zorder=above)
        if curve.low is not None and curve.high is not None:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    for i, bound in enumerate(bounds):
        _line(axes, bound, color=GREYS[i % len(GREYS)], linestyle="--", linewidth=1.2)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    _scale(axes, log)
    axes.grid(alpha=0.25)


def _line(axes: Axes, curve: Curve, **style: Any) -> None:
    label = curve.label.replace("$", r"\$")  # else two of them enclose a formula
    marker = "o" if np.size(curve.x) == 1 else ""
    axes.plot(curve.x, curve.y, label=label, marker=marker, **style)


def legend(axes: Axes) -> None:
    """Put the legend where rising curves leave room, or beside the axes if it is long."""
    lines = len(axes.get_legend_handles_labels()[0])
    if not lines:
        return
    beside = {"bbox_to_anchor": (1.01, 1.0)} if lines > INSIDE_LEGEND else {}
    columns = math.ceil(lines / BESIDE_LEGEND)
    axes.legend(loc="upper left", frameon=False, fontsize="small", ncols=columns, **beside)


def _scale(axes: Axes, log: str) -> None:
    """Scale both axes; an axis without positive values stays linear."""
    lines = axes.get_lines()
    if "x" in log and any(np.any(np.asarray(line.get_xdata()) > 0) for line in lines):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(_short)
    if "y" in log and any(np.any(np.asarray(line.get_ydata()) > 0) for line in lines):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(_short)


def _short(value: float, position: float | None = None) -> str:
    """Write numbers up to 12 000 in full, and larger round ones with a unit."""
    del position
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:,.0f}".replace(",", "\u2009") if value == round(value) else f"{value:g}"

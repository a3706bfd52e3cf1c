"""Regret curves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike

# Okabe and Ito's colours, told apart by colour-blind readers; line styles differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


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
    log: str = "",
    title: str = "",
) -> Figure:
    """Draw curves with bands, and bounds as dashed grey lines."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    draw_regret(axes, curves, bounds, xlabel=xlabel, log=log)
    axes.set_title(title)
    return figure


def draw_regret(
    axes: Axes,
    curves: Sequence[Curve],
    bounds: Sequence[Curve] = (),
    *,
    xlabel: str = "round",
    log: str = "",
) -> None:
    """Draw onto given axes, so that several figures can stand side by side."""
    for i, (curve, colour) in enumerate(zip(curves, cycle(COLOURS), strict=False)):
        style = (
            STYLES[i // len(COLOURS) % len(STYLES)]
            if i >= len(COLOURS)
            else STYLES[i % len(STYLES)]
        )
        axes.plot(curve.x, curve.y, color=colour, linestyle=style, label=curve.label, linewidth=1.8)
        if curve.low is not None and curve.high is not None:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    for bound in bounds:
        axes.plot(bound.x, bound.y, color="0.45", linestyle="--", label=bound.label, linewidth=1.2)
    axes.set_xlabel(xlabel)
    axes.set_ylabel("cumulative regret of the network (reward)")
    _scale(axes, log)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize="small")


def _scale(axes: Axes, log: str) -> None:
    if "x" in log:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(FuncFormatter(_short))
    if "y" in log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(_short))


def _short(value: float, position: int | None = None) -> str:
    """Write 12 000 as such, and larger round numbers with a unit."""
    del position
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:,.0f}".replace(",", "\u2009") if value == round(value) else f"{value:g}"

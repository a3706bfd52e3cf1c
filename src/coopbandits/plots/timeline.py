"""What was chosen over time, and what it was worth, with marks where something happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from coopbandits.plots.canvas import new_figure
from coopbandits.plots.regret import COLOURS, STYLES, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (8.4, 6.0)
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "+++")


class Moment(NamedTuple):
    """A moment, and what happened then in a few words."""

    time: float
    text: str


def timeline_figure(
    times: ArrayLike,
    names: Sequence[str],
    shares: ArrayLike,
    curves: Sequence[Curve],
    moments: Sequence[Moment] = (),
    *,
    ylabel: str,
    title: str = "",
) -> Figure:
    """Draw shares (time, name) as layers, and below them curves over the same time."""
    figure = new_figure(SIZE)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _layers(above, times, names, np.asarray(shares, dtype=np.float64))
    for i, curve in enumerate(curves):
        below.plot(
            curve.x, curve.y, label=curve.label, color=("black", "0.55")[i % 2],
            linestyle=STYLES[i % len(STYLES)], linewidth=1.8,
        )  # fmt: skip
    below.set_ylim(0.0, 1.0)
    below.set_ylabel(ylabel)
    below.set_xlabel("seconds")
    below.grid(alpha=0.25)
    below.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    for i, moment in enumerate(moments):
        _mark(above, below, moment, line=i % 2)
    above.set_title(title, pad=32 if moments else None)
    return figure


def _layers(axes: Axes, times: ArrayLike, names: Sequence[str], shares: ArrayLike) -> None:
    """Stack the shares; layers differ in hatching as well as in colour."""
    layers = axes.stackplot(
        times, np.transpose(shares), labels=names,
        colors=[COLOURS[i % len(COLOURS)] for i in range(len(names))], alpha=0.75,
    )  # fmt: skip
    for i, layer in enumerate(layers):
        layer.set_hatch(HATCHES[i % len(HATCHES)])
        layer.set_edgecolor("white")
        layer.set_linewidth(0.5)
    axes.set_ylim(0.0, 1.0)
    all_times = np.asarray(times)
    axes.set_xlim(all_times.min(), all_times.max())
    axes.set_ylabel("share of choices")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False
    )


def _mark(above: Axes, below: Axes, moment: Moment, line: int) -> None:
    """Mark a moment; its text goes onto one of two lines, since the next one may be close."""
    for axes in (above, below):
        axes.axvline(moment.time, color="black", linewidth=1.2, linestyle=":")
    above.annotate(
        moment.text, (moment.time, 1.0), xycoords=("data", "axes fraction"),
        xytext=(0, 4 + 12 * line), textcoords="offset points", ha="center", fontsize="small",
    )  # fmt: skip

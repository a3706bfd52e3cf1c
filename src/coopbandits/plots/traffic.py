"""Regret against what was sent: one point per policy, with its name beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.plots.canvas import canvas
from coopbandits.plots.regret import COLOURS, REGRET, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (8.4, 5.6)
"""Of the figure, in inches."""

TEXT = 7.5
"""Size of names, in points; a letter is about 0.6 of it wide."""

ROOM = 480.0, 330.0
"""The axes, in points, about: names are kept apart by it."""


class Point(NamedTuple):
    """One policy: what all agents sent, and what they lost, with an interval where there is one."""

    label: str
    sent: float
    lost: float
    low: float = math.nan
    high: float = math.nan


def traffic_point(curve: Curve, sent: float) -> Point:
    """Return the end of a curve as a point."""
    ends = (float(np.ravel(side)[-1]) for side in (curve.low, curve.high) if side is not None)
    return Point(curve.label, sent, float(np.ravel(curve.y)[-1]), *ends)


def traffic_figure(
    points: Sequence[Point],
    *,
    xlabel: str = "values sent by all agents",
    ylabel: str = REGRET,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw losses against what was sent, on logarithmic axes; who sends nothing stands at the left.

    The line joins those that nobody beats in both. Points without a loss are left out: a logarithm
    has no place for them.
    """
    figure, axes = canvas(ax, SIZE)
    shown = sorted((point for point in points if point.lost > 0.0), key=lambda point: point.lost)
    if not shown:
        return figure
    nothing = min((point.sent for point in shown if point.sent > 0.0), default=1.0) / 10.0
    x = np.array([max(point.sent, nothing) for point in shown])
    y = np.array([point.lost for point in shown])
    _draw_best(axes, x, y)
    for at, point in enumerate(shown):
        if not math.isnan(point.low):
            axes.plot([x[at]] * 2, [max(point.low, y[at] / 10.0), point.high], color="0.6", lw=1.0)
    axes.plot(x, y, "o", color=COLOURS[0], markersize=5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(x.min() / 2.0, x.max() * 6.0)
    axes.set_ylim(y.min() / 1.5, y.max() * 1.5)
    _write_names(axes, [point.label for point in shown], x, y)
    if x.min() == nothing:
        _mark_nothing(axes, nothing)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title)
    axes.grid(alpha=0.25)
    return figure


def _draw_best(axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    """Join the points that no other one beats in both; `y` rises."""
    best: list[int] = []
    for at in range(len(x)):
        if not best or x[at] < x[best[-1]]:
            best.append(at)
    axes.step(x[best], y[best], where="post", color="0.75", lw=1.2, linestyle="--", zorder=1)


def _mark_nothing(axes: Axes, nothing: float) -> None:
    """Call the place of those that send nothing what it is."""
    places = [tick for tick in axes.get_xticks() if tick > nothing * 1.01]
    low, high = axes.get_xlim()
    inside = [tick for tick in places if low < tick < high]
    names = [f"$10^{{{round(math.log10(tick))}}}$" for tick in inside]
    axes.set_xticks([nothing, *inside], ["0", *names])
    axes.set_xticks([], minor=True)


def _write_names(
    axes: Axes, names: Sequence[str], x: NDArray[np.float64], y: NDArray[np.float64]
) -> None:
    """Write every name beside its point, where no other name and no point is."""
    places = np.column_stack([_along(x, axes.get_xlim()), _along(y, axes.get_ylim())]) * ROOM
    taken = [(left - 3.0, low - 3.0, left + 3.0, low + 3.0) for left, low in places.tolist()]
    for at, (name, (left, low)) in enumerate(zip(names, places.tolist(), strict=True)):
        width = 0.56 * TEXT * len(name)
        sides = ((5.0, "left"), (-5.0 - width, "right"), (-width / 2.0, "center"))
        rises = sorted((0.5 * step for step in range(-12, 13)), key=abs)
        options = [
            (_box(left + side, low + TEXT * (rise - 0.5), width), aligned)
            for rise in rises
            for side, aligned in sides
        ]
        free = (option for option in options if _is_free(option[0], taken))
        box, aligned = next(free, options[0])
        taken.append(box)
        is_far = abs(box[1] + TEXT / 2.0 - low) > TEXT
        # Widths are guesses, so the side next to the point is what a name is aligned by.
        edge = {"left": box[0], "right": box[2], "center": (box[0] + box[2]) / 2.0}[aligned]
        axes.annotate(
            name.replace("$", r"\$"), (x[at], y[at]), size=TEXT, ha=aligned,
            xytext=(edge / ROOM[0], box[1] / ROOM[1]), textcoords="axes fraction",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8},
            arrowprops={"arrowstyle": "-", "color": "0.6", "lw": 0.6} if is_far else None,
        )  # fmt: skip


Box = tuple[float, float, float, float]


def _box(left: float, low: float, width: float) -> Box:
    return left, low, left + width, low + TEXT


def _is_free(box: Box, taken: Sequence[Box]) -> bool:
    inside = box[0] >= 0.0 and box[2] <= ROOM[0] and box[1] >= 0.0 and box[3] <= ROOM[1]
    return inside and not any(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
        for other in taken
    )


def _along(values: NDArray[np.float64], limits: tuple[float, float]) -> NDArray[np.float64]:
    """Return places on a logarithmic axis, from 0 to 1."""
    low, high = np.log(limits[0]), np.log(limits[1])
    found: NDArray[np.float64] = (np.log(values) - low) / (high - low)
    return found

"""A graph: nodes at given places, in colours of their values, and lines between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.plots.regret import COLOURS
from coopbandits.plots.scaling import MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLAIN = "#56B4E9"
RIM: dict[str, Any] = {"edgecolors": "black", "linewidths": 0.6, "zorder": 2}
"""Of nodes, which lie above lines."""
EDGE = "0.6"
WIDTHS = (0.5, 4.0)
"""Of the edges with the least and the most weight, in points."""
MARGIN = 0.08
SHORT = 3
"""Names of so many characters fit into a node."""


def draw_graph(
    axes: Axes,
    positions: ArrayLike,
    edges: ArrayLike,
    *,
    values: ArrayLike | None = None,
    legend: str = "",
    labels: Sequence[str] = (),
    widths: ArrayLike | None = None,
) -> None:
    """Draw a graph onto given axes.

    Numbers among `values` are shown by a colour scale, texts by colours and shapes of their own.
    """
    places = np.asarray(positions, dtype=np.float64)
    prepare(axes, places)
    draw_edges(axes, places, np.asarray(edges), None if widths is None else np.asarray(widths))
    inside = bool(labels) and max(map(len, labels)) <= SHORT
    size = 2.0 * node_size(len(places)) if inside else node_size(len(places))
    if values is None:
        axes.scatter(places[:, 0], places[:, 1], s=size, color=PLAIN, **RIM)
    elif np.issubdtype((found := np.asarray(values)).dtype, np.number):
        shown = axes.scatter(places[:, 0], places[:, 1], s=size, c=found, cmap="viridis", **RIM)
        axes.figure.figure.colorbar(shown, ax=axes, label=legend, shrink=0.7)
    else:
        _draw_kinds(axes, places, found, legend, size)
    _write_labels(axes, places, labels, 0.0 if inside else -0.55 * size**0.5)


def _write_labels(
    axes: Axes, places: NDArray[np.float64], labels: Sequence[str], below: float
) -> None:
    """Write names into nodes or so many points below, with a rim that lifts them off lines."""
    from matplotlib.patheffects import withStroke

    for place, label in zip(places, labels, strict=False):
        axes.annotate(
            label.replace("$", r"\$"), place, xytext=(0, below), textcoords="offset points",
            ha="center", va="top" if below else "center", fontsize="small",
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip


def prepare(axes: Axes, places: NDArray[np.float64]) -> None:
    """Leave nothing on the axes but the graph, undistorted, with room for nodes at the rim."""
    axes.set_aspect("equal")
    axes.set_axis_off()
    low, high = places.min(axis=0), places.max(axis=0)
    axes.set_xlim(low[0] - MARGIN, high[0] + MARGIN)
    axes.set_ylim(low[1] - MARGIN, high[1] + MARGIN)


def node_size(number: int) -> float:
    """Return the area of a node in square points: smaller where there are many."""
    return float(np.clip(6000.0 / number, 6.0, 180.0))


def draw_edges(
    axes: Axes,
    places: NDArray[np.float64],
    edges: NDArray[Any],
    weights: NDArray[np.float64] | None = None,
) -> None:
    """Draw the lines, wider where the weight is larger."""
    from matplotlib.collections import LineCollection

    widths: Any = 1.0
    if weights is not None:
        least, most = float(weights.min()), float(weights.max())
        widths = np.interp(weights, (least, most), WIDTHS) if most > least else 1.0
    lines = LineCollection(list(places[edges]), colors=EDGE, linewidths=widths, zorder=1)
    axes.add_collection(lines)


def _draw_kinds(
    axes: Axes, places: NDArray[np.float64], kinds: NDArray[Any], legend: str, size: float
) -> None:
    texts = [str(kind) for kind in kinds]
    for i, kind in enumerate(sorted(set(texts))):
        here = [text == kind for text in texts]
        axes.scatter(
            places[here, 0], places[here, 1], s=size, label=kind, color=COLOURS[i % len(COLOURS)],
            marker=MARKERS[i % len(MARKERS)], **RIM,
        )  # fmt: skip
    small = (40.0 / size) ** 0.5  # or the legend's nodes would overlap
    axes.legend(title=legend, frameon=False, loc="best", fontsize="small", markerscale=small)

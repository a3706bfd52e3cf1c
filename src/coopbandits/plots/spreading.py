"""How news spreads over a graph: a film, or a page that plays it by itself.

Colours say how much of the truth an agent has, as ink that spreads: white is nothing, blue all of
it, black more than there is, and pink less than nothing. Who knows it has a thick rim as well.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.plots.canvas import new_figure
from coopbandits.plots.graph import draw_edges, node_size, prepare
from coopbandits.plots.regret import COLOURS, STYLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text
    from PIL.Image import Image

SCALE = ((-1.0, "#CC79A7"), (0.0, "#FFFFFF"), (1.0, "#0072B2"), (3.0, "#000000"))
"""Shares of the truth and their colours; between two of them they are blended."""
CLOSE = 0.05
"""Who is this close to the truth knows it."""
RIMS = (0.5, 1.8)
"""Of nodes that do not know it, and that do, in points."""

DPI = 80
SHADES, GREYS, TINTS = 100, 40, 16
"""Colours of a film: of nodes; between black and white; and of each curve, where it is thin."""
MILLISECONDS, LAST_MILLISECONDS = 250, 3000
"""Of a round, and of the last one before the film begins again."""
PANEL = 3.1
"""Inches of one graph."""


class Scene(NamedTuple):
    """What is shown.

    Attributes
    ----------
    title : str
        Above all.
    positions, edges : array
        Where nodes are (node, 2), and which of them have a line between them (line, 2).
    labels : tuple of str
        Their names.
    source : int
        The node that has the news.
    names : tuple of str
        What is compared.
    values : array
        The share of the truth (name, round, node).
    informed : array
        The share of nodes that know it (name, round).
    """

    title: str
    positions: NDArray[np.float64]
    edges: NDArray[np.int64]
    labels: tuple[str, ...]
    source: int
    names: tuple[str, ...]
    values: NDArray[np.float64]
    informed: NDArray[np.float64]


def html_page(scene: Scene) -> str:
    """Return a page that holds everything it needs."""
    page = files("coopbandits.plots").joinpath("spreading.html").read_text(encoding="utf-8")
    data = {
        "labels": scene.labels,
        "source": scene.source,
        "names": scene.names,
        "positions": np.round(scene.positions, 4).tolist(),
        "edges": scene.edges.tolist(),
        "permille": np.round(1000.0 * scene.values).astype(int).tolist(),
        "informed": np.round(scene.informed, 4).tolist(),
        "colours": COLOURS,
        "scale": SCALE,
        "close": CLOSE,
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # no tag can end it
    parts = {"{{title}}": escape(scene.title), "{{data}}": text}
    # In one go: a name may hold what stands for another part.
    return re.sub(r"\{\{(title|data)\}\}", lambda found: parts[found[0]], page)


def gif_bytes(scene: Scene) -> bytes:
    """Return a film, one picture per round, that begins again at its end."""
    first, *rest = list(_pictures(scene))
    durations = [MILLISECONDS] * len(rest) + [LAST_MILLISECONDS]
    buffer = io.BytesIO()
    first.save(
        buffer, "gif", save_all=True, append_images=rest, duration=durations, loop=0, disposal=1
    )
    return buffer.getvalue()


def _pictures(scene: Scene) -> Iterator[Image]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure, nodes, captions, line = _draw(scene)
    palette = _palette(len(scene.names))
    canvas: Any = FigureCanvasAgg(figure)  # its methods have no types
    for at in range(scene.values.shape[1]):
        for i, (shown, caption) in enumerate(zip(nodes, captions, strict=True)):
            shown.set_array(scene.values[i, at])
            shown.set_linewidth(_rims(scene.values[i, at]))
            caption.set_text(f"round {at}: {scene.informed[i, at]:.0%} know it")
        line.set_xdata([at, at])
        canvas.draw()
        places = _nearest(np.asarray(canvas.buffer_rgba())[..., :3], palette)
        picture = Image.fromarray(places, mode="P")
        picture.putpalette(palette.astype(np.uint8).tobytes())
        yield picture


def _nearest(pixels: NDArray[np.uint8], palette: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the place of the nearest colour in the palette for every pixel.

    Pillow's own search goes by cells of eight levels, and makes white a shade of pink.
    """
    packed = pixels.astype(np.int64) @ [1 << 16, 1 << 8, 1]
    found, where = np.unique(packed, return_inverse=True)
    colours = found[:, None] >> np.array([16, 8, 0]) & 255
    distances = ((colours[:, None, :] - palette[None, :, :]) ** 2).sum(axis=-1)
    nearest: NDArray[np.uint8] = distances.argmin(axis=1).astype(np.uint8)
    return nearest[where].reshape(pixels.shape[:2])


def _palette(curves: int) -> NDArray[np.int64]:
    """Return the colours of all pictures: the same ones, so that only what changes is stored."""
    from matplotlib.colors import LinearSegmentedColormap

    fades = [(GREYS, ("white", "black"))]
    fades += [(TINTS, ("white", colour)) for colour in COLOURS[: min(curves, len(COLOURS))]]
    colours = [
        LinearSegmentedColormap.from_list("fade", ends)(np.linspace(0.0, 1.0, number))
        for number, ends in fades
    ]
    colours.append(_colours()(np.linspace(0.0, 1.0, SHADES)))
    return np.round(255 * np.vstack(colours)[:, :3]).astype(np.int64)


def _draw(scene: Scene) -> tuple[Figure, list[PathCollection], list[Text], Line2D]:
    """Draw the first picture; return what changes in the others."""
    number = len(scene.names)
    figure = new_figure((PANEL * number, PANEL + 2.2))
    figure.set_dpi(DPI)
    grid = figure.add_gridspec(2, number, height_ratios=(PANEL + 0.3, 1.9))
    nodes, captions = [], []
    for i, name in enumerate(scene.names):
        axes = figure.add_subplot(grid[0, i])
        nodes.append(_draw_nodes(axes, scene, scene.values[i, 0]))
        axes.set_title(name)
        captions.append(axes.text(0.5, -0.02, "", transform=axes.transAxes, ha="center", va="top"))
    line = _draw_informed(figure.add_subplot(grid[1, :]), scene.names, scene.informed)
    figure.suptitle(scene.title.replace("$", r"\$"))
    for caption in captions:
        caption.set_text("round 000: 100 % know it")  # room for the longest
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # or graphs would jump from picture to picture
    return figure, nodes, captions, line


def _draw_nodes(axes: Axes, scene: Scene, values: NDArray[np.float64]) -> PathCollection:
    from matplotlib.colors import Normalize

    prepare(axes, scene.positions)
    draw_edges(axes, scene.positions, scene.edges)
    x, y = scene.positions.T
    size = node_size(4 * len(x))
    axes.scatter(x[scene.source], y[scene.source], s=3.5 * size, color="none", edgecolors="black")
    return axes.scatter(
        x, y, s=size, c=values, cmap=_colours(), norm=Normalize(SCALE[0][0], SCALE[-1][0]),
        edgecolors="black", linewidths=_rims(values), zorder=2,
    )  # fmt: skip


def _draw_informed(axes: Axes, names: Sequence[str], informed: NDArray[np.float64]) -> Line2D:
    rounds = np.arange(informed.shape[1])
    for i, name in enumerate(names):
        axes.plot(
            rounds, informed[i], label=name, color=COLOURS[i % len(COLOURS)],
            linestyle=STYLES[i % len(STYLES)], linewidth=1.8,
        )  # fmt: skip
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlim(0, max(1, rounds[-1]))
    axes.set_xlabel("round")
    axes.set_ylabel("agents that know it")
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")
    return axes.axvline(0.0, color="black", linewidth=1.0)


def _rims(values: NDArray[np.float64]) -> list[float]:
    return [RIMS[abs(value - 1.0) <= CLOSE] for value in values.tolist()]


def _colours() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    low, high = SCALE[0][0], SCALE[-1][0]
    steps = [((value - low) / (high - low), colour) for value, colour in SCALE]
    return LinearSegmentedColormap.from_list("truth", steps)

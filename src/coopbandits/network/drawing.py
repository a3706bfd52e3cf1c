"""A network as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.plots.canvas import canvas
from coopbandits.plots.files import figure_bytes
from coopbandits.plots.graph import draw_graph
from coopbandits.plots.writing import write_files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from coopbandits.network.network import Network

LABELLED = 40
"""Up to so many agents have their names shown."""

SIZE = (6.0, 6.0)
ALIKE = 1e-9
"""Weights that differ less are drawn alike."""


def draw_network(
    network: Network,
    values: ArrayLike | str | None,
    *,
    labels: bool | None,
    title: str,
    path: str | Path | None,
    ax: Axes | None,
) -> Figure | Axes:
    """Draw a network; see `Network.plot`."""
    found, legend = _values(network, values)
    named = network.num_agents <= LABELLED if labels is None else labels
    figure, axes = canvas(ax, SIZE)
    draw_graph(
        axes,
        network.positions,
        network.edges,
        values=found,
        legend=legend,
        labels=tuple(map(str, network.labels)) if named else (),
        widths=_weights(network),
    )
    axes.set_title(title)
    if path is not None:
        content = figure_bytes(figure, Path(path).suffix.lower().lstrip("."))
        write_files({Path(path): content})
    return figure if ax is None else ax


def _values(
    network: Network, values: ArrayLike | str | None
) -> tuple[NDArray[np.generic] | None, str]:
    """Return one value per agent, and what to call them."""
    if values is None:
        return None, ""
    if isinstance(values, str):
        if values not in network.attributes:
            raise unknown_name("attribute of this network's agents", values, network.attributes)
        return np.array(network.attributes[values]), values
    found = np.asarray(values)
    if found.shape != (network.num_agents,):
        raise InputError(
            f"values have the shape {found.shape}; give one value for each of the "
            f"{network.num_agents} agents"
        )
    return found, ""


def _weights(network: Network) -> NDArray[np.float64] | None:
    """Return the weight of every edge in P; None if all are alike."""
    entries = network.matrix.tocoo()
    pairs = zip(*(each.tolist() for each in entries.coords), strict=True)
    weights = dict(zip(pairs, entries.data.tolist(), strict=True))
    found = np.array([weights.get((i, j), 0.0) for i, j in network.edges.tolist()])
    return None if found.size == 0 or np.ptp(found) < ALIKE else found

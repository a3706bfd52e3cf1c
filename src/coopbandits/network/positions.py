"""Where agents are drawn: by the graph's own structure where it has one, else by springs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy import sparse

    from coopbandits.network.adjacency import Attributes

Positions = NDArray[np.float64]

COORDINATES = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"))
"""Attributes of nodes that say where they are."""

SEED, ITERATIONS = 1, 100
"""Of the springs: the same graph is always drawn alike."""


def positions(adjacency: sparse.csr_array, attributes: Attributes) -> Positions:
    """Return a place (x, y) in the unit square for every agent, y upwards.

    Nodes with coordinates are put there. A path is a line, a cycle and a complete graph are
    circles, a star has its centre in the middle, and a grid that is numbered row by row is a grid.
    """
    told = _told(attributes)
    if told is not None:
        return into_unit_square(told)
    size, degrees = adjacency.shape[0], np.diff(adjacency.indptr)
    edges = adjacency.nnz // 2
    if size > 1 and degrees.max() <= 2:
        return into_unit_square(_along(adjacency, closed=edges == size))
    if edges == size * (size - 1) // 2:
        return into_unit_square(circle(size))
    if degrees.max() == size - 1 == edges:
        return into_unit_square(_star(int(degrees.argmax()), size))
    columns = _grid_columns(adjacency)
    if columns:
        at = np.arange(size)
        return into_unit_square(np.column_stack([at % columns, -(at // columns)]))
    return into_unit_square(_springs(adjacency))


def into_unit_square(places: NDArray[np.generic]) -> Positions:
    """Return places moved and scaled, both directions alike, to the middle of the unit square."""
    points = np.asarray(places, dtype=np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    scale = float((high - low).max()) or 1.0
    middle: Positions = (points - (low + high) / 2.0) / scale + 0.5
    return middle


def circle(size: int) -> Positions:
    """Return places on a circle, from the top clockwise."""
    angles = 2.0 * np.pi * np.arange(size) / size
    return np.column_stack([np.sin(angles), np.cos(angles)])


def _told(attributes: Attributes) -> Positions | None:
    for names in COORDINATES:
        if all(name in attributes for name in names):
            try:
                found = np.array([attributes[name] for name in names], dtype=np.float64).T
            except (TypeError, ValueError):  # some node has none, or a text
                continue
            if np.isfinite(found).all():
                return found
    return None


def _along(adjacency: sparse.csr_array, *, closed: bool) -> Positions:
    """Return places of a path or a cycle, whose agents may be numbered in any order."""
    size = adjacency.shape[0]
    start = 0 if closed else int(np.diff(adjacency.indptr).argmin())
    order, before = [start], -1
    while len(order) < size:
        first, last = adjacency.indptr[order[-1] : order[-1] + 2]
        here = order[-1]
        ahead = [j for j in adjacency.indices[first:last].tolist() if j != before]
        order.append(ahead[0])
        before = here
    places = np.empty((size, 2))
    line = np.column_stack([np.arange(size), np.zeros(size)])
    places[order] = circle(size) if closed else line
    return places


def _star(centre: int, size: int) -> Positions:
    places = np.zeros((size, 2))
    places[np.arange(size) != centre] = circle(size - 1)
    return places


def _grid_columns(adjacency: sparse.csr_array) -> int:
    """Return the number of columns of a grid that is numbered row by row; 0 if it is none."""
    size = adjacency.shape[0]
    pairs = adjacency.tocoo()
    steps = np.unique(np.abs(pairs.coords[0] - pairs.coords[1]))
    if len(steps) != 2 or steps[0] != 1:
        return 0
    columns = int(steps[1])
    rows, rest = divmod(size, columns)
    # All edges join neighbours in a row or in a column, none the end of a row and the next row.
    low = np.minimum(*pairs.coords)
    across = np.abs(pairs.coords[0] - pairs.coords[1]) == 1
    wraps = bool((low[across] % columns == columns - 1).any())
    whole = adjacency.nnz // 2 == rows * (columns - 1) + columns * (rows - 1)
    return columns if rest == 0 and whole and not wraps else 0


def _springs(adjacency: sparse.csr_array) -> Positions:
    import networkx as nx  # imported late: it takes a noticeable time

    graph = nx.from_scipy_sparse_array(adjacency)
    found = nx.spring_layout(graph, seed=SEED, iterations=ITERATIONS)
    return np.array([found[agent] for agent in range(adjacency.shape[0])])

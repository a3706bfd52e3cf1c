"""Reads anything that describes a graph into one sparse adjacency, or says why it cannot."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, SupportsFloat, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from coopbandits.core.errors import InputError

GraphLike: TypeAlias = Any
"""A networkx graph, a sparse or dense adjacency, or an iterable of pairs (scipy is untyped)."""

Labels: TypeAlias = tuple[Any, ...]
Attributes: TypeAlias = dict[str, tuple[str | float, ...]]


def is_networkx(graph: GraphLike) -> bool:
    """Return whether it is a graph of networkx, which whoever has one has imported."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(graph, networkx.Graph)


def read_adjacency(graph: GraphLike) -> tuple[sparse.csr_array, Labels]:
    """Return the 0/1 adjacency (canonical CSR, float64) and the node labels, both checked.

    A nonzero adjacency entry is an edge, and so is every edge of a networkx graph; `edge_weights`
    tells what they weigh. An edge list may name an edge twice.
    """
    if is_networkx(graph):
        adjacency, labels = _from_networkx(graph)
    elif sparse.issparse(graph):
        adjacency, labels = _from_sparse(graph)
    elif isinstance(graph, np.ndarray):
        adjacency, labels = _from_sparse(_dense_to_sparse(graph))
    elif isinstance(graph, Iterable) and not isinstance(graph, str | bytes):
        adjacency, labels = _from_edges(graph)
    else:
        raise InputError(
            f"graph is {graph!r}; give a networkx Graph, an adjacency matrix or an edge list, "
            "and for a shorthand such as 'cycle:100' call Network.from_spec"
        )
    _check_simple(adjacency, labels)
    _check_connected(adjacency, labels)
    return adjacency, labels


def edge_weights(
    graph: GraphLike, adjacency: sparse.csr_array, labels: Labels
) -> NDArray[np.float64] | None:
    """Return the weight of every entry of the adjacency; None where all edges weigh the same.

    An edge of a networkx graph weighs what its attribute `weight` says, and 1 without.
    """
    if is_networkx(graph):
        weights = _attributes(graph, adjacency, labels)
    elif sparse.issparse(graph) or isinstance(graph, np.ndarray):
        entries = sparse.csr_array(graph, dtype=np.float64, copy=True)
        entries.sum_duplicates()
        entries.eliminate_zeros()
        weights = entries.data
    else:
        return None
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        first, second = labels[entry_rows(adjacency)[bad[0]]], labels[adjacency.indices[bad[0]]]
        raise InputError(
            f"edge {first!r} – {second!r} has the weight {weights[bad[0]]:g}; a weight is a finite "
            "number from 0 on, and a larger one mixes more, so change it or remove all weights"
        )
    if weights.size and not weights.any():
        raise InputError(
            "all edges have the weight 0, so that nothing would mix; give them weights above 0, or "
            "remove all weights"
        )
    return None if (weights == weights[:1]).all() else np.asarray(weights, dtype=np.float64)


def _attributes(graph: Any, adjacency: sparse.csr_array, labels: Labels) -> NDArray[np.float64]:
    """Return the attribute `weight` of every entry of the adjacency, and 1 where there is none."""
    weights = np.ones(adjacency.nnz)
    if not any("weight" in data for _, _, data in graph.edges(data=True)):
        return weights
    for place, (i, j) in enumerate(zip(entry_rows(adjacency), adjacency.indices, strict=True)):
        weight = graph.edges[labels[i], labels[j]].get("weight", 1.0)
        if isinstance(weight, str) or not isinstance(weight, SupportsFloat):
            raise InputError(
                f"edge {labels[i]!r} – {labels[j]!r} has the weight {weight!r}; weights are "
                "numbers, so change it or remove all weights"
            )
        weights[place] = float(weight)
    return weights


def node_attributes(graph: GraphLike) -> Attributes:
    """Return the attributes that every node of a networkx graph has, and has as text or number."""
    if not is_networkx(graph):
        return {}
    nodes = [data for _, data in graph.nodes(data=True)]
    shared = [name for name in nodes[0] if isinstance(name, str)]
    columns = {name: [data.get(name) for data in nodes] for name in shared}
    return {
        name: tuple(values)
        for name, values in columns.items()
        if any(all(isinstance(value, kind) for value in values) for kind in (str, int | float))
    }


def breadth_first_depths(adjacency: sparse.csr_array, start: int) -> NDArray[np.int64]:
    """Return the distance of every node of a connected graph from `start`."""
    _, parents = csgraph.breadth_first_order(adjacency, start)
    parents[start] = start
    depths = np.ones(adjacency.shape[0], dtype=np.int64)
    depths[start] = 0
    # Pointer doubling takes log2(diameter) vector passes; a walk level by level would take as
    # many passes as the diameter.
    while (parents != start).any():
        depths += depths[parents]
        parents = parents[parents]
    return depths


def require_finite_numbers(matrix: Any, name: str) -> None:
    """Refuse entries that are not finite numbers."""
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{name} has entries of type {matrix.dtype}; entries must be real numbers")
    values = matrix.data if sparse.issparse(matrix) else matrix
    bad = values[~np.isfinite(values)]
    if bad.size:
        raise InputError(f"{name} has the entry {bad[0]}; entries must be finite numbers")


def frozen(matrix: sparse.csr_array) -> sparse.csr_array:
    """Bring a CSR matrix to canonical form and make its arrays read-only."""
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.setflags(write=False)
    return matrix


def entry_rows(matrix: sparse.csr_array) -> NDArray[np.intp]:
    """Return the row of every stored entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _from_networkx(graph: Any) -> tuple[sparse.csr_array, Labels]:
    if graph.is_directed():
        raise InputError(
            "graph is directed; messages go both ways over an edge, so give an undirected graph, "
            "for instance graph.to_undirected()"
        )
    if graph.is_multigraph():
        raise InputError(
            "graph is a multigraph; two agents share at most one edge, so give a simple graph, "
            "for instance networkx.Graph(graph)"
        )
    labels = tuple(graph.nodes)
    _require_agents(len(labels))
    number = {label: i for i, label in enumerate(labels)}
    ends = [(number[u], number[v]) for u, v in graph.edges]
    return _from_ends(ends, len(labels)), labels


def _dense_to_sparse(graph: NDArray[Any]) -> sparse.csr_array:
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise InputError(
            f"adjacency has shape {graph.shape}; it must be square, one row per agent "
            "(an edge list must be a list of pairs, not an array)"
        )
    require_finite_numbers(graph, "adjacency")
    return sparse.csr_array(np.asarray(graph))


def _from_sparse(graph: Any) -> tuple[sparse.csr_array, Labels]:
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise InputError(f"adjacency has shape {graph.shape}; it must be square, one row per agent")
    _require_agents(graph.shape[0])
    require_finite_numbers(graph, "adjacency")
    # The copy also shields us from later changes by the caller.
    adjacency = sparse.csr_array(graph, dtype=np.float64, copy=True)
    adjacency.sum_duplicates()
    adjacency.eliminate_zeros()
    _require_symmetric(adjacency)
    adjacency.data[:] = 1.0
    return frozen(adjacency), tuple(range(graph.shape[0]))


def _require_symmetric(adjacency: sparse.csr_array) -> None:
    difference = adjacency != adjacency.T
    if difference.nnz:
        i, j = (int(index[0]) for index in difference.nonzero())
        raise InputError(
            f"adjacency must be symmetric: entry ({i}, {j}) is {adjacency[i, j]:g} and entry "
            f"({j}, {i}) is {adjacency[j, i]:g}; messages go both ways over an edge, so give the "
            "undirected adjacency, for instance A + A.T"
        )


def _from_edges(edges: Iterable[Any]) -> tuple[sparse.csr_array, Labels]:
    pairs = [_pair(position, edge) for position, edge in enumerate(edges)]
    if not pairs:
        raise InputError(
            "edge list is empty, so it names no agents; a single agent cannot be given as an edge "
            "list, give networkx.empty_graph(1)"
        )
    labels = ordered_labels(pairs)
    number = {label: i for i, label in enumerate(labels)}
    ends = [(number[u], number[v]) for u, v in pairs]
    return _from_ends(ends, len(labels)), labels


def ordered_labels(pairs: Iterable[tuple[Any, Any]]) -> Labels:
    """Return the distinct labels, sorted if they are comparable, else as first seen."""
    seen = dict.fromkeys(label for pair in pairs for label in pair)
    try:
        return tuple(sorted(seen))
    except TypeError:
        return tuple(seen)


def _pair(position: int, edge: Any) -> tuple[Any, Any]:
    try:
        if isinstance(edge, str | bytes):
            raise TypeError
        first, second = edge
        hash((first, second))
    except (TypeError, ValueError):
        raise InputError(
            f"edge list entry {position} is {edge!r}; every entry must be a pair of node labels "
            "such as (0, 1)"
        ) from None
    return first, second


def _from_ends(ends: Sequence[tuple[int, int]], size: int) -> sparse.csr_array:
    array = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return adjacency_of(array[:, 0], array[:, 1], size)


def adjacency_of(
    first: NDArray[np.int64], second: NDArray[np.int64], size: int
) -> sparse.csr_array:
    """Return the adjacency of the edges {first_e, second_e}; an edge named twice is one edge."""
    # scipy would keep 64-bit indices, which cost a third more memory and time per product.
    kind = np.int32 if size < 2**31 else np.int64
    rows = np.concatenate([first, second]).astype(kind)
    columns = np.concatenate([second, first]).astype(kind)
    ones = np.ones(rows.size)
    adjacency = sparse.csr_array((ones, (rows, columns)), shape=(size, size))
    adjacency.data[:] = 1.0
    return frozen(adjacency)


def _require_agents(count: int) -> None:
    if count == 0:
        raise InputError("graph has no nodes; a network needs at least one agent")


def _check_simple(adjacency: sparse.csr_array, labels: Labels) -> None:
    loops = np.flatnonzero(adjacency.diagonal())
    if loops.size:
        raise InputError(
            f"graph has a self-loop at node {labels[loops[0]]!r}; an agent always keeps its own "
            "value, so remove self-loops, for instance with "
            "graph.remove_edges_from(networkx.selfloop_edges(graph))"
        )


def _check_connected(adjacency: sparse.csr_array, labels: Labels) -> None:
    count, component = csgraph.connected_components(adjacency, directed=False)
    if count > 1:
        other = int(np.flatnonzero(component != component[0])[0])
        raise InputError(
            f"graph must be connected: it has {count} components, and nodes {labels[0]!r} and "
            f"{labels[other]!r} lie in different ones; add edges, or make one network of each "
            "component"
        )

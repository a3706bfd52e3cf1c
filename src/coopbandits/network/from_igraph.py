"""Graphs of igraph, read as networkx graphs, so that one set of rules holds for both."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from coopbandits.core.errors import InputError

NAME = "name"
"""The attribute by which igraph knows vertices."""


def as_networkx(graph: Any) -> Any:
    """Return an igraph graph as a networkx graph, and anything else as it is.

    Vertices keep their names, and are numbered where they have none; attributes of vertices and
    edges are kept.
    """
    igraph = sys.modules.get("igraph")  # whoever has such a graph has imported it
    if igraph is None or not isinstance(graph, igraph.Graph):
        return graph
    if graph.is_directed():
        raise InputError(
            "graph is directed; messages go both ways over an edge, so give an undirected graph, "
            "for instance graph.as_undirected()"
        )
    if not graph.is_simple():
        raise InputError(
            "graph has loops or parallel edges; two agents share at most one edge, so give a "
            "simple graph, for instance after graph.simplify()"
        )
    import networkx as nx  # imported late: it takes a noticeable time

    names = _names(graph)
    made: Any = nx.Graph()
    made.add_nodes_from((name, _others(v)) for name, v in zip(names, graph.vs, strict=True))
    made.add_edges_from((names[e.source], names[e.target], e.attributes()) for e in graph.es)
    return made


def _others(vertex: Any) -> dict[str, Any]:
    """Return all that is known of a vertex but its name."""
    return {key: value for key, value in vertex.attributes().items() if key != NAME}


def _names(graph: Any) -> list[Any]:
    """Return the vertices' names, which must tell them apart."""
    if NAME not in graph.vs.attributes():
        return list(range(graph.vcount()))
    names: list[Any] = graph.vs[NAME]
    if None in names:
        raise InputError(
            f"vertex {names.index(None)} of the graph has no name, and others have; name all of "
            "them or none"
        )
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"{times} vertices are called {name!r}; give every vertex its own name")
    return names

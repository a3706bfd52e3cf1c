"""Graphs of igraph: the same networks as those of networkx, and the same refusals."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import igraph
import networkx as nx
import numpy as np
import pytest

import coopbandits as cb
from coopbandits.network.faults import Graphs


def named_path() -> Any:
    graph = igraph.Graph([(0, 1), (1, 2)])
    graph.vs["name"] = ["c", "a", "b"]
    graph.vs["club"] = ["red", "blue", "red"]
    return graph


def test_names_and_attributes_survive() -> None:
    network = cb.Network(named_path())
    assert network.labels == ("c", "a", "b")
    assert network.attributes == {"club": ("red", "blue", "red")}
    assert network.neighbors(1) == (0, 2)


def test_vertices_without_names_are_numbered() -> None:
    graph = igraph.Graph.Famous("Zachary")
    network, other = cb.Network(graph), cb.Network(nx.Graph(graph.get_edgelist()))
    assert network.labels == tuple(range(34))
    assert network.num_edges == other.num_edges == 78
    assert network.lambda2 == pytest.approx(other.lambda2)


def test_weights_are_read_as_those_of_networkx() -> None:
    """One rule for both, whatever it is."""
    graph = igraph.Graph([(0, 1), (1, 2)], edge_attrs={"weight": [0.5, 2.0]})
    same = nx.Graph()
    same.add_weighted_edges_from([(0, 1, 0.5), (1, 2, 2.0)])
    assert outcome(graph) == outcome(same)


def outcome(graph: Any) -> Any:
    try:
        return cb.Network(graph).matrix.toarray().tolist()
    except cb.InputError as error:
        return str(error)


def test_one_agent() -> None:
    assert cb.Network(igraph.Graph(1)).num_agents == 1


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (igraph.Graph([(0, 1)], directed=True), r"graph is directed.*graph.as_undirected\(\)"),
        (igraph.Graph([(0, 1), (0, 1)]), r"parallel edges.*graph\.simplify\(\)"),
        (igraph.Graph([(0, 1), (1, 1)]), r"parallel edges.*graph\.simplify\(\)"),
        (igraph.Graph(0), "graph has no nodes"),
        (igraph.Graph(2), "connected"),
    ],
)
def test_what_is_no_network_is_refused(graph: Any, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        cb.Network(graph)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["a", "b", "a"], "2 vertices.*'a'"),
        (["a", None, "b"], r"vertex 1\b"),
    ],
)
def test_names_must_tell_vertices_apart(names: list[Any], sentence: str) -> None:
    graph = named_path()
    graph.vs["name"] = names
    with pytest.raises(cb.InputError, match=sentence):
        cb.Network(graph)


def ring(size: int) -> Any:
    return igraph.Graph.Ring(size)


def test_wherever_a_shorthand_is_read() -> None:
    cb.register_graph("igraph-ring", ring)
    network = cb.Network.from_spec("igraph-ring:6|path:6")
    np.testing.assert_array_equal(
        network.adjacency.toarray(), cb.Network.from_spec("cycle:6").adjacency.toarray()
    )
    faults = cb.Faults(Graphs(5, "igraph-ring:6|path:6"))
    faults.schedule(network, 0, 0).read(20)  # refuses graphs that do not fit


def test_igraph_is_not_imported_for_others() -> None:
    code = (
        "import sys, networkx as nx, coopbandits as cb; cb.Network(nx.path_graph(3)); "
        "sys.exit('igraph' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

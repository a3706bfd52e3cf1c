from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.network.adjacency import breadth_first_depths, read_adjacency

PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    "graph",
    [
        nx.path_graph(3),
        PATH,
        PATH.astype(bool),
        PATH * 2.5,
        sparse.csr_array(PATH),
        sparse.coo_matrix(PATH),
        [(0, 1), (1, 2)],
        ([1, 0], [2, 1]),
        iter([(0, 1), (1, 0), (1, 2)]),
    ],
)
def test_every_kind_of_graph_gives_the_same_adjacency(graph: Any) -> None:
    adjacency, labels = read_adjacency(graph)
    assert isinstance(adjacency, sparse.csr_array)
    assert adjacency.dtype == np.float64
    assert adjacency.has_canonical_format
    assert labels == (0, 1, 2)
    np.testing.assert_array_equal(adjacency.toarray(), PATH)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_so_does_the_matrix_class_that_numpy_is_giving_up() -> None:
    adjacency, _ = read_adjacency(np.asmatrix(PATH))
    assert isinstance(adjacency, sparse.csr_array)
    np.testing.assert_array_equal(adjacency.toarray(), PATH)


def test_networkx_labels_are_kept_in_graph_order() -> None:
    graph = nx.Graph([("c", "a"), ("a", "b")])
    network = Network(graph)
    assert network.labels == ("c", "a", "b")
    assert network.neighbors(1) == (0, 2)


def test_edge_list_labels_are_sorted_where_they_can_be() -> None:
    assert Network([("z", "b"), ("b", "a")]).labels == ("a", "b", "z")
    assert Network([("z", 3), (3, "a")]).labels == ("z", 3, "a")


def test_an_edge_of_weight_zero_is_an_edge() -> None:
    graph: Any = nx.Graph()
    graph.add_edge(0, 1, weight=0.0)
    assert Network(graph, "max-degree").num_edges == 1


def test_explicit_zeros_are_no_edges() -> None:
    rows, columns = [0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0]
    stored = sparse.csr_array(([1.0, 1.0, 1.0, 1.0, 0.0, 0.0], (rows, columns)), shape=(3, 3))
    assert stored.nnz == 6
    assert Network(stored).num_edges == 2


def test_the_callers_array_is_neither_changed_nor_shared() -> None:
    mine = sparse.csr_array(PATH * 3.0)
    network = Network(mine)
    assert mine.data.tolist() == [3.0] * 4
    mine.data[:] = 7.0
    np.testing.assert_array_equal(network.adjacency.toarray(), PATH)
    with pytest.raises(ValueError, match="read-only"):
        network.adjacency.data[0] = 2.0


def _bad(kind: str) -> Any:
    asymmetric = np.array([[0, 1], [0, 0]])
    return {
        "empty": nx.Graph(),
        "empty-array": np.zeros((0, 0)),
        "no-edges": [],
        "components": nx.Graph([("a", "b"), ("c", "d"), ("e", "f")]),
        "directed": nx.DiGraph([(0, 1)]),
        "loop": nx.Graph([("x", "y"), ("y", "y")]),
        "loop-array": np.array([[0, 1], [1, 1]]),
        "multi": nx.MultiGraph([(0, 1), (0, 1)]),
        "shape": np.zeros((2, 3)),
        "flat": np.zeros(4),
        "sparse-shape": sparse.csr_array(np.zeros((2, 3))),
        "asymmetric": asymmetric,
        "asymmetric-sparse": sparse.csr_array(asymmetric),
        "nan": np.array([[0, np.nan], [np.nan, 0]]),
        "inf-sparse": sparse.csr_array(np.array([[0, np.inf], [np.inf, 0]])),
        "text-array": np.array([["a", "b"], ["b", "a"]]),
        "triple": [(0, 1), (0, 1, 2)],
        "text-entry": ["ab"],
        "number-entry": [3],
        "unhashable": [([], 1)],
        "text": "cycle:100",
        "number": 7,
    }[kind]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("empty", "no nodes"),
        ("empty-array", "graph has no nodes"),
        ("no-edges", "single agent"),
        ("components", "3 components.*'a'.*'c'"),
        ("directed", "directed"),
        ("loop", "loop.*'y'"),
        ("loop-array", r"loop.* 1\b"),
        ("multi", "multigraph"),
        ("shape", r"\(2, 3\)"),
        ("flat", r"\(4,\)"),
        ("sparse-shape", r"\(2, 3\)"),
        ("asymmetric", r"\(0, 1\).* 1 .*\(1, 0\).* 0\b"),
        ("asymmetric-sparse", "symmetric"),
        ("nan", "adjacency.* nan"),
        ("inf-sparse", "adjacency.* inf"),
        ("text-array", "real numbers"),
        ("triple", r"entry 1\b.*\(0, 1, 2\)"),
        ("text-entry", r"entry 0\b.*'ab'"),
        ("number-entry", r"entry 0\b.* 3\b"),
        ("unhashable", r"entry 0\b.*\(\[\], 1\)"),
        ("text", r"'cycle:100'.*Network\.from_spec"),
        ("number", r"graph\b.* 7\b.*networkx"),
    ],
)
def test_bad_graphs_are_refused_in_a_sentence(kind: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Network(_bad(kind))


@pytest.mark.parametrize("graph", [nx.path_graph(9), nx.petersen_graph(), nx.balanced_tree(2, 4)])
def test_depths_are_distances(graph: Any) -> None:
    adjacency, _ = read_adjacency(graph)
    for start in graph:
        expected = nx.single_source_shortest_path_length(graph, start)
        depths = breadth_first_depths(adjacency, start)
        assert depths.tolist() == [expected[node] for node in graph]

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from coopbandits.core.errors import InputError
from coopbandits.network import Network

TRIANGLE = nx.cycle_graph(3)
PAIR = nx.path_graph(2)


@st.composite
def connected_graphs(draw: st.DrawFn) -> Any:
    """A random tree with some more edges."""
    size = draw(st.integers(1, 25))
    graph = nx.empty_graph(size)
    for node in range(1, size):
        graph.add_edge(node, draw(st.integers(0, node - 1)))
    nodes = st.integers(0, size - 1)
    extra = draw(st.lists(st.tuples(nodes, nodes), max_size=40))
    graph.add_edges_from((u, v) for u, v in extra if u != v)
    return graph


@given(connected_graphs(), st.sampled_from(["max-degree", "metropolis"]))
def test_built_matrices_are_gossip_matrices(graph: Any, weights: str) -> None:
    network = Network(graph, weights)
    dense = network.matrix.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_allclose(dense.sum(axis=1), 1.0, atol=1e-14)
    assert dense.min() >= 0.0
    off_diagonal = dense * (1 - np.eye(len(dense)))
    np.testing.assert_array_equal(off_diagonal > 0, network.adjacency.toarray() > 0)
    magnitudes = np.sort(np.abs(np.linalg.eigvalsh(dense)))
    expected = magnitudes[-2] if len(dense) > 1 else 0.0
    assert network.lambda2 == pytest.approx(expected, abs=1e-9)
    assert 0.0 < network.spectral_gap <= 1.0


@settings(max_examples=30)  # three networks each
@given(connected_graphs())
def test_a_built_matrix_is_accepted_as_a_callers_own(graph: Any) -> None:
    built = Network(graph, "metropolis")
    for own in (built.matrix, built.matrix.toarray(), sparse.coo_matrix(built.matrix)):
        network = Network(graph, own)
        assert network.weights == "own"
        np.testing.assert_array_equal(network.matrix.toarray(), built.matrix.toarray())


def test_max_degree_formula() -> None:
    graph = nx.star_graph(3)
    laplacian = nx.laplacian_matrix(graph).toarray()
    np.testing.assert_allclose(
        Network(graph).matrix.toarray(), np.eye(4) - laplacian / 4, atol=1e-15
    )


def test_metropolis_formula() -> None:
    matrix = Network(nx.Graph([(0, 1), (1, 2), (2, 3), (1, 3)]), "metropolis").matrix.toarray()
    assert matrix[0, 1] == pytest.approx(1 / 4)
    assert matrix[2, 3] == pytest.approx(1 / 3)
    assert matrix[0, 0] == pytest.approx(3 / 4)
    assert matrix[1, 1] == pytest.approx(1 / 4)
    assert matrix[2, 2] == pytest.approx(1 - 1 / 4 - 1 / 3)


def test_complete_graph_averages_in_one_step() -> None:
    network = Network(nx.complete_graph(7))
    np.testing.assert_allclose(network.matrix.toarray(), 1 / 7, atol=1e-15)


def test_matrix_is_canonical_and_read_only() -> None:
    for weights in ("max-degree", "metropolis", np.full((3, 3), 1 / 3)):
        matrix = Network(TRIANGLE, weights).matrix
        assert isinstance(matrix, sparse.csr_array)
        assert matrix.dtype == np.float64
        assert matrix.has_canonical_format
        with pytest.raises(ValueError, match="read-only"):
            matrix.data[0] = 0.0


def test_own_matrix_is_copied_and_cleaned_of_rounding() -> None:
    own = np.array([[0.5, 0.5, 1e-12], [0.5, 0.25, 0.25], [-1e-12, 0.25, 0.75]])
    network = Network(nx.path_graph(3), own)
    assert network.matrix.nnz == 7
    own[0, 0] = 9.0
    assert network.matrix[0, 0] == 0.5


def test_an_own_matrix_may_leave_an_edge_unused() -> None:
    own = np.array([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])
    network = Network(TRIANGLE, own)
    view = network.local_view(0, num_arms=2, sigma=1.0, needs=frozenset())
    assert view.neighbor_weights == {1: 0.5, 2: 0.0}


def test_an_aperiodic_matrix_without_own_weight_is_fine() -> None:
    assert Network(TRIANGLE, (1 - np.eye(3)) / 2).lambda2 == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("graph", "matrix", "sentence"),
    [
        (TRIANGLE, np.eye(2), r"\(2, 2\).* 3 agents.*\(3, 3\)"),
        (TRIANGLE, [1.0, 0.0], r"matrix.*\(2,\)"),
        (PAIR, [[np.nan, 0.5], [0.5, 0.5]], "matrix.* nan"),
        (PAIR, [[1j, 0.5], [0.5, 0.5]], "real numbers"),
        (
            PAIR,
            [[0.5, 0.5], [0.4, 0.6]],
            r"\(0, 1\).* 0\.5 .*\(1, 0\).* 0\.4",
        ),
        (
            nx.path_graph(4),
            np.diag([0.5, 0, 0, 0.47]) + 0.5 * nx.to_numpy_array(nx.path_graph(4)),
            r"row 3\b.* 0\.97 .*1e-09",
        ),
        (PAIR, [[1 + 2e-9, 0], [0, 1]], r"row 0\b.* 1\.000000002"),
        (PAIR, [[1.1, -0.1], [-0.1, 1.1]], r"\(0, 1\).* -0\.1"),
        (
            nx.path_graph(3),
            np.full((3, 3), 1 / 3),
            r"\(0, 2\).* 0\.333333333333",
        ),
        (PAIR, np.eye(2), "λ = 1.*agents 0 and 1"),
        (PAIR, [[0, 1], [1, 0]], "λ = 1.*bipartite"),
        (
            nx.cycle_graph(6),
            sparse.csr_array(nx.to_numpy_array(nx.cycle_graph(6)) / 2),
            r"λ = 1.*\(I \+ P\)/2",
        ),
    ],
)
def test_bad_own_matrices_are_refused_in_a_sentence(graph: Any, matrix: Any, sentence: str) -> None:
    given_matrix = matrix if sparse.issparse(matrix) else np.array(matrix)
    with pytest.raises(InputError, match=sentence):
        Network(graph, given_matrix)


def test_deviations_within_tolerance_are_accepted() -> None:
    own = np.array([[0.5 + 4e-10, 0.5], [0.5 + 4e-10, 0.5]])
    assert Network(PAIR, own).lambda2 < 1e-9


def test_unknown_weights_suggest_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'metropolys'.*'metropolis'"):
        Network(PAIR, "metropolys")


def weighted() -> Any:
    graph: Any = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 1.0), ("b", "c", 3.0), ("c", "a", 0.5)])
    return graph


WEIGHTED = np.array([[0, 1, 0.5], [1, 0, 3], [0.5, 3, 0]])


@pytest.mark.parametrize("graph", [weighted(), WEIGHTED, sparse.csr_array(WEIGHTED)])
@pytest.mark.parametrize("weights", ["auto", "edge"])
def test_edge_weights_are_mixed_by(graph: Any, weights: str) -> None:
    network = Network(graph, weights)
    sums = WEIGHTED.sum(axis=1)
    expected = np.eye(3) - (np.diag(sums) - WEIGHTED) / (sums.max() + WEIGHTED.max())
    np.testing.assert_allclose(network.matrix.toarray(), expected, rtol=1e-15)
    np.testing.assert_allclose(network.matrix.sum(axis=1), 1.0, rtol=1e-15)
    assert network.weights == "edge"
    assert network.lambda2 == pytest.approx(np.sort(np.abs(np.linalg.eigvalsh(expected)))[-2])


def test_edge_weights_whose_sum_is_no_number_mix_as_their_ratios_do() -> None:
    graph: Any = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 1e308), ("b", "c", 1.5e308), ("c", "d", 1e308)])
    smaller: Any = nx.Graph()
    smaller.add_weighted_edges_from([("a", "b", 1.0), ("b", "c", 1.5), ("c", "d", 1.0)])
    network, expected = Network(graph), Network(smaller)
    np.testing.assert_allclose(network.matrix.toarray(), expected.matrix.toarray(), rtol=1e-15)


def test_edge_weights_can_be_left_out() -> None:
    for weights in ("max-degree", "metropolis"):
        network, plain = Network(weighted(), weights), Network(nx.Graph(weighted().edges), weights)
        assert network.weights == weights
        np.testing.assert_array_equal(network.matrix.toarray(), plain.matrix.toarray())


def test_equal_edge_weights_say_nothing() -> None:
    graph: Any = nx.cycle_graph(5)
    nx.set_edge_attributes(graph, 2.5, "weight")
    for weights in ("auto", "edge"):
        network = Network(graph, weights)
        assert network.weights == "max-degree"
        np.testing.assert_array_equal(
            network.matrix.toarray(), Network(nx.cycle_graph(5)).matrix.toarray()
        )


def test_an_edge_without_a_weight_weighs_one_and_one_of_weight_zero_does_not_mix() -> None:
    graph: Any = nx.cycle_graph(3)
    graph.edges[0, 1]["weight"] = 0.0
    network = Network(graph)
    assert (network.num_edges, network.weights) == (3, "edge")
    np.testing.assert_allclose(network.matrix.toarray()[0], [2 / 3, 0, 1 / 3])
    assert network.local_view(0, num_arms=2, sigma=1.0, needs=frozenset()).neighbor_weights == {
        1: 0.0,
        2: pytest.approx(1 / 3),
    }


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (-1.0, r"0 – 1.* -1\b"),
        (float("nan"), "0 – 1.* nan"),
        ("near", "0 – 1.* 'near'"),
        (None, "0 – 1.* None"),
    ],
)
def test_edge_weights_that_are_none(weight: Any, sentence: str) -> None:
    graph: Any = nx.path_graph(3)
    graph.edges[0, 1]["weight"] = weight
    with pytest.raises(InputError, match=sentence):
        Network(graph)
    assert Network(graph, "max-degree").num_edges == 2


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (-2.0, r"0 – 1.* -2\b"),
        (float("inf"), "0 – 1.* inf"),
        (0.0, r"weight.* 0\b"),
    ],
)
@pytest.mark.parametrize("weights", ["auto", "edge"])
def test_equal_edge_weights_are_looked_at(weight: float, sentence: str, weights: str) -> None:
    graph: Any = nx.path_graph(3)
    nx.set_edge_attributes(graph, weight, "weight")
    with pytest.raises(InputError, match=sentence):
        Network(graph, weights)


def test_weights_that_cut_the_graph_in_two() -> None:
    graph: Any = nx.path_graph(3)
    graph.edges[0, 1]["weight"] = 0.0
    with pytest.raises(InputError, match="agents 0 and 1"):
        Network(graph)


@pytest.mark.parametrize(
    ("name", "text", "weights"),
    [
        ("g.txt", "0 1 1\n1 2 3\n2 0 0.5\n", "edge"),
        ("g.csv", "source,target,weight\n0,1,1\n1,2,3\n2,0,0.5\n", "edge"),
        ("g.csv", "0,1,1\n1,2,3\n2,0,0.5\n", "edge"),
        ("g.csv", "source,target,year\n0,1,1\n1,2,3\n2,0,0.5\n", "max-degree"),
        ("g.txt", "0 1 {}\n1 2 {}\n2 0 {}\n", "max-degree"),
        ("g.txt", "0 1 1\n1 2\n2 0 0.5\n", "max-degree"),
    ],
)
def test_files_with_weights(tmp_path: Path, name: str, text: str, weights: str) -> None:
    (tmp_path / name).write_text(text)
    network = Network.from_spec(str(tmp_path / name))
    assert network.weights == weights
    expected = Network(WEIGHTED) if weights == "edge" else Network(nx.cycle_graph(3))
    np.testing.assert_allclose(network.matrix.toarray(), expected.matrix.toarray())
    nx.write_graphml(weighted(), tmp_path / "g.graphml")
    assert Network.from_spec(str(tmp_path / "g.graphml")).weights == "edge"


def test_a_file_with_two_weights_of_an_edge(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("0 1 1\n1 2 3\n1 0 2\n")
    with pytest.raises(InputError, match=r"1 – 0.* 1 and 2\b"):
        Network.from_spec(f"{tmp_path}/g.txt")


def test_a_union_has_no_weights(tmp_path: Path) -> None:
    network = Network.from_spec("cycle:9|grid:3x3")
    assert network.weights == "max-degree"
    (tmp_path / "g.txt").write_text("0 1 1\n1 2 3\n2 0 0.5\n")
    with pytest.raises(InputError, match="union"):
        Network.from_spec(f"cycle:3|{tmp_path}/g.txt")

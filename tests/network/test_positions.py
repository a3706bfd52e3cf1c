"""Graphs with a structure are drawn by it, all others always alike."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from coopbandits.network import Network


@pytest.mark.parametrize(
    "spec",
    ["cycle:7", "path:5", "star:6", "grid:3x4", "complete:5", "regular:3,10", "barbell:4,2",
     "complete:1", "path:2"],
)  # fmt: skip
def test_all_lie_in_the_unit_square(spec: str) -> None:
    places = Network.from_spec(spec).positions
    assert places.min() >= -1e-12
    assert places.max() <= 1.0 + 1e-12
    assert len({tuple(place) for place in places.round(6).tolist()}) == len(places)


def test_a_grid_is_a_grid() -> None:
    places = Network.from_spec("grid:2x3").positions
    assert places.tolist() == [[0, 0.75], [0.5, 0.75], [1, 0.75], [0, 0.25], [0.5, 0.25], [1, 0.25]]


@pytest.mark.parametrize("spec", ["cycle:8", "grid:4x5"])
def test_neighbours_are_all_equally_far(spec: str) -> None:
    network = Network.from_spec(spec)
    first, second = network.positions[network.edges.T]
    lengths = np.linalg.norm(first - second, axis=1)
    assert np.ptp(lengths) < 1e-9


def test_a_path_in_any_order_is_a_line_in_its_own_order() -> None:
    places = Network([(3, 0), (0, 2), (2, 1)]).positions
    assert places[:, 1].tolist() == [0.5] * 4
    x = places[:, 0]
    assert sorted([x[3], x[0], x[2], x[1]]) in ([x[3], x[0], x[2], x[1]], [x[1], x[2], x[0], x[3]])


def test_the_centre_of_a_star_is_in_the_middle() -> None:
    places = Network([("a", "hub"), ("b", "hub"), ("c", "hub"), ("d", "hub")]).positions
    assert places[4] == pytest.approx([0.5, 0.5])


def test_a_torus_is_no_grid() -> None:
    torus = nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 4, periodic=True))
    first, second = (network.positions for network in (Network(torus), Network(torus)))
    assert (first == second).all()
    assert len(np.unique(first[:, 0].round(6))) > 4


def test_a_grid_whose_rows_are_joined_is_no_grid() -> None:
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3))
    graph.remove_edge(0, 3)
    graph.add_edge(2, 3)
    assert len(np.unique(Network(graph).positions[:, 0].round(6))) > 3


@pytest.mark.parametrize("names", [("x", "y"), ("lon", "lat")])
def test_coordinates_of_nodes_are_kept(names: tuple[str, str]) -> None:
    graph = nx.cycle_graph(4)
    for node, place in enumerate([(0, 0), (10, 0), (10, 5), (0, 5)]):
        graph.nodes[node].update(dict(zip(names, place, strict=True)))
    places = Network(graph).positions
    assert places.tolist() == [[0.0, 0.25], [1.0, 0.25], [1.0, 0.75], [0.0, 0.75]]


def test_texts_are_no_coordinates() -> None:
    graph = nx.cycle_graph(3)
    nx.set_node_attributes(graph, "here", "x")
    nx.set_node_attributes(graph, "there", "y")
    assert (Network(graph).positions == Network(nx.cycle_graph(3)).positions).all()

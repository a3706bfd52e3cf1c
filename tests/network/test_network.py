from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.network import Network


@pytest.mark.parametrize(
    ("spec", "lambda2", "accelerated", "plain"),
    [
        ("cycle:100", 0.99868449, 164, 5847),
        ("cycle:200", 0.99967104, 355, 25499),
        ("grid:10x10", 0.98042261, 43, 390),
        ("grid:15x15", 0.99125904, 70, 969),
    ],
)
def test_oracles(spec: str, lambda2: float, accelerated: int, plain: int) -> None:
    network = Network.from_spec(spec)
    assert round(network.lambda2, 8) == lambda2
    assert network.mixing_rounds() == accelerated
    assert network.mixing_rounds(epsilon=1 / 22, accelerated=False) == plain


def test_networkx_and_shorthand_agree() -> None:
    np.testing.assert_array_equal(
        Network(nx.cycle_graph(100)).matrix.toarray(),
        Network.from_spec("cycle:100").matrix.toarray(),
    )


def test_a_single_agent() -> None:
    for graph in (nx.empty_graph(1), np.zeros((1, 1))):
        for weights in ("max-degree", "metropolis", np.ones((1, 1))):
            network = Network(graph, weights)
            assert network.matrix.toarray().tolist() == [[1.0]]
            assert network.lambda2 == 0.0
            assert network.mixing_rounds() == network.mixing_rounds(accelerated=False) == 1
            assert network.diameter == 0
            assert network.neighbors(0) == ()


def test_complete_graph_has_lambda_exactly_zero() -> None:
    network = Network(nx.complete_graph(8))
    assert network.lambda2 == 0.0
    assert network.spectral_gap == 1.0
    assert network.mixing_rounds() == 1


def test_attributes() -> None:
    network = Network(nx.star_graph(["hub", "a", "b"]), weights="metropolis")
    assert (network.num_agents, network.num_edges) == (3, 2)
    assert network.labels == ("hub", "a", "b")
    assert network.degrees.tolist() == [2, 1, 1]
    assert network.degrees.dtype == np.int64
    assert network.weights == "metropolis"
    assert network.description == "graph of 3 agents, 2 edges"
    assert network.neighbors(0) == (1, 2)
    assert network.neighbors(2) == (0,)
    assert repr(network) == "<Network graph of 3 agents, 2 edges, metropolis weights>"


def test_shorthand_becomes_the_description() -> None:
    network = Network.from_spec("cycle:100", weights="metropolis")
    assert network.description == "cycle:100"
    assert network.weights == "metropolis"


def test_degrees_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Network(nx.path_graph(3)).degrees[0] = 5


@pytest.mark.parametrize("agent", [-1, 3])
def test_strangers_have_no_neighbors(agent: int) -> None:
    network = Network(nx.path_graph(3))
    with pytest.raises(InputError, match=f"agent {agent}\\b.* 0 to 2"):
        network.neighbors(agent)
    with pytest.raises(InputError, match=f"agent {agent}\\b"):
        network.local_view(agent, num_arms=2, sigma=1.0, needs=frozenset())


@pytest.mark.parametrize(
    ("spec", "diameter", "exact"),
    [
        ("cycle:101", 50, True),
        ("grid:7x9", 14, True),
        ("complete:9", 1, True),
        ("star:3000", 2, True),
        ("path:50000", 49999, True),
        ("complete:1500", 1, True),
        ("cycle:50000", 25000, False),
        ("grid:100x150", 248, False),
    ],
)
def test_diameters(spec: str, diameter: int, exact: bool) -> None:
    network = Network.from_spec(spec)
    assert network.diameter == diameter
    assert network.diameter_is_exact is exact


def test_diameter_where_sweeps_would_fall_short() -> None:
    for seed in range(5):
        graph = nx.random_regular_graph(3, 60, seed=seed)
        assert Network(graph).diameter == nx.diameter(graph)


def test_local_view_hands_out_only_what_is_needed() -> None:
    network = Network(nx.path_graph(4))
    view = network.local_view(1, num_arms=5, sigma=0.5, needs=frozenset())
    assert view.agent_id == 1
    assert view.own_weight == pytest.approx(1 / 3)
    assert view.neighbor_weights == {0: 1 / 3, 2: 1 / 3}
    assert list(view.neighbor_weights) == [0, 2]
    assert (view.num_arms, view.sigma) == (5, 0.5)
    assert view.num_agents is None
    assert view.lambda_bound is None
    assert view.global_knowledge == {}


def test_local_view_hands_out_what_is_declared() -> None:
    network = Network(nx.path_graph(4))
    both = frozenset({"num_agents", "lambda_bound"})
    view = network.local_view(
        0, num_arms=2, sigma=1.0, needs=both, global_knowledge={"epsilon_c": 0.25}
    )
    assert view.num_agents == 4
    assert view.lambda_bound == network.lambda2
    assert view.global_knowledge == {"epsilon_c": 0.25}
    only = network.local_view(0, num_arms=2, sigma=1.0, needs=frozenset({"num_agents"}))
    assert (only.num_agents, only.lambda_bound) == (4, None)


def test_lambda_is_not_computed_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(matrix: object) -> None:
        raise AssertionError

    monkeypatch.setattr("coopbandits.network.network.spectrum", forbidden)
    network = Network(nx.path_graph(4))
    network.local_view(0, num_arms=2, sigma=1.0, needs=frozenset({"num_agents"}))
    with pytest.raises(AssertionError):
        _ = network.lambda2


def test_lambda_that_rounds_to_one_is_refused() -> None:
    kept = 2e-9
    own = np.array([[1 - kept, kept], [kept, 1 - kept]])
    assert Network(nx.path_graph(2), own).lambda2 < 1.0
    network = Network(nx.path_graph(2), own)
    network.__dict__["spectrum"] = (1e-17, 1.0)
    with pytest.raises(InputError, match="double precision"):
        _ = network.lambda2

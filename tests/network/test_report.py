from __future__ import annotations

import dataclasses

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.network import Network, describe


def test_report_of_the_papers_cycle() -> None:
    report = describe(Network.from_spec("cycle:100"))
    assert report.description == "cycle:100"
    assert report.weights == "max-degree"
    assert (report.num_agents, report.num_edges) == (100, 100)
    assert (report.min_degree, report.max_degree) == (2, 2)
    assert (report.diameter, report.diameter_is_exact) == (50, True)
    assert round(report.lambda2, 8) == 0.99868449
    assert report.spectral_gap == pytest.approx(1 - 0.99868449, abs=1e-8)
    assert (report.rounds_accelerated, report.rounds_unaccelerated) == (164, 5847)
    assert report.messages_per_stage == 2 * 100 * 164
    assert report.values_per_stage == 2 * 17 * 2 * 100 * 164
    assert report.warnings == ()


def test_report_is_frozen() -> None:
    report = describe(Network.from_spec("star:5"), num_arms=3)
    assert (report.min_degree, report.max_degree) == (1, 4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.num_agents = 3  # type: ignore[misc]  # frozen: must fail


def test_a_single_agent_sends_nothing() -> None:
    report = describe(Network.from_spec("cycle:1"))
    assert (report.messages_per_stage, report.values_per_stage) == (0, 0)
    assert (report.rounds_accelerated, report.rounds_unaccelerated) == (1, 1)


def test_a_stage_longer_than_the_horizon_is_warned_of() -> None:
    (warning,) = describe(Network.from_spec("cycle:100"), horizon=163).warnings
    assert "C = 164 rounds" in warning
    assert "horizon of 163" in warning
    assert "first stage" in warning


@pytest.mark.parametrize(("horizon", "warned"), [(164, True), (181, True), (182, False)])
def test_a_horizon_within_the_first_stage_is_warned_of(horizon: int, warned: bool) -> None:
    warnings = describe(Network.from_spec("cycle:100"), num_arms=17, horizon=horizon).warnings
    assert len(warnings) == warned
    assert all("K + C = 17 + 164" in warning for warning in warnings)


def test_a_nearly_periodic_matrix_is_warned_of() -> None:
    own = np.array([[0.001, 0.999], [0.999, 0.001]])
    (warning,) = describe(Network(nx.path_graph(2), own)).warnings
    assert "-0.998" in warning
    assert 'weights="max-degree"' in warning


def test_nearly_periodic_though_another_eigenvalue_decides() -> None:
    graph = nx.cycle_graph(200)
    own = 0.9998 * nx.to_numpy_array(graph) / 2 + 0.0002 * np.eye(200)
    warnings = describe(Network(graph, own), horizon=10**6).warnings
    assert any("nearly periodic" in warning for warning in warnings)


def test_max_degree_weights_of_a_dense_bipartite_graph_need_to_be_lazy() -> None:
    network = Network(nx.complete_bipartite_graph(250, 250))
    (warning,) = describe(network).warnings
    assert "nearly periodic" in warning
    assert "lazy matrix" in warning
    lazy = (network.matrix.toarray() + np.eye(500)) / 2
    assert describe(Network(network.adjacency, lazy)).warnings == ()


@pytest.mark.parametrize("name", ["num_arms", "horizon"])
def test_bad_numbers_are_refused(name: str) -> None:
    network = Network.from_spec("cycle:5")
    with pytest.raises(InputError, match=rf"{name}.* 0\b"):
        describe(network, **{name: 0})
    with pytest.raises(InputError, match=r"epsilon.* 0\b"):
        describe(network, epsilon=0)

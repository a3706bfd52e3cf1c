from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.theory import epsilon_c
from coopbandits.theory.epsilon_c import eigenpairs

PAW = Network([(1, 2), (2, 3), (1, 3), (3, 4)])


def test_triangle_with_a_pendant() -> None:
    np.testing.assert_allclose(epsilon_c(PAW), [0.9905, 0.9905, 0, 3.4286], atol=5e-5)
    landgren = epsilon_c(PAW, form="landgren")
    np.testing.assert_allclose(landgren, [2.3110, 2.3110, 0, 5.4286], atol=5e-5)


def test_cycle() -> None:
    values = epsilon_c(Network.from_spec("cycle:100"))
    np.testing.assert_allclose(values, 1193.926, atol=5e-4)


def test_grid() -> None:
    values = epsilon_c(Network.from_spec("grid:10x10"))
    assert values.mean() == pytest.approx(113.209, abs=5e-4)
    assert values.max() == pytest.approx(254.781, abs=5e-4)


def test_mean_over_agents() -> None:
    """The paw's eigenvalues are 1, 3/4, 1/4 and 0."""
    expected = (9 / 16) / (7 / 16) + (1 / 16) / (15 / 16)
    assert epsilon_c(PAW).mean() == pytest.approx(expected, rel=1e-12)


def test_closed_form_is_the_sum_of_squared_errors_of_all_powers() -> None:
    """N Σ_{r≥1} Σ_d ((P^r)_id − 1/N)², which has no eigenvectors in it."""
    deviation = PAW.matrix.toarray() - 1 / 4
    power, total = deviation.copy(), np.zeros(4)
    for _ in range(200):
        total += (power**2).sum(axis=1)
        power = power @ deviation
    np.testing.assert_allclose(epsilon_c(PAW), 4 * total, atol=1e-12)


def landgren_by_loops(network: Network) -> list[float]:
    values, vectors = np.linalg.eigh(network.matrix.toarray())
    N = network.num_agents
    result = [0.0] * N
    for i in range(N):
        for p in range(N):
            for j in range(N - 1):
                both = values[p] * values[j]
                pi = vectors[:, p] * vectors[:, j]
                above, below = pi[pi > 0].sum(), pi[pi < 0].sum()
                if both >= 0:
                    share = above * pi[i] if pi[i] >= 0 else below * pi[i]
                else:
                    share = max(-below, above) * abs(pi[i])
                result[i] += N * abs(both) / (1 - abs(both)) * share
    return result


@pytest.mark.parametrize("graph", ["path:6", "path:3", "barbell:3,1"])
@pytest.mark.filterwarnings("ignore:Landgren's")
def test_landgren_against_the_definition(graph: str) -> None:
    network = Network.from_spec(graph)
    loops = landgren_by_loops(network)
    np.testing.assert_allclose(epsilon_c(network, form="landgren"), loops, rtol=1e-9, atol=1e-12)


def test_landgren_with_a_negative_eigenvalue() -> None:
    weights = [[0.1, 0.9, 0.0], [0.9, 0.0, 0.1], [0.0, 0.1, 0.9]]
    network = Network(nx.path_graph(3), weights=weights)
    assert network.smallest_eigenvalue < -0.5
    loops = landgren_by_loops(network)
    np.testing.assert_allclose(epsilon_c(network, form="landgren"), loops, rtol=1e-9)


@pytest.mark.parametrize("graph", ["cycle:10", "grid:3x3"])
def test_landgren_warns_of_repeated_eigenvalues(graph: str) -> None:
    with pytest.warns(UserWarning, match="eigenvectors"):
        epsilon_c(Network.from_spec(graph), form="landgren")


@pytest.mark.parametrize("graph", ["complete:6", "complete:1", "path:2"])
def test_perfect_mixing_needs_no_allowance_and_no_warning(graph: str) -> None:
    """Zero repeats on complete graphs, and takes no part in the sum."""
    network = Network.from_spec(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for form in ("closed", "landgren"):
            np.testing.assert_allclose(epsilon_c(network, form=form), 0.0, atol=1e-12)


def test_large_networks_are_refused() -> None:
    with pytest.raises(InputError, match=r"4000 agents.* 4001\b"):
        eigenpairs(Network.from_spec("cycle:4001"))


def test_unknown_form() -> None:
    with pytest.raises(InputError, match=r"epsilon_c 'close'.*'closed'"):
        epsilon_c(PAW, form="close")

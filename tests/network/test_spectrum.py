from __future__ import annotations

import tracemalloc
from math import pi, sin

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.network import spectrum as spectra
from coopbandits.network.spectrum import (
    cut_estimate,
    dense_spectrum,
    factorised_spectrum,
    lanczos_spectrum,
    spectrum,
)


def cycle_gap(size: int) -> float:
    """1 − (1 + 2 cos(2π/N))/3 without cancellation."""
    return 4 / 3 * sin(pi / size) ** 2


def grid_gap(rows: int, columns: int) -> float:
    """The slowest mode varies along the longer side alone: (2 − 2 cos(π/n))/5."""
    return 4 / 5 * sin(pi / (2 * max(rows, columns))) ** 2


@pytest.mark.parametrize("size", [3, 4, 5, 100, 599, 601, 20_000, 100_000])
def test_cycles_have_their_closed_form(size: int) -> None:
    network = Network.from_spec(f"cycle:{size}")
    largest = max(
        abs(1 + 2 * np.cos(2 * pi * j / size)) / 3 for j in {1, size // 2, (size + 1) // 2}
    )
    gap = cycle_gap(size) if size > 5 else 1 - largest
    assert network.spectral_gap == pytest.approx(gap, rel=1e-6)
    assert network.lambda2 == pytest.approx(largest, abs=1e-11)


@pytest.mark.parametrize("size", [4, 101, 100_000])
def test_paths_have_their_closed_form(size: int) -> None:
    gap = Network.from_spec(f"path:{size}").spectral_gap
    assert gap == pytest.approx(4 / 3 * sin(pi / (2 * size)) ** 2, rel=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(3, 7), (20, 31), (120, 100), (200, 200)])
def test_grids_have_their_closed_form(rows: int, columns: int) -> None:
    gap = Network.from_spec(f"grid:{rows}x{columns}").spectral_gap
    assert gap == pytest.approx(grid_gap(rows, columns), rel=1e-8)


@pytest.mark.parametrize("bits", [9, pytest.param(11, marks=pytest.mark.slow)])
def test_hypercubes_by_lanczos_have_their_closed_form(bits: int) -> None:
    matrix = Network(nx.hypercube_graph(bits)).matrix
    found = lanczos_spectrum(matrix)
    assert found is not None
    assert found.upper_gap == pytest.approx(2 / (bits + 1), rel=1e-8)
    assert found.lower_gap == pytest.approx(2 / (bits + 1), rel=1e-8)


@pytest.mark.parametrize("size", [700, 5000])
def test_stars_have_their_closed_form(size: int) -> None:
    found = Network.from_spec(f"star:{size}").spectrum
    assert found.upper_gap == pytest.approx(1 / size, rel=1e-7)
    assert found.lower_gap == pytest.approx(1.0, rel=1e-7)


def test_large_complete_graph_has_lambda_zero() -> None:
    network = Network.from_spec("complete:700")
    assert network.lambda2 == 0.0
    assert network.spectral_gap == 1.0


def _periodic_pair(size: int) -> sparse.csr_array:
    """Weights of an even cycle that keep a thousandth: the lower end decides λ."""
    adjacency = Network.from_spec(f"cycle:{size}").adjacency
    return sparse.csr_array(0.999 * adjacency / 2 + 0.001 * sparse.eye_array(size))


@pytest.mark.parametrize("size", [40, 800])
def test_the_lower_end_decides_where_it_should(size: int) -> None:
    network = Network.from_spec(f"cycle:{size}", _periodic_pair(size))
    upper = 2 * 0.999 * sin(pi / size) ** 2
    assert network.spectrum.lower_gap == pytest.approx(0.002, rel=1e-2)
    assert network.spectral_gap == pytest.approx(min(upper, 0.002), rel=1e-7)
    assert (upper > 0.002) == (size == 40)


def test_the_lower_end_decides_in_a_large_bipartite_graph() -> None:
    """K_{m,m} with little own weight: eigenvalues 1, ε (often) and −1 + 2ε."""
    m, kept = 400, 0.01
    graph = nx.complete_bipartite_graph(m, m)
    own = (1 - kept) / m * nx.to_numpy_array(graph) + kept * np.eye(2 * m)
    found = Network(graph, own).spectrum
    assert found.lower_gap == pytest.approx(2 * kept, rel=1e-7)
    assert found.upper_gap == pytest.approx(1 - kept, rel=1e-2)


@pytest.mark.covering
@pytest.mark.parametrize("weights", ["max-degree", "metropolis"])
@pytest.mark.parametrize(
    "spec",
    ["regular:3,700,seed=2", "erdos-renyi:650,0.02", "small-world:800,4,0.2", "barbell:20,700"],
)
def test_all_solvers_agree(weights: str, spec: str) -> None:
    matrix = Network.from_spec(spec, weights).matrix
    eigenvalues = np.linalg.eigvalsh(matrix.toarray())
    for solve in (dense_spectrum, lanczos_spectrum, factorised_spectrum, spectrum):
        found = solve(matrix)
        assert found is not None
        assert found.upper_gap == pytest.approx(1 - eigenvalues[-2], rel=1e-6)
        assert found.lower_gap == pytest.approx(1 + eigenvalues[0], rel=1e-2)


def test_two_expanders_on_one_edge() -> None:
    """A tiny gap in a graph that no factorisation likes: Lanczos finds the lone eigenvalue."""
    half = Network.from_spec("regular:6,1500").adjacency
    joined = sparse.lil_array(sparse.block_diag([half, half]))
    joined[0, 2999] = joined[2999, 0] = 1.0
    matrix = Network(sparse.csr_array(joined)).matrix
    found = lanczos_spectrum(matrix)
    assert found is not None
    assert found.upper_gap == pytest.approx(factorised_spectrum(matrix).upper_gap, rel=1e-7)
    assert found.upper_gap < 1e-3


def test_the_same_graph_always_gives_the_same_lambda() -> None:
    first, second = (Network.from_spec("regular:4,3000").lambda2 for _ in range(2))
    assert first == second


def test_where_lanczos_starves_a_factorisation_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network.from_spec("cycle:12000")
    assert lanczos_spectrum(network.matrix) is None
    monkeypatch.setattr(spectra, "cut_estimate", lambda matrix: spectra.CUT_LIMIT)
    assert network.spectral_gap == pytest.approx(cycle_gap(12_000), rel=1e-6)


def test_giving_up_on_the_inverse_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectra, "lanczos", lambda *arguments: None)
    with pytest.raises(InputError, match="700 agents"):
        _ = Network.from_spec("cycle:700").lambda2


def test_giving_up_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectra, "lanczos_spectrum", lambda matrix: None)
    monkeypatch.setattr(spectra, "CUT_LIMIT", 10)
    network = Network.from_spec("regular:6,2000")
    with pytest.raises(InputError, match=r"4000\b.*λ"):
        _ = network.lambda2


def test_cuts_are_estimated() -> None:
    def cut(spec: str) -> int:
        return cut_estimate(Network.from_spec(spec).matrix)

    assert cut("path:50") == 1
    assert cut("cycle:50") == 2
    assert cut("star:50") == 1
    assert cut("grid:10x30") == 10
    assert cut("regular:3,1000") > 100


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["regular:3,100000,seed=1"])
def test_memory_grows_with_the_edges(spec: str) -> None:
    tracemalloc.start()
    network = Network.from_spec(spec)
    assert 0.9 < network.lambda2 < 0.96
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A dense matrix of one byte per entry would take 10 GB.
    assert peak < 400 * (network.num_agents + 2 * network.num_edges)
    # Friedman: random regular graphs come close to 2√(d−1), A's second eigenvalue.
    assert network.lambda2 == pytest.approx((1 + 2 * 2**0.5) / 4, abs=2e-3)

"""A stage of mixing at once: the polynomial of P it must be, dense and sparse alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from coopbandits import Network
from coopbandits.core.draws import normals, words
from coopbandits.sim.cpu import staged
from coopbandits.sim.cpu.staged import DENSE_LIMIT, StageOperator, is_dense_cheaper

Array = NDArray[np.float64]

NETWORKS = {
    "cycle": Network.from_spec("cycle:21"),
    "grid": Network.from_spec("grid:4x5"),
    "star": Network.from_spec("star:7", weights="metropolis"),
    "complete": Network.from_spec("complete:6"),
    "single": Network(nx.empty_graph(1)),
}


def operator(
    monkeypatch: pytest.MonkeyPatch, network: Network, steps: int, bound: float, dense: bool
) -> StageOperator:
    monkeypatch.setattr(staged, "is_dense_cheaper", lambda *_, **__: dense)
    made = StageOperator(network.matrix, steps, bound, uses=1, num_arms=5)
    assert (made.dense is not None) == dense
    return made


def pulls(network: Network, runs: int = 3, arms: int = 5, key: int = 1) -> Array:
    """Registers (run, agent, 2K + 1); many agents did not pull an arm, one arm nobody did."""
    shape = (runs, network.num_agents, arms)
    tape = words(key, np.arange(np.prod(shape), dtype=np.uint64)).reshape(shape)
    counts = (tape % np.uint64(3)).astype(np.float64)
    counts[:, :, 1] = 0.0
    squares = normals(tape[:, :, :1]) ** 2  # a register that belongs to no arm
    return np.concatenate([normals(tape) * counts, counts, squares], axis=2)


def polynomial(network: Network, steps: int, bound: float) -> Array:
    """q(P) = U q(Λ) Uᵀ with q(x) = x^C, or T_C(x/λ)/T_C(1/λ)."""
    eigenvalues, vectors = np.linalg.eigh(network.matrix.toarray())
    if bound < 1e-9:
        q = eigenvalues**steps
    else:
        chebyshev = np.polynomial.Chebyshev.basis(steps)
        q = chebyshev(eigenvalues / bound) / chebyshev(1.0 / bound)
    matrix: Array = (vectors * q) @ vectors.T
    return matrix


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("graph", NETWORKS)
def test_is_the_polynomial(
    monkeypatch: pytest.MonkeyPatch, graph: str, accelerated: bool, dense: bool
) -> None:
    for steps in (1, 2, 3, 8, 31):
        network = NETWORKS[graph]
        bound = network.lambda2 if accelerated else 0.0
        made = operator(monkeypatch, network, steps, bound, dense)
        values = pulls(network)
        expected = polynomial(network, steps, bound) @ values
        found = made.apply(values.copy())
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.sum(axis=1), values.sum(axis=1), rtol=0, atol=1e-10)
        accumulated = pulls(network, key=2)
        total = accumulated + expected
        made.add_to(accumulated, values.copy())
        np.testing.assert_allclose(accumulated, total, rtol=0, atol=1e-10)


@pytest.mark.parametrize("graph", ["cycle:100", "grid:10x10"])
@pytest.mark.parametrize("accelerated", [True, False])
def test_dense_equals_sparse(
    monkeypatch: pytest.MonkeyPatch, graph: str, accelerated: bool
) -> None:
    network = Network.from_spec(graph)
    steps = network.mixing_rounds()
    bound = network.lambda2 if accelerated else 0.0
    values = pulls(network)
    dense, sparse = (
        operator(monkeypatch, network, steps, bound, kind).apply(values.copy())
        for kind in (True, False)
    )
    np.testing.assert_allclose(dense, sparse, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dense.sum(axis=1), values.sum(axis=1), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("dense", [True, False])
def test_unit_vector_on_cycle_100(monkeypatch: pytest.MonkeyPatch, dense: bool) -> None:
    """The known numbers: sum 1 to 1e-12, N·‖y − 1/N‖₂ = 0.0308330 after 164 steps."""
    network = Network.from_spec("cycle:100")
    values = np.zeros((1, 100, 10))
    values[0, 0] = 1.0
    mixed = operator(monkeypatch, network, 164, network.lambda2, dense).apply(values)
    assert np.abs(mixed.sum(axis=1) - 1.0).max() < 1e-12
    errors = 100 * np.linalg.norm(mixed[0] - 0.01, axis=0)
    np.testing.assert_allclose(errors, 0.0308330, atol=5e-8)


def test_runs_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    values = pulls(NETWORKS["grid"])
    for dense in (True, False):
        made = operator(monkeypatch, NETWORKS["grid"], 5, 0.5, dense)
        together = made.apply(values.copy())
        for run in range(3):
            assert np.array_equal(together[run], made.apply(values[run : run + 1].copy())[0])


@pytest.mark.parametrize("graph", ["cycle:100", "cycle:200", "grid:15x15"])
def test_dense_where_stages_are_long_and_used_often(graph: str) -> None:
    network = Network.from_spec(graph)
    steps = network.mixing_rounds()
    assert is_dense_cheaper(network.matrix, steps, uses=1000, values=34)
    assert not is_dense_cheaper(network.matrix, steps, uses=1, values=34)  # its making never pays
    assert not is_dense_cheaper(network.matrix, 1, uses=1000, values=34)  # one sparse step is cheap


def test_sparse_where_stages_are_short() -> None:
    network = Network.from_spec("regular:3,1000,seed=1")
    assert not is_dense_cheaper(network.matrix, network.mixing_rounds(), uses=10**6, values=34)


def test_sparse_where_the_matrix_would_be_large() -> None:
    for agents, expected in ((DENSE_LIMIT, True), (DENSE_LIMIT + 1, False)):
        matrix = Network.from_spec(f"cycle:{agents}").matrix
        assert is_dense_cheaper(matrix, 10**6, uses=10**6, values=34) == expected


MIX = """
import numpy as np
from coopbandits import Network
from coopbandits.sim.cpu import staged
staged.FEW = 0
network = Network.from_spec("cycle:200")
staged.StageOperator(network.matrix, 3, 0.5, 1, 2).apply(np.ones((1, 200, 5)))
"""


@pytest.mark.slow
def test_a_loop_over_threads_can_be_loaded_from_disk(tmp_path: Path) -> None:
    """It starts threads in the process that compiles it, and in the next one."""
    for _ in range(2):
        kept = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", MIX], check=True, env=kept)

"""Gossip matrices: two built from the graph, or the caller's own, strictly checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from coopbandits.core.errors import InputError
from coopbandits.network.adjacency import (
    breadth_first_depths,
    entry_rows,
    frozen,
    require_finite_numbers,
)

TOLERANCE = 1e-9
"""How far sums and symmetry of a caller's own matrix may be off."""

_ADVICE = "build one with Network(graph)"


def max_degree_matrix(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Return P = I − (D − A)/(δ_max + 1), D the degrees and δ_max the largest of them."""
    degrees = np.diff(adjacency.indptr)
    scale = float(degrees.max() + 1)
    off_diagonal = np.full(adjacency.nnz, 1.0 / scale)
    return _assemble(adjacency, off_diagonal, (scale - degrees) / scale)


def metropolis_matrix(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Return P_ij = 1/(1 + max(d_i, d_j)) on edges and P_ii = 1 − Σ_j P_ij."""
    degrees = np.diff(adjacency.indptr)
    rows = entry_rows(adjacency)
    off_diagonal = 1.0 / (1.0 + np.maximum(degrees[rows], degrees[adjacency.indices]))
    sums = np.bincount(rows, weights=off_diagonal, minlength=degrees.size)
    return _assemble(adjacency, off_diagonal, 1.0 - sums)


BUILDERS: dict[str, Callable[[sparse.csr_array], sparse.csr_array]] = {
    "max-degree": max_degree_matrix,
    "metropolis": metropolis_matrix,
}

AUTO, EDGE = "auto", "edge"


def weighted_matrix(adjacency: sparse.csr_array, weights: NDArray[np.float64]) -> sparse.csr_array:
    """Return P = I − (D − W)/(δ_max + w_max), the weights W of edges instead of ones.

    D are the sums of an agent's weights, δ_max the largest of them, and w_max the largest weight.
    Where all weights are equal, this is `max_degree_matrix`.
    """
    sums = np.bincount(entry_rows(adjacency), weights=weights, minlength=adjacency.shape[0])
    scale = float(sums.max()) + float(weights.max())
    if math.isinf(scale):  # only ratios of weights matter
        return weighted_matrix(adjacency, weights / weights.max())
    matrix = _assemble(adjacency, weights / scale, (scale - sums) / scale)
    _check_mixes(matrix)
    return matrix


def own_matrix(matrix: Any, adjacency: sparse.csr_array) -> sparse.csr_array:
    """Check a caller's own gossip matrix against the graph and return it as CSR."""
    given = matrix if sparse.issparse(matrix) else np.asarray(matrix)
    if given.shape != adjacency.shape:
        raise InputError(
            f"mixing matrix has shape {given.shape}, but the graph has {adjacency.shape[0]} "
            f"agents; it must have shape {adjacency.shape}"
        )
    require_finite_numbers(given, "mixing matrix")
    weights = sparse.csr_array(given, dtype=np.float64, copy=True)
    weights.sum_duplicates()
    _check_symmetric(weights)
    _check_stochastic(weights)
    _check_respects(weights, adjacency)
    weights = sparse.csr_array((weights + weights.T) / 2)
    weights.data[weights.data <= TOLERANCE] = 0.0
    weights.eliminate_zeros()
    _check_mixes(weights)
    return frozen(weights)


def _assemble(
    adjacency: sparse.csr_array, off_diagonal: NDArray[Any], diagonal: NDArray[Any]
) -> sparse.csr_array:
    edges = sparse.csr_array(
        (off_diagonal, adjacency.indices, adjacency.indptr), shape=adjacency.shape
    )
    return frozen(sparse.csr_array(edges + sparse.diags_array(diagonal)))


def _check_symmetric(weights: sparse.csr_array) -> None:
    difference = sparse.coo_array(abs(weights - weights.T))
    if difference.nnz and difference.data.max() > TOLERANCE:
        worst = difference.data.argmax()
        i, j = sorted((int(difference.row[worst]), int(difference.col[worst])))
        raise InputError(
            f"mixing matrix must be symmetric: entry ({i}, {j}) is {weights[i, j]:.12g} and entry "
            f"({j}, {i}) is {weights[j, i]:.12g} (tolerance {TOLERANCE:g}); {_ADVICE}"
        )


def _check_stochastic(weights: sparse.csr_array) -> None:
    if weights.nnz and weights.data.min() < -TOLERANCE:
        worst = int(weights.data.argmin())
        i, j = int(entry_rows(weights)[worst]), int(weights.indices[worst])
        raise InputError(
            f"mixing matrix must be doubly stochastic: entry ({i}, {j}) is {weights[i, j]:.12g}, "
            f"and weights must not be negative; {_ADVICE}"
        )
    sums = weights.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1.0) > TOLERANCE)
    if wrong.size:
        raise InputError(
            f"mixing matrix must be doubly stochastic: row {wrong[0]} sums to "
            f"{sums[wrong[0]]:.12g} (tolerance {TOLERANCE:g}); {_ADVICE}"
        )


def _check_respects(weights: sparse.csr_array, adjacency: sparse.csr_array) -> None:
    allowed = sparse.csr_array(adjacency + sparse.eye_array(adjacency.shape[0]))
    stray = sparse.coo_array(weights - weights * allowed)
    outside = np.flatnonzero(np.abs(stray.data) > TOLERANCE)
    if outside.size:
        i, j = int(stray.row[outside[0]]), int(stray.col[outside[0]])
        raise InputError(
            f"mixing matrix must be zero where there is no edge: entry ({i}, {j}) is "
            f"{weights[i, j]:.12g}, but agents {i} and {j} are not neighbors; add the edge to the "
            f"graph or {_ADVICE}"
        )


def _check_mixes(weights: sparse.csr_array) -> None:
    """Refuse λ = 1, which for nonnegative weights depends only on where the entries are.

    The eigenvalue 1 is simple exactly if the positive weights connect all agents, and −1 is an
    eigenvalue exactly if they form a bipartite graph and no agent keeps any of its own value.
    """
    count, component = csgraph.connected_components(weights, directed=False)
    if count > 1:
        other = int(np.flatnonzero(component != component[0])[0])
        raise InputError(
            f"mixing matrix has λ = 1: its positive weights leave agents 0 and {other} "
            f"unconnected, so they never learn of each other; give every edge of a spanning tree "
            f"a positive weight or {_ADVICE}"
        )
    if weights.diagonal().any() or weights.shape[0] == 1:
        return
    parity = breadth_first_depths(weights, 0) % 2
    if (parity[entry_rows(weights)] != parity[weights.indices]).all():
        raise InputError(
            "mixing matrix has λ = 1: −1 is an eigenvalue, because the graph is bipartite and no "
            "agent keeps any of its own value, so values swap sides for ever; use (I + P)/2 "
            f"instead of P or {_ADVICE}"
        )

"""The matrix and the ε_c that result from two slips in linear algebra."""

from __future__ import annotations

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.network import Network
from coopbandits.theory.epsilon_c import eigenpairs


def inverse_degree_matrix(network: Network) -> Vector:
    """Return I − D^{-1/2} L D^{-1/2}/(δ_max + 1), L = I − D^{-1/2} A D^{-1/2}.

    The paper's formula for irregular graphs with D^{-1/2} in place of D^{1/2}. Its eigenvalue 1
    belongs to the vector of degrees and not to that of ones, so it does not average.
    """
    inverse = np.diag(1.0 / network.degrees)
    adjacency = network.adjacency.toarray()
    slip = inverse - inverse @ adjacency @ inverse
    return np.asarray(np.eye(network.num_agents) - slip / (network.degrees.max() + 1))


def second_eigenvalue(matrix: Vector) -> float:
    """Return the second largest |eigenvalue| of a symmetric matrix."""
    return float(np.sort(np.abs(np.linalg.eigvalsh(matrix)))[-2])


def epsilon_c_from_rows(network: Network) -> Vector:
    """Return ε_c with rows of the matrix of eigenvectors taken for eigenvectors.

    The closed form, eigenvalues sorted by size, rows in the order in which the solver returned
    them. Rows of an orthogonal matrix have length 1 as well, so the mean over agents is right.
    """
    values, vectors = eigenpairs(network)
    squares = np.sort(np.abs(values))[::-1][1:] ** 2
    return np.asarray(network.num_agents * (squares / (1.0 - squares)) @ vectors[1:] ** 2)

"""Gossip as it should be, and as Algorithms 2 and 3 of the paper have it."""

from __future__ import annotations

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.core.mixing import LAMBDA_ZERO, chebyshev_step, next_rho


def chebyshev_mix(start: Vector, matrix: Vector, lambda2: float, steps: int) -> Vector:
    """Return q_C(P) times values of all agents; applied to the identity, the map itself."""
    if lambda2 < LAMBDA_ZERO:
        return np.asarray(np.linalg.matrix_power(matrix, steps) @ start)
    values, before, rho = start, np.zeros_like(start), np.zeros(1)
    for _ in range(steps):
        rho_next = next_rho(rho, lambda2)
        step = chebyshev_step(matrix @ values, before, rho, rho_next, lambda2)
        values, before, rho = step, values, rho_next
    return values


def printed_mix(start: Vector, matrix: Vector, lambda2: float, steps: int) -> Vector:
    """Return y_C of Algorithm 2 with its start as printed: both w_0 and y_0 are halved.

    With w_0 = 1/2 the first step is y_1 = P y_0, as it should be; with y_0 halved as well, it is
    half of that. Whether the sum is over neighbours only depends on `matrix`.
    """
    weight, weight_before = 0.5, 0.0
    values, values_before = start / 2, np.zeros_like(start)
    for step in range(steps):
        weight_next = 2 * weight / lambda2 - weight_before
        mixed = 2 / lambda2 * (matrix @ values)
        values_next = (weight * mixed - weight_before * values_before) / weight_next
        if step == 0:
            values, weight = 2 * values, 2 * weight
        weight_before, weight = weight, weight_next
        values_before, values = values, values_next
    return values


def without_own(matrix: Vector) -> Vector:
    """Return the matrix without its diagonal: a sum over neighbours only."""
    return matrix - np.diag(np.diag(matrix))


def mixing_error(mixed: Vector) -> float:
    """Return the largest |N·weight − 1| over agents, for mixed values of sum 1."""
    return float(np.abs(mixed.shape[0] * mixed - 1.0).max())

"""Gossip steps and how many of them are needed.

One step is one message of a vector to every neighbour. Plain mixing is y ← P y. Accelerated mixing
applies the Chebyshev polynomial q_r(P), q_r(x) = T_r(x/λ)/T_r(1/λ), by the recursion ::

    y_1     = P y_0                                    ρ_1     = λ
    y_{r+1} = ρ_{r+1} [ (2/λ) P y_r − ρ_r y_{r−1} ]    ρ_{r+1} = 1 / (2/λ − ρ_r)

which never overflows, since ρ_r = T_{r−1}(1/λ)/T_r(1/λ) stays below 1.

The same step as flows over links, F_ij being what i gains from j and F_ji = −F_ij what j loses::

    F_ij ← ω P_ij (y_j − y_i) + (ω − 1) F_ij           ω_1     = 1
    y_i  ← y_i + Σ_j F_ij                              ω_{r+1} = 2ρ_{r+1}/λ

Since ω_{r+1} − 1 = ρ_{r+1} ρ_r, summing over j gives the recursion above. Every link keeps the sum
over agents by itself, and has a momentum of its own that can be dropped when a message is lost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coopbandits.core.checks import require_count, require_lambda, require_positive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coopbandits.core.contract import Vector

    Matrix = NDArray[np.float64]

LAMBDA_ZERO = 1e-9
"""A λ below this counts as 0: one plain step averages exactly."""


def next_rho(rho: Vector, lambda_bound: float) -> Vector:
    """Return ρ_{r+1} = 1 / (2/λ − ρ_r); ρ_0 = 0 stands for "no step made", and gives ρ_1 = λ."""
    return 1.0 / ((1.0 + (rho > 0)) / lambda_bound - rho)


def chebyshev_step(
    mixed: Vector, previous: Vector, rho: Vector, rho_next: Vector, lambda_bound: float
) -> Vector:
    """Return y_{r+1} from P y_r (`mixed`) and y_{r−1} (`previous`); with ρ_r = 0 it is P y_0."""
    return rho_next * ((1.0 + (rho > 0)) / lambda_bound * mixed - rho * previous)


def mixing_rounds(
    num_agents: int, lambda_bound: float, epsilon: float, *, accelerated: bool = True
) -> int:
    """Return C, the steps after which every weight lies within (1 ± ε)/N.

    Accelerated max(1, ⌈ln(2N/ε)/√(2 ln(1/λ))⌉), plain max(1, ⌈ln(N/ε)/ln(1/λ)⌉).
    """
    require_count("num_agents", num_agents)
    require_lambda("lambda_bound", lambda_bound)
    require_positive("epsilon", epsilon)
    return rounds_needed(float(num_agents), lambda_bound, epsilon, accelerated)


def rounds_needed(num_agents: float, lambda_bound: float, epsilon: float, accelerated: bool) -> int:
    """Return C, without checking the arguments."""
    if lambda_bound < LAMBDA_ZERO:
        return 1
    log_inverse = -math.log(lambda_bound)
    if accelerated:
        return max(1, math.ceil(math.log(2 * num_agents / epsilon) / math.sqrt(2 * log_inverse)))
    return max(1, math.ceil(math.log(num_agents / epsilon) / log_inverse))

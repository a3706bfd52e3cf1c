"""What bounds are compared with: lower bounds, and the worst possible play."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.problems.rewards import LOCATION_SCALE
from coopbandits.theory.curves import Rounds, inverse_gaps, logarithmic, over_rounds, total_gap


def lai_robbins(problem: Problem, network: Network, horizon: Rounds) -> Rounds:
    r"""Return the lower bound of Lai and Robbins (1985) for a central policy of NT pulls.

    .. math:: \sum_{k:Δ_k>0} \frac{2σ_k^2}{Δ_k} \ln(NT)

    Asymptotic: for every consistent policy R(T)/ln T is in the limit at least the factor of the
    logarithm; at finite T good policies can be below the curve. The constant is that of
    normal rewards with variances σ_k²; other problems are refused, since theirs is another.
    """
    kind, table = problem.kernel_form()
    if kind != LOCATION_SCALE:
        raise InputError(
            "the Lai–Robbins constant 2σ²/Δ is that of normal rewards; "
            f"{type(problem).__name__} has others; use GaussianBandit or lower_bound_shape"
        )
    worse = problem.gaps > 0
    slope = float((2 * table[worse, 1] ** 2 / problem.gaps[worse]).sum())
    return logarithmic(slope, 0.0, network, horizon)


def lower_bound_shape(problem: Problem, network: Network, horizon: Rounds) -> Rounds:
    r"""Return the lower bound of Remark 1 without its constant: a shape, not a bound.

    .. math::
        Ω\left(\sum_{k:Δ_k>0} \frac{σ^2 \ln(TN)}{Δ_k}
        + \left(\frac{N}{K} + 1\right) \sum_k Δ_k\right)

    The second term is what N simultaneous first pulls cost when nothing is known yet.
    """
    constant = (network.num_agents / problem.num_arms + 1) * total_gap(problem)
    return logarithmic(inverse_gaps(problem), constant, network, horizon)


def worst_arm_regret(problem: Problem, network: Network, horizon: Rounds) -> Rounds:
    """Return N·T·max Δ_k, the regret of always playing the worst arm: no policy has more."""
    slope = network.num_agents * float(problem.gaps.max())
    return over_rounds(lambda T: slope * T, horizon)


@overload
def is_vacuous(bound: float, problem: Problem, network: Network, horizon: int) -> bool: ...


@overload
def is_vacuous(
    bound: NDArray[Any], problem: Problem, network: Network, horizon: NDArray[Any]
) -> NDArray[np.bool_]: ...


def is_vacuous(
    bound: float | NDArray[Any],
    problem: Problem,
    network: Network,
    horizon: int | NDArray[Any],
) -> bool | NDArray[np.bool_]:
    """Return whether an upper bound exceeds the regret of always playing the worst arm.

    Such a bound is true but useless. Parameters are the bound's value, or its curve with the
    rounds it belongs to.
    """
    if np.shape(bound) != np.shape(horizon):
        raise InputError(
            f"bound has shape {np.shape(bound)} and horizon {np.shape(horizon)}; "
            "pass one value per round"
        )
    exceeds = np.greater(bound, worst_arm_regret(problem, network, np.asarray(horizon)))
    return exceeds if np.ndim(horizon) else bool(exceeds)

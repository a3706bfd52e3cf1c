"""The regret bound of coop-UCB, as the paper restates it for comparison (Remark 2)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from coopbandits.core.checks import require_number
from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.theory.curves import Rounds, Values, inverse_gaps, logarithmic, total_gap
from coopbandits.theory.epsilon_c import eigenpairs, epsilon_c


def coop_ucb_a(
    problem: Problem,
    network: Network,
    gamma: float,
    horizon: Rounds,
    epsilons: ArrayLike | None = None,
) -> Rounds:
    r"""Return A, the part of coop-UCB's bound that grows with T.

    .. math:: A = \sum_{k:Δ_k>0} \sum_{j=1}^N \frac{16γσ^2(1+ε_c^j)}{NΔ_k} \ln(TN)

    Parameters
    ----------
    problem, network : Problem, Network
        Arms and agents.
    gamma : float
        γ > 1, coop-UCB's exploration.
    horizon : int or array of int
        T, or the rounds of a curve.
    epsilons : array of shape (N,), optional
        ε_c of every agent; the closed form `epsilon_c(network)` if left out.
    """
    require_gamma(gamma)
    spread = 1.0 + float(_agent_values(epsilons, network).mean())
    return logarithmic(16 * gamma * spread * inverse_gaps(problem), 0.0, network, horizon)


def coop_ucb_b(network: Network, gamma: float) -> float:
    r"""Return B, the factor of ΣΔ_k in coop-UCB's bound.

    .. math::
        B = N\left(\frac{γ}{γ-1} + \sqrt{N}
        \sum_{j=2}^N \frac{\lvertλ_j\rvert}{1-\lvertλ_j\rvert}\right)
    """
    require_gamma(gamma)
    sizes = np.abs(eigenpairs(network).values[:-1])
    N = network.num_agents
    return N * (gamma / (gamma - 1) + math.sqrt(N) * float((sizes / (1.0 - sizes)).sum()))


def coop_ucb_bound(
    problem: Problem,
    network: Network,
    gamma: float,
    horizon: Rounds,
    epsilons: ArrayLike | None = None,
) -> Rounds:
    """Return coop-UCB's bound A + B ΣΔ_k.

    It is proven for an index that is not used in practice: its bonus is proportional to
    sqrt(6 ln(tN)) instead of sqrt(2 ln t). For coop-UCB as published the original proof has a gap
    (it treats the number of pulls as fixed), so read this as an order of magnitude, not as a
    guarantee.
    Parameters are those of `coop_ucb_a`.
    """
    growing = coop_ucb_a(problem, network, gamma, horizon, epsilons)
    return growing + coop_ucb_b(network, gamma) * total_gap(problem)


def require_gamma(gamma: float) -> None:
    """Refuse anything but a finite number above 1."""
    require_number("gamma", gamma, "a finite number larger than 1", 1.0, math.inf)


def _agent_values(epsilons: ArrayLike | None, network: Network) -> Values:
    if epsilons is None:
        return epsilon_c(network)
    values = np.asarray(epsilons, dtype=np.float64)
    if values.shape != (network.num_agents,) or not (np.isfinite(values) & (values >= 0)).all():
        raise InputError(
            f"epsilons must be {network.num_agents} finite numbers from 0 on, one per agent; "
            "take epsilon_c(network)"
        )
    return values

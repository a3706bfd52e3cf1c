"""The regret bounds of DDUCB: Theorem 1 in its general form, and the instance-independent one.

All finite-time bounds are proven for the bonus sqrt(4ησ² ln s / (N a)), that is
``bonus_factor=4``, η > 1, 0 < ε < (η − 1)/(7(η + 1)) (which `DDUCB` itself requires), independent
sub-Gaussian rewards with variance proxy σ², and stages of E rounds in which every value is mixed at
least C times, so that its weights lie within (1 ± ε)/N. They cover the algorithm without
modification: ``own_pulls``, ``neighbor_pulls`` and ``remix`` off. For the first two the paper says
that the same *asymptotic* bound holds, so the shapes accept them.
"""

from __future__ import annotations

import math

import numpy as np

from coopbandits.core.policies import DDUCB
from coopbandits.core.spelling import Named
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.theory.assumptions import require_mixed, require_plain, stage_rounds
from coopbandits.theory.curves import (
    Rounds,
    inverse_gaps,
    logarithmic,
    over_rounds,
    total_gap,
)


def finite_time_bound(problem: Problem, network: Network, policy: Named, horizon: Rounds) -> Rounds:
    r"""Return the finite-time bound of Theorem 1 on the regret of the whole network.

    .. math::
        R(T) < \sum_{k:Δ_k>0} \frac{16η(1+2ε)σ^2 \ln(TN)}{Δ_k}
        + \left(N(6E+1) + \frac{2η}{η-1}\right) \sum_k Δ_k

    At η = 2 and ε = 1/22 the constants are 32(1 + 1/11) and N(6E + 1) + 4.

    Parameters
    ----------
    problem : Problem
        Arms, with gaps Δ_k and variance proxy σ².
    network : Network
        N agents and their gossip matrix.
    policy : DDUCB
        With ``bonus_factor=4`` and ``own_pulls``, ``neighbor_pulls``, ``remix`` off. E is the
        length of its stages: C, the C' of plain mixing with ``accelerated=False``, more with a
        budget of values or larger ``mixing_rounds``. Fewer than C steps, a λ bound below λ and a
        wrong N are refused.
    horizon : int or array of int
        T, or the rounds of a curve.

    Returns
    -------
    float or array
        Regret; often above that of always playing the worst arm, see `is_vacuous`.
    """
    dducb = require_plain("finite-time bound", policy, network)
    delay = stage_rounds(problem, network, dducb)
    eta = dducb.eta
    factor = network.num_agents * (6 * delay + 1) + 2 * eta / (eta - 1)
    return logarithmic(_leading(problem, dducb), factor * total_gap(problem), network, horizon)


def sharper_finite_time_bound(
    problem: Problem, network: Network, policy: Named, horizon: Rounds
) -> Rounds:
    r"""Return the sharper finite-time bound of Theorem 1 (extended version).

    .. math::
        R(T) < \sum_{k:Δ_k>0} \frac{16η(1+2ε)σ^2 \ln(TN)}{Δ_k}
        + \left(N(2E+1) + \frac{2NE}{K^η}\left(1+\frac{1}{N^η}\right)
        + \frac{2η}{(η-1)(NE)^{η-1}}\right) \sum_k Δ_k

    Parameters, assumptions and refusals are those of `finite_time_bound`, below which it lies.
    """
    dducb = require_plain("sharper finite-time bound", policy, network)
    delay = stage_rounds(problem, network, dducb)
    factor = _sharper_factor(network.num_agents, problem.num_arms, delay, dducb.eta)
    return logarithmic(_leading(problem, dducb), factor * total_gap(problem), network, horizon)


def asymptotic_shape(problem: Problem, network: Network, policy: Named, horizon: Rounds) -> Rounds:
    r"""Return the asymptotic bound of Theorem 1 without its constants: a shape, not a bound.

    .. math::
        R(T) \lesssim \sum_{k:Δ_k>0} \frac{η(1+ε)σ^2 \ln(TN)}{Δ_k}
        + \left(\frac{N \ln(N/ε)}{\sqrt{\ln(1/λ)}} + \frac{η}{η-1}\right) \sum_k Δ_k

    Plain mixing has ln(1/λ) without the root. Where a budget or ``mixing_rounds`` sets the stage,
    NE stands in place of the fraction. Needs ``bonus_factor=4`` and ``remix=False``;
    ``own_pulls`` and ``neighbor_pulls`` may be on, for which the paper claims the same shape.
    """
    dducb = require_mixed("asymptotic shape", policy, network)
    eta, epsilon = dducb.eta, dducb.epsilon
    slope = eta * (1 + epsilon) * inverse_gaps(problem)
    delay = _delay_shape(problem, network, dducb, network.num_agents / epsilon)
    return logarithmic(slope, (delay + eta / (eta - 1)) * total_gap(problem), network, horizon)


def instance_independent_shape(
    problem: Problem, network: Network, policy: Named, horizon: Rounds
) -> Rounds:
    r"""Return the instance-independent bound without its constants: a shape, not a bound.

    .. math::
        R(T) \lesssim \sqrt{KTNσ^2 \ln(TN)} + K \frac{NΛ \ln N}{\sqrt{\ln(1/λ)}}

    Λ is the largest gap; constants, η and ε are hidden. Assumptions and the replacements for plain
    mixing and for longer stages are those of `asymptotic_shape`.
    """
    dducb = require_mixed("instance-independent shape", policy, network)
    N, K = network.num_agents, problem.num_arms
    constant = K * float(problem.gaps.max()) * _delay_shape(problem, network, dducb, N)
    variance = K * N * problem.sigma**2
    return over_rounds(lambda T: np.sqrt(variance * T * np.log(T * N)) + constant, horizon)


def _leading(problem: Problem, policy: DDUCB) -> float:
    """Return 16η(1 + 2ε) Σ σ²/Δ_k, the factor of ln(TN)."""
    return 16 * policy.eta * (1 + 2 * policy.epsilon) * inverse_gaps(problem)


def _sharper_factor(N: int, K: int, E: int, eta: float) -> float:
    """Return N(2E + 1) + (2NE/K^η)(1 + N^−η) + 2η/((η − 1)(NE)^(η−1))."""
    # Powers in logarithms, since K^η and (NE)^(η−1) overflow for large η.
    first_stages = 2 * N * E * math.exp(-eta * math.log(K)) * (1 + math.exp(-eta * math.log(N)))
    later_stages = 2 * eta / (eta - 1) * math.exp(-(eta - 1) * math.log(N * E))
    return N * (2 * E + 1) + first_stages + later_stages


def _delay_shape(problem: Problem, network: Network, policy: DDUCB, inside: float) -> float:
    """Return N ln(inside)/√ln(1/λ), without the root for plain mixing; NE where E was set."""
    if policy.mixing_rounds is not None or policy.values_per_message is not None:
        return float(network.num_agents * stage_rounds(problem, network, policy))
    bound = policy.known_lambda(network.lambda2)
    if bound == 0.0:
        return 0.0
    decay = -math.log(bound)
    speed = math.sqrt(decay) if policy.accelerated else decay
    return network.num_agents * math.log(inside) / speed

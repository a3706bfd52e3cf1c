"""Which settings of DDUCB the theorem covers, and a sentence on every other."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from coopbandits.core.errors import InputError
from coopbandits.core.mixing import mixing_rounds
from coopbandits.core.policies import DDUCB
from coopbandits.core.spelling import Named, spell
from coopbandits.network import Network
from coopbandits.problems import Problem

LAMBDA_TOLERANCE = 1e-8
"""λ of a network is computed to this fraction of its gap, so bounds on it may be off by that."""


def as_analysed(policy: DDUCB) -> DDUCB:
    """Return the policy with the settings that the theorem is proven for.

    These are ``bonus_factor=4``, ``discount=1`` and all of ``own_pulls``, ``neighbor_pulls`` and
    ``remix`` off; η, ε and the mixing stay as they are.
    """
    return replace(
        policy, bonus_factor=4.0, own_pulls=False, neighbor_pulls=False, remix=False, discount=1.0
    )


def stage_rounds(problem: Problem, network: Network, policy: DDUCB) -> int:
    """Return E, the rounds of a stage: C, or max(C, ⌈2KC/L⌉) under a budget of L values.

    C is the policy's own number of mixing steps, accelerated (C) or plain (C').
    """
    steps = policy.mixing_steps(network.num_agents, network.lambda2)
    if policy.values_per_message is None:
        return steps
    size = policy.parts.statistic.registers(problem.num_arms).size
    return max(steps, -(-size * steps // policy.values_per_message))


def require_plain(what: str, policy: Named, network: Network) -> DDUCB:
    """Return the policy if the finite-time theorem covers it, else refuse."""
    dducb = require_mixed(what, policy, network)
    for setting in ("own_pulls", "neighbor_pulls"):
        if getattr(dducb, setting):
            raise _outside(what, f"{setting}=False", f"{setting}=True")
    return dducb


def require_mixed(what: str, policy: Named, network: Network) -> DDUCB:
    """Return the policy if its bonus and its mixing are those of the theorem, else refuse."""
    if policy.full_name() != DDUCB.name:
        raise InputError(
            f"the {what} is one of DDUCB; this policy is {policy.spelling}, for which there is none"
        )
    dducb = cast("DDUCB", policy)
    if dducb.bonus_factor != 4:
        raise _outside(what, "bonus_factor=4", spell(dducb.bonus_factor))
    if dducb.discount != 1.0:
        raise _outside(what, "discount=1", spell(dducb.discount))
    if dducb.remix:
        raise _outside(what, "remix=False", "remix=True")
    _check_knowledge(what, dducb, network)
    _check_steps(what, dducb, network)
    return dducb


def _outside(what: str, proven: str, found: str) -> InputError:
    return InputError(
        f"the {what} is proven for {proven}; this policy has {found}; "
        "as_analysed(policy) is the nearest one that it covers"
    )


def _check_knowledge(what: str, policy: DDUCB, network: Network) -> None:
    size = network.num_agents
    if policy.finds_out:
        raise InputError(
            f"the {what} is for agents that know N and a bound on λ from the start; these find "
            "them out first; leave num_agents and lambda_bound out"
        )
    if policy.num_agents not in (None, size, (size, size)):
        raise InputError(
            f"the {what} is for agents that know N; these are told {spell(policy.num_agents)} "
            f"in a network of {size}; leave num_agents out"
        )
    # Plain mixing for a given number of steps uses no bound on λ.
    if policy.lambda_bound is None or not (policy.accelerated or policy.mixing_rounds is None):
        return
    given = policy.known_lambda(network.lambda2)
    if 1.0 - given > network.spectral_gap * (1.0 + LAMBDA_TOLERANCE):
        raise InputError(
            f"the {what} needs an upper bound on λ; lambda_bound={given} lies below "
            f"λ = {network.lambda2!r}; raise it or leave it out"
        )


def _check_steps(what: str, policy: DDUCB, network: Network) -> None:
    # The accelerated recursion runs with the bound on λ, so that bound decides its precision.
    bound = policy.known_lambda(network.lambda2) if policy.accelerated else network.lambda2
    least = mixing_rounds(network.num_agents, bound, policy.epsilon, accelerated=policy.accelerated)
    steps = policy.mixing_steps(network.num_agents, network.lambda2)
    if steps < least:
        raise InputError(
            f"the {what} needs at least C = {least} mixing steps in a stage; this policy makes "
            f"{steps}; raise mixing_rounds or leave it out"
        )

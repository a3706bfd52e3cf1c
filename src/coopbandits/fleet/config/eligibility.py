"""Which policies can run in a fleet, and what a fleet asks them.

A policy that is made of parts is asked through its aggregation. One that is not declares the same
itself: its class has `mode` and `checks_claims`, and where they apply `shares`, `exact`, `grows`,
`outlives` and a method ``message_size(num_arms, max_agents)``; its agents have the methods of
`FleetAgent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from coopbandits.core import registry
from coopbandits.core.aggregate.aggregation import ROBUST, SYNCHRONOUS
from coopbandits.core.contract import FleetAgent, LocalView
from coopbandits.core.errors import InputError
from coopbandits.core.policy import combine
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.core.spelling import make

TOLD = frozenset({"num_agents", "lambda_bound", "random_word"})
"""What an agent of a fleet can be told; anything else takes somebody who sees the whole network."""

TRIAL = LocalView(
    0, 0.5, {1: 0.25, 2: 0.25}, num_arms=3, num_agents=3, lambda_bound=0.5, random_word=1,
    common_round=False,
)  # fmt: skip


def trial_view(policy: Any) -> LocalView:
    """Return what an agent of a policy is told that is only made to see which methods it has."""
    return replace(TRIAL, num_features=1) if policy.takes_context else TRIAL


class Traits(NamedTuple):
    """What a policy declares; see `AnyAggregation`."""

    mode: str
    checks_claims: bool
    shares: str
    exact: bool
    grows: bool
    takes_time: bool
    forgets: bool
    outlives: bool


def traits_of(policy: Any) -> Traits:
    """Return what a policy, or the aggregation it is made of, declares."""
    who = policy if policy.parts is None else policy.parts.aggregation
    return Traits(
        getattr(who, "mode", ""),
        getattr(who, "checks_claims", False) is True,
        getattr(who, "shares", ""),
        getattr(who, "exact", False),
        getattr(who, "grows", False),
        policy.parts is not None and hasattr(who, "discount") and getattr(who, "takes_time", False),
        getattr(who, "forgets", False),
        getattr(who, "outlives", False),
    )


def obstacle(policy: Any) -> str:
    """Return why a policy cannot run in a fleet, as a clause; "" if it can."""
    if not hasattr(policy, "make_agent"):
        return "one controller that sees every pull chooses for all its agents"
    found, parts = traits_of(policy), policy.parts
    if policy.takes_context and not (parts and parts.registers(2, 1).one_context):
        return (
            "its agents have one model for all arms, which takes features of every arm, and those "
            "of a fleet are told features of the request; set disjoint=true"
        )
    if "secret" in policy.needs:
        return (
            "its agents draw noise from a secret, which a fleet does not provide: a journal that "
            "is restored from a backup would use the same noise for other rewards"
        )
    who = "it" if parts is None else f"its aggregation {parts.aggregation.spelling}"
    if found.mode not in (ROBUST, SYNCHRONOUS):
        return f"{who} declares no mode, {ROBUST!r} or {SYNCHRONOUS!r}"
    if not found.checks_claims:
        return f"{who} does not check what neighbours claim; declare checks_claims and write it"
    if beyond := sorted(policy.needs - TOLD):
        return f"its agents need {', '.join(beyond)}, which takes a view of the whole network"
    if found.forgets:
        return (
            f"{who} forgets by rounds, which have no common length in a fleet; leave out discount "
            'and window, and say half_life = "2h" in [cluster] instead'
        )
    agent = make(f"policy {policy.spelling}", policy.make_agent, trial_view(policy))
    if parts is None and (lacking := missing_methods(agent)):
        return f"its agents have no {', '.join(lacking)}"
    if parts is not None and not agent.machine.checks_claims:
        return f"{who} declares checks_claims, but has no check_claims"
    return ""


def can_widen(policy: Any) -> bool:
    """Return whether agents of a policy can go on with more arms."""
    if policy.parts is None:
        return False
    agent = make(f"policy {policy.spelling}", policy.make_agent, trial_view(policy))
    return bool(agent.machine.registered)


def can_purge(policy: Any) -> bool:
    """Return whether what agents of a policy know of several arms adds up to that of one."""
    agent = make(f"policy {policy.spelling}", policy.make_agent, trial_view(policy))
    return bool(policy.parts and agent.machine.registers.adds_arms)


def missing_methods(agent: object) -> list[str]:
    """Return what an agent lacks to run in a fleet."""
    names = (*FleetAgent.__annotations__, *vars(FleetAgent))
    return [name for name in names if name[0] != "_" and not hasattr(agent, name)]


def require_eligible(what: str, policy: Any) -> None:
    """Refuse a policy that cannot run in a fleet, and say which can."""
    if reason := obstacle(policy):
        carriers = [each.name for each in registry.AGGREGATIONS if each.mode and each.checks_claims]
        raise InputError(
            f"{what} is {policy.spelling!r}, which cannot run in a fleet: {reason}; those that can "
            f"are {', '.join(eligible_names())}, any index on {', '.join(carriers)}, and your own "
            "that declare a mode and check claims"
        )


def require_blind(what: str, policy: Any) -> None:
    """Refuse a policy that looks at features, where applications tell none."""
    if policy.takes_context:
        raise InputError(
            f"{what} is {policy.spelling!r}, which looks at features, and the applications here "
            "tell none; choose one that needs none, such as flood-ts"
        )


def eligible_names() -> list[str]:
    """Return the names of our own policies that can run in a fleet."""
    shipped = map(parse_policy, EXAMPLES)
    return [policy.name for policy in shipped if not obstacle(policy)]


def can_estimate(policy: Any, setting: str) -> bool:
    """Return whether a policy's agents may find something out that others must be told."""
    return hasattr(policy, setting) or hasattr(policy.parts and policy.parts.aggregation, setting)


def with_settings(policy: Any, settings: Mapping[str, Any]) -> Any:
    """Return a policy with other settings, which may be those of its aggregation."""
    if all(hasattr(policy, name) for name in settings):
        return replace(policy, **settings) if settings else policy
    return combine(replace(policy.parts.aggregation, **settings), policy.parts.index)

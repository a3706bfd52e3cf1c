"""Which policies can run in a fleet, and what they declare.

A policy that is made of parts declares it by its aggregation, others by themselves: the class has
`mode` and `checks_claims`, and where they apply `shares`, `exact`, `grows`, `outlives` and a method
``message_size(num_arms, max_agents)``; its agents have the methods of `FleetAgent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from coopbandits.core import registry
from coopbandits.core.aggregate.aggregation import ROBUST, SYNCHRONOUS
from coopbandits.core.contract import FleetAgent, LocalView
from coopbandits.core.errors import InputError
from coopbandits.core.policy import AnyPolicy, combine
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.core.spelling import make

PROVIDED = frozenset({"num_agents", "lambda_bound", "random_word"})
"""The needs of policies that a fleet can meet; others take a view of the whole network."""

TRIAL = LocalView(
    0, 0.5, {1: 0.25, 2: 0.25}, num_arms=3, num_agents=3, lambda_bound=0.5, random_word=1,
    common_round=False,
)  # fmt: skip


def trial_view(policy: AnyPolicy) -> LocalView:
    """Return a view for an agent that is only made to inspect its methods."""
    return replace(TRIAL, num_features=1) if policy.takes_context else TRIAL


def _trial_agent(policy: Any) -> Any:
    return make(f"policy {policy.spelling}", policy.make_agent, trial_view(policy))


class Traits(NamedTuple):
    """The declarations of a policy; see `AnyAggregation`."""

    mode: str
    checks_claims: bool
    shares: str
    exact: bool
    grows: bool
    takes_time: bool
    forgets: bool
    outlives: bool


def traits_of(policy: AnyPolicy) -> Traits:
    """Return the declarations of a policy or of its aggregation."""
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


def obstacle(policy: AnyPolicy) -> str:
    """Return why a policy cannot run in a fleet, as a clause; "" if it can."""
    if policy.central:
        return "one controller that sees every pull chooses for all its agents"
    found, parts = traits_of(policy), policy.parts
    if policy.takes_context and not (parts and parts.registers(2, 1).one_context):
        return (
            "its agents have one model for all arms, which takes features of every arm, but a "
            "fleet provides features of the request; set disjoint=true"
        )
    if "secret" in policy.needs:
        return (
            "its agents draw noise from a secret, which a fleet does not provide: after a journal "
            "is restored from a backup, the same noise would be used for other rewards"
        )
    who = "it" if parts is None else f"its aggregation {parts.aggregation.spelling}"
    if found.mode not in (ROBUST, SYNCHRONOUS):
        return f"{who} declares no mode, {ROBUST!r} or {SYNCHRONOUS!r}"
    if not found.checks_claims:
        return f"{who} does not check neighbours' claims; write check_claims, and declare it"
    if beyond := sorted(policy.needs - PROVIDED):
        return f"its agents need {', '.join(beyond)}, which takes a view of the whole network"
    if found.forgets:
        return (
            f"{who} forgets by rounds, which have no common length in a fleet; leave out discount "
            'and window, and set half_life = "2h" in [bandits.NAME] instead'
        )
    agent = _trial_agent(policy)
    if parts is None and (lacking := missing_methods(agent)):
        return f"its agents have no {', '.join(lacking)}"
    if parts is not None and not agent.machine.checks_claims:
        return f"{who} declares checks_claims, but has no check_claims"
    return ""


def can_widen(policy: AnyPolicy) -> bool:
    """Return whether arms can be added to agents of a policy."""
    return bool(policy.parts and _trial_agent(policy).machine.registered)


def can_purge(policy: AnyPolicy) -> bool:
    """Return whether agents of a policy can merge the registers of several arms into one."""
    return bool(policy.parts and _trial_agent(policy).machine.registers.adds_arms)


def carry_problem(before: AnyPolicy, after: AnyPolicy) -> str:
    """Return why a bandit cannot carry what it learned into another policy; "" if it can."""
    for policy in (before, after):
        who = policy.parts and policy.parts.aggregation
        if not getattr(who, "keeps_own", False):
            return (
                f"policy {policy.spelling} does not keep each agent's own totals apart; those on "
                "flooded-totals, tree-sums and ledger-sums do"
            )
        if not getattr(who, "totals", False):
            return f"policy {policy.spelling} counts the pulls of other sites in part"
    assert before.parts is not None and after.parts is not None  # noqa: S101  just looked at
    had, asked = before.parts.statistic, after.parts.statistic
    if had != asked:
        return (
            f"policy {before.spelling} adds up {had.spelling}, and {after.spelling} needs "
            f"{asked.spelling}"
        )
    return ""


def missing_methods(agent: object) -> list[str]:
    """Return the methods of `FleetAgent` that an agent does not have."""
    names = (*FleetAgent.__annotations__, *vars(FleetAgent))
    return [name for name in names if name[0] != "_" and not hasattr(agent, name)]


def require_eligible(what: str, policy: AnyPolicy) -> None:
    """Raise InputError, with the policies that can, if a policy cannot run in a fleet."""
    if reason := obstacle(policy):
        carriers = [each.name for each in registry.AGGREGATIONS if each.mode and each.checks_claims]
        raise InputError(
            f"{what} is {policy.spelling!r}, which cannot run in a fleet: {reason}; those that can "
            f"are {', '.join(eligible_names())}, any index on {', '.join(carriers)}, and custom "
            "policies that declare a mode and check claims"
        )


def require_blind(what: str, policy: AnyPolicy) -> None:
    """Raise InputError if a policy is contextual, for applications that send no features."""
    if policy.takes_context:
        raise InputError(
            f"{what} is {policy.spelling!r}, which needs features, but the applications here send "
            "none; choose one that needs none, such as flood-ts"
        )


def eligible_names() -> list[str]:
    """Return the names of the package's policies that can run in a fleet."""
    shipped = map(parse_policy, EXAMPLES)
    return [policy.name for policy in shipped if not obstacle(policy)]


def can_estimate(policy: AnyPolicy, setting: str) -> bool:
    """Return whether a policy's agents can estimate what `setting` would state."""
    return hasattr(policy, setting) or hasattr(policy.parts and policy.parts.aggregation, setting)


def with_settings(policy: Any, settings: Mapping[str, Any]) -> Any:
    """Return a policy with other settings, of itself or of its aggregation."""
    if all(hasattr(policy, name) for name in settings):
        return replace(policy, **settings) if settings else policy
    return combine(replace(policy.parts.aggregation, **settings), policy.parts.index)

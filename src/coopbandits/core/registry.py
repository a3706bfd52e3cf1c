"""Name → policy, used by the command line, the documentation and the contract tests."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from fractions import Fraction
from typing import Any

from coopbandits.core.baselines import IndependentUCB
from coopbandits.core.central import (
    CentralBatchedUCB,
    CentralPolicy,
    CentralTS,
    CentralUCB,
    DelayedCentralUCB,
)
from coopbandits.core.coop_ucb import CoopUCB, CoopUCB2, CoopUCL
from coopbandits.core.dducb import DDUCB
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.policy import Policy
from coopbandits.core.robust import FloodTS, FloodUCB, GossipTS, TreeTS, TreeUCB
from coopbandits.core.shared_pulls import MPUCB, UCBNetwork
from coopbandits.core.thompson import DecBayesUCB, DecTS, IndependentTS

AnyPolicy = Policy | CentralPolicy

_AGENTS = (
    DDUCB, CoopUCB, CoopUCB2, CoopUCL, DecTS, DecBayesUCB, UCBNetwork, MPUCB, GossipTS, TreeTS,
    FloodTS, TreeUCB, FloodUCB, IndependentUCB, IndependentTS,
)  # fmt: skip
_CENTRAL = (CentralUCB, CentralBatchedUCB, DelayedCentralUCB, CentralTS)

POLICIES: dict[str, type[AnyPolicy]] = {cls.name: cls for cls in (*_AGENTS, *_CENTRAL)}

EXAMPLES = tuple(
    {
        "coop-ucb": "coop-ucb:gamma=1.01",
        "coop-ucb2": "coop-ucb2:gamma=1.01",
        "coop-ucl": "coop-ucl:gamma=1.01",
        "mp-ucb": "mp-ucb:hop_limit=2",
        "delayed-central-ucb": "delayed-central-ucb:delay=10",
    }.get(name, name)
    for name in POLICIES
)
"""One spelling of every policy, with the settings that have no default."""


def parse_policy(text: str) -> AnyPolicy:
    """Read a spelling such as ``dducb:eta=3,own_pulls=false`` or ``dducb:num_agents=90..120``."""
    name, _, rest = text.strip().partition(":")
    if name not in POLICIES:
        raise unknown_name("policy", name, POLICIES)
    settings: dict[str, Any] = {}
    for key, value in (_setting(name, part) for part in rest.split(",") if part.strip()):
        if key in settings:
            raise InputError(f"setting {key} of policy {name} is given twice; give it once")
        settings[key] = value
    for field in _fields(name):
        if field.default is MISSING and field.name not in settings:
            raise InputError(
                f"policy {name} has no {field.name}; write {name}:{field.name}=…, "
                f"such as {EXAMPLES[list(POLICIES).index(name)]}"
            )
    return POLICIES[name](**settings)


def _fields(policy: str) -> tuple[Field[Any], ...]:
    return fields(POLICIES[policy])  # type: ignore[arg-type]  # all are dataclasses


def _setting(policy: str, text: str) -> tuple[str, Any]:
    known = [field.name for field in _fields(policy)]
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise InputError(f"setting {text!r} of policy {policy} has no value; write name=value")
    if key not in known:
        raise unknown_name(f"setting of policy {policy}", key, known)
    return key, parse_value(value)


def parse_value(text: str) -> Any:
    """Read true, false, none, 3, 0.5, 1/22, 90..120, or leave a word as it is."""
    constants = {"true": True, "false": False, "none": None}
    if text.lower() in constants:
        return constants[text.lower()]
    if ".." in text:
        return tuple(parse_value(part) for part in text.split(".."))
    for kind in (int, float, Fraction):
        try:
            number = kind(text)
        except (ValueError, ZeroDivisionError):
            continue
        return float(number) if kind is Fraction else number
    return text

"""Name → policy, used by the command line, the documentation and the contract tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from fractions import Fraction
from typing import Any, TypeVar

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.policies import NAMED
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.spelling import Named

POLICIES: dict[str, type[AnyPolicy]] = {cls.name: cls for cls in NAMED}

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
    return parse_named("policy", text, POLICIES)


Found = TypeVar("Found", bound=Named)


def parse_named(kind: str, text: str, table: Mapping[str, type[Found]]) -> Found:
    """Read a spelling ``name:setting=value,…`` of something in a table of dataclasses."""
    name, _, rest = text.strip().partition(":")
    if name not in table:
        raise unknown_name(kind, name, table)
    known = fields(table[name])  # type: ignore[arg-type]  # all are dataclasses
    owner = f"{kind} {name}"
    settings: dict[str, Any] = {}
    for key, value in (_setting(owner, known, part) for part in rest.split(",") if part.strip()):
        if key in settings:
            raise InputError(f"setting {key} of {owner} is given twice; give it once")
        settings[key] = value
    for field in known:
        if field.default is MISSING and field.name not in settings:
            example = next(spelling for spelling in EXAMPLES if spelling.startswith(f"{name}:"))
            raise InputError(
                f"{owner} has no {field.name}; write {name}:{field.name}=…, such as {example}"
            )
    return table[name](**settings)


def _setting(owner: str, known: tuple[Field[Any], ...], text: str) -> tuple[str, Any]:
    names = [field.name for field in known]
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise InputError(f"setting {text!r} of {owner} has no value; write name=value")
    if key not in names:
        raise unknown_name(f"setting of {owner}", key, names)
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

"""Changes of a problem as text or as a table: what the command line and experiment files take.

::

    --drift steps=1500:0.2,0.9/3000:0.5,0.1    --drift ramp=1000..3000:0.2,0.9,pieces=10
    --drift switch_every=2000                  --drift replay=10000,pieces=24
    --sites spread=0.1,seed=3                  --sites groups=0.9,0.1/0.1,0.9,of=0,0,1
    --subsets 0,1/1,2

Coefficients of linear problems are written like means; a model per arm as ``1,0;0,1``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.spelling import make, parse_value
from coopbandits.problems.parse import parse_means
from coopbandits.problems.problem import Problem
from coopbandits.problems.world import drift, sites, subsets

CHANGES: dict[str, Callable[..., Problem]] = {"drift": drift, "sites": sites, "subsets": subsets}
EXAMPLES = {"drift": "switch_every=2000", "sites": "spread=0.1", "subsets": "0,1/1,2"}


def changed(problem: Problem, name: str, given: Any) -> Problem:
    """Return the problem under a change, ``drift``, ``sites`` or ``subsets``, as it is written."""
    if isinstance(given, str):
        given = parse_change(name, given)
    if name == "subsets" and isinstance(given, list):
        given = {"allowed": given}
    if not isinstance(given, Mapping):
        raise InputError(f"{name} is {given!r}; give a text such as {EXAMPLES[name]!r}, or a table")
    for key in given:
        if key not in _settings(name):
            raise unknown_name(f"setting of {name}", str(key), _settings(name))
    return make(name, CHANGES[name], problem, **{**given, **_steps_of(given)})


def _settings(name: str) -> list[str]:
    return list(signature(CHANGES[name]).parameters)[1:]


def _steps_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return steps with whole numbers for rounds: keys of a table in a file are text."""
    steps = table.get("steps")
    if not isinstance(steps, Mapping):
        return {}
    return {"steps": {_number(str(start)): each for start, each in steps.items()}}


def parse_change(name: str, text: str) -> dict[str, Any]:
    """Read the settings of a change."""
    known = _settings(name)
    settings: dict[str, Any] = {}
    # A comma not followed by `name=` belongs to a list.
    for place, part in enumerate(re.split(r",(?=\s*[A-Za-z_]\w*\s*=)", text)):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and place == 0 and name == "subsets":
            key, equals, value = known[0], "=", part.strip()
        if not equals or not value:
            raise InputError(f"setting {part!r} of {name} has no value; write name=value")
        if key not in known:
            raise unknown_name(f"setting of {name}", key, known)
        if key in settings:
            raise InputError(f"setting {key} of {name} is given twice; give it once")
        settings[key] = _READERS.get(key, _number)(value)
    return settings


def _number(text: str) -> Any:
    """Read a value, and 1e4 as a whole number."""
    value = parse_value(text)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _steps(text: str) -> list[tuple[Any, list[Any]]]:
    return [_step(part) for part in text.split("/")]


def _step(text: str) -> tuple[Any, list[Any]]:
    start, colon, means = text.partition(":")
    if not colon:
        raise InputError(f"step {text!r} has no means; write round:means, as in 1500:0.2,0.9")
    rounds = [_number(part) for part in start.strip().split("..")]
    return rounds[0] if len(rounds) == 1 else tuple(rounds), _levels(means)


def _levels(text: str) -> list[Any]:
    rows = [parse_means(part) for part in text.split(";")]
    return rows if len(rows) > 1 else list(rows[0])


def _ramp(text: str) -> tuple[Any, Any, list[Any]]:
    rounds, means = _step(text)
    if not isinstance(rounds, tuple) or len(rounds) != 2:
        raise InputError(f"ramp {text!r} has no two rounds; write 1000..3000:0.2,0.9")
    return (*rounds, means)


def _groups(text: str) -> list[list[Any]]:
    return [_levels(part) for part in text.split("/")]


def _of(text: str) -> Any:
    parts = [part.strip() for part in text.split(",")]
    if ":" not in text:
        return parts
    pairs = [part.rpartition(":") for part in parts]
    if any(not colon for _, colon, _ in pairs):
        raise InputError(f"of is {text!r}; write every agent with its group, as in anna:0,ben:1")
    return {agent: group for agent, _, group in pairs}


def _arms(text: str) -> list[list[Any]]:
    return [[parse_value(arm.strip()) for arm in part.split(",")] for part in text.split("/")]


_READERS: dict[str, Callable[[str], Any]] = {
    "steps": _steps, "ramp": _ramp, "groups": _groups, "of": _of, "allowed": _arms,
}  # fmt: skip

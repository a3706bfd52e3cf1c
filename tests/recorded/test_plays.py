"""What policies play today is what was recorded; see `record.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any

import pytest

import coopbandits as cb
from coopbandits.core.index import LINEAR_INDICES
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import AGGREGATIONS, CENTRAL_AGGREGATIONS, INDICES, REGISTRY
from coopbandits.core.sources import SOURCES
from coopbandits.core.spelling import Named, settings_of
from coopbandits.literature.models import MODELS, parse_model
from coopbandits.network.faults.faults import KINDS as FAULTS
from coopbandits.problems.kinds import KINDS as PROBLEMS
from coopbandits.sim.clocks import Clocks, parse_clocks

from .plays import differences, play, problem_of, read, written
from .worlds import worlds

RECORDED = read()
OWN_CLOCKS = [kind for kind in Clocks.__subclasses__() if kind.__module__ == Clocks.__module__]
REGISTERED: tuple[type[Named], ...] = (
    *REGISTRY.own(), *AGGREGATIONS, *CENTRAL_AGGREGATIONS, *INDICES, *LINEAR_INDICES, *SOURCES,
    *FAULTS.values(), *OWN_CLOCKS, *MODELS.own(),
)  # fmt: skip
RECORD = "run `python -m tests.recorded.record`, and look at the list of changes that it prints"


def check(name: str, engine: str) -> None:
    world, texts = worlds()[name]
    recorded = RECORDED[name]
    assert recorded == {**world, "plays": recorded["plays"]}, f"world {name!r} is new; {RECORD}"
    assert set(recorded["plays"]) == set(texts), f"other plays in world {name!r}; {RECORD}"
    found = []
    for text in texts:
        by, facts = play(world, text, engine)
        lines = differences(recorded["plays"][text], facts)
        found += [f"{text} in world {name!r} on the {by} engine: {line}" for line in lines]
    assert not found, "\n".join([*found, f"If that is intended, {RECORD}."])


COMPILED_APART = {"settings", "sources", "sources, lost memories"}
"""Worlds in which every pair of parts is compiled by itself, which takes one to three minutes."""


@pytest.mark.plays
@pytest.mark.parametrize("world", RECORDED)
def test_policies_play_what_was_recorded(world: str) -> None:
    check(world, "reference" if world in COMPILED_APART else "auto")


@pytest.mark.plays
@pytest.mark.slow
@pytest.mark.parametrize("world", RECORDED)
def test_another_engine_plays_what_was_recorded(world: str) -> None:
    check(world, "auto" if world in COMPILED_APART else "reference")


def named(thing: Any) -> Iterator[Named]:
    """Return a policy with its parts, its members and all their settings that have a name."""
    if isinstance(thing, tuple):
        for each in thing:
            yield from named(each)
    elif isinstance(thing, Named):
        yield thing
        inner = [getattr(thing, field.name) for field in settings_of(type(thing))]
        if isinstance(thing, AnyPolicy) and thing.parts:
            inner += [thing.parts.aggregation, thing.parts.index]
        yield from named(tuple(inner))


def played() -> Iterator[Named]:
    """Return everything with settings that occurs in a recorded world."""
    for world in RECORDED.values():
        if "means" in world:
            yield from (parse_model(text) for text in world["plays"])
            continue
        yield from cb.parse_faults(world.get("faults", "none")).kinds
        if "clocks" in world:
            yield from named(parse_clocks(world["clocks"]))
        family = problem_of(world).family
        for text in world["plays"]:
            yield from named(cb.parse_policy(text).suited(family))


def unplayed() -> list[str]:
    """Return the registered things that no recorded play has, and settings always at default."""
    seen: dict[type, dict[str, set[Any]]] = {}
    for thing in played():
        values = seen.setdefault(type(thing), {})
        for field in settings_of(type(thing)):
            values.setdefault(field.name, set()).add(getattr(thing, field.name))
    missing = []
    for kind in REGISTERED:
        if kind not in seen:
            missing.append(kind.name)
            continue
        for field in settings_of(kind):
            default = set() if field.default is MISSING else {field.default}
            if kind not in MODELS.own() and not seen[kind][field.name] - default:
                missing.append(f"{kind.name}:{field.name}")
    problems = " ".join(world.get("problem", "") for world in RECORDED.values())
    missing += [f"problem {name}" for name in PROBLEMS if f"{name}:" not in problems]
    return missing


def test_everything_registered_is_recorded() -> None:
    assert list(RECORDED) == list(worlds()), f"other worlds than in worlds.py; {RECORD}"
    assert not unplayed(), f"add plays with these to worlds.py, then {RECORD}: {unplayed()}"


@pytest.mark.parametrize(
    ("name", "at", "place"),
    [
        ("arms", (0, 12, 3), "run 0, round 13, agent 3"),
        ("pulls", (1, 2), "run 1, arm 2"),
        ("realized_regret", (1,), "run 1"),
        ("values_sent", (0,), "run 0"),
        ("sums", (4, 1), "agent 4, number 1"),
        ("certain", (5, 2), "agent 5, number 2"),
    ],
)
def test_a_difference_is_located(name: str, at: tuple[int, ...], place: str) -> None:
    facts = play(RECORDED["plain"], "flood-ts", "reference")[1]
    assert differences(written(facts), facts) == []
    other = {**facts, name: facts[name].copy()}
    whole = other[name].dtype.kind == "i"
    other[name][at] += 1 if whole else 1e-8 * max(1.0, abs(other[name][at]))
    (line,) = differences(written(facts), other)
    assert line.startswith(f"{name} first differ in {place}: recorded ")

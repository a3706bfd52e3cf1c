"""Lies about the number of agents end with the generation in which they were told."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from coopbandits.core import AnyAggregation, InputError, Vector
from coopbandits.core.aggregate import PullMixing, RunningSums, TreeSums, extrema, tree_sums
from coopbandits.core.aggregate.extrema import (
    EXPONENTIALS,
    IMPOSSIBLE,
    count_agents,
    counted,
)
from coopbandits.core.aggregate.fields import FieldMachine

from ..fleet import machine, one_view, through_json
from ..liars import BOTH_GRAPHS, GRAPHS, MAX_AGENTS, Den

HEADS: dict[type[AnyAggregation], list[float]] = {
    PullMixing: [0.0, 0.0, 0.0, 0.0, 2.0, 1.0],
    RunningSums: [0.0, 0.0, 0.0, 0.0, 1.0, 1.0],
    TreeSums: [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.9, 0.0, 5.0, 1.0],
}
"""What comes before the minima in a message that says nothing else."""

SPECS = sorted(HEADS, key=lambda spec: spec.name)
TINY = 2 * IMPOSSIBLE / MAX_AGENTS


@pytest.fixture(autouse=True)
def short_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extrema, "GENERATION", 200)
    monkeypatch.setattr(extrema, "SETTLED", 50)


def den(spec: type[AnyAggregation], graph: str) -> Den[Any]:
    return Den(partial(machine, spec()), GRAPHS[graph], checked=spec.checks_claims)


def held(agent: Any, name: str) -> Any:
    """Return a field of an agent, of its numbers or of its arrays."""
    if isinstance(agent, FieldMachine):
        return getattr(agent.state if hasattr(agent.state, name) else agent.state.me, name)
    return getattr(agent, name)


def count(agent: Any) -> float:
    return counted(agent.state) if isinstance(agent, FieldMachine) else agent._counted()


def right_count(world: Den[Any]) -> float:
    return count_agents(np.min([held(agent, "born") for agent in world.honest], axis=0).sum())


def told(spec: type[AnyAggregation], minima: Vector, *generation: float) -> Vector:
    return np.array([*HEADS[spec], *minima, *generation])


def all_tiny(spec: type[AnyAggregation], world: Den[Any]) -> Vector:
    generation = held(world.agents[1], "generation")
    return told(spec, np.full(EXPONENTIALS, TINY), *([generation] if generation else []))


def half_now_half_later(spec: type[AnyAggregation], world: Den[Any]) -> Vector:
    generation = held(world.agents[1], "generation")
    minima = np.where(np.arange(EXPONENTIALS) % 2 == world.rounds % 2, TINY, 100.0)
    return told(spec, minima, *([generation] if generation else []))


def ahead_of_all(spec: type[AnyAggregation], world: Den[Any]) -> Vector:
    """The latest generation that can be believed, again and again."""
    latest = int(world.claims[0].most_rounds(world.now()) / extrema.GENERATION + 1.0)
    return told(spec, np.full(EXPONENTIALS, TINY), latest)


LIES = (all_tiny, half_now_half_later, ahead_of_all)


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
@pytest.mark.parametrize("graph", BOTH_GRAPHS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_agents_are_counted_right_again_once_a_liar_has_gone(
    spec: type[AnyAggregation], graph: str, lie: Any
) -> None:
    world = den(spec, graph)
    world.run(230)
    assert [count(agent) for agent in world.honest] == pytest.approx(
        [right_count(world)] * len(world.honest)
    )
    world.lie = lambda _, now: lie(spec, now)
    world.run(70)
    counts = {count(agent) for agent in world.honest}
    assert max(counts) == MAX_AGENTS  # believed, but no more than there may be
    world.lie = None
    world.run(extrema.GENERATION + extrema.SETTLED + len(world.agents))
    assert [count(agent) for agent in world.honest] == pytest.approx(
        [right_count(world)] * len(world.honest)
    )
    assert world.refused == []


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_tree_that_stands_counts_everybody_whatever_minima_say(
    graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_sums, "CERTAIN", 60)
    world = den(TreeSums, graph)
    for agent in world.agents:
        agent.most_agents = 100  # so that seven are far too few
    world.lie = partial(lambda spec, _, now: all_tiny(spec, now), TreeSums)
    world.run(60)
    assert {agent.estimate().num_agents for agent in world.honest} == {100.0}
    world.run(tree_sums.STEADY + tree_sums.CERTAIN)
    assert [agent.estimate().num_agents for agent in world.honest] == [7.0] * 7


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_who_has_left_is_no_longer_counted(spec: type[AnyAggregation]) -> None:
    world = den(spec, "random")
    world.liars = ()
    world.run(30)
    everybody = right_count(world)
    world.liars = (0, 5)  # they say nothing
    world.run(extrema.GENERATION + extrema.SETTLED + len(world.agents))
    assert [count(agent) for agent in world.honest] == pytest.approx(
        [right_count(world)] * len(world.honest)
    )
    assert right_count(world) != everybody


@pytest.mark.covering(1)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_who_comes_late_joins_the_generation_of_the_others(spec: type[AnyAggregation]) -> None:
    world = den(spec, "ring")
    world.liars = (3,)  # not there yet
    world.run(450)
    world.liars = ()
    world.run(20)
    assert [held(world.agents[at], "generation") for at in (3, 1)] == [2, 2]
    assert [count(agent) for agent in world.agents] == pytest.approx(
        [right_count(world)] * len(world.agents)
    )


@pytest.mark.parametrize("name", ["generation", "collecting"])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_counts_in_a_state_are_never_negative(spec: type[AnyAggregation], name: str) -> None:
    mine = machine(spec(), one_view())
    state = through_json(mine.export_state())
    with pytest.raises(InputError, match=f"{name}.*-1"):
        mine.restore_state({**state, name: -1})


@pytest.mark.parametrize("number", [0.5, 1.5, 2.0**60])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_generation_is_a_whole_number(spec: type[AnyAggregation], number: float) -> None:
    mine = machine(spec(), one_view())
    before = mine.export_state()
    with pytest.raises(InputError, match=re.escape(f"generation {number:g}")):
        mine.receive({1: told(spec, np.ones(EXPONENTIALS), number)})
    assert mine.export_state() == before

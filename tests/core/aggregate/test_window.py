"""Windows: what is read is exactly the last rounds, as they were heard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import (
    ArmSums,
    FloodedTotals,
    InputError,
    LocalSums,
    PullMixing,
    RunningConsensus,
    StagedMixing,
    TreeSums,
)
from coopbandits.core.aggregate.tree_sums import TreeSumsMachine

from ..fleet import GRAPHS, through_json
from ..rough import CALM, NUM_ARMS, Rough, Schedule, graphs, schedules

ROUNDS = 30


def ids(spec: Any) -> str:
    return str(spec.spelling)


def windowed(spec: Any, window: int, graph: nx.Graph[Any] = GRAPHS["path-4"]) -> Rough[Any]:
    limited = replace(spec, window=window)
    return Rough(lambda view: limited.make(view, ArmSums().registers(NUM_ARMS)), graph)


@pytest.mark.covering
@pytest.mark.parametrize("window", [1, 7, 100])
@pytest.mark.parametrize("spec", [LocalSums(), TreeSums(), FloodedTotals()], ids=ids)
def test_a_window_holds_the_last_rounds_as_they_were_heard(spec: Any, window: int) -> None:
    world, rounds = windowed(spec, window), 70
    for _ in range(rounds):
        world.pull()
        world.step()
        world.restart()
    for i, agent in enumerate(world.agents):
        expected = np.zeros(2 * NUM_ARMS)
        for j in (i,) if isinstance(spec, LocalSums) else range(4):
            late = max(0, abs(i - j) - 1)  # the first hop is in time for the next round
            until, since = rounds - late, max(0, rounds - late - window)
            expected += world.history[until][j] - world.history[since][j]
        found = agent.estimate()
        if isinstance(spec, TreeSums) and window == 100:
            continue  # it began anew when the tree stood
        np.testing.assert_allclose([*found.sums, *found.counts], expected, atol=1e-9)
        assert found.time == max(2.0, found.counts.sum())
        assert found.anticipation >= 1.0


def test_a_window_begins_anew_where_the_tree_changes() -> None:
    world = windowed(TreeSums(), 50)
    for _ in range(30):
        world.pull()
        world.step()
    machine = world.agents[0]
    assert isinstance(machine, TreeSumsMachine)
    before = machine.estimate().counts.sum()
    assert machine.state.me.kept < 31
    for _ in range(60):
        world.pull()
        world.step(replace(CALM, loss=1.0))
    assert machine.estimate().counts.sum() < before
    assert machine.estimate().counts.min() >= 0.0


def test_a_window_begins_anew_where_a_long_silence_ends() -> None:
    """A fresh agent hears all that happened at once; what is old must not count as recent."""
    world = windowed(FloodedTotals(), 5)
    for _ in range(20):
        world.pull()
        world.step()
    fresh = world.agents[0] = world.make(world.views[0])
    for _ in range(20):
        fresh.receive({})
    for later in range(1, 12):
        world.pull()
        world.step()
        assert fresh.estimate().counts.sum() <= 4 * min(5, later)
    assert fresh.estimate().counts.sum() == 20.0


@pytest.mark.parametrize("spec", [LocalSums(), TreeSums(), FloodedTotals()], ids=ids)
def test_a_past_that_no_window_holds_is_refused(spec: Any) -> None:
    long, short = windowed(spec, 9), windowed(spec, 3)
    for _ in range(20):
        long.pull()
        long.step()
    state = through_json(long.agents[0].export_state())
    before = short.agents[0].export_state()
    with pytest.raises(InputError, match=r"past.*\b10\b.*\b[34]\b"):
        short.agents[0].restore_state(state)
    assert short.agents[0].export_state() == before


@pytest.mark.parametrize("spec", [RunningConsensus, PullMixing, StagedMixing])
def test_a_window_is_refused_where_there_is_none(spec: Any) -> None:
    with pytest.raises(InputError, match=f"{spec.__name__}.*'window'"):
        spec(window=5)


@pytest.mark.plays
@given(graph=graphs(largest=7), schedule=schedules, window=st.integers(1, 12))
@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("spec", [TreeSums(), FloodedTotals()], ids=ids)
def test_a_window_never_holds_fewer_than_no_pulls(
    spec: Any, graph: Any, schedule: Schedule, window: int
) -> None:
    world = windowed(spec, window, graph)
    for at in range(ROUNDS):
        world.pull()
        world.step(schedule)
        if at == ROUNDS // 2:  # one loses its memory
            world.agents[0] = world.make(world.views[0])
            for _ in range(at + 1):
                world.agents[0].receive({})
        for agent in world.agents:
            assert agent.estimate().counts.min() >= 0.0

"""Pull mixing: always an average of what was heard, and exact where links fail both ways."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from coopbandits.core import InputError
from coopbandits.core.aggregate import PullMixing
from coopbandits.core.aggregate.extrema import EXPONENTIALS, count_agents, exponentials

from ..fleet import GRAPHS, machine, one_view  # as in test_local
from ..rough import CALM, Rough, Schedule, graphs, schedules

REPEATABLE = settings(max_examples=12, deadline=None, derandomize=True, database=None)


def test_a_round_by_hand() -> None:
    mine = machine(PullMixing(), one_view(), squares="pooled")
    mine.observe(1, 2.0)
    mine.observe(1, 3.0)
    message = mine.outgoing(1)
    assert message is not None
    minima = exponentials(1)
    assert message.tolist() == [0, 5, 0, 2, 13, 2, minima.sum(), *minima]
    # Neighbour 1 has four neighbours and the same minima; neighbour 2 stays silent.
    mine.receive({1: np.array([10.0, 0.0, 5.0, 2.0, 3.0, 4.0, minima.sum()])})
    assert mine.mixed.tolist() == pytest.approx([2.0, 4.0, 1.0, 2.0, 11.0])
    estimate = mine.estimate()
    num_agents = count_agents(minima.sum())
    assert estimate.num_agents == num_agents
    assert estimate.sums.tolist() == pytest.approx([2 * num_agents, 4 * num_agents])
    assert estimate.counts.tolist() == pytest.approx([num_agents, 2 * num_agents])
    assert estimate.squares == pytest.approx(11 * num_agents)
    assert estimate.time == pytest.approx(3 * num_agents)
    assert estimate.anticipation == 1.0
    told, untold = mine.outgoing(1), mine.outgoing(2)
    assert told is not None
    assert untold is not None
    assert told.size == 7
    assert untold.size == 7 + EXPONENTIALS


def test_who_comes_back_is_listened_to_from_the_next_round_on() -> None:
    """Both ends of a link must go by the same degrees."""
    mine = machine(PullMixing(), one_view())
    message = np.array([1.0, 0.0, 1.0, 0.0, 2.0, mine.minima.sum()])
    for _ in range(10):
        mine.receive({2: message})
    told = mine.outgoing(2)
    assert told is not None
    assert told[4] == 1.0
    before = mine.mixed.tolist()
    mine.receive({1: 9 * message})
    assert mine.mixed.tolist() == before
    mine.receive({1: message})
    assert mine.mixed[0] == pytest.approx(before[0] + (1.0 - before[0]) / 3)


@REPEATABLE
@given(graphs(), schedules)
def test_estimates_stay_within_what_was_heard(graph: nx.Graph[Any], schedule: Schedule) -> None:
    """Counts per arm never exceed the rounds so far, nor sums the largest reward of each."""
    world = Rough(partial(machine, PullMixing()), graph)
    for _ in range(25):
        world.pull()
        world.step(schedule)
        for agent in world.agents:
            sums, counts = agent.mixed.reshape(2, -1)
            assert (counts >= 0.0).all()
            assert (counts <= world.now).all()
            assert (sums >= -counts - 1e-9).all()
            assert (sums <= 5.0 * counts + 1e-9).all()
            assert np.isfinite(agent.estimate().time)


@REPEATABLE
@given(graphs(), schedules)
def test_links_that_fail_both_ways_keep_the_total(graph: nx.Graph[Any], schedule: Schedule) -> None:
    schedule = replace(schedule, loss=0.0, late=0, spell=max(schedule.spell, 2), both_ways=True)
    world = Rough(partial(machine, PullMixing()), graph)
    for _ in range(40):
        world.pull()
        world.step(schedule)
        total = sum(agent.mixed for agent in world.agents)
        np.testing.assert_allclose(total, world.paid, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", [0.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_all_come_to_agree_on_averages_and_on_n(loss: float) -> None:
    world = Rough(partial(machine, PullMixing()), GRAPHS["grid-2x4"])
    world.pull()
    for _ in range(400):
        world.step(replace(CALM, loss=loss, key=1))
    everybody = np.array([agent.mixed for agent in world.agents])
    assert np.ptp(everybody, axis=0).max() < 1e-9
    assert len({agent.estimate().num_agents for agent in world.agents}) == 1
    if loss == 0.0:
        np.testing.assert_allclose(everybody[0], world.paid / 8, rtol=1e-9)
    for agent in world.agents:
        sent = [agent.outgoing(j) for j in agent.places]
        assert all(message is not None and message.size == 2 * 2 + 2 for message in sent)


BAD: dict[str, tuple[Any, str]] = {
    "short": (np.ones(5), r"\b2\b.*\(5,\).*\(6,\).*\(38,\)"),
    "nan": (np.full(6, np.nan), r"\b2\b.*finite"),
    "sum": (np.zeros(6), r"\b2\b.*minima"),
    "minima": (np.append(np.ones(37), -1.0), r"\b2\b.*minima"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_messages_change_nothing(case: str) -> None:
    message, sentence = BAD[case]
    mine = machine(PullMixing(), one_view())
    before = mine.export_state()
    with pytest.raises(InputError, match=sentence):
        mine.receive({1: np.ones(6), 2: message})
    assert mine.export_state() == before

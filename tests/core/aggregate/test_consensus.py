"""Running consensus: P(x + y), one message of 2K values per neighbour and round."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from coopbandits.core import InputError, Vector
from coopbandits.core.aggregate import RunningConsensus
from coopbandits.literature import CoopUCB2

from ..fleet import GRAPHS, machine, make_agent, one_view, through_json  # as in test_local
from ..rough import Rough, Schedule  # as in test_local


def test_a_round_by_hand() -> None:
    """Pull, add, then mix: what was pulled this round is already in the message."""
    mine = machine(RunningConsensus(), one_view())
    mine.observe(1, 2.0)
    assert mine.mixed.tolist() == [0.0, 2.0, 0.0, 1.0]
    message = mine.outgoing(1)
    assert message is not None
    assert message.tolist() == [0.0, 2.0, 0.0, 1.0]
    mine.receive({1: np.array([4.0, 0.0, 1.0, 0.0]), 2: np.array([0.0, 1.0, 0.0, 1.0])})
    assert mine.mixed.tolist() == [1.0, 1.25, 0.25, 0.75]
    sums, counts, time, num_agents, *_ = mine.estimate()
    assert sums.tolist() == [3.0, 3.75]
    assert counts.tolist() == [0.75, 2.25]
    assert (time, num_agents) == (3.0, 3)


def test_time_is_positive_before_the_first_pull() -> None:
    assert machine(RunningConsensus(), one_view()).estimate().time == 1.0


def test_a_missing_neighbour_counts_as_the_own_value() -> None:
    """x_i + Σ_{received j} P_ij (x_j − x_i)."""
    own, heard = np.array([1.0, 2.0, 3.0, 4.0]), np.array([4.0, 0.0, 1.0, 0.0])
    mine = machine(RunningConsensus(), one_view())
    mine.mixed = own.copy()
    mine.receive({2: heard})
    np.testing.assert_allclose(mine.mixed, own + 0.25 * (heard - own), rtol=1e-15)
    before = mine.mixed
    mine.receive({})
    assert mine.mixed.tolist() == before.tolist()


@pytest.mark.parametrize("graph", ["cycle-9", "star-6", "regular-3-8"])
def test_links_that_fail_both_ways_keep_the_total(graph: str) -> None:
    world = Rough(partial(machine, RunningConsensus()), GRAPHS[graph])
    schedule = Schedule(key=4, loss=0.0, late=0, sleep=0.2, spell=3, both_ways=True)
    for _ in range(40):
        world.pull()
        world.step(schedule)
        total = sum(agent.mixed for agent in world.agents)
        np.testing.assert_allclose(total, world.paid, rtol=1e-12, atol=1e-12)


def test_every_neighbour_gets_an_own_copy() -> None:
    mine = machine(RunningConsensus(), one_view())
    first, second = mine.outgoing(1), mine.outgoing(2)
    assert first is not None
    assert second is not None
    first += 1.0
    assert second.tolist() == mine.mixed.tolist() == [0.0] * 4


Messages = dict[int, Vector]
BAD: dict[str, tuple[Callable[[Vector], Messages], str]] = {
    "stranger": (lambda m: {1: m, 2: m, 7: m}, r"\b7\b"),
    "short": (lambda m: {1: m, 2: m[1:]}, r"\b2\b.*\(3,\).*\(4,\)"),
    "square": (lambda m: {1: m.reshape(2, 2), 2: m}, r"\b1\b.*\(2, 2\)"),
    "nan": (lambda m: {1: m, 2: m * math.nan}, r"\b2\b.*finite"),
    "infinite": (lambda m: {1: m + math.inf, 2: m}, r"\b1\b.*finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_messages_change_nothing(case: str) -> None:
    spoil, sentence = BAD[case]
    agent = make_agent(CoopUCB2(2.0), one_view())
    agent.observe(agent.choose(0), 0.5)
    message = agent.outgoing(1)
    assert message is not None
    before = agent.export_state()
    with pytest.raises(InputError, match=sentence):
        agent.receive(spoil(message))
    assert agent.export_state() == before


def test_state_goes_through_json() -> None:
    agent = make_agent(CoopUCB2(2.0), one_view())
    agent.observe(0, 1 / 3)
    other = make_agent(CoopUCB2(2.0), one_view())
    other.restore_state(through_json(agent.export_state()))
    assert other.export_state() == agent.export_state()
    stranger = make_agent(CoopUCB2(3.0), one_view())
    with pytest.raises(InputError, match="'coop-ucb2:gamma=2'"):
        stranger.restore_state(agent.export_state())

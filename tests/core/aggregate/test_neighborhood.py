"""Pulls told to the neighbours: at once, any number of them, each checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coopbandits.core import InputError, LinUCB, combine
from coopbandits.core.aggregate import NeighborhoodSums
from coopbandits.core.aggregate.neighborhood import MOST_PULLS
from coopbandits.literature import UCBNetwork

from ..fleet import machine, make_agent, one_view, through_json  # as in test_local


def test_a_round_by_hand() -> None:
    mine = machine(NeighborhoodSums(), one_view())
    assert mine.estimate().time == 2.0
    mine.observe(1, 2.0)
    message = mine.outgoing(1)
    assert message is not None
    assert message.tolist() == [1.0, 2.0]
    mine.receive({1: np.array([0.0, 4.0]), 2: np.array([1.0, -1.0, 1.0, 0.5])})
    sums, counts, time, num_agents, *_ = mine.estimate()
    assert sums.tolist() == [4.0, 1.5]
    assert counts.tolist() == [1.0, 3.0]
    assert (time, num_agents) == (2.0, 1.0)
    assert mine.outgoing(1) is None


def test_all_pulls_of_a_round_are_told_and_time_counts_own_ones() -> None:
    mine = machine(NeighborhoodSums(), one_view())
    for arm, reward in ((0, 1.0), (1, 2.0), (0, 3.0)):
        mine.observe(arm, reward)
    message = mine.outgoing(2)
    assert message is not None
    assert message.tolist() == [0.0, 1.0, 1.0, 2.0, 0.0, 3.0]
    mine.receive({1: np.array([0.0, 9.0]), 2: np.array([])})
    assert mine.estimate().time == 3.0


BAD: dict[str, tuple[Any, str]] = {
    "odd": ([0.0, 1.0, 1.0], r"\b2\b.*\(3,\).* 2 "),
    "square": ([[0.0, 1.0]], r"\b2\b.*\(1, 2\)"),
    "no arm": ([2.0, 1.0], r"\b2\b.*arm 2\b.*1"),
    "negative arm": ([0.0, 1.0, -1.0, 1.0], "arm -1"),
    "half an arm": ([0.5, 1.0], r"arm 0\.5"),
    "infinite reward": ([0.0, math.inf], r"\b2\b.*finite"),
    "nan": ([math.nan, 1.0], r"\b2\b.*finite"),
    "many": ([0.0, 1.0] * (MOST_PULLS + 1), r"\b2\b.*33.*32"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_messages_change_nothing(case: str) -> None:
    message, sentence = BAD[case]
    agent = make_agent(UCBNetwork(), one_view())
    agent.observe(agent.choose(0), 0.5)
    before = agent.export_state()
    with pytest.raises(InputError, match=sentence):
        agent.receive({1: np.array([0.0, 1.0]), 2: np.array(message)})
    assert agent.export_state() == before


@pytest.mark.parametrize("pulls", [0, 1, 3])
def test_state_goes_through_json_with_any_number_of_pulls(pulls: int) -> None:
    agent, other = (make_agent(UCBNetwork(), one_view()) for _ in range(2))
    other.observe(0, 7.0)  # what was there before does not matter
    for number in range(pulls):
        agent.observe(number % 2, number / 3)
    other.restore_state(through_json(agent.export_state()))
    assert other.export_state() == agent.export_state()
    assert (other.outgoing(1) is None) == (pulls == 0)


REST = [[0.0, 0.0]] * (MOST_PULLS - 1)
TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "width": (
        lambda s: s.update(news=[[1.0, 2.0, 3.0]]),
        r"news.*\(1, 3\).*\(32, 2\)",
    ),
    "flat": (lambda s: s.update(news=[1.0, 2.0]), r"news.*\(2,\).*\(32, 2\)"),
    "number": (lambda s: s.update(news=1.0), r"news.*\(\).*\(32, 2\)"),
    "arm": (lambda s: s.update(news=[[5.0, 2.0], *REST]), "news.*arm 5"),
    "reward": (lambda s: s.update(news=[[0.0, math.nan], *REST]), "news"),
    "many": (lambda s: s.update(num_news=33, num_pulls=40), r"num_news.*33.*32"),
    "negative": (lambda s: s.update(num_pulls=-1), "num_pulls.*-1"),
    "too few": (lambda s: s.update(num_pulls=0), r"num_pulls.* 0\b.*1"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_state_that_no_agent_can_have_changes_nothing(name: str) -> None:
    tamper, sentence = TAMPERED[name]
    agent = make_agent(UCBNetwork(), one_view())
    agent.observe(0, 1.0)
    before, state = agent.export_state(), agent.export_state()
    tamper(state["aggregation"])
    with pytest.raises(InputError, match=sentence):
        agent.restore_state(state)
    assert agent.export_state() == before


def test_further_pulls_are_told_to_nobody() -> None:
    mine = machine(NeighborhoodSums(), one_view())
    for _ in range(MOST_PULLS + 3):
        mine.observe(0, 1.0)
    assert told(mine) == [0.0, 1.0] * MOST_PULLS
    assert mine.estimate().counts.tolist() == [MOST_PULLS + 3, 0.0]


def test_means_must_be_known_to_tell_what_explores() -> None:
    with pytest.raises(InputError, match=r"exploring.*means of arms.*linear"):
        combine(NeighborhoodSums(exploring=True), LinUCB())
    combine(NeighborhoodSums(fair=True), LinUCB())


def told(mine: Any) -> list[float]:
    message: list[float] = mine.outgoing(1).tolist()
    return message


def test_only_pulls_that_explore_are_told() -> None:
    """ComEx by hand: of another arm than the one with the best mean before the pull."""
    mine = machine(NeighborhoodSums(exploring=True), one_view())
    mine.observe(0, 1.0)  # nothing was known
    assert told(mine) == [0.0, 1.0]
    mine.receive({})
    mine.observe(0, -3.0)  # arm 0 seemed best, so nobody is told; now its mean is −1
    assert mine.outgoing(1) is None
    assert mine.estimate().counts.tolist() == [2.0, 0.0]
    mine.observe(1, -2.0)  # arm 0 is the only one known
    assert told(mine) == [1.0, -2.0]
    mine.receive({1: np.array([1.0, 2.0])})  # arm 1 has the mean 0 now
    mine.observe(1, 0.0)
    assert mine.outgoing(1) is None
    mine.observe(0, 0.0)
    assert told(mine) == [0.0, 0.0]


def test_who_has_many_neighbors_counts_some_pulls_alone() -> None:
    """LF: with two neighbours where the least is one, half of what comes counts, by the word."""
    view = replace(one_view(), global_knowledge={"least_degree": 1.0}, random_word=7)
    mine, twin = (machine(NeighborhoodSums(fair=True), view) for _ in range(2))
    for _ in range(400):
        for one in (mine, twin):
            one.receive({1: np.array([0.0, 1.0]), 2: np.array([1.0, 1.0, 1.0, 1.0])})
    counts = mine.estimate().counts
    assert counts.tolist() == twin.estimate().counts.tolist()
    assert counts[0] == pytest.approx(200, abs=40)  # four standard deviations
    assert counts[1] == pytest.approx(400, abs=57)
    everything = machine(NeighborhoodSums(fair=True), replace(view, neighbor_weights={1: 0.5}))
    everything.receive({1: np.array([0.0, 1.0])})
    assert everything.estimate().counts.tolist() == [1.0, 0.0]


def test_its_settings_are_flags() -> None:
    with pytest.raises(InputError, match=r"exploring.* 1\b"):
        NeighborhoodSums(exploring=1)  # type: ignore[arg-type]  # it is refused
    with pytest.raises(InputError, match=r"fair.* 2\b"):
        UCBNetwork(fair=2)  # type: ignore[arg-type]  # it is refused

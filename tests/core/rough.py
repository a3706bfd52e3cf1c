"""A rough world: aggregations whose messages are lost, late, one-way, and who fall asleep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Generic, TypeVar

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import LocalView, Machine, Vector
from coopbandits.core.draws import uniforms, words

from .fleet import gossip_matrix, through_json, views

Kind = TypeVar("Kind", bound=Machine)
NUM_ARMS = 2


@dataclass(frozen=True)
class Schedule:
    """What happens to messages and agents, a function of the round and the key."""

    key: int
    loss: float  # of single messages
    late: int  # a message comes up to so many rounds late, overtaken by others
    sleep: float  # an agent neither pulls nor sends nor receives
    spell: int  # in every stretch of so many rounds each link is down with one half; 0 for never
    both_ways: bool  # whether a link is down in both directions at once

    def chance(self, kind: int, *places: int) -> float:
        """Return a uniform that belongs to these places."""
        counter = kind
        for place in places:
            counter = 1000 * counter + place
        return float(uniforms(words(self.key, np.array([counter], dtype=np.uint64)))[0])

    def delay(self, now: int, sender: int, receiver: int) -> int | None:
        """Return by how many rounds a message is late; None if it is lost."""
        if self.spell:
            ends = sorted((sender, receiver)) if self.both_ways else (sender, receiver)
            if self.chance(1, *ends, now // self.spell) < 0.5:
                return None
        if self.loss and self.chance(2, sender, receiver, now) < self.loss:
            return None
        return int((self.late + 1) * self.chance(3, sender, receiver, now)) if self.late else 0

    def sleeps(self, now: int, agent: int) -> bool:
        return bool(self.sleep) and self.chance(4, agent, now) < self.sleep


CALM = Schedule(key=0, loss=0.0, late=0, sleep=0.0, spell=0, both_ways=True)

schedules = st.builds(
    Schedule,
    key=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 0.3, 0.6, 0.9]),
    late=st.sampled_from([0, 0, 3]),
    sleep=st.sampled_from([0.0, 0.3]),
    spell=st.sampled_from([0, 2, 7, 25]),
    both_ways=st.booleans(),
)


@st.composite
def graphs(draw: st.DrawFn, largest: int = 6) -> nx.Graph[Any]:
    """A connected graph: a tree, and some edges more."""
    size = draw(st.integers(1, largest))
    graph: nx.Graph[Any] = nx.empty_graph(size)
    graph.add_edges_from((i, draw(st.integers(0, i - 1))) for i in range(1, size))
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    graph.add_edges_from((u, v) for u, v in draw(st.lists(pairs, max_size=5)) if u != v)
    return graph


def given_in_tiers(
    few: int, many: int, *strategies: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Try few examples in the fast tier and many in the slow one, each time the same."""

    def decorate(test: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.slow)])
        def tried(examples: int) -> None:
            repeatable = settings(
                max_examples=examples, deadline=None, derandomize=True, database=None
            )
            repeatable(given(*strategies)(test))()

        update_wrapper(tried, test)
        del tried.__wrapped__  # type: ignore[attr-defined]  # pytest would read its arguments
        return tried

    return decorate


class Rough(Generic[Kind]):
    """One machine per node. A round is `pull`, if any, and `step`."""

    def __init__(self, make: Callable[[LocalView], Kind], graph: nx.Graph[Any]) -> None:
        self.make = make
        self.views = views(gossip_matrix(graph), NUM_ARMS, lambda_bound=0.5)
        self.agents = [make(view) for view in self.views]
        self.now = 0
        self.paid = np.zeros(2 * NUM_ARMS)
        self.history = [np.zeros((len(self.agents), 2 * NUM_ARMS))]  # own totals after each round
        self.on_their_way: list[tuple[int, int, int, Vector]] = []  # due, sender, receiver, message

    def pull(self) -> None:
        """Everybody pulls once, rewards being small whole numbers, so that sums are exact."""
        own = self.history[-1].copy()
        for i, agent in enumerate(self.agents):
            arm, reward = (self.now + i) % NUM_ARMS, float((3 * self.now + 5 * i) % 7 - 1)
            agent.observe(arm, reward)
            own[i, [arm, NUM_ARMS + arm]] += reward, 1.0
        self.paid = own.sum(axis=0)
        self.history.append(own)

    def step(self, schedule: Schedule = CALM) -> None:
        """Send and deliver what the schedule lets through; asleep one hears nothing."""
        for i, (view, agent) in enumerate(zip(self.views, self.agents, strict=True)):
            for j in () if schedule.sleeps(self.now, i) else view.neighbor_weights:
                delay, message = schedule.delay(self.now, i, j), agent.outgoing(j)
                if delay is not None and message is not None:
                    self.on_their_way.append((self.now + delay, i, j, message))
        inboxes: list[dict[int, Vector]] = [{} for _ in self.agents]
        for _, i, j, message in (item for item in self.on_their_way if item[0] <= self.now):
            inboxes[j][i] = message
        self.on_their_way = [item for item in self.on_their_way if item[0] > self.now]
        for j, (agent, inbox) in enumerate(zip(self.agents, inboxes, strict=True)):
            agent.receive({} if schedule.sleeps(self.now, j) else dict(sorted(inbox.items())))
        self.now += 1

    def restart(self) -> None:
        """Replace everybody by a fresh one that got its state as JSON."""
        states = [through_json(agent.export_state()) for agent in self.agents]
        self.agents = [self.make(view) for view in self.views]
        for agent, state in zip(self.agents, states, strict=True):
            agent.restore_state(state)

"""Agents that are told the time: what they forget, and what false clocks can do to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import (
    FloodedTotals,
    InputError,
    LocalSums,
    PullMixing,
    RunningConsensus,
    TreeSums,
    TreeTS,
    Vector,
)
from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.claims import PartlyImpossibleError
from coopbandits.core.aggregate.entries import HEADER, RENUMBER, entry_number
from coopbandits.core.aggregate.forgetting import DISCOUNT, HALF_LIFE, SKEW
from coopbandits.core.contract import TimedAgent
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.registry import AGGREGATIONS

from ..fleet import gossip_matrix, machine, one_view, through_json, views

CARRIERS = (TreeSums(discount=DISCOUNT), FloodedTotals(discount=DISCOUNT))
MIXING = PullMixing(discount=DISCOUNT)
TICK = 7.0
each = pytest.mark.parametrize("spec", [*CARRIERS, MIXING], ids=lambda spec: spec.name)
exact = pytest.mark.parametrize("spec", CARRIERS, ids=lambda spec: spec.name)


@dataclass
class Pull:
    arm: int
    reward: float
    tick: int


class Town:
    """Agents with clocks of their own, by which whoever drives them tells the time."""

    def __init__(self, spec: Any, graph: nx.Graph[Any], ahead: list[int] | None = None) -> None:
        told = views(gossip_matrix(graph), 2)
        self.views = [
            replace(
                view, agent_id=entry_number(view.agent_id, 0), common_round=False, told_time=True
            )
            for view in told
        ]
        self.agents = [machine(spec, view) for view in self.views]
        self.ahead = ahead or [0] * len(self.agents)
        self.now, self.pulls = 10 * HALF_LIFE, list[Pull]()
        self.step(ticks=0)

    def pull(self, agent: int, arm: int, reward: float) -> None:
        made = self.agents[agent]
        made.observe(arm, reward)
        self.pulls.append(Pull(arm, reward, made.clock))

    def step(self, ticks: int = 1, lost: frozenset[tuple[int, int]] = frozenset()) -> None:
        said = [
            {j: agent.outgoing(j) for j in view.neighbor_weights}
            for agent, view in zip(self.agents, self.views, strict=True)
        ]
        self.now += ticks
        for i, agent in enumerate(self.agents):
            heard = {j: said[j][i] for j in self.views[i].neighbor_weights if (j, i) not in lost}
            agent.pass_time(self.now + self.ahead[i])
            agent.receive(heard)

    def direct(self, clock: int) -> Vector:
        """All pulls, each by its age."""
        total = np.zeros(4)
        for pull in self.pulls:
            weight = DISCOUNT ** (clock - pull.tick)
            total[[pull.arm, 2 + pull.arm]] += weight * pull.reward, weight
        return total

    def known(self, agent: int) -> Vector:
        found = self.agents[agent].estimate()
        return np.concatenate([found.sums, found.counts])

    def shared(self) -> Vector:
        """What all hold together."""
        total: Vector = np.sum([agent.share().counts for agent in self.agents], axis=0)
        return total

    def check(self) -> None:
        for i, agent in enumerate(self.agents):
            want = self.direct(agent.clock)
            np.testing.assert_allclose(self.known(i), want, rtol=1e-9, atol=1e-9)


@exact
def test_a_pull_counts_half_after_a_half_life(spec: Any) -> None:
    town = Town(spec, nx.path_graph(3))
    town.pull(0, 1, 0.5)
    for _ in range(30):
        town.step(ticks=0)
    assert town.known(2).tolist() == [0.0, 0.5, 0.0, 1.0], "rounds are no time"
    town.step(ticks=HALF_LIFE)
    town.step(ticks=0)
    for agent in range(3):
        np.testing.assert_allclose(town.known(agent), [0.0, 0.25, 0.0, 0.5])


def test_averages_forget_by_the_clock_too() -> None:
    town = Town(MIXING, nx.complete_graph(3))
    town.pull(0, 1, 0.5)
    total = sum(agent.mixed for agent in town.agents)
    for _ in range(30):
        town.step(ticks=0)
    np.testing.assert_allclose(sum(agent.mixed for agent in town.agents), total)
    for _ in range(8):
        town.step(ticks=HALF_LIFE // 8)
    np.testing.assert_allclose(sum(agent.mixed for agent in town.agents), 0.5 * total)


@exact
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_sums_are_exact_whatever_is_lost_where_clocks_differ_within_bounds(
    spec: Any, data: st.DataObject
) -> None:
    size = data.draw(st.integers(2, 5))
    graph: nx.Graph[Any] = nx.empty_graph(size)
    graph.add_edges_from((i, data.draw(st.integers(0, i - 1))) for i in range(1, size))
    clocks = st.integers(-SKEW // 2, SKEW // 2)
    town = Town(spec, graph, [data.draw(clocks) for _ in range(size)])
    for _ in range(90):
        town.step(ticks=0)  # the tree grows
    ways = [(i, j) for edge in graph.edges for i, j in (edge, edge[::-1])]
    for _ in range(data.draw(st.integers(1, 12))):
        town.pull(data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 1)), 0.75)
        lost = frozenset(way for way in ways if data.draw(st.booleans()))
        town.step(data.draw(st.sampled_from([0, 1, 5, 40])), lost)
        if data.draw(st.booleans()):  # a clock is set
            town.ahead[data.draw(st.integers(0, size - 1))] = data.draw(clocks)
    for _ in range(30):
        town.step(ticks=0)
    town.check()


@each
def test_a_clock_that_goes_back_makes_nothing_fresh(spec: Any) -> None:
    town = Town(spec, nx.path_graph(2))
    for _ in range(20):
        town.pull(0, 0, 1.0)
        town.step()
    before, known = town.shared(), town.known(0)
    town.now -= SKEW
    for _ in range(10):
        town.step(ticks=SKEW // 10)
    np.testing.assert_allclose(town.shared(), before)
    town.now -= 5 * HALF_LIFE
    for _ in range(10):
        town.step(ticks=0)
    np.testing.assert_allclose(town.shared(), before)
    if spec is not MIXING:
        np.testing.assert_allclose(town.known(0), known)
    town.pull(0, 0, 1.0)
    before += np.array([1.0, 0.0])
    np.testing.assert_allclose(town.shared(), before)
    clock = town.agents[0].clock
    town.step(ticks=HALF_LIFE)
    passed = town.agents[0].clock - clock
    assert passed >= HALF_LIFE - SKEW
    np.testing.assert_allclose(town.shared(), before * DISCOUNT**passed)


@each
def test_a_clock_far_ahead_ages_its_own_data_once_and_that_of_others_by_an_eighth_at_most(
    spec: Any,
) -> None:
    town = Town(spec, nx.path_graph(3))
    for agent in range(3):
        town.pull(agent, 0, 1.0)
    for _ in range(90):
        town.step(ticks=0)
    town.ahead[0] = 3 * HALF_LIFE
    for _ in range(20):
        town.step(ticks=0)
        town.pull(0, 0, 1.0)
    assert [agent.clock - town.now for agent in town.agents] == [3 * HALF_LIFE, SKEW, SKEW]
    town.ahead[0] = 0
    for _ in range(20):
        town.step(ticks=0)
    assert [agent.clock - town.now for agent in town.agents] == [SKEW] * 3, "all agree again"


@each
def test_no_liar_makes_honest_agents_refuse_each_other(spec: Any) -> None:
    """The liar is as far ahead as is believed, and honest clocks as far apart as they may be."""
    town = Town(spec, nx.path_graph(3), [2 * SKEW, 0, -SKEW])
    claims = Claims(True, 10.0, 0.0, 10, tick=TICK)
    for _ in range(40):
        for agent in range(3):
            town.pull(agent, 0, 1.0)
        town.step()
    for sender, receiver in ((0, 1), (1, 2), (2, 1)):
        now = (town.now + town.ahead[receiver]) * TICK
        message = town.agents[sender].outgoing(receiver)
        try:
            town.agents[receiver].check_claims(message, claims, now)
        except PartlyImpossibleError as error:  # the liar's own pulls, for a while
            assert error.passes
            assert error.rest.size > HEADER
    assert town.agents[2].clock <= town.now


@each
@pytest.mark.parametrize("beyond", [1, 2**40])
def test_stamps_that_cannot_be_yet_are_refused_and_change_nothing(spec: Any, beyond: int) -> None:
    town = Town(spec, nx.path_graph(2), [2 * SKEW + beyond, 0])
    claims = Claims(True, 10.0, 0.0, 10, tick=TICK)
    town.agents[0].pass_time(town.now + town.ahead[0])
    town.agents[0].receive({})
    town.pull(0, 0, 1.0)
    message, before = town.agents[0].outgoing(1), town.agents[1].export_state()
    ahead = f"{(2 * SKEW + beyond) * TICK:.0f} s ahead"
    with pytest.raises(InputError, match=ahead) as refused:
        town.agents[1].check_claims(message, claims, town.now * TICK)
    assert "clock" in str(refused.value)
    if isinstance(refused.value, PartlyImpossibleError):
        assert refused.value.passes, "it is sent again, and believed in time"
    assert town.agents[1].export_state() == before
    late = (town.now + beyond + 1) * TICK
    town.agents[1].check_claims(message, claims, late)


@exact
def test_old_stamps_are_only_old(spec: Any) -> None:
    town = Town(spec, nx.path_graph(2), [-9 * HALF_LIFE, 0])
    claims = Claims(True, 10.0, 0.0, 10, tick=TICK)
    town.pull(0, 0, 1.0)
    for _ in range(40):
        town.agents[1].check_claims(town.agents[0].outgoing(1), claims, town.now * TICK)
        town.step(ticks=0)
    assert 0.0 < town.known(1)[2] < 0.5**6


@each
def test_time_is_part_of_the_state(spec: Any) -> None:
    town = Town(spec, nx.path_graph(2))
    town.pull(0, 0, 1.0)
    town.step(ticks=5)
    again = machine(spec, town.views[0])
    again.restore_state(through_json(town.agents[0].export_state()))
    assert again.export_state() == town.agents[0].export_state()
    assert "clock" in again.export_state()


def test_a_renumbered_agent_leaves_behind_what_it_told_when_it_told_it() -> None:
    view = one_view(agent_id=1, neighbor_weights={2: 0.5}, told_time=True, common_round=False)
    mine = machine(FloodedTotals(discount=DISCOUNT), view)
    mine.pass_time(100)
    mine.receive({})
    mine.observe(0, 1.0)
    entry = mine.entry(1)
    assert entry is not None
    told = entry.copy()
    mine.pass_time(100 + HALF_LIFE)
    mine.receive({})
    mine.observe(0, 1.0)
    np.testing.assert_allclose(mine.machine.entries[0, HEADER:], [1.5, 0, 1.5, 0, 2])
    order = mine.renumbering(7, told)
    assert order[:HEADER].tolist() == [7.0, RENUMBER - 101.0]
    mine.receive({2: mine.note(2, order[None])})
    left, fresh = mine.machine.entries
    assert left.tolist() == told.tolist(), "to the bit, so that its signature stays valid"
    np.testing.assert_allclose(fresh, [7, 101 + HALF_LIFE, 1, 0, 1, 0, 1])
    np.testing.assert_allclose(mine.estimate().counts, [1.5, 0.0])
    np.testing.assert_allclose(mine.share().counts, [1.5, 0.0])
    mine.pass_time(100 + 2 * HALF_LIFE)
    mine.receive({})
    np.testing.assert_allclose(mine.share().counts, [0.75, 0.0])
    mine.observe(1, 1.0)
    np.testing.assert_allclose(mine.share().counts, [0.75, 1.0])


def test_who_takes_no_time_says_so() -> None:
    takers = {spec.name for spec in AGGREGATIONS if spec.takes_time}
    assert takers >= {"tree-sums", "flooded-totals", "pull-mixing"}
    for spec in (LocalSums(), RunningConsensus()):
        with pytest.raises(InputError, match=f"{spec.name}.*time"):
            machine(spec, one_view()).pass_time(1)


def test_an_agent_passes_the_time_on_to_its_machine() -> None:
    view = one_view(neighbor_weights={}, own_weight=1.0, told_time=True, common_round=False)
    agent = TreeTS(discount=DISCOUNT).make_agent(view)
    assert isinstance(agent, CooperativeAgent)
    assert isinstance(agent, TimedAgent)
    agent.observe(0, 1.0)
    agent.pass_time(HALF_LIFE)
    agent.receive({})
    assert agent.estimate().counts.tolist() == pytest.approx([0.5, 0.0])

"""Flooding of pulls: exact, as old as far, and never twice, whatever the network does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import ArmSums, CooperativeAgent, InputError, Vector
from coopbandits.core.aggregate import FloodedPulls
from coopbandits.core.aggregate.fields import FieldMachine
from coopbandits.literature import MPUCB

from ..fleet import (  # as in test_local
    exchange,
    gossip_matrix,
    machine,
    make_agent,
    make_agents,
    one_view,
    through_json,
)

REPEATABLE = settings(max_examples=15, deadline=None, derandomize=True, database=None)
NUM_ARMS = 3


def items(*rows: tuple[float, ...]) -> Vector:
    return np.array(rows, dtype=np.float64).reshape(-1)


def flooded(agent: CooperativeAgent) -> FieldMachine:
    assert isinstance(agent.machine, FieldMachine)
    return agent.machine


def heard(seen: Any) -> int:
    """Return how many keys are known as such."""
    return sum(bits.bit_count() for bits in seen.ravel().tolist())


def test_rounds_by_hand() -> None:
    mine = machine(FloodedPulls(hop_limit=2), one_view(num_agents=8))
    assert mine.outgoing(1) is None
    mine.observe(1, 2.0)
    mine.observe(0, 3.0)
    message = mine.outgoing(1)
    assert message is not None
    assert message.tolist() == [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 3.0]
    # Agent 7 is no neighbour of ours: its pulls of this round cannot have come here yet. The two
    # pulls of agent 1 have one key.
    mine.receive({1: items((1, 0, 0, 5.0), (1, 0, 1, 6.0)), 2: items((2, 0, 0, 1.0))})
    assert mine.estimate().sums.tolist() == [9.0, 8.0]
    assert mine.estimate().counts.tolist() == [3.0, 2.0]
    assert mine.estimate().time == 2.0
    message = mine.outgoing(2)
    assert message is not None
    assert message.reshape(-1, 4).tolist() == [[1, 0, 0, 5], [1, 0, 1, 6], [2, 0, 0, 1]]
    # Back come the own pulls and those of before; only agent 7's is new, and it ends here.
    mine.receive({1: items((0, 0, 1, 2.0), (2, 0, 0, 1.0), (7, 0, 1, 1.0)), 2: items()})
    assert mine.estimate().sums.tolist() == [9.0, 9.0]
    assert mine.outgoing(1) is None
    assert heard(mine.seen) == 0


def test_the_first_message_with_a_key_wins() -> None:
    """Only a disturbed sender makes a difference: one of two messages lacks a pull."""
    mine = machine(FloodedPulls(hop_limit=3), one_view(num_agents=10))
    mine.receive({})
    mine.receive({1: items((9, 0, 0, 1.0)), 2: items((9, 0, 0, 1.0), (9, 0, 0, 2.0))})
    assert mine.estimate().counts.tolist() == [1.0, 0.0]


def test_what_comes_too_late_is_dropped() -> None:
    mine = machine(FloodedPulls(hop_limit=2), one_view())
    for _ in range(5):
        mine.receive({})
    mine.receive({1: items((1, 3, 0, 1.0)), 2: items((2, 4, 0, 1.0))})
    assert mine.estimate().counts.tolist() == [1.0, 0.0]
    assert mine.outgoing(1) is None  # two rounds old: its way is over


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph[Any]:
    """A connected graph of two to five agents: a tree, and some edges more."""
    size = draw(st.integers(2, 5))
    graph: nx.Graph[Any] = nx.empty_graph(size)
    graph.add_edges_from((i, draw(st.integers(0, i - 1))) for i in range(1, size))
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    graph.add_edges_from((u, v) for u, v in draw(st.lists(pairs, max_size=4)) if u != v)
    return graph


class Marked:
    """Agents whose pulls have powers of two for rewards: a sum tells which pulls are in it."""

    def __init__(self, graph: nx.Graph[Any], hop_limit: int) -> None:
        self.agents = make_agents(MPUCB(hop_limit), gossip_matrix(graph), NUM_ARMS)
        self.made: list[tuple[int, int]] = []  # (agent, round) of every pull

    def pull(self, agent_id: int, now: int) -> None:
        number = len(self.made)
        assert number < 53
        self.agents[agent_id].observe(number % NUM_ARMS, 2.0**number)
        self.made.append((agent_id, now))

    def known(self, agent_id: int) -> set[int]:
        """Return the pulls in an agent's totals; each is in them once and under its arm."""
        estimate = flooded(self.agents[agent_id]).estimate()
        masks = [int(total) for total in estimate.sums]
        assert [mask.bit_count() for mask in masks] == estimate.counts.tolist()
        pulls = [{n for n in range(len(self.made)) if mask >> n & 1} for mask in masks]
        assert all(n % NUM_ARMS == k for k, numbers in enumerate(pulls) for n in numbers)
        return set().union(*pulls)


@REPEATABLE
@given(graphs(), st.integers(-2, 1), st.lists(st.lists(st.integers(0, 2), min_size=5), max_size=5))
def test_totals_are_exact_and_as_old_as_far(
    graph: nx.Graph[Any], beyond: int, pulls: list[list[int]]
) -> None:
    """After every round: of agent j all that it pulled up to d(i, j) rounds ago, and no more."""
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    hop_limit = max(1, nx.diameter(graph) + beyond)
    world = Marked(graph, hop_limit)
    for now, row in enumerate([*pulls, *[[0] * 5] * 3]):
        for i in graph:
            for _ in range(row[i]):
                world.pull(i, now)
        exchange(world.agents)
        for i in graph:
            assert world.known(i) == {
                number
                for number, (j, made) in enumerate(world.made)
                if distance[i][j] <= hop_limit and made + distance[i][j] <= now + 1
            }


@REPEATABLE
@given(graphs(), st.integers(1, 6), st.data())
def test_nothing_is_counted_twice(
    graph: nx.Graph[Any], hop_limit: int, data: st.DataObject
) -> None:
    """Messages are lost, and come late or again: any earlier one instead of the present one."""
    world = Marked(graph, hop_limit)
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    sent: dict[tuple[int, int], list[Vector | None]] = {}
    for now in range(8):
        for i in graph:
            world.pull(i, now)
            for j in graph[i]:
                sent.setdefault((i, j), []).append(world.agents[i].outgoing(j))
        for j in graph:
            before = world.known(j)
            inbox = {
                i: message.copy()
                for i in data.draw(st.lists(st.sampled_from(sorted(graph[j])), unique=True))
                if (message := data.draw(st.sampled_from(sent[i, j]))) is not None
            }
            world.agents[j].receive(inbox)
            known = world.known(j)
            assert before <= known
            assert all(distance[j][world.made[n][0]] <= hop_limit for n in known)
            young = [world.made[n][1] > now - hop_limit for n in known - before]
            assert all(young)


def test_a_lost_message_is_made_up_for_by_another_path() -> None:
    """On a cycle of four the news of agent 0 reach agent 1 the other way round, too."""
    graph = nx.cycle_graph(4)
    world = Marked(graph, hop_limit=3)
    world.pull(0, 0)
    for expected in (set(), set(), {0}):
        sent = {(i, j): world.agents[i].outgoing(j) for i in graph for j in graph[i]}
        del sent[0, 1]
        for i in graph:
            inbox = {j: sent.get((j, i)) for j in graph[i]}
            world.agents[i].receive({j: m for j, m in inbox.items() if m is not None})
        assert world.known(1) == expected


def test_memory_stays_bounded() -> None:
    world = Marked(nx.complete_graph(4), hop_limit=3)
    for now in range(12):
        for i in range(4):
            world.pull(i, now)
        exchange(world.agents)
    for agent in world.agents:
        state = flooded(agent).state
        assert heard(state.seen) == 3 * 2  # of the last two rounds of three others
        assert state.me.num_news == 3


BAD: dict[str, tuple[Any, str]] = {
    "length": ([1.0, 0.0, 0.0], r"\b2\b.*\(3,\).* 4 "),
    "arm": ([1.0, 0.0, 2.0, 1.0], r"\b2\b.*arm 2\b.*1"),
    "reward": ([1.0, 0.0, 0.0, math.inf], r"\b2\b.*finite"),
    "future": ([1.0, 2.0, 0.0, 1.0], r"agent 1.*round 2\b"),
    "before time": ([1.0, -1.0, 0.0, 1.0], "agent 1.*round -1"),
    "half a round": ([1.0, 0.5, 0.0, 1.0], r"agent 1.*round 0\.5"),
    "nobody": ([-1.0, 0.0, 0.0, 1.0], "agent -1"),
    "half an agent": ([1.0, 0.0, 0.0, 1.0, 1.5, 0.0, 0.0, 1.0], r"agent 1\.5"),
    "stranger": ([3.0, 0.0, 0.0, 1.0], r"agent 3\b.* 0 to 2\b"),
    "too many": ([1.0, 0.0, 0.0, 1.0] * 100, r"\b2\b.*100 pulls.* 38"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_messages_change_nothing(case: str) -> None:
    message, sentence = BAD[case]
    agent = make_agent(MPUCB(3), one_view())
    agent.receive({1: items((1, 0, 0, 1.0))})
    agent.observe(0, 0.5)
    before = agent.export_state()
    with pytest.raises(InputError, match=sentence):
        agent.receive({1: items((1, 1, 0, 1.0)), 2: np.array(message)})
    assert agent.export_state() == before


def an_agent() -> CooperativeAgent:
    """Two rounds played, with something in every table."""
    agent = make_agent(MPUCB(3), one_view())
    for now in range(2):
        agent.observe(0, 0.5)
        agent.receive({1: items((1, now, 1, 1 / 3))})
    agent.observe(1, 0.25)
    return agent


@pytest.mark.parametrize("empty", [False, True])
def test_state_goes_through_json(empty: bool) -> None:
    agent, other = an_agent(), an_agent()
    if empty:
        agent = make_agent(MPUCB(3), one_view())
    else:
        other.observe(0, 1.0)
    other.restore_state(through_json(agent.export_state()))
    assert other.export_state() == agent.export_state()
    for one in (agent, other):
        one.receive({2: items((1, 0, 1, 1 / 3))})
    assert other.export_state() == agent.export_state()


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "width": (lambda s: s.update(news=[[0.0] * 3]), r"news.*\(1, 3\).*\(38, 4\)"),
    "arm": (lambda s: s["news"][0].__setitem__(2, 4.0), "news.*arm 4"),
    "agent": (lambda s: s["news"][0].__setitem__(0, 3.0), "news.*agent 3"),
    "future": (lambda s: s["news"][0].__setitem__(1, 3.0), "news.*round 3"),
    "too old": (lambda s: s.update(rounds=5), "news.*round 1.*3 to 5"),
    "news": (lambda s: s.update(num_news=39), "num_news is 39.* 38 "),
    "seen": (lambda s: s.update(seen=[[-1]] * 3), r"seen.*-1.*52 bits"),
    "rounds": (lambda s: s.update(rounds=-1), "rounds.*-1"),
    "pulls": (lambda s: s.update(num_pulls=-1), "num_pulls.*-1"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_state_that_no_agent_can_have_changes_nothing(name: str) -> None:
    tamper, sentence = TAMPERED[name]
    agent = an_agent()
    before, state = agent.export_state(), agent.export_state()
    tamper(state["aggregation"])
    with pytest.raises(InputError, match=sentence):
        agent.restore_state(state)
    assert agent.export_state() == before


@pytest.mark.parametrize("wait", [0, 1, 2, 4])
def test_what_was_heard_counts_once_it_is_old_enough(wait: int) -> None:
    """On a path, agent 0 uses a pull of agent j, d hops away, after max(d, wait) rounds."""
    agents = make_agents(MPUCB(3, wait=wait), gossip_matrix(nx.path_graph(4)), 2)
    for now in range(8):
        for j, agent in enumerate(agents):
            agent.observe(0, 10.0**j if now == 0 else 0.0)
        exchange(agents)
        known = [10.0**j for j in range(4) if now + 1 >= (max(j, wait) if j else 0)]
        assert agents[0].estimate().sums[0] == sum(known)


def test_waiting_is_remembered() -> None:
    matrix = gossip_matrix(nx.path_graph(3))
    agents = make_agents(MPUCB(2, wait=4), matrix, 2)
    for agent in agents:
        agent.observe(0, 1.0)
    exchange(agents)
    fresh = make_agents(MPUCB(2, wait=4), matrix, 2)[1]
    state = through_json(agents[1].export_state())
    fresh.restore_state(state)
    for _ in range(4):
        fresh.receive({})
    assert fresh.estimate().counts[0] == 3.0
    wrong = state["aggregation"] | {"waiting": [[0.0, 0.0, -5.0, 0.0]] * 4}
    with pytest.raises(InputError, match=r"waiting.*-20 pulls"):
        fresh.restore_state(state | {"aggregation": wrong})


def test_up_to_one_round_waiting_changes_nothing() -> None:
    states = []
    for policy in (MPUCB(2), MPUCB(2, wait=1)):
        agents = make_agents(policy, gossip_matrix(nx.path_graph(3)), 2)
        for agent in agents:
            agent.observe(0, 1.0)
        exchange(agents)
        states.append([agent.export_state()["aggregation"] for agent in agents])
    assert states[0] == states[1]
    with pytest.raises(InputError, match=r"wait.*-1"):
        MPUCB(2, wait=-1)


def test_whoever_passes_on_less_hears_those_who_pass_on_more() -> None:
    view = one_view(num_agents=50)
    mine, chatty = machine(FloodedPulls(hop_limit=1), view), machine(FloodedPulls(9), view)
    told = items(*((float(origin), 0.0, 0.0, 1.0) for origin in range(1, 50)))
    for agent in (mine, chatty):
        agent.receive({1: told})
        assert agent.estimate().counts.tolist() == [49.0, 0.0]
    assert mine.outgoing(1) is None
    assert chatty.outgoing(1).tolist() == told.tolist()


def test_registers_that_fade_are_told_as_they_are() -> None:
    """Those of one arm are as many values as arm and reward."""
    registers = ArmSums().registers(1).decaying(0.5)
    view = one_view(num_arms=1)
    first, second = (FloodedPulls(2, wait=3).make(view, registers) for _ in range(2))
    first.observe(0, 8.0)
    message = first.outgoing(1)
    assert message is not None
    assert message.tolist() == [0.0, 0.0, 8.0, 1.0, 0.0]  # the last one is a stamp
    message[0] = 1.0
    second.receive({1: message})
    relayed = second.outgoing(2)
    assert relayed is not None
    assert relayed.tolist() == [1.0, 0.0, 4.0, 0.5, 1.0]
    second.receive({2: message})  # again, and late
    assert second.estimate().counts.tolist() == [0.0]
    second.receive({})
    assert second.estimate().counts.tolist() == [0.125]
    assert second.estimate().sums.tolist() == [1.0]

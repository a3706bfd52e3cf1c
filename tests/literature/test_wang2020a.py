"""DPE2 against plain loops; who leads, who follows, and what is sent."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from coopbandits.core import InputError, Vector
from coopbandits.core.special import bernoulli_divergence
from coopbandits.literature import DPE2

from ..core.fleet import (
    GRAPHS,
    changed,
    exchange,
    fields,
    make_agent,
    one_view,
    rewards_tape,
    team,
    through_json,
)

Tape = NDArray[np.float64]


def upper(mean: float, count: float, level: float, family: str) -> float:
    """The largest q with n kl(mean, q) ≤ level, by bisection where there is no formula."""
    if family == "gaussian":
        return mean + math.sqrt(2.0 * level / count)
    low, high = mean, 1.0
    for _ in range(80):
        q = (low + high) / 2
        low, high = (q, high) if count * bernoulli_divergence(mean, q) <= level else (low, q)
    return low


def naive(rewards: Tape, family: str) -> tuple[list[int], list[int]]:
    """One agent alone, σ = 1: arms played, and the best arm after each."""
    num_arms = rewards.shape[1]
    n, s = [0] * num_arms, [0.0] * num_arms
    best, queue, first = 0, list(range(1, num_arms)), True
    index = [0.0] + [math.inf] * (num_arms - 1)
    arms, bests = [], []
    for t, row in enumerate(rewards.tolist(), start=1):
        arm = best if first or not queue else max(queue, key=lambda k: (index[k], -k))
        n[arm] += 1
        s[arm] += row[arm]
        if first:
            first = False
        else:
            queue = [k for k in queue if k != arm]
        if not queue and t > 2:
            level = math.log(t) + 4 * math.log(math.log(t))
            means = [s[k] / n[k] for k in range(num_arms)]
            index = [upper(means[k], n[k], level, family) for k in range(num_arms)]
            queue = [k for k in range(num_arms) if index[k] > means[best]]
            first = bool(queue)
            best = means.index(max(means))
        arms.append(arm)
        bests.append(best)
    return arms, bests


def leads(agent: Any) -> bool:
    return bool(fields(agent).tag == fields(agent).own_tag)


def play(agents: list[Any], tape: Tape) -> list[list[int]]:
    """One pull per agent and round; returns the arms, a row per round."""
    rows = []
    for t in range(tape.shape[1]):
        row = [agent.choose(0) for agent in agents]
        for i, arm in enumerate(row):
            agents[i].observe(arm, float(tape[i, t, arm]))
        rows.append(row)
        exchange(agents)
    return rows


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("num_arms", [1, 2, 5])
def test_one_agent_is_the_algorithm_of_one_agent(family: str, num_arms: int) -> None:
    tape = rewards_tape(1, 300, num_arms)
    tape = (tape > 0.6).astype(np.float64) if family == "bernoulli" else tape
    rows = play(team("single", num_arms, DPE2(family)), tape)
    assert [row[0] for row in rows] == naive(tape[0], family)[0]


@pytest.mark.parametrize("graph", ["cycle-9", "star-6", "grid-2x4"])
def test_one_leads_and_the_others_follow_as_late_as_they_are_far(graph: str) -> None:
    agents = team(graph, 4, DPE2())
    tape = rewards_tape(len(agents), 250, 4)
    rows = play(agents, tape)
    leader = min(range(len(agents)), key=lambda i: fields(agents[i]).own_tag)
    assert [leads(agent) for agent in agents] == [i == leader for i in range(len(agents))]
    arms, bests = naive(tape[leader], "gaussian")
    assert [row[leader] for row in rows] == arms
    far = nx.single_source_shortest_path_length(GRAPHS[graph], leader)
    assert len(set(bests)) > 1  # it changed its mind
    for i in set(range(len(agents))) - {leader}:
        followed = [row[i] for row in rows][far[i] :]
        assert followed == bests[: len(followed)]


def test_nothing_is_sent_once_all_agree() -> None:
    agents = team("cycle-9", 3, DPE2())
    tape = rewards_tape(9, 400, 3)
    sizes = []
    for t in range(400):
        for i, agent in enumerate(agents):
            agent.observe(arm := agent.choose(0), float(tape[i, t, arm]))
        sizes.append(exchange(agents))
    assert {size for row in sizes for size in row} == {0, 4}
    talking = sum(any(round_sizes) for round_sizes in sizes)
    changes = max(fields(agent).stamp for agent in agents)
    assert changes > 0
    assert talking <= (changes + 1) * 8  # 4 hops there, and answers


def test_lost_messages_are_only_a_delay() -> None:
    agents = team("cycle-5", 3, DPE2())
    leader = fields(min(agents, key=lambda agent: fields(agent).own_tag))
    leader.best, leader.stamp = 2, 3
    for t in range(60):
        sent: list[dict[int, Vector]] = [{} for _ in agents]
        for i, agent in enumerate(agents):
            for j in agent.view.neighbor_weights:
                message = agent.outgoing(j)
                if message is not None and (3 * t + i + 2 * j) % 4:  # a quarter is lost
                    sent[j][i] = message
        for agent, messages in zip(agents, sent, strict=True):
            agent.receive(messages)
    assert {(each.tag, each.stamp, each.best) for each in map(fields, agents)} == {
        (leader.tag, 3, 2)
    }
    assert exchange(agents) == [0] * 10


def test_a_leader_without_its_memory_goes_on_from_its_last_word() -> None:
    agents = team("path-4", 3, DPE2())
    at = min(range(4), key=lambda i: fields(agents[i]).own_tag)
    leader = fields(agents[at])
    leader.best, leader.stamp = 2, 7
    for _ in range(8):
        exchange(agents)
    agents[at] = make_agent(DPE2(), agents[at].view)
    for _ in range(8):
        exchange(agents)
    assert leads(agents[at])
    assert {(each.stamp, each.best) for each in map(fields, agents)} == {(8, 0)}


def test_several_pulls_at_once_go_through_the_queue() -> None:
    agent = make_agent(DPE2(), one_view(num_arms=4))
    assert [agent.choose(0) for _ in range(6)] == [0, 1, 2, 3, 0, 0]
    assert agent.choose(0, [1, 2]) == 1  # nothing else is allowed
    agent.observe(2, 1.0)
    assert agent.choose(0) == 0
    assert fields(agent).ranks.tolist() == [0, 3, 0, 1]


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ([0.1, 0.0, 3.0, 1.0], r"\b1\b.*arm 3\b"),
        ([1.5, 0.0, 0.0, 1.0], r"\b1\b.*tag 1\.5"),
        ([0.5, 0.5, 0.0, 1.0], "stamp 0.5"),
        ([0.5, 1.0, 0.0, 2.0], "wish 2"),
        ([0.5, 1.0, 0.0], r"\b1\b.*\(3,\)"),
    ],
)
def test_messages_that_cannot_be(message: list[float], sentence: str) -> None:
    agent = make_agent(DPE2(), one_view(num_arms=3))
    before = agent.export_state()
    with pytest.raises(InputError, match=sentence):
        agent.receive({1: np.array(message), 2: np.array([0.1, 0.0, 0.0, 1.0])})
    assert agent.export_state() == before


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"aggregation": {"best": 3}}, "best.*arm 3"),
        ({"aggregation": {"ranks": [1, 9, 0]}}, r"ranks.*\[1, 9, 0\].*0 to 3"),
        ({"aggregation": {"stamp": -1}}, "stamp.*-1"),
        ({"open_pulls": [-1, 0, 0]}, "open_pulls.*-1"),
        ({"agent_id": 2}, r"agent_id 2\b.* 0\b"),
        ({"policy": "dpe2:family=bernoulli"}, "'dpe2:family=bernoulli'"),
        ({"more": 1}, "'more'"),
    ],
)
def test_states_that_cannot_be(changes: dict[str, Any], sentence: str) -> None:
    agent = make_agent(DPE2(), one_view(num_arms=3))
    state = through_json(agent.export_state())
    with pytest.raises(InputError, match=sentence):
        agent.restore_state(changed(state, changes))
    agent.restore_state(state)
    assert agent.export_state() == state


def test_needs_and_an_unknown_family() -> None:
    assert DPE2().needs == {"random_word"}
    with pytest.raises(InputError, match="'poisson'"):
        DPE2("poisson")

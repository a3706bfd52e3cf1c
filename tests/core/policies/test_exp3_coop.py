"""Exp3-Coop against plain loops, and its cases of one agent and of a clique."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import Exp3Coop, InputError, uniform_of, word_at
from coopbandits.core.policies.exp3_coop import Exp3CoopAgent

from ..fleet import (
    GRAPHS,
    decision_words,
    exchange,
    gossip_matrix,
    one_view,
    through_json,
    views,
)


def team(graph: str, num_arms: int, policy: Exp3Coop) -> list[Exp3CoopAgent]:
    return [policy.make_agent(view) for view in views(gossip_matrix(GRAPHS[graph]), num_arms)]


def table(rounds: int, num_arms: int) -> Any:
    """Rewards 0 or 1 of an adversary that does not look: the same for all agents."""
    counters = np.arange(rounds * num_arms).reshape(rounds, num_arms)
    return ((counters * 2654435761 % 997) / 997 > np.linspace(0.3, 0.7, num_arms)).astype(float)


def play(agents: list[Exp3CoopAgent], rewards: Any) -> list[list[int]]:
    words = decision_words(len(agents), len(rewards))
    rows = []
    for t, row in enumerate(rewards):
        arms = [agent.choose(int(words[i, t])) for i, agent in enumerate(agents)]
        for agent, arm in zip(agents, arms, strict=True):
            agent.observe(arm, float(row[arm]))
        exchange(agents)
        rows.append(arms)
    return rows


def naive(graph: Any, rewards: Any, d: int, eta: float) -> list[list[int]]:
    """The paper's equations, with everybody's past at hand."""
    num_arms, near = rewards.shape[1], dict(nx.all_pairs_shortest_path_length(graph, cutoff=d))
    agents = sorted(graph)
    words = decision_words(len(agents), len(rewards))
    p = {v: [1 / num_arms] * num_arms for v in agents}
    history: list[tuple[dict[int, int], dict[int, list[float]]]] = []
    for t in range(len(rewards)):
        arms = {}
        for v in agents:
            u, k = uniform_of(word_at(int(words[v, t]), 0)), 0
            while k < num_arms - 1 and u >= sum(p[v][: k + 1]):
                k += 1
            arms[v] = k
        history.append((arms, p))
        if t >= d:
            then, shares = history[t - d]
            p = {v: list(p[v]) for v in agents}
            for v in agents:
                for k in range(num_arms):
                    q = 1 - math.prod(1 - shares[j][k] for j in near[v])
                    played = any(then[j] == k for j in near[v])
                    p[v][k] *= math.exp(-eta * (1 - rewards[t - d][k]) * played / q)
                total = sum(p[v])
                p[v] = [x / total for x in p[v]]
    return [[arms[v] for v in agents] for arms, _ in history]


@pytest.mark.parametrize(
    ("graph", "d"),
    [("single", 0), ("cycle-5", 0), ("complete-6", 1), ("cycle-9", 1), ("grid-2x4", 3)],
)
def test_it_plays_what_the_equations_say(graph: str, d: int) -> None:
    rewards = table(50, 4)
    agents = team(graph, 4, Exp3Coop(d, eta=0.2))
    assert play(agents, rewards) == naive(GRAPHS[graph], rewards, d, 0.2)


def test_values_per_message() -> None:
    """K + 4 for everybody at most d − 1 hops away."""
    agents = team("cycle-9", 3, Exp3Coop(2))
    for size in (7, 21, 21):
        for agent in agents:
            agent.observe(agent.choose(5), 1.0)
        assert set(exchange(agents)) == {size}
    silent = team("cycle-9", 3, Exp3Coop(0))
    silent[0].observe(0, 1.0)
    assert set(exchange(silent)) == {0}


def test_in_a_clique_all_have_the_same_weights() -> None:
    agents = team("complete-6", 4, Exp3Coop(1))
    play(agents, table(60, 4))
    for agent in agents[1:]:
        np.testing.assert_allclose(agent.logits, agents[0].logits, rtol=1e-12)


def regret(arms: list[list[int]], rewards: Any) -> float:
    """Average over agents, against the best arm in hindsight."""
    earned = sum(rewards[t][k] for t, row in enumerate(arms) for k in row) / len(arms[0])
    return float(rewards.sum(axis=0).max() - earned)


def test_regret_in_a_clique_is_within_the_bound() -> None:
    """√((2 + K/N) T ln K) with the paper's η, doubled for chance."""
    T, K, N = 250, 8, 6
    rewards = table(T, K)
    eta = math.sqrt(math.log(K) / (T * (2 + K / N)))
    together = regret(play(team("complete-6", K, Exp3Coop(1, eta)), rewards), rewards)
    assert 0.0 < together <= 2 * math.sqrt((2 + K / N) * T * math.log(K))


def test_an_arm_given_up_can_still_be_the_only_one_allowed() -> None:
    agent = Exp3Coop().make_agent(one_view(num_arms=3))
    agent.logits = np.array([0.0, -1e6, -1e6])
    assert agent.choose(7) == 0
    assert agent.choose(7, [1, 2]) in (1, 2)
    agent.observe(1, 0.0)
    message = agent.outgoing(1)
    assert message is not None
    other = Exp3Coop().make_agent(one_view(agent_id=1, neighbor_weights={0: 0.5}, num_arms=3))
    other.receive({0: message})
    other.receive({})
    assert np.isfinite(other.logits).all()


def test_rewards_beyond_the_range_count_as_its_ends() -> None:
    agent = Exp3Coop(0).make_agent(one_view(num_arms=2))
    agent.observe(0, 7.0)
    agent.observe(1, -3.0)
    assert agent.items[:, 3].tolist() == [0.0, 1.0]


def test_late_and_repeated_items() -> None:
    agents = team("path-4", 2, Exp3Coop(1))
    for agent in agents:
        agent.observe(0, 0.0)
    late = agents[0].outgoing(1)
    assert late is not None
    agents[1].receive({0: late})
    agents[1].receive({0: late})  # again, in time, and known
    before = agents[1].logits.copy()
    agents[1].receive({0: late})  # too late
    assert np.array_equal(agents[1].logits, before)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ([1, 0, 0, 0.5, 0.5], r"\(5,\).* 6 "),
        ([1, 0, 2, 0.5, 0.5, 0.5], r"arm 2\b"),
        ([1, 3, 0, 0.5, 0.5, 0.5], r"round 3\b"),
        ([1, 0, 0, 1.5, 0.5, 0.5], "0 to 1"),
        ([1, 0, 0, 0.5, -0.5, 0.5], "0 to 1"),
        ([1, 0, 0, math.nan, 0.5, 0.5], "finite"),
    ],
)
def test_messages_that_cannot_be(message: list[float], sentence: str) -> None:
    agent = Exp3Coop().make_agent(one_view())
    before = agent.export_state()
    with pytest.raises(InputError, match=sentence):
        agent.receive({1: np.array(message, dtype=np.float64)})
    assert agent.export_state() == before


def test_states_that_cannot_be() -> None:
    agent = Exp3Coop().make_agent(one_view())
    agent.observe(0, 0.5)
    state = through_json(agent.export_state())
    for changes, sentence in (
        ({"rounds": -1}, "rounds.*-1"),
        ({"items": [[0.0, 0.0, 5.0, 0.5, 0.5, 0.5]]}, "items.*arm 5"),
    ):
        with pytest.raises(InputError, match=sentence):
            agent.restore_state(state | changes)
    agent.restore_state(state)
    assert agent.export_state() == state


def test_bad_settings() -> None:
    with pytest.raises(InputError, match=r"hop_limit.*-1"):
        Exp3Coop(-1)
    with pytest.raises(InputError, match=r"eta.* 0\b"):
        Exp3Coop(eta=0)
    assert Exp3Coop().needs_common_round

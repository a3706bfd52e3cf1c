"""Exp3-Coop against plain loops, and its cases of one agent and of a clique."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import InputError, uniform_of, word_at
from coopbandits.literature import Exp3Coop
from coopbandits.literature.cesabianchi2016 import MOST_PULLS

from ..core.fleet import (
    GRAPHS,
    changed,
    decision_words,
    exchange,
    fields,
    make_agent,
    one_view,
    team,
    through_json,
)


def table(rounds: int, num_arms: int) -> Any:
    """Rewards 0 or 1 of an adversary that does not look: the same for all agents."""
    counters = np.arange(rounds * num_arms).reshape(rounds, num_arms)
    return ((counters * 2654435761 % 997) / 997 > np.linspace(0.3, 0.7, num_arms)).astype(float)


def play(agents: list[Any], rewards: Any) -> list[list[int]]:
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
        np.testing.assert_allclose(fields(agent).logits, fields(agents[0]).logits, rtol=1e-12)


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
    agent = make_agent(Exp3Coop(), one_view(num_arms=3))
    fields(agent).logits[:] = [0.0, -1e6, -1e6]
    assert agent.choose(7) == 0
    assert {agent.choose(word, [1, 2]) for word in range(0, 2**64, 2**60)} == {1, 2}
    agent.observe(1, 0.0)
    message = agent.outgoing(1)
    assert message is not None
    other = make_agent(Exp3Coop(), one_view(agent_id=1, neighbor_weights={0: 0.5}, num_arms=3))
    other.receive({0: message})
    other.receive({})
    assert np.isfinite(fields(other).logits).all()


def test_arms_are_drawn_by_their_weights_among_those_allowed() -> None:
    agent = make_agent(Exp3Coop(), one_view(num_arms=4))
    weights = np.array([0.4, 0.1, 0.3, 0.2])
    fields(agent).logits[:] = np.log(weights / 0.4)
    for allowed in ([0, 1, 2, 3], [1, 2, 3], [0, 2]):
        bounds = np.cumsum(weights[allowed]) / weights[allowed].sum()
        for word in range(300):
            place = np.searchsorted(bounds, uniform_of(word_at(word, 0)), side="right")
            assert agent.choose(word, allowed) == allowed[place]  # and open pulls change nothing


def test_rewards_beyond_the_range_count_as_its_ends() -> None:
    agent = make_agent(Exp3Coop(0), one_view(num_arms=2))
    agent.observe(0, 7.0)
    agent.observe(1, -3.0)
    assert fields(agent).losses.tolist() == [[0.0, 1.0]]


def test_late_and_repeated_items() -> None:
    agents = team("path-4", 2, Exp3Coop(1))
    for agent in agents:
        agent.observe(0, 0.0)
    late = agents[0].outgoing(1)
    assert late is not None
    agents[1].receive({0: late})
    agents[1].receive({0: late})  # again, in time, and known
    counted = fields(agents[1]).logits.copy()
    agents[1].receive({0: late})  # too late
    assert np.array_equal(fields(agents[1]).logits, counted)

    once = team("path-4", 2, Exp3Coop(1))[1]
    once.observe(0, 0.0)
    once.receive({0: late})
    once.receive({})
    assert np.array_equal(fields(once).logits, counted)


def test_an_item_goes_as_far_as_it_may_and_nobody_hears_of_own_pulls() -> None:
    agents = team("path-4", 2, Exp3Coop(2))
    agents[0].observe(1, 0.25)
    exchange(agents)
    assert np.isclose(fields(agents[1]).losses.sum(), 0.75)
    (told,) = np.reshape(agents[1].outgoing(0), (-1, 6))
    assert told[:4].tolist() == [0, 0, 1, 0.75]
    exchange(agents)
    assert [fields(agent).heard.sum() for agent in agents] == [1, 1, 1, 0]
    assert [agent.outgoing(j) for agent, j in zip(agents, (1, 2, 3, 2), strict=True)] == [None] * 4


def test_of_many_pulls_in_one_round_some_are_told() -> None:
    agent = make_agent(Exp3Coop(), one_view())
    for _ in range(MOST_PULLS + 1):
        agent.observe(0, 0.0)
    message = agent.outgoing(1)
    assert message is not None
    assert message.size == 6 * MOST_PULLS
    assert fields(agent).plays.sum() == MOST_PULLS + 1
    other = make_agent(Exp3Coop(), one_view(agent_id=1, neighbor_weights={0: 0.5}))
    other.receive({0: message})
    assert (fields(other).plays.sum(), fields(other).heard.sum()) == (MOST_PULLS, 1)


def test_more_agents_than_one_number_has_bits() -> None:
    """Everybody is heard of once."""
    others = dict.fromkeys(range(1, 120), 0.001)
    agent = make_agent(Exp3Coop(), one_view(neighbor_weights=others, num_agents=120))
    items = {j: np.array([j, 0, j % 2, 0.5, 0.5, 0.5]) for j in others}
    agent.receive(items)
    assert fields(agent).heard.tolist() == [119, 0]
    agent.receive(items)
    assert fields(agent).rounds == 2
    assert fields(agent).heard.tolist() == [0, 0]
    assert fields(agent).logits.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ([], r"\(0,\).* 6 "),
        ([1, 0, 0, 0.5, 0.5, 0.5] * (MOST_PULLS + 1), rf"up to {MOST_PULLS} pulls"),
        ([3, 0, 0, 0.5, 0.5, 0.5], r"agent 3\b.* 0 to 2"),
        ([1, 0, 0, 0.5, 0.5], r"\(5,\).* 6 "),
        ([1, 0, 2, 0.5, 0.5, 0.5], r"arm 2\b"),
        ([1, 3, 0, 0.5, 0.5, 0.5], r"round 3\b"),
        ([1, 0, 0, 1.5, 0.5, 0.5], "0 to 1"),
        ([1, 0, 0, 0.5, -0.5, 0.5], "0 to 1"),
        ([1, 0, 0, math.nan, 0.5, 0.5], "finite"),
    ],
)
def test_messages_that_cannot_be(message: list[float], sentence: str) -> None:
    agent = make_agent(Exp3Coop(), one_view())
    before = agent.export_state()
    with pytest.raises(InputError, match=sentence):
        agent.receive({1: np.array(message, dtype=np.float64)})
    assert agent.export_state() == before


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rounds": -1}, "rounds.*-1"),
        ({"num_news": 5}, r"num_news.* 5\b.* 4 items"),
        ({"news": [[0.0, 0.0, 5.0, 0.5, 0.5, 0.5]] * 4}, "news.*arm 5"),
        ({"news": [[0.0, 1.0, 0.0, 0.5, 0.5, 0.5]] * 4}, r"news.*round 1\b"),
        ({"logits": [-1.0, -2.0]}, r"logits.*\[-1.0, -2.0\]"),
        ({"losses": [[2.0, 0.0], [0.0, 0.0]]}, "losses"),
        ({"missed": [[1.5, 0.0], [1.0, 1.0]]}, "missed"),
        ({"heard": [-1, 0]}, "heard"),
        ({"seen": [[2**52], [0]]}, "seen.*52 bits"),
    ],
)
def test_states_that_cannot_be(changes: dict[str, Any], sentence: str) -> None:
    agent = make_agent(Exp3Coop(), one_view())
    agent.observe(0, 0.5)
    state = through_json(agent.export_state())
    with pytest.raises(InputError, match=sentence):
        agent.restore_state(changed(state, {"aggregation": changes}))
    agent.restore_state(state)
    assert agent.export_state() == state


def test_bad_settings() -> None:
    with pytest.raises(InputError, match=r"hop_limit.*-1"):
        Exp3Coop(-1)
    with pytest.raises(InputError, match=r"eta.* 0\b"):
        Exp3Coop(eta=0)
    assert Exp3Coop().needs_common_round
    assert Exp3Coop().needs == {"num_agents"}
    with pytest.raises(InputError, match=r"exp3-coop.*number of agents"):
        make_agent(Exp3Coop(), one_view(num_agents=None))

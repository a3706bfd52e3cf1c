"""Resilient UCB: trimmed means against plain loops, what liars tell and what they can do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import (
    UCB,
    CentredDraw,
    CooperativeAgent,
    IndependentUCB,
    InputError,
    Vector,
    combine,
)
from coopbandits.literature import Liar, ResilientUCB, TrimmedMeans

from ..core.fleet import (
    GRAPHS,
    drive,
    gossip_matrix,
    machine,
    make_agent,
    make_agents,
    one_view,
    rewards_tape,
    through_json,
)


def naive(P: Any, rewards: Any, f: int, kappa: float, B: float, rounds: int) -> list[list[int]]:
    """The paper's equations, σ = 1; all arms once, then the largest index."""
    N, K = len(P), rewards.shape[2]
    n = [[0] * K for _ in range(N)]
    s = [[0.0] * K for _ in range(N)]
    told = [([0.0] * K, [0] * K) for _ in range(N)]
    rows = []
    for t in range(rounds):
        row = []
        for i in range(N):
            index = []
            for k in range(K):
                if n[i][k] == 0:
                    index.append(math.inf)
                    continue
                near = [j for j in range(N) if j != i and P[i][j] != 0]
                A = sorted(told[j][0][k] for j in near if kappa * told[j][1][k] >= n[i][k])
                z, g = s[i][k] / n[i][k], 1.0
                if len(A) > 2 * f:
                    M = len(A) - 2 * f + 1
                    z = (sum(A[f : len(A) - f]) + z) / M
                    g = (4 / M**2 + kappa / M + kappa) / 4
                index.append(z + math.sqrt(B * g * math.log(max(2, t)) / n[i][k]))
            row.append(index.index(max(index)))
        for i, k in enumerate(row):
            n[i][k] += 1
            s[i][k] += float(rewards[i][t][k])
        told = [([s[i][k] / max(1, n[i][k]) for k in range(K)], list(n[i])) for i in range(N)]
        rows.append(row)
    return rows


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    ("graph", "liars", "kappa"),
    [("complete-6", 1, 1.5), ("complete-6", 0, 3.0), ("regular-3-8", 1, 1.0), ("star-6", 2, 2.0)],
)
def test_agents_play_what_the_equations_say(graph: str, liars: int, kappa: float) -> None:
    P = gossip_matrix(GRAPHS[graph])
    tape = rewards_tape(len(P), 120, 3)
    agents = make_agents(ResilientUCB(liars, kappa, 0.5), P, 3)
    expected = naive(P.tolist(), tape, liars, kappa, 0.5, 120)
    assert drive(agents, tape, 0, 120).arms == expected


@pytest.mark.covering(2)
@pytest.mark.parametrize("graph", ["cycle-5", "path-4", "single"])
def test_who_has_at_most_twice_as_many_neighbours_as_liars_is_alone(graph: str) -> None:
    P = gossip_matrix(GRAPHS[graph])
    tape = rewards_tape(len(P), 150, 3)
    arms = [
        drive(make_agents(policy, P, 3), tape, 0, 150).arms
        for policy in (ResilientUCB(1), IndependentUCB(8.0))
    ]
    assert arms[0] == arms[1]


def told(*means: float, counts: float = 1.0) -> Vector:
    return np.array([*means, *[counts] * len(means)])


def known(liars: int, kappa: float) -> Any:
    """An agent with neighbours 1 to 4 and one pull of each of two arms, which paid 0.5."""
    weights = dict.fromkeys(range(1, 5), 0.2)
    found = machine(TrimmedMeans(liars, kappa), one_view(neighbor_weights=weights))
    for arm in range(2):
        found.observe(arm, 0.5)
    return found


def test_without_liars_it_is_the_plain_average() -> None:
    agent = known(0, 1e9)
    agent.receive({j: told(float(j), 0.5) for j in range(1, 5)})
    read = agent.estimate()
    np.testing.assert_allclose(read.sums / read.counts, [(1 + 2 + 3 + 4 + 0.5) / 5, 0.5])


def test_a_liar_moves_the_mean_no_further_than_an_honest_neighbour_could() -> None:
    for lie in (-1e9, -3.0, 0.6, 2.0, 1e9):
        agent = known(1, 1.5)
        agent.receive({1: told(0.2, 0.2), 2: told(0.6, 0.6), 3: told(0.9, 0.9), 4: told(lie, lie)})
        read = agent.estimate()
        mean = float(read.sums[0] / read.counts[0])
        assert (0.2 + 0.6 + 0.5) / 3 <= mean <= (0.6 + 0.9 + 0.5) / 3


def test_who_has_pulled_too_little_is_not_heard_and_silence_keeps_the_last_word() -> None:
    agent = known(1, 1.5)
    agent.observe(0, 0.5)
    agent.receive({j: told(0.9, 0.9) for j in range(1, 5)})
    read = agent.estimate()
    assert read.counts[0] == 2.0  # 1.5 · 1 < 2: the own mean alone
    np.testing.assert_allclose(read.counts[1], 4 / (4 / 9 + 1.5 / 3 + 1.5))
    agent.receive({})
    assert agent.estimate().counts.tolist() == read.counts.tolist()
    assert agent.outgoing(1).tolist() == [0.5, 0.5, 2.0, 1.0]
    assert agent.share().counts.tolist() == [2.0, 1.0]


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"liars.*-1"):
        TrimmedMeans(-1)
    with pytest.raises(InputError, match=r"kappa.*0\.5.*1"):
        ResilientUCB(kappa=0.5)
    with pytest.raises(InputError, match=r"trimmed-means.*ucb"):
        combine(TrimmedMeans(), CentredDraw("estimate"))
    agent = known(1, 1.5)
    with pytest.raises(InputError, match=r"\b1\b.*-1.*pulls"):
        agent.receive({1: told(0.0, 0.0, counts=-1.0)})
    assert not agent.heard.any()
    state = through_json(agent.export_state())
    state["heard"][2][3] = -1.0
    with pytest.raises(InputError, match=r"heard.*0"):
        agent.restore_state(state)
    assert combine(TrimmedMeans(), UCB(8.0)).parts == ResilientUCB().parts
    with pytest.raises(InputError, match="attack 'rise'"):
        Liar("rise")
    with pytest.raises(InputError, match=r"mean.* inf"):
        Liar(mean=float("inf"))


def knowing(attack: str, mean: float = 1.0) -> CooperativeAgent:
    """A liar that has seen 0.2, 0.8 and 0.5 of its three arms, and the last one twice."""
    agent = make_agent(Liar(attack, mean), one_view(num_arms=3))
    for arm, reward in ((0, 0.2), (1, 0.8), (2, 0.5), (2, 0.5)):
        agent.observe(arm, reward)
    return agent


def message(agent: CooperativeAgent) -> list[float]:
    found = agent.outgoing(1)
    assert found is not None
    return [float(value) for value in found]


def test_the_worst_arm_is_raised_with_as_many_pulls_as_were_heard_of() -> None:
    agent = knowing("raise", 7.0)
    assert message(agent) == [7.0, 0.8, 0.5, 1.0, 1.0, 2.0]
    agent.receive({2: np.array([0.1, 0.1, 0.1, 9.0, 3.0, 3.0])})
    assert message(agent) == [7.0, 0.8, 0.5, 9.0, 1.0, 2.0]


def test_the_two_best_arms_are_swapped() -> None:
    assert message(knowing("swap")) == [0.2, 0.5, 0.8, 1.0, 1.0, 2.0]


def test_a_liar_believes_its_own_pulls_alone_and_one_arm_leaves_nothing_to_tell() -> None:
    agent = knowing("raise")
    agent.receive({j: np.array([5.0, 0.0, 0.0, 9.0, 9.0, 9.0]) for j in (1, 2)})
    assert agent.estimate().sums.tolist() == [0.2, 0.8, 1.0]
    assert agent.estimate().counts.tolist() == [1.0, 1.0, 2.0]
    single = make_agent(Liar(), one_view(num_arms=1))
    single.observe(0, 0.25)
    assert message(single) == [0.25, 1.0]

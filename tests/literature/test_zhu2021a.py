"""Tracked means: what is conserved, and Dec_UCB against plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import (
    KLUCB,
    UCB,
    CooperativeAgent,
    IndependentUCB,
    InputError,
    combine,
)
from coopbandits.core.aggregate.fields import FieldMachine
from coopbandits.literature import DecKLUCB, DecUCB, TrackedMeans

from ..core.fields import Fields
from ..core.fleet import (
    GRAPHS,
    drive,
    exchange,
    gossip_matrix,
    machine,
    make_agents,
    one_view,
    played_values,
    rewards_tape,
    through_json,
)


def machine_of(agent: CooperativeAgent) -> Fields:
    assert isinstance(agent.machine, FieldMachine)
    return Fields(agent.machine)


def naive(P: Any, rewards: Any, constant: float, rounds: int) -> list[list[int]]:
    """The paper's equations, σ = 1; of the arms on which an agent lags behind, the lowest."""
    N, K = len(P), rewards.shape[2]
    n = [[0] * K for _ in range(N)]
    s = [[0.0] * K for _ in range(N)]
    x: list[list[float]] = []
    z: list[list[float]] = []
    m: list[list[int]] = []
    rows = []
    for t in range(rounds):
        row = []
        for i in range(N):
            if t < K:
                row.append(t)
                continue
            behind = [k for k in range(K) if n[i][k] <= m[i][k] - K]
            near = sum(P[i][j] != 0 for j in range(N))
            index = [
                z[i][k] + math.sqrt(constant * math.log(t) / (near * n[i][k])) for k in range(K)
            ]
            row.append(behind[0] if behind else index.index(max(index)))
        for i, k in enumerate(row):
            n[i][k] += 1
            s[i][k] += float(rewards[i][t][k])
        rows.append(row)
        if t < K - 1:
            continue
        new = [[s[i][k] / n[i][k] for k in range(K)] for i in range(N)]
        if t == K - 1:
            x, z, m = new, [list(r) for r in new], [[1] * K for _ in range(N)]
            continue
        z = [
            [sum(P[i][j] * z[j][k] for j in range(N)) + new[i][k] - x[i][k] for k in range(K)]
            for i in range(N)
        ]
        m = [
            [max(n[i][k], *(m[j][k] for j in range(N) if P[i][j] != 0)) for k in range(K)]
            for i in range(N)
        ]
        x = new
    return rows


@pytest.mark.covering(4)
@pytest.mark.parametrize("graph", ["cycle-5", "star-6", "grid-2x4", "complete-6"])
@pytest.mark.parametrize("constant", [12.0, 0.2])
def test_dec_ucb_plays_what_the_equations_say(graph: str, constant: float) -> None:
    P = gossip_matrix(GRAPHS[graph])
    tape = rewards_tape(len(P), 150, 3)
    agents = make_agents(DecUCB(constant), P, 3)
    assert drive(agents, tape, 0, 150).arms == naive(P.tolist(), tape, constant, 150)


def test_the_sum_of_all_is_the_sum_of_own_means() -> None:
    for graph in ("star-6", "regular-3-8"):
        agents = make_agents(DecUCB(), gossip_matrix(GRAPHS[graph]), 4)
        tape = rewards_tape(len(agents), 80, 4)
        for t in range(80):
            drive(agents, tape, t, t + 1)
            found = sum(machine_of(agent).tracked for agent in agents)
            shares = [machine_of(agent).registers.share(machine_of(agent).own) for agent in agents]
            own = sum(share.sums / np.maximum(1.0, share.counts) for share in shares)
            np.testing.assert_allclose(found, own, atol=1e-12)


def test_one_agent_alone_is_ucb() -> None:
    tape = rewards_tape(1, 300, 4)
    one = gossip_matrix(GRAPHS["single"])
    arms = [
        drive(make_agents(policy, one, 4), tape, 0, 300).arms
        for policy in (combine(TrackedMeans(), UCB(3.0)), IndependentUCB(3.0))
    ]
    assert arms[0] == arms[1]


def test_dec_kl_ucb_has_the_authors_level() -> None:
    """(d + 1) n (q − z)²/2σ² = 3(1 + β)(ln t + 3 ln ln t)/2 for normal rewards."""
    agents = make_agents(DecKLUCB(beta=0.01), gossip_matrix(GRAPHS["cycle-5"]), 3)
    drive(agents, rewards_tape(5, 40, 3), 0, 40)
    agent = agents[2]
    own = machine_of(agent).registers.share(machine_of(agent).own)
    level = 1.5 * 1.01 * (math.log(40) + 3 * math.log(math.log(40)))
    expected = machine_of(agent).tracked + np.sqrt(2 * level / (3 * own.counts))
    np.testing.assert_allclose(played_values(agent, agent.estimate()), expected, rtol=1e-12)
    assert DecKLUCB("bernoulli").parts.index == KLUCB("bernoulli", c=3.0)


def test_agents_are_silent_until_they_know_every_arm() -> None:
    agents = make_agents(DecUCB(), gossip_matrix(GRAPHS["cycle-5"]), 3)
    sizes = drive(agents, rewards_tape(5, 5, 3), 0, 5).sizes
    assert sizes == [{0}, {0}, {0}, {6}, {6}]


def test_who_lags_behind_plays_that_arm_first() -> None:
    agent = machine(TrackedMeans(), one_view(num_arms=3))
    for arm in range(3):
        agent.observe(arm, 0.5)
    assert agent.estimate().counts.tolist() == [3.0, 3.0, 3.0]
    agent.receive({1: np.array([0.5, 0.5, 0.5, 1.0, 4.0, 3.0])})
    assert agent.estimate().counts.tolist() == [3.0, 0.0, 3.0]  # 1 ≤ 4 − 3, and 1 > 3 − 3


def test_a_neighbour_that_is_not_heard_counts_as_agreeing() -> None:
    agent: Any = machine(TrackedMeans(), one_view(num_arms=2))
    for arm in range(2):
        agent.observe(arm, 0.25)
    agent.receive({})
    assert agent.tracked.tolist() == [0.25, 0.25]
    agent.receive({2: np.array([1.25, 0.25, 1.0, 1.0])})
    assert agent.tracked.tolist() == [0.5, 0.25]


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"credit.* 0\b"):
        TrackedMeans(0)
    with pytest.raises(InputError, match=r"beta.*-1"):
        DecKLUCB(beta=-1)
    agent = machine(TrackedMeans(), one_view())
    with pytest.raises(InputError, match=r"\b1\b.*-1.*pulls"):
        agent.receive({1: np.array([0.0, 0.0, -1.0, 0.0])})
    state = through_json(agent.export_state())
    with pytest.raises(InputError, match=r"heard.*0"):
        agent.restore_state(state | {"heard": [-1.0, 0.0]})
    with pytest.raises(InputError, match=r"num_pulls.*-1"):
        agent.restore_state(state | {"num_pulls": -1})
    assert exchange(make_agents(DecUCB(), gossip_matrix(GRAPHS["path-4"]), 2)) == [0] * 6

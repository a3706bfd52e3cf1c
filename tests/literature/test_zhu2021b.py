"""Gossip_UCB and Fed_UCB: against plain loops in random pairs, and what noise changes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import CooperativeAgent, IndependentUCB, InputError, Policy
from coopbandits.core.aggregate.fields import FieldMachine
from coopbandits.literature import FedUCB, GossipUCB, TrackedMeans

from ..core.fleet import GRAPHS, drive, gossip_matrix, machine, make_agents, one_view, rewards_tape

N, K, ROUNDS = 6, 3, 100
COMPLETE = gossip_matrix(GRAPHS["complete-6"])


def partners(t: int) -> list[int]:
    """Who meets whom in a round: three pairs, and agent 5 nobody in every third round."""
    order = [0, *((np.arange(5) + t) % 5 + 1).tolist()]
    found = [0] * N
    for i, j in zip(order[::2], order[1::2], strict=True):
        found[i], found[j] = j, i
    if t % 3 == 0:
        found[found[5]], found[5] = found[5], 5
    return found


def play(policy: Policy, tape: Any) -> tuple[list[list[int]], list[CooperativeAgent]]:
    agents = make_agents(policy, COMPLETE, K)
    rows = []
    for t in range(ROUNDS):
        row = [agent.choose(0) for agent in agents]
        for i, arm in enumerate(row):
            agents[i].observe(arm, float(tape[i, t, arm]))
        rows.append(row)
        meets = partners(t)
        sent = [agents[i].outgoing((i + 1) % N) for i in range(N)]  # all are told the same
        for i, agent in enumerate(agents):
            j = meets[i]
            message = sent[j] if j != i and meets[j] == i else None
            agent.receive({} if message is None else {j: message})
    return rows, agents


def naive(tape: Any, B: float) -> list[list[int]]:
    """The paper's equations, σ = 1; of the arms on which an agent lags behind, the lowest."""
    n = [[1] * K for _ in range(N)]
    s = [[float(tape[i, k, k]) for k in range(K)] for i in range(N)]
    x = [list(row) for row in s]
    z = [list(row) for row in s]
    m = [[1] * K for _ in range(N)]
    rows = [[t] * N for t in range(K)]
    for t in range(K, ROUNDS):
        row = []
        for i in range(N):
            behind = [k for k in range(K) if n[i][k] < m[i][k] - N]
            index = [z[i][k] + math.sqrt(B * N * math.log(t) / n[i][k]) for k in range(K)]
            row.append(behind[0] if behind else index.index(max(index)))
        for i, k in enumerate(row):
            n[i][k] += 1
            s[i][k] += float(tape[i, t, k])
        rows.append(row)
        new = [[s[i][k] / n[i][k] for k in range(K)] for i in range(N)]
        meets = partners(t)
        pairs = [meets[i] if meets[meets[i]] == i else i for i in range(N)]
        z = [
            [(z[i][k] + z[pairs[i]][k]) / 2 + new[i][k] - x[i][k] for k in range(K)]
            for i in range(N)
        ]
        m = [[max(n[i][k], m[i][k], m[pairs[i]][k]) for k in range(K)] for i in range(N)]
        x = new
    return rows


@pytest.mark.parametrize("constant", [8.0, 0.02])
def test_gossip_ucb_plays_what_the_equations_say(constant: float) -> None:
    tape = rewards_tape(N, ROUNDS, K)
    assert play(GossipUCB(constant), tape)[0] == naive(tape, constant)


def test_the_sum_of_all_is_the_sum_of_own_means() -> None:
    _, agents = play(GossipUCB(0.1), rewards_tape(N, ROUNDS, K))
    machines = [agent.machine for agent in agents]
    tracked, means = np.zeros(K), np.zeros(K)
    for one in machines:
        assert isinstance(one, FieldMachine)
        tracked += one.state.tracked
        share = one.registers.share(one.state.own)
        means += share.sums / share.counts
    np.testing.assert_allclose(tracked, means, atol=1e-12)


def test_one_agent_alone_is_ucb() -> None:
    tape = rewards_tape(1, 100, 4)
    one = gossip_matrix(GRAPHS["single"])
    policies: tuple[Policy, ...] = (
        GossipUCB(3.0), FedUCB(math.inf, 100, 3.0), IndependentUCB(3.0),
    )  # fmt: skip
    arms = [drive(make_agents(policy, one, 4), tape, 0, 100).arms for policy in policies]
    assert arms[0] == arms[1] == arms[2]


def test_without_noise_fed_ucb_is_gossip_ucb() -> None:
    tape = rewards_tape(N, ROUNDS, K)
    assert play(FedUCB(math.inf, ROUNDS, 0.1), tape)[0] == play(GossipUCB(0.1), tape)[0]
    assert play(FedUCB(5.0, ROUNDS, 0.1), tape)[0] != play(GossipUCB(0.1), tape)[0]


def test_noise_widens_the_bonus_as_the_authors_have_it() -> None:
    """√(N B σ² ln t (1/n + 128 N ln²T ln t ln n/(n²ε²))) = √(B σ² ln t/n') for counts n'."""
    agent = machine(TrackedMeans(pairs=True, epsilon=2.0, horizon=50), one_view(num_arms=2))
    for arm in (0, 0, 0, 0, 1):
        agent.observe(arm, 0.5)
    expected = [
        1 / (3 * (1 / n + 128 * 3 * math.log(50) ** 2 * math.log(5) * math.log(n) / (n * 2.0) ** 2))
        for n in (4, 1)
    ]
    np.testing.assert_allclose(agent.estimate().counts, expected, rtol=1e-12)


def test_needs_and_bad_input() -> None:
    assert GossipUCB().needs == {"num_agents"}
    assert FedUCB(1.0, 10).needs == {"num_agents", "secret"}
    assert FedUCB(1.0, 10).parts is None
    with pytest.raises(InputError, match=r"epsilon.* 0\b"):
        FedUCB(0, 10)
    with pytest.raises(InputError, match=r"epsilon.* -1\b"):
        TrackedMeans(epsilon=-1)
    with pytest.raises(InputError, match=r"horizon.* 0\b"):
        FedUCB(1.0, 0)
    with pytest.raises(InputError, match=r"pairs.* 1\b"):
        TrackedMeans(pairs=1)  # type: ignore[arg-type]  # it is refused
    with pytest.raises(InputError, match="number of agents"):
        machine(TrackedMeans(pairs=True), one_view(num_agents=None))

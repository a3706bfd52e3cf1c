"""The field's agents against a naive second implementation: the same arms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coopbandits.core import CooperativeAgent, Policy
from coopbandits.core.draws import betas, normals, uniforms, words
from coopbandits.literature import MPUCB, CoopUCB, CoopUCB2, CoopUCL, DecBayesUCB, DecTS, UCBNetwork

from .fleet import (
    GRAPHS,
    Matrix,
    consensus,
    decision_words,
    drive,
    gossip_matrix,
    make_agent,
    rewards_tape,
    views,
)
from .naive import Row
from .naive_field import (
    Field,
    NaiveCoop,
    NaiveCoopUCB,
    NaiveCoopUCL,
    NaiveDecBernoulli,
    NaiveDecGaussian,
    NaiveFlooding,
)

pytestmark = pytest.mark.plays

GRAPH_NAMES = ["cycle-5", "star-6", "path-4", "complete-6", "single"]
HORIZON = 60


def closed_epsilon_c(matrix: Matrix) -> list[float]:
    """N Σ_{j≥2} λ_j²/(1−λ_j²) (u_j^i)²."""
    values, vectors = np.linalg.eigh(matrix)
    squares = values[:-1] ** 2
    sums: Matrix = len(matrix) * (vectors[:, :-1] ** 2 @ (squares / (1 - squares)))
    return sums.tolist()  # type: ignore[no-any-return]  # floats


def agents_of(
    policy: Policy, matrix: Matrix, num_arms: int, sigma: float
) -> list[CooperativeAgent]:
    epsilon = closed_epsilon_c(matrix)
    told = [
        replace(view, global_knowledge={"epsilon_c:closed": epsilon[view.agent_id]})
        for view in views(matrix, num_arms, sigma)
    ]
    return [make_agent(policy, view) for view in told]


def naive_coop(policy: Policy, world: tuple[Any, ...], matrix: Matrix) -> NaiveCoop:
    if isinstance(policy, CoopUCL):
        limit = NaiveCoopUCL(*world)
        limit.gamma = policy.gamma
        limit.prior = (policy.prior_mean, policy.prior_sigma)
        if policy.prior_sigma == np.inf:
            limit.prior = None
        return limit
    assert isinstance(policy, CoopUCB | CoopUCB2)
    bound = NaiveCoopUCB(*world)
    bound.gamma = policy.gamma
    bound.epsilon_c = closed_epsilon_c(matrix) if isinstance(policy, CoopUCB) else None
    return bound


def naive_dec(policy: Policy, world: tuple[Any, ...], decisions: Any) -> Field:
    arms = np.arange(world[1], dtype=np.uint64)
    if policy == DecTS("bernoulli"):
        chance = NaiveDecBernoulli(*world)

        def draw(i: int, t: int, alpha: Row, beta: Row) -> Row:
            drawn = betas(int(decisions[i, t]), np.array(alpha), np.array(beta))
            return drawn.tolist()  # type: ignore[no-any-return]  # floats

        chance.draw = draw
        return chance
    gaussian = NaiveDecGaussian(*world)
    if isinstance(policy, DecTS):
        gaussian.z = [[normals(words(int(w), arms)).tolist() for w in row] for row in decisions]
    return gaussian


def naive_flooding(policy: Policy, world: tuple[Any, ...]) -> NaiveFlooding:
    assert isinstance(policy, UCBNetwork | MPUCB)
    flooding = NaiveFlooding(*world)
    flooding.hops = policy.hop_limit if isinstance(policy, MPUCB) else 1
    flooding.B = policy.constant
    return flooding


POLICIES: list[Policy] = [
    CoopUCB(2.0),
    CoopUCB(1.01),
    CoopUCB2(1.01),
    CoopUCB2(3.0),
    CoopUCL(1.01),
    CoopUCL(2.0, prior_mean=0.7, prior_sigma=0.4),
    DecTS(),
    DecTS("bernoulli"),
    DecBayesUCB(),
]
FLOODING: list[Policy] = [UCBNetwork(), UCBNetwork(0.5), MPUCB(2), MPUCB(9, 0.5)]


def play_both(
    policy: Policy, graph: str, num_arms: int, sigma: float, horizon: int = HORIZON
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the agents' arms and the naive ones."""
    matrix = gossip_matrix(GRAPHS[graph])
    rewards = 0.5 * rewards_tape(len(matrix), horizon, num_arms)
    if policy == DecTS("bernoulli"):
        counters = np.arange(rewards.size, dtype=np.uint64)
        coins = uniforms(words(5, counters)).reshape(rewards.shape)
        rewards = (coins < np.linspace(0.3, 0.6, num_arms)).astype(np.float64)
    decisions = decision_words(len(matrix), horizon)
    world = (matrix.tolist(), num_arms, sigma, rewards)
    naive: Any
    if isinstance(policy, CoopUCB | CoopUCB2 | CoopUCL):
        naive = naive_coop(policy, world, matrix)
    elif policy in FLOODING:
        naive = naive_flooding(policy, world)
    else:
        naive = naive_dec(policy, world, decisions)
    agents = agents_of(policy, matrix, num_arms, sigma)
    run = drive(agents, rewards, 0, horizon, decisions)
    assert policy in FLOODING or set().union(*run.sizes) <= {2 * num_arms}
    return run.arms, naive.play(horizon)


@pytest.mark.covering
@pytest.mark.parametrize("graph", GRAPH_NAMES)
@pytest.mark.parametrize("policy", [*POLICIES, *FLOODING], ids=lambda policy: policy.spelling)
def test_agents_play_the_naive_arms(policy: Policy, graph: str) -> None:
    found, expected = play_both(policy, graph, num_arms=3, sigma=0.5)
    assert found == expected
    # A run in which every round looks alike would prove nothing.
    assert len({arm for row in found[3:] for arm in row}) > 1


@pytest.mark.covering
@pytest.mark.parametrize(("num_arms", "sigma"), [(1, 1.0), (2, 1.7), (7, 0.2)])
@pytest.mark.parametrize("policy", [*POLICIES, *FLOODING], ids=lambda policy: policy.spelling)
def test_other_numbers_of_arms_and_noise(policy: Policy, num_arms: int, sigma: float) -> None:
    found, expected = play_both(policy, "grid-2x4", num_arms, sigma)
    assert found == expected


def test_the_naive_run_is_another_one_for_every_policy() -> None:
    """The yardstick itself reacts to its switches: otherwise agreement would be cheap."""
    policies = [*POLICIES, *FLOODING]
    runs = [play_both(policy, "star-6", 3, 0.5)[1] for policy in policies]
    assert len({str(arms) for arms in runs}) == len(policies)


def test_agents_differ_from_one_another_on_an_uneven_graph() -> None:
    """ε_c reaches the agent it belongs to: hub and leaves of a star do not play alike."""
    arms = play_both(CoopUCB(2.0), "star-6", 3, 0.5)[0]
    assert len({tuple(row) for row in zip(*arms, strict=True)}) > 1


@pytest.mark.parametrize("graph", GRAPH_NAMES)
@pytest.mark.parametrize("policy", POLICIES[:6], ids=lambda policy: policy.spelling)
def test_after_the_initial_rounds_every_count_is_one(policy: Policy, graph: str) -> None:
    matrix = gossip_matrix(GRAPHS[graph])
    agents = agents_of(policy, matrix, 4, 1.0)
    run = drive(agents, rewards_tape(len(matrix), 4, 4), 0, 4)
    assert run.arms == [[k] * len(matrix) for k in range(4)]
    for agent in agents:
        assert consensus(agent).state.mixed[4:].tolist() == pytest.approx([1.0] * 4, abs=1e-14)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.spelling)
def test_mixing_loses_nothing(policy: Policy) -> None:
    """Summed over agents, counts are the pulls and sums the rewards, in every round."""
    matrix = gossip_matrix(GRAPHS["star-6"])
    rewards = rewards_tape(6, 50, 3)
    agents = agents_of(policy, matrix, 3, 1.0)
    decisions = decision_words(6, 50)
    paid = np.zeros(6)
    for t in range(50):
        for i, k in enumerate(drive(agents, rewards, t, t + 1, decisions).arms[0]):
            paid[[k, 3 + k]] += rewards[i, t, k], 1.0
        total = sum(consensus(agent).state.mixed for agent in agents)
        np.testing.assert_allclose(total, paid, rtol=1e-12, atol=1e-12)

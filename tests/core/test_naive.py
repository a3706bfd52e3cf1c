"""The agents against a naive second implementation of the specification: the same arms."""

from __future__ import annotations

import pytest

from coopbandits.core import DDUCB

from .fleet import (
    GRAPHS,
    Matrix,
    drive,
    gossip_matrix,
    make_agents,
    rewards_tape,
    second_eigenvalue,
    staged,
)
from .naive import NaiveDDUCB, Setup, stage
from .variants import VARIANTS

pytestmark = pytest.mark.plays

PINNED = ("default", "plain", "neighbors", "remix-plain", "budget-4", "unaccelerated")


def naive_setup(policy: DDUCB, matrix: Matrix, num_arms: int, horizon: int) -> Setup:
    bounds = policy.num_agents
    assert not isinstance(bounds, str)
    lam = policy.known_lambda(second_eigenvalue(matrix))
    return Setup(
        P=matrix.tolist(),
        K=num_arms,
        T=horizon,
        lam=lam,
        eta=policy.eta,
        epsilon=policy.epsilon,
        bonus_factor=policy.bonus_factor,
        accelerated=policy.accelerated,
        own_pulls=policy.own_pulls,
        neighbor_pulls=policy.neighbor_pulls,
        remix=policy.remix,
        L=policy.values_per_message,
        mixing_rounds=policy.mixing_rounds,
        N_bounds=(bounds, bounds) if isinstance(bounds, int) else bounds,
    )


def compare(
    policy: DDUCB, graph: str, num_arms: int, horizon: int | None = None
) -> list[list[int]]:
    """Same arms and same s in every round; by default a bit more than four stages."""
    matrix = gossip_matrix(GRAPHS[graph])
    setup = naive_setup(policy, matrix, num_arms, 0)
    rounds = stage(setup)[1]
    last = num_arms + 4 * rounds + rounds // 2 + 1 if horizon is None else horizon
    rewards = rewards_tape(len(matrix), last, num_arms)
    expected = NaiveDDUCB(setup._replace(T=last), rewards).play()
    agents = make_agents(policy, matrix, num_arms)
    actual = drive(agents, rewards, 0, last)
    assert staged(agents[0]).stage_rounds == rounds
    assert actual.arms == expected.arms
    for times, s in zip(actual.times[num_arms:], expected.s[num_arms:], strict=True):
        # ln s needs s > 1, which only K = 1 falls short of; there the arm does not depend on it.
        assert times == pytest.approx([max(2.0, value) for value in s], abs=1e-9)
    return actual.arms


@pytest.mark.covering
@pytest.mark.parametrize("graph", ["cycle-5", "star-6"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_plays_the_naive_arms(variant: str, graph: str) -> None:
    arms = compare(VARIANTS[variant], graph, num_arms=3)
    # A run in which every round looks alike would prove nothing.
    assert len({arm for row in arms[3:] for arm in row}) > 1


@pytest.mark.covering
@pytest.mark.parametrize("graph", ["cycle-9", "grid-2x4", "path-4", "regular-3-8"])
@pytest.mark.parametrize("variant", PINNED)
def test_other_graphs_play_the_naive_arms(variant: str, graph: str) -> None:
    compare(VARIANTS[variant], graph, num_arms=3)


@pytest.mark.parametrize("graph", ["complete-6", "single"])
@pytest.mark.parametrize("variant", PINNED)
def test_graphs_with_lambda_zero_play_the_naive_arms(variant: str, graph: str) -> None:
    compare(VARIANTS[variant], graph, num_arms=3, horizon=60)


@pytest.mark.covering
@pytest.mark.parametrize("num_arms", [1, 2, 9])
@pytest.mark.parametrize("variant", PINNED)
def test_other_numbers_of_arms_play_the_naive_arms(variant: str, num_arms: int) -> None:
    compare(VARIANTS[variant], "path-4", num_arms)


@pytest.mark.parametrize("horizon", [1, 4, 5, 6, 31])
def test_a_horizon_may_end_anywhere(horizon: int) -> None:
    arms = compare(DDUCB(), "cycle-5", num_arms=5, horizon=horizon)
    assert len(arms) == horizon
    assert arms[:5] == [[k] * 5 for k in range(min(5, horizon))]


def test_the_naive_run_is_not_the_default_for_every_setup() -> None:
    """The yardstick itself reacts to its switches: otherwise agreement would be cheap."""
    matrix = gossip_matrix(GRAPHS["cycle-5"])
    rewards = rewards_tape(len(matrix), 200, 3)
    runs = {
        name: NaiveDDUCB(naive_setup(VARIANTS[name], matrix, 3, 200), rewards).play().arms
        for name in (*PINNED, "remix", "remix-neighbors", "bonus-4", "agents-between")
    }
    assert len({str(arms) for arms in runs.values()}) == len(runs)

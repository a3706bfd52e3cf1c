"""Majority votes: UCB1 on a complete graph, the confidence bound, and the abstract's claims."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits import InputError, Network
from coopbandits.literature import majority_vote
from coopbandits.literature.models import Dice, vary
from coopbandits.literature.shahrampour2017 import confidence


def test_on_a_complete_graph_it_is_ucb1_with_n_rewards_per_pull() -> None:
    """A plain loop on the same rewards; agents agree, so the vote does not matter."""
    table = vary([0.6, 0.5, 0.3], 4, 0.2)
    dice, sums, counts, regret = Dice(7, 0), [0.0] * 3, [0] * 3, np.zeros(4)
    for t in range(1, 401):
        index = [
            sums[k] / (4 * counts[k]) + math.sqrt(2 * math.log(t) / (4 * counts[k]))
            if counts[k]
            else math.inf
            for k in range(3)
        ]
        arm = index.index(max(index))
        sums[arm] += sum(dice.uniform() < table[i, arm] for i in range(4))
        counts[arm] += 1
        regret += table[:, 0] - table[:, arm]
    result = majority_vote(table, Network.from_spec("complete:4"), 400, seed=7)
    assert result.agent_regret[0] == pytest.approx(regret)
    assert result.messages.tolist() == [400 * (12 + 12)]  # sums to neighbours, votes to all
    assert result.values.tolist() == [400 * (12 * 3 + 12)]


@pytest.mark.parametrize("spec", ["cycle:9", "path:6", "star:12", "complete:5"])
def test_the_confidence_bound_covers_weights_of_any_age(spec: str) -> None:
    """Bias and variance of every agent's sums, by powers of P, against b and n/N + v."""
    network = Network.from_spec(spec)
    agents = network.num_agents
    bias, variance = confidence(agents, network.lambda2)
    matrix, power = network.matrix.toarray(), np.eye(agents)
    apart, squares = np.zeros(agents), np.zeros(agents)
    for age in range(1, 300):
        power = power @ matrix
        # The most that means in [0, 1] can make of unequal weights.
        apart += np.maximum(power - 1 / agents, 0).sum(axis=1)
        squares += (power**2).sum(axis=1)
        assert (apart <= bias + 1e-9).all()
        assert (squares <= age / agents + variance + 1e-9).all()


@pytest.mark.plays
def test_it_finds_the_best_arm_on_average_though_it_is_nobodys_favourite() -> None:
    """Agents by themselves would vote for arms that are bad for the others."""
    table = np.array([[0.9, 0.1, 0.1, 0.6], [0.1, 0.9, 0.1, 0.6], [0.1, 0.1, 0.9, 0.6]])
    result = majority_vote(table, Network.from_spec("path:3"), 2000, runs=2)
    own_favourites = 3 * 2000 * (0.6 - 1.1 / 3)  # whichever of them wins the vote
    print(result.regret, own_favourites)
    assert (result.regret < 0.25 * own_favourites).all()
    assert (result.agent_regret < 0.5 * 2000 * 0.5).all()


@pytest.mark.plays
def test_regret_falls_with_agents_and_rises_as_the_spectral_gap_closes() -> None:
    means = [0.6, 0.3, 0.3]
    regret = {
        spec: majority_vote(
            vary(means, size, 0.2), Network.from_spec(f"{spec}:{size}"), 1500, runs=3
        ).regret.mean()
        / size
        for spec, size in (("path", 1), ("complete", 8), ("cycle", 8), ("path", 8))
        if (spec, size) != ("path", 1)
    }
    alone = majority_vote([means], Network.from_spec("path:1"), 1500, runs=3).regret.mean()
    print(regret, alone)
    assert 4 < alone / regret["complete"] < 16  # 8 agents
    assert regret["complete"] < regret["cycle"] < regret["path"]


@pytest.mark.slow
def test_regret_is_logarithmic() -> None:
    """Four times as many rounds add as much again, up to the part that does not grow."""
    table = vary([0.6, 0.4, 0.3], 6, 0.3)
    network = Network.from_spec("cycle:6")
    times = [1500, 6000, 24_000]
    regret = [majority_vote(table, network, t, runs=4).regret.mean() for t in times]
    steps = np.diff(regret)
    print(f"regret {regret}")
    assert steps[1] < 1.5 * steps[0]  # linear: 4 times


def test_bad_input_and_seeds() -> None:
    network = Network.from_spec("cycle:4")
    with pytest.raises(InputError, match=r"1 rows.* 4 agents"):
        majority_vote([[0.5, 0.4]], network, 10)
    with pytest.raises(InputError, match=r"horizon.* 0\b"):
        majority_vote([[0.5, 0.4]] * 4, network, 0)
    one, two, other = (
        majority_vote([[0.5, 0.45]] * 4, network, 200, runs=3, seed=s).regret for s in (1, 1, 2)
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)

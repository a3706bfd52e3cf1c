"""The audit's coop-UCB: the package's, and the one in which agents take turns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.core.choice import best_arm
from coopbandits.experiments.audit.coop_ucb import play_coop_ucb, play_coop_ucb_in_turns
from coopbandits.experiments.audit.tapes import Setting
from coopbandits.literature import CoopUCB
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit
from coopbandits.sim import simulate
from coopbandits.theory import epsilon_c

PROBLEM = GaussianBandit([1.0, 0.8, 0.5], sigma=0.7)


@pytest.mark.parametrize("graph", ["cycle:7", "grid:2x3", "complete:4"])
def test_without_deviations_it_is_the_package(graph: str) -> None:
    setting = Setting(PROBLEM, Network.from_spec(graph), 60, runs=2, seed=3)
    policy = CoopUCB(gamma=1.01)
    result = simulate(PROBLEM, setting.network, policy, 60, 2, 3, "reference", keep="arms")
    played = play_coop_ucb(setting, 1.01, epsilon_c(setting.network))
    np.testing.assert_array_equal(np.moveaxis(played, 0, 2), result.arms.values[0])


@pytest.mark.parametrize("graph", ["cycle:5", "grid:2x3"])
def test_turns_by_plain_loops(graph: str) -> None:
    network = Network.from_spec(graph)
    setting = Setting(PROBLEM, network, 40, runs=1, seed=1)
    epsilons, agents = epsilon_c(network), network.num_agents
    sums, counts = np.zeros((agents, 3)), np.zeros((agents, 3))
    expected = []
    for t in range(setting.horizon):
        for i in range(agents):
            if t < 3:
                arm = t
            else:
                share = (counts[i] + epsilons[i]) / (agents * counts[i])
                bonus = 0.7 * np.sqrt(2 * 1.01 * share * math.log(t) / counts[i])
                arm = best_arm(sums[i] / counts[i] + bonus)
            sums[i, arm] += PROBLEM.means[arm] + 0.7 * setting.tape()[t, 0, i]
            counts[i, arm] += 1
            sums, counts = network.matrix @ sums, network.matrix @ counts
            expected.append(arm)
    played = play_coop_ucb_in_turns(setting, 1.01, epsilons)
    assert played.ravel().tolist() == expected
    assert played.tolist() != play_coop_ucb(setting, 1.01, epsilons).tolist()

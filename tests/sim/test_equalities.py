"""Policies that must coincide, and small ones written out here, on both engines."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits import BernoulliBandit, GaussianBandit, Network, Problem, simulate
from coopbandits.core import parse_policy
from coopbandits.sim.tapes import REWARDS, agent_keys, tape_words, variates

pytestmark = pytest.mark.plays

GAUSSIAN = GaussianBandit([0.5, 1.0, 0.9, 0.8], sigma=0.6)
SINGLE = Network(nx.empty_graph(1))
SEED = 4

ENGINES = pytest.mark.parametrize("engine", ["reference", "cpu"])


def arms_of(
    problem: Problem, network: Network, spellings: list[str], horizon: int, engine: str
) -> Any:
    """Arms by (policy, run, agent, pull)."""
    policies = [parse_policy(text) for text in spellings]
    return simulate(problem, network, policies, horizon, 2, SEED, engine, keep="arms").arms.values


def rewards_of(problem: Problem, run: int, agents: int, horizon: int) -> Any:
    """What every arm would have paid: [agent, pull, arm]."""
    tape = variates(problem.variate, tape_words(agent_keys(SEED, REWARDS, run, agents), 0, horizon))
    arms = [np.full(tape.size, k) for k in range(problem.num_arms)]
    paid = [problem.rewards(k, tape.ravel()).reshape(tape.shape) for k in arms]
    return np.stack(paid, axis=-1)


@pytest.mark.covering(1)
@ENGINES
@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_dec_ts_on_a_complete_graph_is_central_ts(engine: str, family: str) -> None:
    """P = 11ᵀ/N averages exactly, so that all know everything from the second round on."""
    network = Network.from_spec("complete:7")
    assert np.allclose(network.matrix.toarray(), 1 / 7)
    problem = GAUSSIAN if family == "gaussian" else BernoulliBandit([0.3, 0.6, 0.5])
    names = [f"dec-ts:family={family}", f"central-ts:family={family}"]
    dec, central = arms_of(problem, network, names, 120, engine)
    assert np.array_equal(dec, central)
    assert len(np.unique(dec)) > 1


@ENGINES
def test_dec_ts_elsewhere_is_not_central_ts(engine: str) -> None:
    names = ["dec-ts", "central-ts"]
    dec, central = arms_of(GAUSSIAN, Network.from_spec("cycle:7"), names, 100, engine)
    assert not np.array_equal(dec, central)
    assert np.array_equal(dec[..., 0], central[..., 0])  # the first draw is from the prior


@ENGINES
def test_one_agent_under_a_central_ucb_is_independent(engine: str) -> None:
    names = ["central-ucb", "independent-ucb", "central-batched-ucb"]
    central, independent, batched = arms_of(GAUSSIAN, SINGLE, names, 400, engine)
    assert np.array_equal(central, independent)
    assert np.array_equal(batched, independent)


@ENGINES
def test_one_agent_of_dec_ts_is_independent(engine: str) -> None:
    names = ["dec-ts", "independent-ts", "central-ts"]
    dec, independent, central = arms_of(GAUSSIAN, SINGLE, names, 400, engine)
    assert np.array_equal(dec, independent)
    assert np.array_equal(dec, central)


@ENGINES
def test_coop_ucb_on_a_complete_graph_has_nothing_to_inflate(engine: str) -> None:
    """ε_c = 0: UCB on the network's totals with ln t, γ = 2 being the constant 4, all alike."""
    network = Network.from_spec("complete:5")
    (found,) = arms_of(GAUSSIAN, network, ["coop-ucb:gamma=2"], 150, engine)
    for run in range(2):
        rewards = rewards_of(GAUSSIAN, run, 5, 150)
        expected = batched_ucb(rewards, delay=0, scale=4 * 0.36, time=lambda t, n: t)
        assert found[run].tolist() == [expected] * 5


@ENGINES
@pytest.mark.parametrize("constant", [4.0, 0.5])
def test_ucb_network_on_a_complete_graph_is_a_batched_central_ucb(
    engine: str, constant: float
) -> None:
    """All see all pulls of the rounds before, but the logarithm is of rounds, not of pulls."""
    network = Network.from_spec("complete:5")
    (found,) = arms_of(GAUSSIAN, network, [f"ucb-network:constant={constant}"], 300, engine)
    for run in range(2):
        rewards = rewards_of(GAUSSIAN, run, 5, 300)
        expected = batched_ucb(rewards, delay=0, scale=constant * 0.36, time=lambda t, n: t)
        assert found[run].tolist() == [expected] * 5
        other = batched_ucb(rewards, delay=0, scale=constant * 0.36, time=lambda t, n: n)
        assert expected != other


@pytest.mark.covering(2)
@ENGINES
@pytest.mark.parametrize("graph", ["cycle:7", "star:6", "complete:5", "regular:3,10,seed=7"])
def test_mp_ucb_over_one_hop_is_ucb_network(engine: str, graph: str) -> None:
    names = ["ucb-network:constant=4", "mp-ucb:hop_limit=1", "mp-ucb:hop_limit=2"]
    near, one, two = arms_of(GAUSSIAN, Network.from_spec(graph), names, 150, engine)
    assert np.array_equal(near, one)
    assert np.array_equal(near, two) == (graph == "complete:5")


@ENGINES
def test_one_agent_that_hears_nobody_is_independent(engine: str) -> None:
    names = ["independent-ucb:constant=4", "ucb-network:constant=4", "mp-ucb:hop_limit=3"]
    independent, near, far = arms_of(GAUSSIAN, SINGLE, names, 400, engine)
    assert np.array_equal(independent, near)
    assert np.array_equal(independent, far)


@ENGINES
@pytest.mark.parametrize("gamma", [1.01, 3.0])
def test_one_agent_of_coop_ucb2_is_a_ucb_with_its_inflated_bonus(engine: str, gamma: float) -> None:
    (found,) = arms_of(GAUSSIAN, SINGLE, [f"coop-ucb2:gamma={gamma}"], 400, engine)
    for run in range(2):
        rewards = rewards_of(GAUSSIAN, run, 1, 400)[0]
        s, n, arms = np.zeros(4), np.zeros(4), []
        for t in range(400):
            arm = t
            if t >= 4:
                f = math.sqrt(math.log(t))
                bonus = 0.6 * np.sqrt(2 * gamma * (n + f) / n * math.log(t) / n)
                arm = int((s / n + bonus).argmax())
            s[arm] += rewards[t, arm]
            n[arm] += 1
            arms.append(arm)
        assert found[run, 0].tolist() == arms


def batched_ucb(rewards: Any, delay: int, scale: float, time: Any) -> list[int]:
    """All play the best arm by the statistics of `delay` rounds ago; ln time(t, all pulls)."""
    agents, horizon, num_arms = rewards.shape
    s, n = np.zeros((horizon + 1, num_arms)), np.zeros((horizon + 1, num_arms))
    arms: list[int] = []
    for t in range(horizon):
        seen, pulls = (s[t - delay], n[t - delay]) if t >= delay else (s[0], n[0])
        if (pulls == 0).any():
            arm = t % num_arms
        else:
            log = math.log(time(t, pulls.sum()))
            arm = int((seen / pulls + np.sqrt(scale * log / pulls)).argmax())
        s[t + 1], n[t + 1] = s[t], n[t]
        s[t + 1, arm] += rewards[:, t, arm].sum()
        n[t + 1, arm] += agents
        arms.append(arm)
    return arms


@ENGINES
@pytest.mark.parametrize(
    ("spelling", "delay"),
    [
        ("central-batched-ucb", 0),
        ("delayed-central-ucb:delay=1", 1),
        ("delayed-central-ucb:delay=13", 13),
    ],
)
def test_batched_and_delayed_central_ucb(engine: str, spelling: str, delay: int) -> None:
    (found,) = arms_of(GAUSSIAN, Network.from_spec("path:3"), [spelling], 250, engine)
    for run in range(2):
        rewards = rewards_of(GAUSSIAN, run, 3, 250)
        arms = batched_ucb(rewards, delay, 2 * 0.36, lambda t, pulls: pulls)
        assert found[run].tolist() == [arms] * 3
        other = batched_ucb(rewards, delay + 1, 2 * 0.36, lambda t, pulls: pulls)
        assert arms != other


@ENGINES
def test_central_and_independent_policies_do_not_hang_on_the_graph(engine: str) -> None:
    names = [
        "central-ucb", "central-batched-ucb", "central-ts", "delayed-central-ucb:delay=5",
        "independent-ucb", "independent-ts",
    ]  # fmt: skip
    cycle = arms_of(GAUSSIAN, Network.from_spec("cycle:6"), names, 60, engine)
    assert np.array_equal(cycle, arms_of(GAUSSIAN, Network.from_spec("star:6"), names, 60, engine))

"""One agent in Gymnasium: its checker passes, and the other agents play as in `simulate`."""

from __future__ import annotations

from typing import Any

import gymnasium
import networkx as nx
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import coopbandits as cb
from coopbandits.adapters import SingleBanditEnv
from coopbandits.adapters.gymnasium import ENV_ID
from coopbandits.sim.tapes import arm_order

HORIZON = 30
PATH = nx.relabel_nodes(nx.path_graph(3), {0: "a", 1: "b", 2: "c"})


@pytest.mark.parametrize(
    "settings",
    [{}, {"network": "cycle:5"}, {"network": cb.Network(PATH), "agent": "b", "others": "tree-ts"}],
    ids=["alone", "cycle", "path"],
)
def test_gymnasium_accepts_it(settings: dict[str, Any]) -> None:
    env = gymnasium.make(ENV_ID, problem="bernoulli:0.4,0.6", horizon=HORIZON, **settings)
    check_env(env.unwrapped)


@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*imum value is -?infinity")
def test_gymnasium_accepts_rewards_without_bounds() -> None:
    env = gymnasium.make(ENV_ID, problem="gaussian:1,0.8", network="path:3", horizon=HORIZON)
    check_env(env.unwrapped)


@pytest.mark.covering(2)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    "policy", [cb.DDUCB(), cb.TreeTS(), cb.GossipTS(), cb.UCBNetwork()], ids=str
)
def test_who_plays_the_policys_arms_plays_a_simulation(policy: Any, shuffle: bool) -> None:
    problem, network = cb.GaussianBandit([1.0, 0.8, 0.3]), cb.Network(PATH)
    result = cb.simulate(
        problem, network, policy, HORIZON, runs=2, seed=5, keep="arms", shuffle_arms=shuffle,
        engine="reference", rounds=[HORIZON],
    )  # fmt: skip
    env = SingleBanditEnv(problem, network, HORIZON, agent="b", others=policy, shuffle_arms=shuffle)
    for run in range(2):
        _, info = env.reset(seed=5 if run == 0 else None)
        order = arm_order(5, run, 3) if shuffle else np.arange(3)
        for arm in np.argsort(order)[result.dataset["arms"].values[0, run, 1]]:
            _, _, ended, over, info = env.step(arm)
        assert over and not ended
        assert info["network_regret"] == pytest.approx(float(result.regret[0, run, -1]))
        assert info["regret"] == pytest.approx(float(result.agent_regret[0, run, 1, -1]))


def test_others_hear_of_the_learners_pulls() -> None:
    """The hub of a star finds the best arm for all, if it tries what the others do not."""
    env = SingleBanditEnv("bernoulli:0.9,0.1", "path:2", HORIZON, others=cb.UCBNetwork())
    env.reset(seed=0)
    for _ in range(HORIZON):
        seen, *_ = env.step(1)
    counts = seen["counts"]
    assert counts[0].tolist() == [0, HORIZON]
    assert counts[1][1] <= 1  # knows arm 1 from the learner
    env = SingleBanditEnv("bernoulli:0.9,0.1", "path:2", HORIZON, others=cb.IndependentUCB())
    env.reset(seed=0)
    for _ in range(HORIZON):
        seen, *_ = env.step(1)
    assert seen["counts"][1][1] > 1


def test_rewards_and_observations_agree() -> None:
    env = SingleBanditEnv("bernoulli:0.9,0.5", horizon=3)
    seen, info = env.reset(seed=2)
    assert seen["arms"].tolist() == [2]
    assert (info["seed"], info["run"], info["regret"]) == (2, 0, 0.0)
    paid = []
    for arm in (1, 0, 1):
        seen, reward, _, over, info = env.step(arm)
        paid.append(reward)
    assert over
    assert seen["sums"].tolist() == [[paid[1], paid[0] + paid[2]]]
    assert info["regret"] == pytest.approx(0.8)


def test_environments_side_by_side_have_their_own_luck() -> None:
    envs = gymnasium.make_vec(
        ENV_ID, 4, vectorization_mode="sync", problem="bernoulli:0.5,0.5", horizon=HORIZON
    )
    envs.reset(seed=1)
    paid = np.array([envs.step(np.zeros(4, dtype=np.int64))[1] for _ in range(HORIZON - 1)])
    assert len({tuple(column) for column in paid.T}) == 4
    envs.close()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"others": "central-ucb"},
            "others.* 'central-ucb'",
        ),
        ({"others": 3}, r"others.* 3\b"),
        ({"agent": "z"}, r"'z'.* 0, 1\b"),
        ({"problem": "bernoulli"}, "bernoulli.*means"),
        ({"network": 4}, "network is 4"),
    ],
)
def test_bad_settings_are_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    given: dict[str, Any] = {"problem": "bernoulli:0.9,0.5", "network": "path:2"}
    with pytest.raises(cb.InputError, match=sentence):
        SingleBanditEnv(**given | settings)


def test_bad_steps_are_one_sentence() -> None:
    env = SingleBanditEnv("bernoulli:0.9,0.5", horizon=1)
    with pytest.raises(cb.InputError, match=r"reset\(\)"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(cb.InputError, match=r"action.* 2\b.* 0 to 1\b"):
        env.step(2)
    env.step(1)
    with pytest.raises(cb.InputError, match=r"1 rounds.*reset\(\)"):
        env.step(1)

"""Any problem × network in PettingZoo: its own tests pass, and rewards are those of `simulate`."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import coopbandits as cb
from coopbandits.adapters import ParallelBanditEnv
from coopbandits.sim.tapes import arm_order

HORIZON = 40
STAR = nx.relabel_nodes(nx.star_graph(3), {0: "hub", 1: "a", 2: "b", 3: "c"})
WORLDS: list[tuple[Any, Any]] = [
    (cb.BernoulliBandit([0.3, 0.7, 0.5]), cb.Network.from_spec("cycle:5")),
    (cb.GaussianBandit([1.0, 0.8]), cb.Network(STAR)),
    ("beta:a=2,1,b=1,3", "grid:2x3"),
    (cb.LoggedBandit([[1.0, 2.0], [0.5, 0.0]], reading="arms"), cb.Network(np.zeros((1, 1)))),
]
SETTINGS: list[dict[str, Any]] = [{}, {"shuffle_arms": True}, {"message_size": 3}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("world", WORLDS, ids=["cycle", "star", "grid", "alone"])
def test_pettingzoo_accepts_it(world: tuple[Any, Any], settings: dict[str, Any]) -> None:
    parallel_api_test(ParallelBanditEnv(*world, horizon=HORIZON, **settings), num_cycles=100)
    parallel_seed_test(lambda: ParallelBanditEnv(*world, horizon=HORIZON, **settings))


@pytest.mark.covering(1)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("world", WORLDS[:2], ids=["cycle", "star"])
def test_rewards_are_those_of_a_simulation(world: tuple[Any, Any], shuffle: bool) -> None:
    problem, network = world
    horizon = 300  # more than one chunk of the tape
    result = cb.simulate(
        problem, network, cb.DecTS(), horizon, runs=2, seed=5, keep="arms", shuffle_arms=shuffle,
        engine="reference", rounds=[horizon],
    )  # fmt: skip
    env = ParallelBanditEnv(problem, network, horizon, shuffle_arms=shuffle)
    for run in range(2):
        order = arm_order(5, run, problem.num_arms) if shuffle else np.arange(problem.num_arms)
        places = np.argsort(order)[result.dataset["arms"].values[0, run]]
        env.reset(seed=5 if run == 0 else None)
        paid = 0.0
        for arms in places.T:
            actions = dict(zip(env.possible_agents, arms, strict=True))
            _, rewards, _, truncations, infos = env.step(actions)
            paid += sum(rewards.values())
        assert all(truncations.values())
        info = infos[env.possible_agents[0]]
        assert (info["seed"], info["run"]) == (5, run)
        assert info["network_regret"] == pytest.approx(float(result.regret[0, run, -1]))
        lost = problem.means.max() * network.num_agents * horizon - paid
        assert lost == pytest.approx(float(result.realized_regret[0, run, -1]))


def test_an_agent_sees_itself_and_its_neighbours() -> None:
    env = ParallelBanditEnv(cb.GaussianBandit([1.0, 0.8]), cb.Network(STAR), HORIZON)
    assert env.possible_agents == ["hub", "a", "b", "c"]
    assert env.neighbors("hub") == ["a", "b", "c"]
    assert env.neighbors("b") == ["hub"]
    observations, _ = env.reset(seed=0)
    assert observations["b"]["arms"].tolist() == [2, 2]  # nobody has pulled yet
    _, first, *_ = env.step({"hub": 0, "a": 1, "b": 1, "c": 0})
    observations, second, *_ = env.step({"hub": 1, "a": 1, "b": 0, "c": 0})
    assert observations["b"]["arms"].tolist() == [0, 1]
    assert observations["b"]["rewards"].tolist() == [second["b"], second["hub"]]
    assert observations["b"]["counts"].tolist() == [[1, 1], [1, 1]]
    own, hub = observations["b"]["sums"].tolist()
    assert own == [second["b"], first["b"]]
    assert hub == [first["hub"], second["hub"]]
    assert observations["hub"]["counts"].tolist() == [[1, 1], [0, 2], [1, 1], [2, 0]]
    np.testing.assert_array_equal(env.state()[0], observations["hub"]["counts"])
    assert env.state() in env.state_space


def test_regret_of_an_agent_and_of_all() -> None:
    env = ParallelBanditEnv("bernoulli:0.9,0.5,0.4", "path:3", HORIZON)
    env.reset(seed=0)
    *_, infos = env.step({"0": 0, "1": 1, "2": 2})
    assert [infos[agent]["regret"] for agent in env.agents] == pytest.approx([0, 0.4, 0.5])
    assert infos["0"]["network_regret"] == pytest.approx(0.9)


def test_messages_reach_neighbours_in_the_next_round() -> None:
    env = ParallelBanditEnv("bernoulli:0.9,0.5", "path:3", HORIZON, message_size=2)
    observations, _ = env.reset(seed=0)
    assert not observations["0"]["messages"].any()
    said = {"0": [0.5, -1], "1": [0, 1], "2": [0.25, 0.25]}
    words = {agent: np.array(words, dtype=np.float32) for agent, words in said.items()}
    observations, *_ = env.step(
        {agent: {"arm": 0, "message": word} for agent, word in words.items()}
    )
    assert observations["0"]["messages"].tolist() == [said["0"], said["1"]]
    observations, _ = env.reset()
    assert not observations["0"]["messages"].any()


def test_what_is_observed_stays_as_it_was() -> None:
    env = ParallelBanditEnv("bernoulli:0.9,0.5", "path:2", HORIZON)
    before, _ = env.reset(seed=0)
    env.step({"0": 0, "1": 0})
    assert not before["0"]["counts"].any()
    before["0"]["counts"][:] = 99
    assert env.state()[0].sum() == 2


def test_episodes_go_on_with_the_next_run() -> None:
    env = ParallelBanditEnv("bernoulli:0.9,0.5", "path:2", HORIZON)
    told = [env.reset(seed=seed)[1]["0"] for seed in (3, None, None, 3)]
    assert [(info["seed"], info["run"]) for info in told] == [(3, 0), (3, 1), (3, 2), (3, 0)]


def test_without_a_seed_one_is_drawn_and_told() -> None:
    drawn = {ParallelBanditEnv("bernoulli:0.9,0.5", "path:2").reset()[1]["0"]["seed"] for _ in "ab"}
    assert len(drawn) == 2


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        (
            {"0": 0},
            r"'1'.* 0, 1\b",
        ),
        ({"0": 0, "1": 0, "x": 1}, r"'x'.* 0, 1\b"),
        ({"0": 0, "1": 2}, r"'1'.* 2\b.*Discrete\(2\)"),
        ({"0": 0, "1": 0.5}, r"'1'.* 0\.5\b.*Discrete\(2\)"),
    ],
)
def test_impossible_actions_change_nothing(actions: dict[str, Any], sentence: str) -> None:
    env = ParallelBanditEnv("bernoulli:0.9,0.5", "path:2", HORIZON)
    env.reset(seed=0)
    with pytest.raises(cb.InputError, match=sentence):
        env.step(actions)
    assert not env.state().any()


def test_an_episode_has_a_beginning_and_an_end() -> None:
    env = ParallelBanditEnv("bernoulli:0.9,0.5", "path:2", 1)
    with pytest.raises(cb.InputError, match=r"reset\(\)"):
        env.step({"0": 0, "1": 0})
    with pytest.raises(cb.InputError, match=r"reset\(\)"):
        env.state()
    env.reset(seed=0)
    env.step({"0": 0, "1": 0})
    assert env.agents == []
    with pytest.raises(cb.InputError, match=r"1 rounds.*reset\(\)"):
        env.step({"0": 0, "1": 0})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"network": nx.path_graph(2)}, r"cb\.Network\(graph\)"),
        ({"problem": 3}, r"problem.* 3\b"),
        ({"horizon": 0}, r"horizon.* 0\b"),
        ({"shuffle_arms": 1}, r"shuffle_arms.* 1\b"),
        ({"message_size": -1}, r"message_size.* -1\b"),
    ],
)
def test_bad_settings_are_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    given: dict[str, Any] = {"problem": "bernoulli:0.9,0.5", "network": "path:2"}
    with pytest.raises(cb.InputError, match=sentence):
        ParallelBanditEnv(**given | settings)


def test_bad_arguments_are_one_sentence() -> None:
    env = ParallelBanditEnv("bernoulli:0.9,0.5", "path:2")
    with pytest.raises(cb.InputError, match=r"seed.* -1\b"):
        env.reset(seed=-1)
    with pytest.raises(cb.InputError, match=r"'7'.* 0, 1\b"):
        env.neighbors("7")


@pytest.mark.parametrize("problem", ["linear:theta=1,0.5,num_arms=3", cb.LinearBandit([1.0], 3)])
def test_features_are_refused(problem: cb.Problem | str) -> None:
    with pytest.raises(cb.InputError, match="features"):
        ParallelBanditEnv(problem, "cycle:5", horizon=HORIZON)


def test_worlds_are_refused() -> None:
    world = cb.drift(cb.GaussianBandit([1.0, 0.8]), switch_every=5)
    with pytest.raises(cb.InputError, match="world"):
        ParallelBanditEnv(world, "cycle:5", horizon=HORIZON)

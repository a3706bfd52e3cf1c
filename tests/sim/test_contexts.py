"""Linear policies in simulations: equalities that hold to the arm, and what is counted."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits import (
    GaussianBandit,
    InputError,
    LinearBandit,
    Network,
    Policy,
    drift,
    parse_policy,
    simulate,
    sites,
    subsets,
)
from coopbandits.core.draws import normal_of, word_at
from coopbandits.sim.asynchronous import Run
from coopbandits.sim.clocks import PoissonClocks
from coopbandits.sim.record import Record, Task
from coopbandits.sim.setup import Setup
from coopbandits.sim.tapes import (
    CONTEXTS,
    DECISIONS,
    REWARDS,
    agent_keys,
    tape_words,
    variates,
)

pytestmark = pytest.mark.plays

SEED = 4
SIGMA = 0.5
MEANS = [0.5, 1.0, 0.9, 0.8]
LINEAR = LinearBandit([0.6, 0.0, 0.8], num_arms=4, sigma=SIGMA)
EACH = LinearBandit([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]], features="gaussian", sigma=SIGMA)
CYCLE = Network.from_spec("cycle:5")
COMPLETE = Network.from_spec("complete:5")
SINGLE = Network(nx.empty_graph(1))


def play(problem: Any, network: Network, texts: list[str], horizon: int, **more: Any) -> Any:
    policies = [parse_policy(text) for text in texts]
    settings: dict[str, Any] = {"runs": 2, "seed": SEED, "keep": "arms", "engine": "reference"}
    return simulate(problem, network, policies, horizon, **settings | more)


@pytest.mark.parametrize(
    ("aggregation", "network"),
    [
        ("local-sums", CYCLE),
        ("central-totals", CYCLE),
        ("running-consensus", CYCLE),
        ("staged-mixing", CYCLE),
        ("flooded-totals", COMPLETE),
        ("tree-sums", SINGLE),
        ("ledger-sums", SINGLE),
    ],
)
def test_one_hot_features_play_gaussian_thompson(aggregation: str, network: Network) -> None:
    """The same arms on the same tapes, pull by pull, and the same regret."""
    one_hot = LinearBandit(MEANS, 4, features=[np.eye(4)], sigma=SIGMA)
    linear = play(one_hot, network, [f"{aggregation}*lin-ts"], 60)
    plain = play(GaussianBandit(MEANS, SIGMA), network, [f"{aggregation}*normal-draw"], 60)
    assert np.array_equal(linear.arms, plain.arms)
    assert np.allclose(linear.regret, plain.regret, rtol=1e-12)
    assert np.allclose(linear.realized_regret, plain.realized_regret, rtol=1e-9)
    assert np.allclose(linear.worst_regret, plain.worst_regret, rtol=1e-12)
    assert len(np.unique(linear.arms)) > 1


@pytest.mark.parametrize("index", ["lin-ts", "lin-ucb:scale=0.3", "lin-ts:disjoint=true"])
def test_a_flood_on_a_complete_graph_is_central(index: str) -> None:
    problem = EACH if "disjoint" in index else LINEAR
    result = play(problem, COMPLETE, [f"flooded-totals*{index}", f"central-totals*{index}"], 50)
    flood, central = result.arms.values
    assert np.array_equal(flood, central)
    elsewhere = play(problem, CYCLE, [f"flooded-totals*{index}"], 50).arms.values
    assert not np.array_equal(flood, elsewhere[0])


@pytest.mark.parametrize("rule", ["growth=1e-12", "threshold=1e-12"])
def test_a_server_that_is_told_everything_is_central(rule: str) -> None:
    texts = [f"server-totals:{rule}*lin-ts", "central-totals*lin-ts"]
    result = play(LINEAR, CYCLE, texts, 40)
    server, central = result.arms.values
    assert np.array_equal(server, central)
    up_and_down = 2 * 5 * 40
    assert result.dataset["messages_sent"].values[:, 0].tolist() == [up_and_down, 0]
    assert result.values_sent.values[:, 0].tolist() == [10 * up_and_down, 0]


def test_a_server_that_is_told_seldom_is_told_less() -> None:
    texts = [
        "server-totals:growth=0.5*lin-ucb:scale=0.3",
        "server-totals:growth=2*lin-ucb:scale=0.3",
    ]
    sent = play(LINEAR, CYCLE, texts, 60).dataset["messages_sent"]
    often, seldom = sent.values.mean(axis=1)
    assert 0 < seldom < often < 2 * 5 * 60


def alone(problem: LinearBandit, run: int, horizon: int) -> list[int]:
    """Linear Thompson sampling of one agent, written out."""
    keys = [agent_keys(SEED, stream, run, 1) for stream in (REWARDS, DECISIONS, CONTEXTS)]
    noise = variates("normal", tape_words(keys[0], 0, horizon))[0]
    decisions = tape_words(keys[1], 0, horizon)[0].tolist()
    size = problem.num_features
    matrix, b = SIGMA**2 * np.eye(size), np.zeros(size)
    arms = []
    for t in range(horizon):
        x = problem.features.draw(keys[2], t, 1)[0, 0]
        z = [normal_of(word_at(decisions[t], j)) for j in range(size)]
        drawn = np.linalg.solve(matrix, b)
        drawn += SIGMA * np.linalg.solve(np.linalg.cholesky(matrix).T, z)
        arms.append(int(np.argmax(x @ drawn)))
        played = x[arms[-1]]
        matrix += np.outer(played, played)
        b += played * (played @ problem.theta + SIGMA * noise[t])
    return arms


@pytest.mark.parametrize(
    "aggregation",
    [
        *("local-sums", "tree-sums", "ledger-sums", "flooded-totals", "running-consensus"),
        "central-totals",
    ],
)
def test_one_agent_is_the_single_agent_algorithm(aggregation: str) -> None:
    result = play(LINEAR, SINGLE, [f"{aggregation}*lin-ts"], 80)
    for run in range(2):
        assert result.arms.values[0, run, 0].tolist() == alone(LINEAR, run, 80)


def test_regret_is_against_the_best_arm_in_the_context() -> None:
    result = play(LINEAR, CYCLE, ["flooded-totals*lin-ts", "independent-ts"], 40)
    for policy in range(2):
        for run in range(2):
            keys = agent_keys(SEED, CONTEXTS, run, 5)
            means = LINEAR.expected(LINEAR.features.draw(keys, 0, 40))
            arms = result.arms.values[policy, run]
            lost = means.max(axis=2) - np.take_along_axis(means, arms[..., None], 2)[..., 0]
            assert np.allclose(result.regret.values[policy, run, -1], lost.sum())
            assert np.allclose(result.worst_regret.values[policy, run, -1], lost.sum(1).max())
            assert np.allclose(result.agent_regret.values[policy, run, :, -1], lost.sum(axis=1))
    assert np.array_equal(result.regret, result.global_regret)
    told, blind = result.regret.values[..., -1].mean(axis=1)
    assert told < 0.5 * blind  # a policy that looks at no features plays in the dark


def test_shuffled_arms_change_the_order_alone() -> None:
    """Arms with models of their own keep them; the regret of a run is counted as before."""
    result = play(EACH, CYCLE, ["flooded-totals*lin-ts:disjoint=true"], 60, shuffle_arms=True)
    for run in range(2):
        means = EACH.expected(EACH.features.draw(agent_keys(SEED, CONTEXTS, run, 5), 0, 60))
        arms = result.arms.values[0, run]
        lost = means.max(axis=2) - np.take_along_axis(means, arms[..., None], 2)[..., 0]
        assert np.allclose(result.regret.values[0, run, -1], lost.sum())


MOVED = {20: [0.0, 1.0, 0.0]}


def means_of(theta: Any, run: int, horizon: int) -> Any:
    """What every arm of LINEAR pays with another θ per agent and round."""
    drawn = LINEAR.features.draw(agent_keys(SEED, CONTEXTS, run, 5), 0, horizon)
    return (drawn * np.asarray(theta)[:, :, None, :]).sum(axis=-1)


def test_theta_may_drift() -> None:
    """Regret follows the θ of the moment, and forgetting pays."""
    texts = ["flooded-totals:discount=0.9*lin-ts", "flooded-totals*lin-ts", "independent-ts"]
    result = play(drift(LINEAR, MOVED), CYCLE, texts, 60)
    theta = np.tile(LINEAR.theta, (5, 60, 1))
    theta[:, 20:] = MOVED[20]
    for run in range(2):
        means = means_of(theta, run, 60)
        for policy in range(3):
            arms = result.arms.values[policy, run]
            lost = means.max(axis=2) - np.take_along_axis(means, arms[..., None], 2)[..., 0]
            assert np.allclose(result.regret.values[policy, run, -1], lost.sum())
            assert np.allclose(result.agent_regret.values[policy, run, :, -1], lost.sum(axis=1))
    forgets, remembers, _ = result.regret.values[..., -1].mean(axis=1)
    assert forgets < remembers
    assert np.array_equal(result.regret, result.global_regret)


def test_sites_may_have_models_of_their_own() -> None:
    groups = [[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]]
    result = play(
        sites(LINEAR, groups=groups, of=[0, 1, 1, 0, 1]), CYCLE, ["local-sums*lin-ts"], 40
    )
    theta = np.array(groups)[[0, 1, 1, 0, 1]][:, None].repeat(40, axis=1)
    common = np.broadcast_to(theta.mean(axis=0, keepdims=True), theta.shape)
    for run in range(2):
        arms = result.arms.values[0, run][..., None]
        for name, told in (("regret", theta), ("global_regret", common)):
            means = means_of(told, run, 40)
            lost = means.max(axis=2) - np.take_along_axis(means, arms, 2)[..., 0]
            assert np.allclose(result.dataset[name].values[0, run, -1], lost.sum())
    curves = play(sites(LINEAR, 0.1), CYCLE, ["local-sums*lin-ts"], 5, keep="curves")
    assert "site_ratio" not in curves.dataset


def test_agents_may_have_some_arms_only() -> None:
    world = subsets(LINEAR, [[0, 1], [1, 2, 3]])
    result = play(world, CYCLE, ["tree-sums*lin-ts"], 40, shuffle_arms=True)
    for run in range(2):
        arms = result.arms.values[0, run]
        may = np.array([[True, True, False, False], [False, True, True, True]])[[0, 1, 0, 1, 0]]
        assert np.take_along_axis(may, arms, 1).all()
        means = means_of(np.tile(LINEAR.theta, (5, 40, 1)), run, 40)
        best = np.where(may[:, None], means, -np.inf).max(axis=2)
        lost = best - np.take_along_axis(means, arms[..., None], 2)[..., 0]
        assert np.allclose(result.regret.values[0, run, -1], lost.sum())


def test_a_world_without_a_change_is_the_plain_problem() -> None:
    texts = ["flooded-totals*lin-ts", "central-totals*lin-ts", "dducb"]
    plain = play(LINEAR, CYCLE, texts, 30)
    for world in (drift(LINEAR, {10: LINEAR.theta}), sites(LINEAR, 0.0)):
        same = play(world, CYCLE, texts, 30)
        assert np.array_equal(same.arms, plain.arms)
        assert np.allclose(same.regret, plain.regret, rtol=1e-12)
        assert np.allclose(same.global_regret, plain.regret, rtol=1e-9)


def test_messages_are_counted() -> None:
    """d(d + 3)/2 + 1 registers, and 6 values more on a tree once agents are counted."""
    result = play(LINEAR, CYCLE, ["running-consensus*lin-ts", "tree-sums*lin-ts"], 30)
    consensus, tree = result.values_sent.values[:, 0]
    assert consensus == 30 * 10 * 10
    assert tree >= 30 * 10 * 16


def test_faults_go_with_features() -> None:
    text = "loss=0.4,sleep=0.2,crash=0.4@20..30"
    result = play(LINEAR, CYCLE, ["tree-sums*lin-ts", "flooded-totals*lin-ucb"], 60, faults=text)
    assert np.isfinite(result.regret).all()
    assert (result.arms.values == -1).any()


def told() -> Policy:
    policy = parse_policy("tree-sums*lin-ts")
    assert isinstance(policy, Policy)
    return policy


def noting(observe: Any, memory: list[Any]) -> Any:
    def observed(arm: int, reward: float, context: Any) -> None:
        memory.append((arm, context.copy()))
        observe(arm, reward, context)

    return observed


@pytest.mark.parametrize("world", ["plain", "moves", "differs"])
def test_equal_regular_clocks_are_rounds(world: str) -> None:
    """Agents pull once between any two whole times: in the same contexts, at the same cost."""
    problem = {
        "plain": LINEAR,
        "moves": drift(LINEAR, MOVED),
        "differs": subsets(sites(LINEAR, 0.5), [[0, 1], [1, 2, 3]]),
    }[world]
    call: dict[str, Any] = {"keep": "agents", "rounds": range(1, 31), "shuffle_arms": True}
    texts = ["local-sums*lin-ts", "local-sums*lin-ucb", "independent-ts"]
    rounds, clocks = (
        play(problem, CYCLE, texts, 30, clocks=given, **call) for given in (None, "regular")
    )
    assert np.array_equal(rounds.dataset["agent_pulls"], clocks.dataset["agent_pulls"])
    for name in ("regret", "global_regret", "worst_regret", "realized_regret"):
        np.testing.assert_allclose(rounds.dataset[name], clocks.dataset[name], rtol=1e-9)


def test_every_pull_of_an_own_clock_meets_a_request_of_its_own() -> None:
    """The features of a pull are those of its number, however long the agent waited for it."""
    seen: dict[int, list[Any]] = {0: [], 1: []}
    setup = Setup(LINEAR, Network.from_spec("path:2"), 150, np.array([150]), clocks=PoissonClocks())
    task = Task(setup, told())
    run = Run(task, task.clocks, 0)  # type: ignore[arg-type]  # there are some
    for agent, memory in seen.items():
        me = run.agents[agent]
        me.observe = noting(me.observe, memory)  # type: ignore[method-assign]  # the test's own instead
    run.play(Record.empty(task, 1), 0, lambda pulls: None)
    keys = agent_keys(0, CONTEXTS, 0, 2)
    for agent, memory in seen.items():
        assert len(memory) > 100  # more than are drawn in one go
        drawn = LINEAR.features.draw(keys, 0, len(memory))[agent]
        for pull, (arm, x) in enumerate(memory):
            assert np.array_equal(drawn[pull, arm], x)


def test_talking_pays_on_own_clocks() -> None:
    texts = ["tree-sums*lin-ts", "local-sums*lin-ts", "central-totals*lin-ts"]
    result = play(LINEAR, COMPLETE, texts, 150, clocks="poisson:ratio=4", keep="agents")
    tree, alone, central = result.regret.values[..., -1].mean(axis=1)
    assert central < tree < alone


@pytest.mark.parametrize(
    ("problem", "text", "more", "sentence"),
    [
        (GaussianBandit([1, 0]), "tree-sums*lin-ts", {}, "features.*GaussianBandit"),
        (EACH, "tree-sums*lin-ts", {}, "one model"),
        (LINEAR, "tree-sums*lin-ts", {"stop": 0.9}, "best arm"),
    ],
)
def test_what_does_not_go_together_is_refused(
    problem: Any, text: str, more: Any, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        play(problem, CYCLE, [text], 5, **more)

"""Kernels of linear models play the reference engine's arms, and count what it counts."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits import LinearBandit, Network, parse_policy, simulate, sites, subsets
from coopbandits.core.draws import normals, words
from coopbandits.sim.cpu import linear
from coopbandits.sim.cpu.flooding import find_balls
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup

pytestmark = pytest.mark.plays

CYCLE = Network.from_spec("cycle:7")
DRAWN = normals(words(5, np.arange(54, dtype=np.uint64)))

PROBLEMS = {
    "sphere": LinearBandit([0.6, 0.8, 0.0], num_arms=4, sigma=0.5),
    "gaussian": LinearBandit([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], features="gaussian"),
    "rows": LinearBandit([0.6, 0.8], num_arms=3, features=DRAWN.reshape(27, 2)),
    "contexts": LinearBandit([0.6, 0.8], num_arms=3, features=DRAWN.reshape(9, 3, 2)),
}
CURVES = ("regret", "global_regret", "worst_regret", "realized_regret", "agent_regret")
COUNTS = ("values_sent", "messages_sent", "agent_pulls", "pulls", "arms")


def assert_equal(problem: LinearBandit, text: str, horizon: int = 60, **more: Any) -> None:
    """Compare both engines in all that they record."""
    policy = parse_policy(text)
    slow, fast = (
        simulate(problem, CYCLE, policy, horizon, 2, 4, engine, keep="arms", rounds=7, **more)
        for engine in ("reference", "cpu")
    )
    assert fast.meta["engines"] == ["cpu"]
    for name in COUNTS:
        assert np.array_equal(slow.dataset[name], fast.dataset[name]), name
    for name in CURVES:
        assert np.allclose(slow.dataset[name], fast.dataset[name], rtol=1e-9, atol=1e-9), name
    assert len(np.unique(fast.arms)) > 1


@pytest.mark.covering
@pytest.mark.parametrize("aggregation", ["local-sums", "flooded-totals", "tree-sums"])
@pytest.mark.parametrize(
    ("problem", "index", "shuffle"),
    [
        ("sphere", "lin-ts", False),
        ("sphere", "lin-ucb:scale=0.3", True),
        ("gaussian", "lin-ts:disjoint=true", True),
        ("rows", "lin-ucb:disjoint=true,scale=0.2", False),
        ("contexts", "lin-ts", True),
    ],
)
def test_same_arms(aggregation: str, problem: str, index: str, shuffle: bool) -> None:
    assert_equal(PROBLEMS[problem], f"{aggregation}*{index}", shuffle_arms=shuffle)


def test_trees_under_faults() -> None:
    faults = "loss=0.3,sleep=0.2,crash=0.4@20..30"
    assert_equal(PROBLEMS["sphere"], "tree-sums*lin-ts", 80, faults=faults)


def test_spans_and_threads_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, problem = parse_policy("flooded-totals*lin-ts"), PROBLEMS["sphere"]
    whole = simulate(problem, CYCLE, policy, 40, 3, threads=1)
    monkeypatch.setattr(linear, "SPAN_PULLS", 50)
    assert np.array_equal(whole.regret, simulate(problem, CYCLE, policy, 40, 3).regret)


@pytest.mark.parametrize("graph", ["path:9", "star:6", "grid:3x4", "regular:3,14", "single:1"])
def test_what_is_sent_settles(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted of the first rounds and goes on alike, beside all rounds counted."""
    network = Network.from_spec(graph) if graph != "single:1" else Network(nx.empty_graph(1))
    policy = parse_policy("flooded-totals*lin-ts")
    task = Task(Setup(PROBLEMS["sphere"], network, 40, np.array([3, 9, 20, 40])), policy)
    hops = find_balls(network, network.num_agents).starts.shape[1] - 1
    quick = linear.count_entries(task, 10, hops)
    monkeypatch.setattr(linear, "SETTLED", 40)
    assert np.array_equal(quick, linear.count_entries(task, 10, hops))


@pytest.mark.parametrize(
    ("text", "more"), [("flooded-totals*lin-ts", {"faults": "loss=0.1"}), ("flood-ts", {})]
)
def test_what_the_kernel_does_not_play_the_driver_does(text: str, more: Any) -> None:
    assert_equal(PROBLEMS["sphere"], text, **more)


@pytest.mark.parametrize(
    "world",
    [
        sites(PROBLEMS["sphere"], groups=[[0.0, 0.0, 1.0]]),
        subsets(PROBLEMS["sphere"], [[0, 1, 2, 3]]),
    ],
    ids=["one group", "all arms"],
)
@pytest.mark.parametrize(
    "text",
    ["local-sums*lin-ts", "tree-sums*lin-ts", "central-totals*lin-ts", "flooded-totals*lin-ts"],
)
def test_worlds_of_one_group_are_played_as_they_are(world: Any, text: str) -> None:
    """Their coefficients are the world's, not those of the problem that it is made of."""
    assert_equal(world, text)

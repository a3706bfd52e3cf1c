"""The GPU engine plays the arms of the reference engine: aggregations, indices, graphs, worlds."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.aggregate import LocalSums, RunningConsensus, StagedMixing
from coopbandits.core.index import KLUCB, UNIT_REWARDS, BayesUCB, Index, TopTwo
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import INDICES, parse_policy
from coopbandits.core.statistic import ArmSums
from coopbandits.literature import InflatedUCB
from coopbandits.sim.cpu import staged
from coopbandits.sim.gpu import rounds

pytestmark = pytest.mark.plays

MEANS = [0.5, 1.0, 0.8, 0.9]
GAUSSIAN = cb.GaussianBandit(MEANS, sigma=0.7)
BINARY = cb.BernoulliBandit([0.3, 0.6, 0.55, 0.1])
NAMES = ("arms", "agent_pulls", "pulls", "values_sent", "messages_sent")


def check(
    problem: cb.Problem, network: cb.Network, policy: AnyPolicy, horizon: int, **more: Any
) -> cb.Result:
    """Play on both engines; whole numbers agree exactly, sums of rewards to 1e-9."""
    expected, found = (
        cb.simulate(problem, network, policy, horizon, 2, 5, engine, keep="arms", **more)
        for engine in ("reference", "gpu")
    )
    assert (found.meta["engines"], expected.meta["engines"]) == (["gpu"], ["reference"])
    for name in NAMES:
        assert np.array_equal(found.dataset[name], expected.dataset[name]), name
    for name in ("regret", "realized_regret", "worst_regret"):
        if name in expected.dataset:
            np.testing.assert_allclose(
                found.dataset[name], expected.dataset[name], rtol=1e-9, atol=1e-9, err_msg=name
            )
    return found


@pytest.fixture(params=["dense", "sparse"])
def mixing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mix stages in either way."""
    is_dense = request.param == "dense"
    monkeypatch.setattr(staged, "is_dense_cheaper", lambda *_: is_dense)


@pytest.mark.covering(4)
@pytest.mark.usefixtures("mixing")
@pytest.mark.parametrize(
    "text",
    [
        "dducb",
        "dducb:own_pulls=false",
        "dducb:accelerated=false,mixing_rounds=9",
        "dducb:remix=true,mixing_rounds=3",
        "dducb:mixing_rounds=1",
        "dducb:values_per_message=3",
    ],
)
def test_stages(text: str) -> None:
    check(GAUSSIAN, cb.Network.from_spec("grid:2x4"), parse_policy(text), 79)


@pytest.mark.covering(1)
@pytest.mark.usefixtures("mixing")
@pytest.mark.parametrize("num_arms", [1, 2, 17, 33])
def test_stages_with_few_and_many_arms(num_arms: int) -> None:
    problem = cb.GaussianBandit(np.linspace(0.0, 1.0, num_arms))
    check(problem, cb.Network.from_spec("regular:3,38,seed=1"), cb.DDUCB(mixing_rounds=9), 90)


GRAPHS = {
    "single": cb.Network(nx.empty_graph(1)),
    "two": cb.Network.from_spec("complete:2"),
    "irregular": cb.Network.from_spec("star:6", weights="metropolis"),
    "more than a warp": cb.Network.from_spec("regular:3,70,seed=1"),
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("text", ["dducb", "dec-ts", "coop-ucb2:gamma=1.01", "independent-ts"])
def test_graphs(text: str, graph: str) -> None:
    check(GAUSSIAN, GRAPHS[graph], parse_policy(text), 45)


@pytest.mark.covering(2)
@pytest.mark.parametrize("num_arms", [1, 2, 17, 33])
def test_consensus_with_few_and_many_arms(num_arms: int) -> None:
    problem = cb.GaussianBandit(np.linspace(0.0, 1.0, num_arms))
    check(problem, cb.Network.from_spec("star:9"), parse_policy("dec-ts"), 40)


@pytest.mark.covering(2)
@pytest.mark.parametrize("graph", GRAPHS)
def test_consensus_round_by_round(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on graphs that do not fit into shared memory."""
    monkeypatch.setattr(rounds, "MOST_THREADS", 0)
    check(GAUSSIAN, GRAPHS[graph], parse_policy("dec-ts"), 45)


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    "text",
    [
        "central-batched-ucb",
        "central-ts",
        "central-totals:delay=3*ucb",
        "central-totals:delay=2*normal-draw",
    ],
)
def test_central_totals(text: str) -> None:
    check(PROBLEMS["sites"], cb.Network.from_spec("cycle:37"), parse_policy(text), 50)


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    "text",
    [
        "dducb:discount=0.97,mixing_rounds=9",
        "dec-ts:discount=0.9",
        "local-sums:discount=0.9*ucb",
        "central-totals:delay=2,discount=0.9*normal-draw",
    ],
)
def test_agents_that_forget(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In short spans, so that what is remembered is brought from the units of one to the next's."""
    monkeypatch.setattr("coopbandits.sim.cpu.runs.LARGEST", 20.0)
    check(GAUSSIAN, cb.Network.from_spec("grid:2x4"), parse_policy(text), 70)


def test_agents_that_forget_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MOST_THREADS", 0)
    network = cb.Network.from_spec("regular:4,37,seed=1")
    check(GAUSSIAN, network, parse_policy("dec-ts:discount=0.9"), 30)


def test_own_sums_over_a_long_time() -> None:
    """Leads change hands thousands of times, while arms are looked at only when they may."""
    check(GAUSSIAN, cb.Network.from_spec("path:3"), parse_policy("independent-ucb"), 1500)


INDEX_FORMS: tuple[Index, ...] = (
    *(kind() for kind in INDICES if kind().statistic == ArmSums()),  # it plays no squares
    InflatedUCB(2.0, "closed"),
    BayesUCB("bernoulli"),
    KLUCB("bernoulli"),
    TopTwo(family="bernoulli"),
)
AGGREGATIONS = (StagedMixing(mixing_rounds=3), RunningConsensus(), LocalSums())


@pytest.mark.covering(6)
@pytest.mark.parametrize("at", range(len(INDEX_FORMS)), ids=lambda at: INDEX_FORMS[at].spelling)
def test_every_index(at: int) -> None:
    """Each on one aggregation in turn; every program takes seconds to build."""
    index, aggregation = INDEX_FORMS[at], AGGREGATIONS[at % len(AGGREGATIONS)]
    is_binary = index.support == UNIT_REWARDS
    policy = cb.combine(aggregation, index)
    check(BINARY if is_binary else GAUSSIAN, cb.Network.from_spec("cycle:7"), policy, 40)


LOG = [[1.0, 2.0, 0.0], [0.5, 1.5, float("nan")], [0.0, 1.0, 2.0], [1.0, float("nan"), 1.0]]
PROBLEMS: dict[str, cb.Problem] = {
    "uniform": BINARY,
    "cells": cb.BetaBandit([2.0, 0.7, 3.0], [2.0, 0.5, 1.0]),
    "values": cb.LoggedBandit(LOG, reading="wide"),
    "ties": cb.LoggedBandit([[0.1]] * 3, sigma=0.5, reading="arms"),
    "drift": cb.drift(cb.GaussianBandit(MEANS), switch_every=13),
    "sites": cb.sites(cb.GaussianBandit(MEANS), spread=0.3),
}


@pytest.mark.covering(4)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("text", ["dducb", "dec-ts"])
def test_rewards_and_worlds(text: str, name: str) -> None:
    check(PROBLEMS[name], cb.Network.from_spec("path:5"), parse_policy(text), 60)


def test_arms_in_another_order_in_every_run() -> None:
    network = cb.Network.from_spec("cycle:5")
    check(GAUSSIAN, network, cb.DDUCB(), 60, shuffle_arms=True)


@pytest.mark.covering
@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("text", ["dducb", "dec-ts", "independent-ucb"])
def test_fewer_rounds_than_arms(text: str, horizon: int) -> None:
    with pytest.warns(UserWarning, match=f"horizon {horizon}"):
        check(GAUSSIAN, cb.Network.from_spec("cycle:5"), parse_policy(text), horizon)

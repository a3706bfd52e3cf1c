"""Rivals as teams play what the reference engine plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pytest

import coopbandits as cb
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup, recorded_rounds
from coopbandits.sim.teams import ENGINE

COINS = cb.BernoulliBandit([0.5, 0.8, 0.3, 0.6])
NORMAL = cb.GaussianBandit([0.5, 1.0, 0.8], sigma=0.6)
LONELY = nx.star_graph(4)
LONELY.add_edge(1, 2)  # agents with one neighbour, with two, and with all

NETWORKS = {
    "cycle": cb.Network.from_spec("cycle:7"),
    "uneven": cb.Network(LONELY),
    "single": cb.Network(nx.empty_graph(1)),
}
POLICIES = (
    cb.Exp3Coop(),
    cb.Exp3Coop(hop_limit=0, eta=0.3),
    cb.Exp3Coop(hop_limit=3),
)


def play(policy: Any, network: str, problem: cb.Problem, **changed: Any) -> cb.Result:
    settings: dict[str, Any] = {"horizon": 130, "runs": 2, "seed": 3, "keep": "arms"}
    return cb.simulate(
        problem, NETWORKS[network], policy, **(settings | {"progress": False} | changed)
    )


def assert_same(left: cb.Result, right: cb.Result) -> None:
    assert set(left.dataset) == set(right.dataset)
    for name in left.dataset:
        one, other = left.dataset[name].values, right.dataset[name].values
        if name in ("regret", "realized_regret"):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        else:
            assert np.array_equal(one, other), name


@pytest.mark.covering(8)
@pytest.mark.plays
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.spelling)
def test_plays_the_same_as_the_reference_engine(policy: Any, network: str) -> None:
    """Arms, values and messages in every round that is recorded."""
    problem = COINS if "bernoulli" in policy.spelling or network == "uneven" else NORMAL
    found = play(policy, network, problem, shuffle_arms=True)
    assert found.meta["engines"] == ["teams"]
    assert_same(found, play(policy, network, problem, shuffle_arms=True, engine="reference"))


@dataclass(frozen=True)
class Lazy(cb.Exp3Coop):
    """A subclass with agents of its own inherits a team that is not theirs."""

    def make_agent(self, view: cb.LocalView) -> Any:
        return cb.IndependentUCB().make_agent(view)


def test_a_team_is_not_inherited_by_what_is_played_otherwise() -> None:
    setup = Setup(COINS, NETWORKS["cycle"], 5, recorded_rounds(5))
    assert ENGINE.obstacle(Task(setup, Lazy())) == "has no team"


def test_says_what_has_no_team() -> None:
    setup = Setup(cb.subsets(COINS, [[0, 1], [1, 2, 3]]), NETWORKS["cycle"], 5, recorded_rounds(5))
    assert ENGINE.obstacle(Task(setup, cb.Exp3Coop())) == (
        "has no team for agents that may not play all arms"
    )
    assert ENGINE.obstacle(Task(setup, cb.FedUCB(1.0, 5))) == "has no team"
    lost = Setup(
        COINS, NETWORKS["cycle"], 5, recorded_rounds(5), faults=cb.parse_faults("loss=0.1")
    )
    assert ENGINE.obstacle(Task(lost, cb.Exp3Coop())) == ("has no team for faults loss=0.1")

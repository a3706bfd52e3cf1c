"""Top-two sampling identifies the best arm: its share tends to β, and it stops early."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import coopbandits as cb
from coopbandits.core.index.posterior import transportation_cost
from coopbandits.core.registry import parse_policy

DOCUMENTED = cb.BernoulliBandit([0.7, 0.4, 0.4, 0.3])
"""As on the page on recommendations."""

CYCLE = cb.Network.from_spec("cycle:10")


def share_of_best(problem: cb.Problem, policy: str, horizon: int) -> float:
    result = cb.simulate(problem, CYCLE, parse_policy(policy), horizon, 2, 1, "cpu", progress=False)
    assert result.meta["engines"] == ["cpu"]
    pulls = result.pulls.values[0].sum(axis=0)
    return float(pulls[problem.means.argmax()] / pulls.sum())


def test_half_of_the_pulls_go_to_the_best_arm() -> None:
    found = share_of_best(DOCUMENTED, "flooded-totals*top-two:family=bernoulli", 1000)
    assert found == pytest.approx(0.5, abs=0.02)  # 20 000 pulls: five standard deviations


def stopped_at(policy: str, network: cb.Network, horizon: int, runs: int) -> NDArray[np.int64]:
    result = cb.simulate(
        DOCUMENTED, network, parse_policy(policy), horizon, runs, 3, stop=0.95, progress=False
    )
    assert not result.stops.stop_wrong.any()
    rounds: NDArray[np.int64] = result.stops.stop_round.values.ravel()
    assert (rounds >= 0).all(), "all agents stop"
    return rounds


UNIFORM = "epsilon-greedy:constant=1e9"


def test_it_stops_before_uniform_play() -> None:
    """Ten agents that hear of all pulls."""
    first, second = (
        stopped_at(f"flooded-totals*{index}", CYCLE, 400, 8)
        for index in ("top-two:family=bernoulli", UNIFORM)
    )
    assert first.mean() < 0.85 * second.mean()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_single_agents_stop_before_uniform_play(family: str) -> None:
    first, second = (
        stopped_at(f"local-sums*{index}", cb.Network.from_spec("cycle:4"), 5000, 40)
        for index in (f"top-two:family={family}", UNIFORM)
    )
    assert first.mean() < 0.8 * second.mean()


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", ["local-sums", "flooded-totals", "running-consensus"])
@pytest.mark.parametrize("beta", [0.25, 0.5, 0.8])
@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_the_best_arms_share_tends_to_beta(aggregation: str, beta: float, family: str) -> None:
    problem = DOCUMENTED if family == "bernoulli" else cb.GaussianBandit([0.9, 0.5, 0.4])
    policy = f"{aggregation}*top-two:beta={beta},family={family}"
    assert share_of_best(problem, policy, 20_000) == pytest.approx(beta, abs=0.01)


@pytest.mark.slow
def test_other_arms_are_pulled_in_the_optimal_proportions() -> None:
    """Given β, the evidence against all other arms is asymptotically equal (Russo 2016)."""
    result = cb.simulate(
        DOCUMENTED, CYCLE, parse_policy("flooded-totals*top-two:family=bernoulli"), 20_000, 1, 1
    )
    counts = result.pulls.values[0, 0].astype(float)
    estimate = cb.Estimate(DOCUMENTED.means * counts, counts, counts.sum(), 1.0)
    costs = [transportation_cost(0, k, estimate, (0.5, 0.5, 1.0)) for k in (1, 2, 3)]
    assert max(costs) / min(costs) < 1.1

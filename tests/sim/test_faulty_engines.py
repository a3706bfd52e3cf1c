"""The compiled engine equals the reference engine where the network fails.

Policies that are made for such networks are compared on a perfect one here, too.
"""

from __future__ import annotations

import numba
import numpy as np
import pytest

from coopbandits import BernoulliBandit, GaussianBandit, Network, Result, simulate
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.problems import Problem
from coopbandits.sim.cpu import consensus, flood

from .test_engines import NETWORKS, PROBLEMS, ROBUST, is_compiled

pytestmark = pytest.mark.plays

FIELD = [
    *(text for text in EXAMPLES if is_compiled(text, "loss=0.3")),
    "dec-ts:family=bernoulli",
    "independent-ts:family=bernoulli",
    "flood-ts:sigma=estimate",
    "flood-ts:family=bernoulli",
]
FAULTS = {
    "loss=0.3": "grid:2x3",
    "loss=0.2,sleep=0.3": "path:4",
    "churn=6..4": "complete:4",
    "one-way=0.5": "grid:2x3",
    "crash=0.5@8..16": "cycle:5",
    "crash=0.6@6..9:lost,crash=0.4@15..18:lost,loss=0.4": "grid:2x3",
    "partition=0.4@5..20,join=0.3@12": "path:4",
}
TWO = min(2, numba.config.NUMBA_NUM_THREADS)


def problem_for(policy: str) -> Problem:
    if "bernoulli" in policy:
        return BernoulliBandit([0.3, 0.8, 0.6])
    return GaussianBandit([0.2, 1.0, 0.6], sigma=0.5)


def check(
    problem: Problem, network: Network, policy: AnyPolicy, horizon: int, faults: str = "none"
) -> Result:
    """Play on both engines, the compiled one by whole runs and by agents."""
    results = [
        simulate(
            problem, network, policy, horizon, runs, 6, engine, keep="arms", faults=faults,
            threads=threads,
        )
        for engine, threads, runs in (("reference", None, 2), ("cpu", 1, 2), ("cpu", TWO, 1))
    ]  # fmt: skip
    assert [result.meta["engines"] for result in results] == [["reference"], ["cpu"], ["cpu"]]
    expected = results[0].dataset
    for found in (result.dataset for result in results[1:]):
        assert set(found) == set(expected)
        for name in expected:
            right = expected[name].isel(run=slice(found.sizes["run"]))
            if name in ("regret", "realized_regret"):
                np.testing.assert_allclose(found[name], right, rtol=1e-9, atol=1e-9)
            else:
                assert np.array_equal(found[name], right), name
    return results[0]


@pytest.mark.covering
@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("policy", FIELD)
def test_every_policy_under_faults(policy: str, faults: str) -> None:
    network = Network.from_spec(FAULTS[faults])
    check(problem_for(policy), network, parse_policy(policy), 24, faults)


@pytest.mark.parametrize("policy", FIELD)
def test_one_agent_that_sleeps(policy: str) -> None:
    check(problem_for(policy), NETWORKS["single"], parse_policy(policy), 20, "sleep=0.4,loss=0.5")


@pytest.mark.covering
@pytest.mark.parametrize("graph", ["star", "single", "regular"])
@pytest.mark.parametrize("policy", ROBUST)
def test_without_faults(policy: str, graph: str) -> None:
    result = check(problem_for(policy), NETWORKS[graph], parse_policy(policy), 30)
    assert len(np.unique(result.arms[..., 3:])) > 1


@pytest.mark.covering
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("policy", ["flood-ts", "flood-ts:sigma=estimate", "flood-ucb"])
def test_every_problem(policy: str, problem: str) -> None:
    check(PROBLEMS[problem], Network.from_spec("path:3"), parse_policy(policy), 18)


@pytest.mark.parametrize("policy", ["dec-ts", "flood-ts", "central-ts", "independent-ucb"])
def test_more_agents_than_a_block_and_chunks_of_rounds(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """One run at a time, by agents: 35 are more than the 32 of a block."""
    monkeypatch.setattr("coopbandits.sim.cpu.runs.RUN_ENTRIES", 5 * (35 + 70))
    faults = "loss=0.3,sleep=0.2,crash=0.3@4..7:lost"
    check(problem_for(policy), Network.from_spec("cycle:35"), parse_policy(policy), 13, faults)


@pytest.mark.parametrize("span", [1, 3])
def test_spans_of_rounds(monkeypatch: pytest.MonkeyPatch, span: int) -> None:
    """What was sent in the last round of a span arrives in the first of the next."""
    policies = [parse_policy(text) for text in ("dec-ts", "coop-ucb2:gamma=1.5", "flood-ucb")]
    network, problem = Network.from_spec("grid:2x4"), problem_for("")

    def play() -> Result:
        return simulate(problem, network, policies, 40, 2, keep="arms", faults="loss=0.4,sleep=0.2")

    expected = play().dataset
    monkeypatch.setattr(consensus, "SPAN_PULLS", span * 8)
    monkeypatch.setattr(flood, "SPAN_ENTRIES", span * 8 * (8 + 20))
    assert (
        play().dataset.drop_vars("realized_regret").identical(expected.drop_vars("realized_regret"))
    )


def test_runs_whose_logs_do_not_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    network, policy = NETWORKS["grid"], parse_policy("flood-ts")
    expected = simulate(problem_for(""), network, policy, 40, 5, keep="arms", faults="loss=0.3")
    monkeypatch.setattr(flood, "MOST_BYTES", 2 * (32 * 8**2 + 16 * 8 * 40))
    found = simulate(problem_for(""), network, policy, 40, 5, keep="arms", faults="loss=0.3")
    assert found.meta["engines"] == ["cpu"]
    assert found.dataset.identical(expected.dataset)


def test_a_run_whose_log_does_not_fit_is_left_to_the_driver(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    network, policy = NETWORKS["grid"], parse_policy("flood-ts")
    expected = simulate(problem_for(""), network, policy, 20, keep="arms")
    monkeypatch.setattr(flood, "MOST_BYTES", 32 * 8**2 + 16 * 8 * 20 - 1)
    found = simulate(problem_for(""), network, policy, 20, keep="arms")
    assert found.meta["engines"] == ["cpu"]
    assert found.arms.identical(expected.arms)
    assert found.values_sent.identical(expected.values_sent)
    monkeypatch.setattr("coopbandits.sim.driver.agents.MOST_BYTES", 1)
    result = simulate(problem_for(""), network, policy, 20)
    note = " ".join(capsys.readouterr().err.split())
    assert "for 8 agents and 20 rounds" in note
    assert "reference engine plays it" in note
    assert result.meta["engines"] == ["reference"]


def test_late_messages_are_compiled() -> None:
    assert is_compiled("flood-ts", "delay=2,loss=0.1")
    assert is_compiled("gossip-ts", "delay=2,loss=0.1")

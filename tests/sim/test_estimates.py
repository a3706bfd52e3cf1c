"""DDUCB that finds out N and λ by itself, simulated: no kernel, but otherwise like any policy."""

from __future__ import annotations

import pytest

from coopbandits import DDUCB, GaussianBandit, IndependentUCB, Network, simulate

FINDS_OUT = DDUCB(num_agents="estimate", lambda_bound="estimate")
PROBLEM = GaussianBandit([1.0, 0.4, 0.4], sigma=1.0)
POLICIES = [DDUCB(), FINDS_OUT, IndependentUCB()]


def test_the_price_of_finding_out_lies_below_that_of_not_cooperating(
    capfd: pytest.CaptureFixture[str],
) -> None:
    network = Network.from_spec("cycle:6")
    result = simulate(PROBLEM, network, POLICIES, 300, runs=2, seed=3, progress=False)
    note = capfd.readouterr().err
    assert f"{FINDS_OUT.spelling} has no compiled kernel" in note
    assert note.count("no compiled kernel") == 1
    told, found, alone = result.regret.isel(round=-1).mean("run").values
    assert told < found < alone
    # 3D + 1 rounds of four values and N tags, then 2K values a round; twelve directed links.
    survey = 3 * 3 + 1
    values = result.values_sent.sel(policy=FINDS_OUT.spelling).values
    assert values.tolist() == [12 * (survey * 4 + 6 + (300 - survey) * 6)] * 2


def test_a_call_can_be_repeated() -> None:
    network = Network.from_spec("star:4")
    results = [
        simulate(PROBLEM, network, FINDS_OUT, 60, runs=2, seed=3, progress=False) for _ in range(2)
    ]
    assert results[0].regret.equals(results[1].regret)

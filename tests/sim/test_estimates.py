"""DDUCB that finds out N and λ by itself, simulated like any policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coopbandits import DDUCB, GaussianBandit, IndependentUCB, InputError, Network, simulate

FINDS_OUT = DDUCB(num_agents="estimate", lambda_bound="estimate")
PROBLEM = GaussianBandit([1.0, 0.4, 0.4], sigma=1.0)
POLICIES = [DDUCB(), FINDS_OUT, IndependentUCB()]


def test_the_price_of_finding_out_lies_below_that_of_not_cooperating() -> None:
    network = Network.from_spec("cycle:6")
    result = simulate(PROBLEM, network, POLICIES, 300, runs=2, seed=3, progress=False)
    assert result.meta["engines"] == ["cpu"] * 3
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


@pytest.mark.parametrize(
    ("settings", "faults", "sentence"),
    [
        ({}, "loss=0.3", r"messages from .* are missing.*set num_agents and lambda_bound"),
        ({"discount": 0.9}, "none", r"discount is 0\.9.*stages here have"),
    ],
)
def test_agents_that_cannot_go_on_say_so_on_both_engines(
    settings: dict[str, Any], faults: str, sentence: str
) -> None:
    policy = replace(FINDS_OUT, **settings)
    for engine in ("cpu", "reference"):
        with pytest.raises(InputError, match=sentence):
            simulate(
                PROBLEM, Network.from_spec("cycle:6"), policy, 60, seed=3, engine=engine,
                faults=faults, progress=False,
            )  # fmt: skip

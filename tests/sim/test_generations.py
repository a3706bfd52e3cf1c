"""Engines agree also where agents are counted anew, which takes longer than most plays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import coopbandits as cb
from coopbandits.core.aggregate import tree_sums
from coopbandits.core.aggregate.extrema import EXPONENTIALS, GENERATION, SETTLED
from coopbandits.core.aggregate.tree_sums import CERTAIN, SPREAD

COUNTING = ["tree-sums", "pull-mixing", "running-sums"]


def play(
    policy: str, engine: str, faults: str, *rounds: int, graph: str = "path:3", gap: float = 0.1
) -> xr.Dataset:
    return cb.simulate(
        cb.BernoulliBandit([0.55 - gap, 0.55]),
        cb.Network.from_spec(graph),
        cb.parse_policy(policy),
        rounds[-1],
        engine=engine,
        keep="arms",
        rounds=rounds,
        faults=faults,
        progress=False,
    ).dataset


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", COUNTING)
def test_engines_agree_over_generations(aggregation: str) -> None:
    """One of three agents crashes when a generation ends, and has forgotten all when it is back."""
    faults = f"crash=0.4@{GENERATION - 30}..{GENERATION + 20}:lost,loss=0.1"
    rounds = GENERATION - 1, GENERATION, GENERATION + 40, GENERATION + SETTLED + 50
    compiled, expected = (
        play(f"{aggregation}*ucb", engine, faults, *rounds) for engine in ("cpu", "reference")
    )
    for name in ("arms", "values_sent", "messages_delivered"):
        np.testing.assert_array_equal(compiled[name].values, expected[name].values)


@pytest.mark.slow
@pytest.mark.parametrize(
    "back",
    [pytest.param("", id="gone"), pytest.param("..2680:lost", id="back", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("policy", ["tree-ts", "ledger-ts"])
def test_engines_agree_on_a_count_that_minima_contradict_for_long(
    policy: str, back: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most agents are gone for ever, or come back and have forgotten all."""

    def arms(engine: str) -> Any:
        faults, rounds = f"crash=0.75@30{back}", CERTAIN + 250
        played = play(policy, engine, faults, rounds, graph="complete:8", gap=0.0)
        return played["arms"].values

    expected = arms("reference")
    np.testing.assert_array_equal(arms("cpu"), expected)
    monkeypatch.setattr(tree_sums, "CERTAIN", 10**9)
    assert (arms("reference") != expected).any()


@pytest.mark.parametrize("aggregation", COUNTING)
def test_a_generation_costs_its_minima_for_a_few_rounds(aggregation: str) -> None:
    rounds = GENERATION - SPREAD, GENERATION, GENERATION + SPREAD, GENERATION + 2 * SPREAD
    values = play(f"{aggregation}*ucb", "cpu", "none", *rounds)["values_sent"].values.ravel()
    quiet, begun, over = np.diff(values).astype(int)
    assert quiet == over == 4 * SPREAD * (10 if aggregation == "tree-sums" else 6)
    told = (begun - quiet) / (4 * (EXPONENTIALS + 1))
    assert told == SPREAD if aggregation == "tree-sums" else 1 <= told <= 5

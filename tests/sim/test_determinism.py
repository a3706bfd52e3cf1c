"""Results depend on the settings alone: not on threads, chunks, batches or later rounds."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numba
import numpy as np
import pytest

from coopbandits import DDUCB, BernoulliBandit, GaussianBandit, IndependentUCB, Network, simulate
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.sim import reference
from coopbandits.sim.cpu import central, consensus, flooding, staged

from .test_engines import COMPILED

pytestmark = pytest.mark.plays

SIMULATE = sys.modules["coopbandits.sim.simulate"]  # the package's name is the function

POLICIES: list[AnyPolicy] = [
    *map(parse_policy, COMPILED),
    DDUCB(own_pulls=False),
    DDUCB(neighbor_pulls=True),
    DDUCB(remix=True),
    DDUCB(remix=True, own_pulls=False),
    DDUCB(values_per_message=3),
]
EVERYBODY = [*POLICIES, *(parse_policy(text) for text in EXAMPLES if text not in COMPILED)]
FIELD = [parse_policy(text) for text in COMPILED if text not in ("dducb", "independent-ucb")]
PROBLEM = GaussianBandit([0.2, 1.0, 0.9, 0.6])
NETWORK = Network.from_spec("regular:3,70,seed=2")  # three blocks of agents


def play(engine: str = "cpu", **changes: Any) -> Any:
    call: dict[str, Any] = {
        "problem": PROBLEM, "network": NETWORK, "policies": POLICIES, "horizon": 90, "runs": 4,
        "seed": 3, "keep": "arms",
    }  # fmt: skip
    return simulate(engine=engine, **(call | changes)).dataset


@pytest.mark.covering(1)
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one core")
@pytest.mark.parametrize("problem", [PROBLEM, BernoulliBandit([0.5, 0.4, 0.45])])
def test_threads(problem: Any) -> None:
    one, two = (play(problem=problem, threads=threads) for threads in (1, 2))
    assert one.identical(two)


@pytest.fixture(scope="module")
def together() -> Any:
    """All runs at once."""
    return play()


@pytest.mark.parametrize("runs_at_once", [1, 3])
def test_batches_of_runs(monkeypatch: pytest.MonkeyPatch, together: Any, runs_at_once: int) -> None:
    monkeypatch.setattr(SIMULATE, "BATCH_PULLS", runs_at_once * 70 * 90)
    assert play().identical(together)


def test_few_runs_at_once_where_memory_is_short(
    monkeypatch: pytest.MonkeyPatch, together: Any
) -> None:
    monkeypatch.setattr(SIMULATE, "BATCH_BYTES", 1)
    assert play().identical(together)


@pytest.mark.parametrize("rounds", [7, 130])
def test_spans_of_independent_agents(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    call: dict[str, Any] = {"policies": IndependentUCB(), "horizon": 300, "rounds": 5}
    expected = play(**call)
    monkeypatch.setattr(staged, "SPAN_PULLS", rounds * 4 * 70)
    found = play(**call)
    summed = ["realized_regret", "worst_regret"]  # an agent's stretches of one arm end with a span
    assert found.drop_vars(summed).identical(expected.drop_vars(summed))
    for name in summed:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9)


@cache
def field_at_once(runs: int) -> Any:
    return play(policies=FIELD, runs=runs)


@pytest.mark.covering
@pytest.mark.parametrize("rounds", [1, 7, 40])
@pytest.mark.parametrize("runs", [1, 4])
def test_spans_of_the_field(monkeypatch: pytest.MonkeyPatch, rounds: int, runs: int) -> None:
    """Odd and even ones: averages change places between two arrays, and must be found again."""
    expected = field_at_once(runs)
    monkeypatch.setattr(consensus, "SPAN_PULLS", rounds * 70)
    monkeypatch.setattr(central, "SPAN_PULLS", rounds * 70)
    monkeypatch.setattr(flooding, "SPAN_PULLS", rounds * 70 * 4)  # heard from three neighbours
    found = play(policies=FIELD, runs=runs)
    assert found.drop_vars("realized_regret").identical(expected.drop_vars("realized_regret"))
    np.testing.assert_allclose(found["realized_regret"], expected["realized_regret"], rtol=1e-9)


def test_spans_do_not_depend_on_the_number_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last bit of every reward sum included."""
    monkeypatch.setattr(staged, "SPAN_PULLS", 100 * 70)
    call: dict[str, Any] = {"policies": IndependentUCB(), "horizon": 500, "rounds": 5}
    assert play(runs=1, **call).identical(play(runs=4, **call).isel(run=slice(1)))


def test_later_runs_change_nothing(together: Any) -> None:
    assert play(runs=2).identical(together.isel(run=slice(2)))


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_later_rounds_change_nothing(engine: str) -> None:
    """Rounds up to 61 of longer runs, the longer one ending inside and at the end of a stage."""
    small: dict[str, Any] = {"network": Network.from_spec("path:4"), "runs": 1}
    small["policies"] = POLICIES if engine == "cpu" else EVERYBODY
    short = play(engine, horizon=61, rounds=range(1, 62), **small)
    for horizon in (62, 97):
        longer = play(engine, horizon=horizon, rounds=range(1, horizon + 1), **small)
        common = longer.sel(round=slice(61)).isel(pull=slice(61))
        for name in ("regret", "realized_regret", "values_sent", "arms"):
            assert np.array_equal(short[name], common[name]), name


def test_chunks_of_the_reference_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    small: dict[str, Any] = {"network": Network.from_spec("path:3"), "runs": 2, "horizon": 20}
    small["policies"] = EVERYBODY
    expected = play("reference", **small)
    monkeypatch.setattr(reference, "CHUNK", 3)
    assert play("reference", **small).identical(expected)


def test_seeds_and_runs_differ(together: Any) -> None:
    assert not np.array_equal(together["arms"], play(seed=4)["arms"])
    realized = together["realized_regret"].isel(round=-1)
    assert all(np.unique(row).size == 4 for row in realized.values)

"""The driver plays rewards that depend on features, with linear models and without."""

from __future__ import annotations

from typing import Any

import pytest

import coopbandits as cb
from coopbandits.core.index import LINEAR_INDICES

from .push_sum import PushSum
from .test_driver import GRID, compare

pytestmark = pytest.mark.plays

ONE = cb.LinearBandit([0.5, -0.25, 1.0], num_arms=4, sigma=0.5)
EACH = cb.LinearBandit([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], features="gaussian", sigma=0.5)
PROBLEMS = {
    "sphere": ONE,
    "gaussian": cb.LinearBandit([0.5, -0.25, 1.0], num_arms=3, features="gaussian"),
    "a table": cb.LinearBandit([0.5, -0.25], num_arms=3, features=[[1, 0], [0, 1], [1, 1]]),
    "fixed": cb.LinearBandit([0.5, -0.25], features=[[[1, 0], [0, 1], [1, 1]]], num_arms=3),
    "a model per arm": EACH,
    "contexts of a table": cb.LinearBandit([[1, 0], [0, 1]], features=[[1, 0], [1, 1]]),
}
"""Features that are drawn, that are fixed per arm, and that all arms share."""

INDICES = [kind(disjoint=each) for kind in LINEAR_INDICES for each in (False, True)]
FAULTS = ("none", "loss=0.3", "delay=2,crash=0.3@5..20:lost", "sleep=0.3")


def refused(problem: cb.Problem, index: Any) -> bool:
    """Return whether all arms look the same to the model."""
    return bool(getattr(problem, "one_context", False) and not getattr(index, "disjoint", True))


@pytest.mark.covering(8)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("index", [*INDICES, cb.UCB()], ids=lambda index: index.spelling)
@pytest.mark.parametrize("faults", FAULTS)
def test_faults(problem: str, index: cb.Index, faults: str) -> None:
    if not refused(PROBLEMS[problem], index):
        compare(cb.combine(PushSum(), index), PROBLEMS[problem], faults=faults)


@pytest.mark.covering(3)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("index", [*INDICES, cb.UCB()], ids=lambda index: index.spelling)
@pytest.mark.parametrize("clocks", ["poisson:latency=2", "regular:ratio=4"])
def test_clocks(problem: str, index: cb.Index, clocks: str) -> None:
    """Every pull of an agent meets a context of its own."""
    if not refused(PROBLEMS[problem], index):
        policy = cb.combine(PushSum(), index)
        compare(policy, PROBLEMS[problem], clocks=clocks, keep="agents", faults="loss=0.2")


@pytest.mark.covering(4)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("index", [*INDICES, cb.UCB()], ids=lambda index: index.spelling)
@pytest.mark.parametrize("delay", [None, 0, 2])
def test_one_controller(problem: str, index: cb.Index, delay: int | None) -> None:
    if not refused(PROBLEMS[problem], index):
        policy: Any = cb.combine(cb.CentralTotals(delay), index)
        compare(policy, PROBLEMS[problem], faults="sleep=0.2")


@pytest.mark.parametrize(
    "aggregation", [cb.NeighborhoodSums(), cb.FloodedPulls(3, wait=2)], ids=lambda each: each.name
)
def test_single_pulls_are_sent_as_registers(aggregation: Any) -> None:
    compare(cb.combine(aggregation, cb.LinTS()), ONE, faults="delay=2,loss=0.2")


AGGREGATIONS = (
    cb.TreeSums(), cb.TreeSums(discount=0.9), cb.TreeSums(window=7), cb.TreeSums(lazy=0.3),
    cb.LedgerSums(), cb.LedgerSums(discount=0.9), cb.FloodedTotals(), cb.FloodedTotals(lazy=0.3),
    cb.FloodedTotals(discount=0.9), cb.FloodedTotals(window=7), cb.ServerTotals(threshold=2.0),
    cb.ServerTotals(growth=0.3), cb.PermutedBuffers(),
)  # fmt: skip


@pytest.mark.covering(2)
@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda each: each.spelling)
@pytest.mark.parametrize("problem", ["sphere", "a model per arm"])
@pytest.mark.parametrize("faults", FAULTS)
def test_aggregations(aggregation: Any, problem: str, faults: str) -> None:
    index = cb.LinTS(disjoint=problem == "a model per arm")
    compare(cb.combine(aggregation, index), PROBLEMS[problem], faults=faults)


def test_registers_are_clipped_where_they_are_never_negative() -> None:
    compare(cb.combine(cb.RunningSums(), cb.LinTS()), ONE, faults="loss=0.2")


SITES = cb.sites(EACH, groups=[[[1, 0], [0, 1], [0.5, 0.5]], [[0, 1], [1, 0], [0.5, 0.5]]])
WORLDS = {
    "drift": cb.drift(EACH, switch_every=20),
    "sites that drift": cb.drift(SITES, switch_every=20),
    "subsets": cb.subsets(SITES, [[0, 1], [1, 2]]),
}


@pytest.mark.covering(4)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("index", [INDICES[1], INDICES[3], cb.UCB()], ids=lambda i: i.spelling)
@pytest.mark.parametrize(
    "more",
    [{}, {"shuffle_arms": True, "keep": "curves"}, {"clocks": "poisson", "keep": "agents"}],
    ids=["rounds", "shuffled", "clocks"],
)
def test_worlds(world: str, index: cb.Index, more: dict[str, Any]) -> None:
    compare(cb.combine(PushSum(), index), WORLDS[world], **more)


class OwnIndex(cb.LinTS):
    """An index of somebody else on linear models."""


def test_custom_linear_indices_are_left_to_the_reference_engine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    policy = cb.combine(PushSum(), OwnIndex())
    result = cb.simulate(ONE, GRID, policy, 5, progress=False)
    assert result.meta["engines"] == ["reference"]
    assert "rewards that depend on features" in capsys.readouterr().err

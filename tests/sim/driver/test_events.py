"""On clocks of their own the driver plays the events of the reference engine, in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import coopbandits as cb
from coopbandits.core import AnyAggregation
from coopbandits.core.contract import Estimate
from coopbandits.core.registry import INDICES
from coopbandits.sim import driver
from coopbandits.sim.clocks import PoissonClocks

from .push_sum import PushSum
from .test_driver import GRID, PROBLEM, Certain, Divides, TooFar, compare

pytestmark = pytest.mark.plays


@dataclass(frozen=True)
class Newest(PushSum):
    """Push-sum in which old messages count as lost once a newer one has arrived."""

    name: ClassVar[str] = "newest"
    overtakes: ClassVar[bool] = True


AGGREGATIONS = (
    PushSum(), Newest(), Certain(), cb.RunningSums(), cb.TrimmedMeans(), cb.TrackedMeans(),
    cb.NeighborhoodSums(), cb.NeighborhoodSums(exploring=True, fair=True), cb.TreeSums(),
    cb.TreeSums(discount=0.9), cb.TreeSums(window=7), cb.TreeSums(lazy=0.3), cb.LedgerSums(),
    cb.LedgerSums(discount=0.9), cb.FloodedTotals(), cb.FloodedTotals(discount=0.9),
    cb.FloodedTotals(window=7), cb.FloodedTotals(lazy=0.3), cb.FloodedTotals(spread="estimate"),
)  # fmt: skip
CLOCKS = (
    "poisson", "poisson:ratio=10,latency=0.7,gossip=2", "poisson:gossip=0.25,latency=6",
    "regular", "regular:rates=1..2..4..1..1..2..1..1,latency=3", "regular:latency=20,gossip=3",
)  # fmt: skip
LATE = "poisson:latency=6,gossip=2"


def play(policy: Any, problem: cb.Problem = PROBLEM, **more: Any) -> cb.Result:
    return compare(policy, problem, **({"keep": "agents"} | more))


@pytest.mark.covering
@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda each: each.spelling)
@pytest.mark.parametrize("clocks", CLOCKS)
@pytest.mark.parametrize("faults", ["none", "loss=0.3", "loss=0.2,loss=0.1"])
def test_clocks(aggregation: AnyAggregation, clocks: str, faults: str) -> None:
    play(cb.combine(aggregation, cb.NormalDraw()), clocks=clocks, faults=faults)


@pytest.mark.covering(4)
@pytest.mark.parametrize("index", [kind() for kind in INDICES], ids=lambda index: index.spelling)
def test_indices(index: cb.Index) -> None:
    unit = index.support is not None
    problem = cb.BernoulliBandit([0.8, 0.5, 0.3]) if unit else PROBLEM
    play(cb.combine(PushSum(), index), problem, clocks=LATE)


@pytest.mark.covering
@pytest.mark.parametrize("graph", ["complete:1", "star:6", "complete:2"])
@pytest.mark.parametrize("rounds", [7, [3, 4, 59]])
def test_graphs(graph: str, rounds: Any) -> None:
    policy = cb.combine(PushSum(), cb.UCB())
    play(policy, network=cb.Network.from_spec(graph), clocks=LATE, rounds=rounds)


def test_worlds() -> None:
    policy, problem = cb.combine(PushSum(), cb.UCB()), cb.subsets(PROBLEM, [[0, 1], [1, 2]])
    play(policy, cb.drift(problem, switch_every=9), clocks=LATE, shuffle_arms=True)


def test_long_latencies_and_short_spans_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, clocks = cb.combine(Newest(), cb.NormalDraw()), "poisson:latency=15,gossip=3"
    whole_spans = play(policy, clocks=clocks, runs=3, threads=1)
    assert whole_spans.deliveries["late"].min() > 0
    monkeypatch.setattr(driver, "SPAN_PULLS", 7 * GRID.num_agents)
    again = cb.simulate(
        PROBLEM, GRID, policy, 60, 3, 3, keep="agents", progress=False, clocks=clocks
    )
    assert again.dataset.identical(whole_spans.dataset)


class Own(PoissonClocks):
    """Clocks of somebody else, whose gaps are not compiled."""


def test_custom_clocks_are_left_to_the_reference_engine(capsys: pytest.CaptureFixture[str]) -> None:
    policy = cb.combine(PushSum(), cb.UCB())
    result = cb.simulate(PROBLEM, GRID, policy, 5, clocks=Own(), progress=False)
    assert result.meta["engines"] == ["reference"]
    assert "no compiled kernel on clocks" in capsys.readouterr().err


@dataclass(frozen=True)
class Fails(cb.UCB):
    name: ClassVar[str] = "fails"

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(-estimate.counts[arm] + max(0.0, -1.0 / (10.0 - estimate.counts[arm])))


FAILURES: dict[cb.Policy, str] = {
    cb.combine(Divides(), cb.UCB()): "receive raised ZeroDivisionError.*test_driver.py:",
    cb.combine(TooFar(), cb.UCB()): "observe raised IndexError.*test_driver.py:",
    cb.combine(Certain(), Fails()): "index .* raised ZeroDivisionError.*test_events.py:",
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("policy", FAILURES, ids=lambda policy: policy.spelling)
def test_what_fails_is_named_alike_on_both_engines(policy: cb.Policy) -> None:
    sentences = []
    for engine in ("reference", "cpu"):
        with pytest.raises(cb.InputError, match=FAILURES[policy]) as caught:
            cb.simulate(PROBLEM, GRID, policy, 40, engine=engine, progress=False, clocks="poisson")
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]

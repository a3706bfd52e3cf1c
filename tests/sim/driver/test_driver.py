"""The driver plays aggregations on fields as the reference engine does, whatever goes wrong."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core import rows
from coopbandits.core.aggregate.fields import Aggregation, Links, Sizes, whole
from coopbandits.core.registry import INDICES
from coopbandits.sim.driver.rounds import play_rounds
from coopbandits.testing import check_policy

from .push_sum import PushSum

pytestmark = pytest.mark.plays

PROBLEM = cb.GaussianBandit([1.0, 0.8, 0.5])
GRID = cb.Network.from_spec("grid:2x4")
COUNTED = (
    "values_sent", "messages_sent", "messages_delivered", "messages_late", "messages_lost",
)  # fmt: skip


@dataclass(frozen=True)
class Certain(Aggregation):
    """Own pulls, which it certifies, by whole numbers of rounds; every other round is silent."""

    name: ClassVar[str] = "certain"
    certifies: ClassVar[bool] = True
    totals: ClassVar[bool] = False  # its own alone

    def fields(self, sizes: Sizes) -> dict[str, Any]:
        return {"own": sizes.width, "rounds": int, "heard": whole(sizes.links)}

    def start(self, s: Any, view: cb.LocalView) -> None:
        del view
        s.me.rounds = 0

    @staticmethod
    def observe(s: Any, pull: Any) -> None:
        rows.add(s.own, pull)

    @staticmethod
    def message(s: Any, link: int, out: Any) -> int:
        rows.copy(out, s.own)
        return out.size if s.me.rounds % 2 == 0 else 0

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        for link in range(lengths.size):
            s.heard[link] += 1 if lengths[link] > 0 else 0
        s.me.rounds += 1

    @staticmethod
    def estimate(s: Any, totals: Any, certain: Any, about: Any) -> None:
        rows.copy(totals, s.own)
        rows.copy(certain, s.own)


def compare(
    policy: Any, problem: cb.Problem = PROBLEM, network: cb.Network = GRID, **more: Any
) -> cb.Result:
    """Play on both engines; arms and messages are the same, rewards to 1e-9."""
    call: dict[str, Any] = {"horizon": 60, "runs": 2, "seed": 3, "keep": "arms", "progress": False}
    played = [
        cb.simulate(problem, network, policy, engine=engine, **(call | more))
        for engine in ("cpu", "reference")
    ]
    found, expected = played
    assert found.meta["engines"] == ["cpu"]
    for name in ("arms", "pulls", "agent_pulls", *COUNTED):
        if name in expected.dataset:
            np.testing.assert_array_equal(found.dataset[name], expected.dataset[name], name)
    for name in ("regret", "realized_regret"):
        np.testing.assert_allclose(
            found.dataset[name], expected.dataset[name], rtol=1e-9, atol=1e-9, err_msg=name
        )
    return found


@dataclass(frozen=True)
class Brief(PushSum):
    """Push-sum that tells one neighbour in two by whom, at the end of a message."""

    name: ClassVar[str] = "brief"

    def fields(self, sizes: Sizes) -> dict[str, Any]:
        return {**super().fields(sizes), "told": sizes.links}

    def message_width(self, sizes: Sizes) -> int:
        return sizes.width + 2

    @staticmethod
    def message(s: Any, out: Any) -> int:  # type: ignore[override]  # either form will do
        length = PushSum.message(s, 0, out)
        out[length] = s.me.parts
        return length + 1

    @staticmethod
    def cut(s: Any, link: int, length: int) -> int:
        return length - link % 2

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        PushSum.receive(s, inbox, lengths)
        for link in range(lengths.size):
            if lengths[link] == s.mass.size + 2:
                s.told[link] += inbox[link, s.mass.size + 1]
            rows.fill(inbox[link], 0.0)  # its inbox is its own


AGGREGATIONS = (
    PushSum(), Certain(), Brief(), Brief(discount=0.9), cb.RunningSums(), PushSum(discount=0.9),
    cb.LocalSums(),
    cb.LocalSums(window=7), cb.LocalSums(discount=0.9), cb.RunningConsensus(),
    cb.RunningConsensus(discount=0.9), cb.PullMixing(), cb.PullMixing(discount=0.9),
    cb.StagedMixing(), cb.StagedMixing(mixing_rounds=3, discount=0.97),
    cb.StagedMixing(values_per_message=4), cb.StagedMixing(neighbor_pulls=True),
    cb.StagedMixing(remix=True, own_pulls=False, mixing_rounds=3), cb.TrimmedMeans(),
    cb.TrimmedMeans(liars=0, kappa=4.0), cb.TrackedMeans(), cb.TrackedMeans(pairs=True),
    cb.TrackedMeans(pairs=True, epsilon=50.0, horizon=40), cb.NeighborhoodSums(),
    cb.NeighborhoodSums(exploring=True, fair=True), cb.TreeSums(), cb.TreeSums(discount=0.9),
    cb.TreeSums(window=7), cb.TreeSums(lazy=0.3), cb.TreeSums(spread=0.2),
    cb.TreeSums(spread="estimate"), cb.TreeSums(spread=math.inf), cb.LedgerSums(),
    cb.LedgerSums(discount=0.9), cb.FloodedPulls(hop_limit=1), cb.FloodedPulls(hop_limit=10),
    cb.FloodedPulls(hop_limit=3, wait=4), cb.FloodedTotals(), cb.FloodedTotals(discount=0.9),
    cb.FloodedTotals(window=7), cb.FloodedTotals(lazy=0.3), cb.FloodedTotals(spread=0.2),
    cb.FloodedTotals(spread="estimate", lazy=0.1), cb.FloodedTotals(spread=math.inf),
)  # fmt: skip
RIVALS = (
    cb.DPE2(), cb.DPE2("bernoulli"), cb.GosInE(), cb.GosInE(blocking=True, constant=1.0),
    cb.GSE(horizon=40, spread=0.05),  # arms go within the horizon
    cb.Exp3Coop(), cb.Exp3Coop(hop_limit=0, eta=0.3), cb.Exp3Coop(hop_limit=3),
)  # fmt: skip
FAULTS = (
    "none", "loss=0.3", "bursts=10..4", "churn=8..4", "one-way=0.4", "redraw=5:0.5", "pairs=2",
    "partition=0.5@10..30", "sleep=0.3", "speeds=4", "join=0.4@20", "crash=0.4@10..30",
    "crash=0.4@10..30:lost", "delay=3", "delay=4,delay=5",
    "delay=2,loss=0.2,crash=0.3@5..20:lost",
)  # fmt: skip


CENTRAL = (
    cb.CentralTotals(), cb.CentralTotals(None), cb.CentralTotals(3), cb.CentralTotals(window=7),
    cb.CentralTotals(None, window=7), cb.CentralTotals(2, discount=0.9), cb.PermutedBuffers(),
)  # fmt: skip


@pytest.mark.covering
@pytest.mark.parametrize(
    "aggregation", [*AGGREGATIONS, *CENTRAL], ids=lambda each: str(each.spelling)
)
@pytest.mark.parametrize("faults", FAULTS)
def test_faults(aggregation: Any, faults: str) -> None:
    compare(cb.combine(aggregation, cb.NormalDraw()), faults=faults)


FINDING_OUT = (
    {"num_agents": "estimate"}, {"lambda_bound": "heuristic"},
    {"num_agents": "estimate", "lambda_bound": "estimate", "values_per_message": 4},
    {"num_agents": "estimate", "lambda_bound": "heuristic", "discount": 0.999},
)  # fmt: skip


@pytest.mark.parametrize("settings", FINDING_OUT)
@pytest.mark.parametrize("graph", ["grid:2x4", "complete:1"])
def test_agents_that_find_out_what_they_are_not_told(settings: Any, graph: str) -> None:
    policy = cb.combine(cb.StagedMixing(**settings), cb.NormalDraw())
    compare(policy, network=cb.Network.from_spec(graph), horizon=150)


@pytest.mark.covering
@pytest.mark.parametrize("policy", RIVALS, ids=lambda each: each.spelling)
@pytest.mark.parametrize("faults", FAULTS)
def test_rivals_whose_estimates_are_made_for_their_index(policy: cb.Policy, faults: str) -> None:
    compare(policy, cb.BernoulliBandit([0.8, 0.5, 0.3, 0.6]), faults=faults, horizon=130)


def test_rivals_whose_agents_may_play_some_arms_only() -> None:
    problem = cb.subsets(cb.BernoulliBandit([0.8, 0.5, 0.3]), [[0, 1], [1, 2]])
    for policy in RIVALS:
        compare(policy, problem, shuffle_arms=True, horizon=130)


@pytest.mark.parametrize("aggregation", CENTRAL, ids=lambda each: str(each.spelling))
def test_one_controller(aggregation: Any) -> None:
    """An index that does not draw, arms that some may not play, and totals that are certain."""
    policy = cb.combine(aggregation, cb.UCB())
    compare(policy, faults="sleep=0.2")
    world = cb.subsets(PROBLEM, [[0, 1], [1, 2]])
    compare(policy, world, shuffle_arms=True, faults="sleep=0.2")
    if not aggregation.uncertified and not aggregation.forgets:
        compare(policy, faults="sleep=0.2", stop=0.9, horizon=200)


LINEAR = cb.LinearBandit([0.5, -0.25, 1.0], num_arms=4, sigma=0.5)
FASTER: tuple[tuple[Any, cb.Index, dict[str, Any]], ...] = (
    (cb.LocalSums(), cb.NormalDraw(), {}),
    (cb.RunningConsensus(), cb.NormalDraw(), {}),
    (cb.StagedMixing(), cb.NormalDraw(), {}),
    (cb.NeighborhoodSums(), cb.NormalDraw(), {}),
    (cb.FloodedPulls(3), cb.NormalDraw(), {}),
    (cb.FloodedTotals(), cb.NormalDraw(), {}),
    (cb.FloodedTotals(), cb.UCB(), {"faults": "loss=0.3,sleep=0.2"}),
    (cb.FloodedTotals(), cb.NormalDraw(), {"faults": "crash=0.4@10..30:lost"}),
    (cb.FloodedTotals(discount=0.9), cb.NormalDraw(), {"faults": "loss=0.3"}),
    (cb.FloodedTotals(), cb.LinTS(), {"problem": LINEAR}),
    (cb.FloodedTotals(), cb.LinUCB(disjoint=True), {"problem": LINEAR}),
    *((aggregation, cb.NormalDraw(), {}) for aggregation in CENTRAL),
)


@pytest.mark.parametrize(
    ("aggregation", "index", "more"), FASTER, ids=[f"{a.spelling}*{i}{m}" for a, i, m in FASTER]
)
def test_faster_equivalents_play_what_the_driver_does(
    aggregation: Any, index: cb.Index, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = cb.combine(aggregation, index)
    found = compare(policy, **more)
    monkeypatch.setattr("coopbandits.sim.cpu._equivalent", lambda task: None)
    driven = compare(policy, **more)
    np.testing.assert_array_equal(found.arms, driven.arms)
    np.testing.assert_array_equal(found.values_sent, driven.values_sent)


@pytest.mark.covering(6)
@pytest.mark.parametrize("index", [kind() for kind in INDICES], ids=lambda index: index.spelling)
@pytest.mark.parametrize("aggregation", AGGREGATIONS[:2], ids=lambda each: each.spelling)
def test_indices(aggregation: Aggregation, index: cb.Index) -> None:
    unit = index.support is not None
    problem = cb.BernoulliBandit([0.8, 0.5, 0.3]) if unit else PROBLEM
    compare(cb.combine(aggregation, index), problem, faults="loss=0.2")


def test_one_driver_plays_all_aggregations() -> None:
    """It is compiled once, whatever fields an aggregation has."""
    found = []
    for aggregation in (PushSum(), Certain(), cb.RunningSums(), cb.TrackedMeans()):
        compare(cb.combine(aggregation, cb.UCB()), faults="loss=0.2", horizon=5)
        found.append(len(play_rounds.signatures))
    assert len(set(found)) == 1


@pytest.mark.parametrize("graph", ["complete:1", "star:6", "complete:2"])
def test_graphs(graph: str) -> None:
    compare(cb.combine(PushSum(), cb.UCB()), network=cb.Network.from_spec(graph))


@pytest.mark.parametrize("graph", ["complete:1", "star:30"])
def test_trees(graph: str) -> None:
    """One agent has many relatives."""
    compare(cb.combine(cb.TreeSums(), cb.NormalDraw()), network=cb.Network.from_spec(graph))


def test_worlds() -> None:
    policy = cb.combine(PushSum(), cb.UCB())
    compare(policy, cb.subsets(PROBLEM, [[0, 1], [1, 2]]), shuffle_arms=True)
    compare(policy, cb.subsets(PROBLEM, [[0, 1], [1, 2]]), faults="sleep=0.2", rounds=7)


@dataclass(frozen=True)
class Secretive(PushSum):
    """Push-sum from weights that nobody else knows."""

    name: ClassVar[str] = "secretive"
    needs: ClassVar[frozenset[str]] = frozenset({"num_agents", "secret"})

    def start(self, s: Any, view: cb.LocalView) -> None:
        super().start(s, view)
        s.me.weight = 1.0 + view.secret[0]


def test_agents_that_lost_their_memory_have_another_secret() -> None:
    compare(cb.combine(Secretive(), cb.NormalDraw()), faults="crash=0.5@5..10:lost")


def test_agents_that_stop() -> None:
    policy = cb.combine(Certain(), cb.UCB(constant=40.0))
    found, expected = (
        cb.simulate(
            cb.BernoulliBandit([0.95, 0.05]), GRID, policy, 200, 2, 1, engine, stop=0.9,
            progress=False,
        )
        for engine in ("cpu", "reference")
    )  # fmt: skip
    assert found.meta["engines"] == ["cpu"]
    np.testing.assert_array_equal(found.stops.stop_round, expected.stops.stop_round)
    assert (found.stops.stop_round >= 0).all()
    with pytest.raises(cb.InputError, match="PushSum does not certify distinct pulls"):
        cb.simulate(PROBLEM, GRID, cb.combine(PushSum(), cb.UCB()), 20, stop=0.9, progress=False)


def test_threads_and_spans_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = cb.combine(cb.RunningSums(), cb.NormalDraw())
    call: dict[str, Any] = {"faults": "delay=2,crash=0.3@5..20:lost", "runs": 3, "threads": 1}
    whole_spans = compare(policy, **call)
    monkeypatch.setattr("coopbandits.sim.driver.SPAN_PULLS", 7 * GRID.num_agents)
    again = cb.simulate(
        PROBLEM, GRID, policy, 60, 3, 3, keep="arms", progress=False, faults=call["faults"]
    )
    assert again.dataset.identical(whole_spans.dataset)


@pytest.mark.parametrize("aggregation", AGGREGATIONS[:2], ids=lambda each: each.spelling)
def test_the_contract(aggregation: Aggregation) -> None:
    check_policy(cb.combine(aggregation, cb.UCB()), num_arms=2, rounds=6)


@dataclass(frozen=True)
class Divides(PushSum):
    name: ClassVar[str] = "divides"

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        s.me.weight = 1.0 / (s.me.parts - 4.0)


@dataclass(frozen=True)
class TooFar(PushSum):
    name: ClassVar[str] = "too-far"

    @staticmethod
    def observe(s: Any, pull: Any) -> None:
        s.mass[pull.size] = 1.0


@dataclass(frozen=True)
class NotANumber(PushSum):
    name: ClassVar[str] = "not-a-number"

    @staticmethod
    def estimate(s: Any, totals: Any, certain: Any, about: Any) -> None:
        huge = 1e308 * max(s.mass[0], 10.0)
        totals[0] = huge - huge


@dataclass(frozen=True)
class TooLong(PushSum):
    name: ClassVar[str] = "too-long"

    @staticmethod
    def message(s: Any, link: int, out: Any) -> int:
        return int(out.size + 1)


FAILURES = {
    Divides: "agent 1 in round 1 of run 0.*receive raised ZeroDivisionError.*test_driver.py:",
    TooFar: "agent 0 in round 1 of run 0.*observe raised IndexError.*test_driver.py:",
    NotANumber: "agent 0 in round 1 of run 0.*finite",
    TooLong: "agent 1 in round 1 of run 0.*length of 8.* 0 to 7",
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("kind", FAILURES, ids=lambda kind: kind.name)
def test_what_fails_is_named_alike_on_both_engines(kind: type[PushSum]) -> None:
    policy = cb.combine(kind(), cb.UCB())
    sentences = []
    for engine in ("reference", "cpu"):
        with pytest.raises(cb.InputError, match=FAILURES[kind]) as caught:
            cb.simulate(PROBLEM, GRID, policy, 20, engine=engine, progress=False)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]


SEEN: dict[str, int] = {}


@dataclass(frozen=True)
class Stuck(PushSum):
    name: ClassVar[str] = "stuck"

    @staticmethod
    def observe(s: Any, pull: Any) -> None:
        SEEN["pulls"] = SEEN.get("pulls", 0) + 1
        rows.add(s.mass, pull)


def test_what_numba_cannot_compile_is_named_by_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    result = cb.simulate(PROBLEM, GRID, cb.combine(Stuck(), cb.UCB()), 5, progress=False)
    assert result.meta["engines"] == ["reference"]
    note = " ".join(capsys.readouterr().err.split())
    assert re.search(r"Untyped global name 'SEEN'.*test_driver\.py:\d+: SEEN\[\"pulls\"\] = ", note)


def test_fields_are_numbers_or_sizes() -> None:
    class Odd(PushSum):
        def fields(self, sizes: Sizes) -> Any:
            return {"mass": "width"}

    with pytest.raises(cb.InputError, match=r"field mass.*'width'.*sizes\.width"):
        Odd().layout(Sizes(3, 6, Links(2), 8))

"""The array engine equals the reference engine, and says what it cannot play."""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest

import coopbandits as cb
from benchmarks.parts import ConsensusRows, OwnConsensus
from coopbandits.core import Aggregation, Index, RowEstimates
from coopbandits.core.statistic import Statistic
from coopbandits.sim import array, reference
from coopbandits.sim.array import ENGINE
from coopbandits.sim.engine import choose
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup
from coopbandits.sim.stop import read_stop

from .array_forms import Fivefold, Formless, Growing, Moody

PROBLEM = cb.GaussianBandit([0.5, 1.0, 0.8], sigma=0.6)
NETWORKS = {
    "cycle": cb.Network.from_spec("cycle:7"),
    "star": cb.Network.from_spec("star:6", weights="metropolis"),
    "grid": cb.Network.from_spec("grid:5x8"),  # two blocks of agents
    "single": cb.Network(nx.empty_graph(1)),
}
INDICES = (
    cb.UCB(),
    cb.InflatedUCB(2.0, "closed"),  # numbers of its own for every agent
    cb.KLUCB(),
    cb.CentredDraw(),
    cb.CentredDraw("estimate"),  # a sum of squares
    cb.TopTwo(),
    cb.EpsilonGreedy(),
)


def play(policy: Any, network: str = "cycle", **changed: Any) -> cb.Result:
    settings: dict[str, Any] = {
        "horizon": 60,
        "runs": 2,
        "seed": 5,
        "keep": "arms",
        "progress": False,
    }
    return cb.simulate(PROBLEM, NETWORKS[network], policy, **(settings | changed))


def assert_same(left: cb.Result, right: cb.Result) -> None:
    assert set(left.dataset) == set(right.dataset)
    for name in left.dataset:
        one, other = left.dataset[name].values, right.dataset[name].values
        if name in ("regret", "realized_regret"):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        else:
            assert np.array_equal(one, other), name


@pytest.mark.covering
@pytest.mark.plays
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("index", INDICES, ids=lambda index: index.spelling)
@pytest.mark.parametrize("aggregation", [OwnConsensus(), Moody()], ids=lambda one: one.name)
def test_plays_the_same_as_the_reference_engine(
    aggregation: Aggregation, index: Index, network: str
) -> None:
    policy = cb.combine(aggregation, index)
    found = play(policy, network)
    assert found.meta["engines"] == ["array"]
    assert_same(found, play(policy, network, engine="reference"))


@pytest.mark.plays
@pytest.mark.parametrize("index", INDICES, ids=lambda index: index.spelling)
def test_a_running_consensus_of_ones_own_plays_what_ours_plays(index: Index) -> None:
    own = play(cb.combine(OwnConsensus(), index), "grid", horizon=300)
    ours = play(cb.combine(cb.RunningConsensus(), index), "grid", horizon=300)
    assert (own.meta["engines"], ours.meta["engines"]) == (["array"], ["cpu"])
    for name in ("arms", "arm_counts", "agent_pulls", "values_sent"):
        if name in ours.dataset:
            assert np.array_equal(own.dataset[name], ours.dataset[name]), name
    np.testing.assert_allclose(own.regret.values, ours.regret.values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "changed",
    [
        {"keep": "agents", "rounds": [1, 2, 59]},
        {"keep": "", "rounds": 5},
        {"shuffle_arms": True, "runs": 3},
        {"horizon": 1},
        {"rounds": range(1, 61)},
    ],
    ids=str,
)
def test_what_is_recorded(changed: dict[str, Any]) -> None:
    policy = cb.combine(OwnConsensus(), cb.CentredDraw())
    with pytest.warns(UserWarning) if changed.get("horizon") == 1 else np.errstate():
        assert_same(play(policy, **changed), play(policy, engine="reference", **changed))


def test_agents_are_told_their_words_in_every_run() -> None:
    policy = cb.combine(Moody(), cb.UCB())
    whole, later = play(policy, runs=4), play(policy, runs=4, engine="reference")
    assert_same(whole, later)
    assert not np.array_equal(whole.dataset["arms"][0, 0], whole.dataset["arms"][0, 3])


def test_values_are_counted_by_the_driver() -> None:
    result = play([cb.combine(one, cb.UCB()) for one in (OwnConsensus(), Moody())], rounds=[7, 60])
    values = result.dataset["values_sent"].values
    assert values[0].tolist() == [[14 * 6 * 7, 14 * 6 * 60]] * 2
    assert not values[1].any()


# What stands in the way


@dataclass(frozen=True)
class Shapeless(Statistic):
    """Sums and counts of which kernels know nothing."""

    name: ClassVar[str] = "shapeless"

    def registers(self, num_arms: int) -> Any:
        registers = copy(cb.ArmSums().registers(num_arms))
        registers.layout = None
        return registers


class Unknown(cb.UCB):
    name = "unknown"

    @property
    def statistic(self) -> Statistic:
        return Shapeless()


class Texts(cb.UCB):
    """Asks for what numba does not know."""

    name = "texts"
    bonus: Any = None

    @staticmethod
    def value(arm: int, estimate: Any, word: int, numbers: Any, scratch: Any) -> float:
        return float(str({arm: object()}.popitem()[0]))


def task(policy: Any, faults: str = "none", clocks: str = "none", stop: str = "none") -> Task:
    conditions: dict[str, Any] = {
        "faults": cb.parse_faults(faults),
        "clocks": cb.parse_clocks(clocks),
        "stop": read_stop(stop),
    }
    return Task(Setup(PROBLEM, NETWORKS["cycle"], 9, np.array([9]), **conditions), policy)


@pytest.mark.parametrize(
    ("policy", "conditions", "sentence"),
    [
        (cb.CentralUCB(), {}, "has no array form"),
        (cb.DDUCB(), {}, "aggregation staged-mixing"),
        (cb.combine(Formless(), cb.UCB()), {}, "aggregation formless"),
        (
            cb.combine(OwnConsensus(), cb.UCB()),
            {"faults": "loss=0.3"},
            r"faults loss=0\.3",
        ),
        (
            cb.combine(OwnConsensus(), cb.UCB()),
            {"clocks": "poisson"},
            "own clocks",
        ),
        (
            cb.combine(Fivefold(), cb.UCB()),
            {"stop": "0.95"},
            "has no array form for agents that stop",
        ),
        (
            cb.combine(OwnConsensus(), Unknown()),
            {},
            "statistic shapeless",
        ),
        (
            cb.combine(Growing(), cb.UCB()),
            {},
            "2 to 5 values",
        ),
        (
            cb.combine(OwnConsensus(), Texts()),
            {},
            "index .*Texts",
        ),
    ],
)
def test_obstacles(policy: Any, conditions: dict[str, str], sentence: str) -> None:
    found = ENGINE.obstacle(task(policy, **conditions))
    assert found is not None and re.search(sentence, found)
    assert choose("auto", task(policy, **conditions)).name != "array"


def test_claims_rest_on_certified_pulls_in_every_engine() -> None:
    """Rows hold what is played on, here five times the certified pulls: they say nothing of it."""
    policy = cb.combine(Fivefold(), cb.UCB(constant=40))
    problem = cb.GaussianBandit([0.0, 2.0], sigma=0.5)
    fast, slow = (
        cb.simulate(problem, NETWORKS["cycle"], policy, 200, 1, 3, engine, stop=0.95)
        for engine in ("array", "reference")
    )
    np.testing.assert_array_equal(fast.stops.stop_round, slow.stops.stop_round)
    assert (slow.stops.stop_round > 0).any()


def test_only_the_slow_engine_is_worth_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    policy = cb.combine(OwnConsensus(), cb.UCB())
    assert choose("auto", task(policy)) is choose("array", task(policy)) is ENGINE
    assert capsys.readouterr().err == ""
    assert choose("array", task(policy, faults="loss=0.3")) is reference.ENGINE
    noted = " ".join(capsys.readouterr().err.split())
    assert "loss=0.3" in noted


# What goes wrong on the way


class Wide(ConsensusRows):
    def estimate(self) -> RowEstimates:
        told = super().estimate()
        return told._replace(totals=told.totals[:, 1:])


class Short(ConsensusRows):
    def estimate(self) -> RowEstimates:
        return super().estimate()._replace(time=np.ones(self.num_agents - 1))


class Undefined(ConsensusRows):
    def estimate(self) -> RowEstimates:
        told = super().estimate()
        return told._replace(totals=np.full_like(told.totals, np.nan))


class Endless(ConsensusRows):
    def estimate(self) -> RowEstimates:
        told = super().estimate()
        is_late = self.registers.version(told.totals) > 7 * 19
        return told._replace(time=np.where(is_late, np.inf, told.time))


def with_rows(monkeypatch: pytest.MonkeyPatch, rows: type[ConsensusRows]) -> Any:
    monkeypatch.setattr(
        OwnConsensus, "make_rows", lambda self, views, *rest: rows(len(views), *rest)
    )
    return cb.combine(OwnConsensus(), cb.CentredDraw())


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (Wide, r"\(7, 5\).*\(7, 6\)"),
        (Short, "time.*broadcast"),
        (Undefined, "finite after 0 rounds"),
        (Endless, "finite after 20 rounds"),
    ],
)
def test_estimates_that_are_not_of_this_run_are_refused(
    rows: type[ConsensusRows], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        play(with_rows(monkeypatch, rows))


def test_progress_is_told_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array, "SPAN_PULLS", 70)
    ticks: list[int] = []
    setup = Setup(PROBLEM, NETWORKS["cycle"], 25, np.array([3, 25]))
    played = Task(setup, cb.combine(OwnConsensus(), cb.UCB()))
    record = ENGINE.play(played, range(2), ticks.append)
    assert ticks == [70, 70, 35, 70, 70, 35]
    assert record.arm_counts.sum(axis=2).tolist() == [[21, 175]] * 2


class Stopped(ConsensusRows):
    """Somebody presses Ctrl-C in the second run."""

    made: ClassVar[int] = 0

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        Stopped.made += 1

    def exchange(self, pulls: Any) -> None:
        super().exchange(pulls)
        if Stopped.made == 3:  # the first was made to see whether there is one
            raise KeyboardInterrupt


def test_ctrl_c_keeps_finished_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = with_rows(monkeypatch, Stopped)
    with pytest.raises(cb.SimulationInterrupted, match="kept 1 of 3 runs") as caught:
        play(policy, runs=3)
    assert caught.value.result is not None
    monkeypatch.undo()
    whole = play(policy, runs=1)
    assert np.array_equal(caught.value.result.dataset["arms"], whole.dataset["arms"])

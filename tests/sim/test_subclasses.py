"""Subclasses of what ships: what they change is what is played, on every engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import coopbandits as cb
from coopbandits.core.statistic.arm_sums import ArmRegisters
from coopbandits.sim import cpu, gpu
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup, recorded_rounds

PROBLEM = cb.GaussianBandit([5.0, 3.0, 0.5])
NETWORK = cb.Network.from_spec("cycle:4")


def task_of(policy: cb.Policy | cb.CentralPolicy) -> Task:
    return Task(Setup(PROBLEM, NETWORK, 5, recorded_rounds(5)), policy)


@dataclass(frozen=True)
class OwnAgents(cb.TreeTS):
    name: ClassVar[str] = "own-agents"

    def make_agent(self, view: cb.LocalView) -> Any:
        return cb.IndependentUCB().make_agent(view)


@dataclass(frozen=True)
class OwnAgentsOfMeans(cb.GossipUCB):
    """Its parent is made of parts."""

    name: ClassVar[str] = "own-agents-of-means"

    def make_agent(self, view: cb.LocalView) -> Any:
        return cb.IndependentUCB().make_agent(view)


@dataclass(frozen=True)
class Both(cb.Policy):
    """Writes parts and agents that are not made of them."""

    name: ClassVar[str] = "both"

    @property
    def parts(self) -> cb.Parts:
        return cb.Parts(cb.TreeSums(), cb.UCB())

    def make_agent(self, view: cb.LocalView) -> Any:
        return cb.IndependentUCB().make_agent(view)


@dataclass(frozen=True)
class OwnController(cb.CentralUCB):
    name: ClassVar[str] = "own-controller"

    def make_controller(self, num_arms: int, sigma: float, num_features: int = 0) -> Any:
        return cb.CentralTS().make_controller(num_arms, sigma, num_features)


@pytest.mark.parametrize(
    "policy", [OwnAgents(), OwnAgentsOfMeans(), Both(), OwnController()], ids=lambda each: each.name
)
def test_agents_that_a_class_makes_itself_are_played(policy: Any) -> None:
    found = cb.simulate(PROBLEM, NETWORK, policy, 20, keep="arms", progress=False)
    expected = cb.CentralTS() if policy.central else cb.IndependentUCB()
    alike = cb.simulate(PROBLEM, NETWORK, expected, 20, keep="arms", progress=False)
    assert found.arms.values.tolist() == alike.arms.values.tolist()
    assert found.meta["engines"] == ["reference"]
    task = task_of(policy)
    assert cpu.obstacle(task) == gpu.obstacle(task) == " for agents that it makes itself"


def test_parts_that_are_not_played_state_no_confidence_and_have_no_source() -> None:
    with pytest.raises(cb.InputError, match="confidence"):
        cb.simulate(PROBLEM, NETWORK, OwnAgents(), 5, stop=0.95)
    with pytest.raises(cb.InputError, match="OwnAgents"):
        cb.at_source(cb.Truncated(limit=4.0), OwnAgents())


class Capped(ArmRegisters):
    """Rewards count at most 1."""

    def add(self, values: Any, arm: int, reward: float, weight: float = 1.0) -> None:
        super().add(values, arm, min(1.0, reward), weight)


@dataclass(frozen=True)
class CappedSums(cb.ArmSums):
    name: ClassVar[str] = "capped-sums"

    def registers(self, num_arms: int) -> Capped:
        return Capped(num_arms)


@dataclass(frozen=True)
class CappedUCB(cb.UCB):
    name: ClassVar[str] = "capped-ucb"

    @property
    def statistic(self) -> CappedSums:
        return CappedSums()


def test_what_a_statistic_adds_is_played() -> None:
    policy = cb.combine(cb.TreeSums(), CappedUCB())
    found = cb.simulate(PROBLEM, NETWORK, policy, 40, keep="arms", progress=False)
    plain = cb.combine(cb.TreeSums(), cb.UCB())
    without = cb.simulate(PROBLEM, NETWORK, plain, 40, keep="arms", progress=False)
    assert found.meta["engines"] == ["reference"]
    assert found.arms.values.tolist() != without.arms.values.tolist()
    assert "statistic" in str(cpu.obstacle(task_of(policy)))


class Worst:
    """Plays the worst arm; for other classes to mix in."""

    @staticmethod
    def value(arm: int, estimate: cb.Estimate, word: int, numbers: Any, scratch: Any) -> float:
        if estimate.counts[arm] <= 0.0:
            return math.inf
        return float(-estimate.sums[arm] / estimate.counts[arm])


@dataclass(frozen=True)
class WorstUCB(Worst, cb.UCB):
    name: ClassVar[str] = "worst-ucb"


@dataclass(frozen=True)
class WorstKL(Worst, cb.KLUCB):
    name: ClassVar[str] = "worst-kl"


@pytest.mark.covering(1)
@pytest.mark.parametrize("index", [WorstUCB(), WorstKL()], ids=lambda each: each.name)
def test_the_value_of_a_mixin_is_played_on_every_engine(index: cb.Index) -> None:
    policy = cb.combine(cb.LocalSums(), index)
    played = [
        cb.simulate(PROBLEM, NETWORK, policy, 40, engine=engine, keep="arms", progress=False)
        for engine in ("reference", "cpu")
    ]
    assert played[0].arms.values.tolist() == played[1].arms.values.tolist()
    assert (played[0].arms.values == 2).mean() > 0.8

"""Sources: compiled functions make of rewards what agents do in plain Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numba import njit

import coopbandits as cb
from coopbandits.core.draws import words
from coopbandits.core.sources import MOST_STEPS, laplace_of
from coopbandits.sim import gpu
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup, recorded_rounds

from .test_driver import GRID, PROBLEM, compare

pytestmark = pytest.mark.plays

COINS = cb.BernoulliBandit([0.8, 0.5, 0.3])
PRIVATE = cb.Private(2.0, 100)
POLICIES = (
    cb.at_source(PRIVATE, cb.combine(cb.LocalSums(), cb.UCB())),
    cb.at_source(PRIVATE, cb.combine(cb.RunningSums(), cb.NormalDraw())),
    cb.at_source(cb.Truncated(0.5, 1.5), cb.combine(cb.LocalSums(), cb.UCB())),
    cb.at_source(cb.Truncated(0.5), cb.combine(cb.TreeSums(discount=0.9), cb.NormalDraw())),
    cb.at_source(PRIVATE, cb.combine(cb.FloodedTotals(), cb.NormalDraw())),
    cb.FedUCB(50.0, 60),
)


@pytest.mark.covering(3)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda each: each.spelling)
@pytest.mark.parametrize("faults", ["none", "delay=2,loss=0.2,crash=0.4@5..20:lost", "sleep=0.3"])
def test_faults(policy: cb.Policy, faults: str) -> None:
    compare(policy, COINS, faults=faults)


@pytest.mark.covering(2)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda each: each.spelling)
def test_worlds(policy: cb.Policy) -> None:
    world = cb.subsets(COINS, [[0, 1], [1, 2]])
    compare(policy, world, shuffle_arms=True, faults="loss=0.2")


def test_clocks() -> None:
    compare(POLICIES[2], PROBLEM, clocks="poisson:latency=1", keep="agents")


@njit  # type: ignore[untyped-decorator]  # numba has no types
def drawn(secrets: Any, numbers: Any, scale: int, found: Any) -> None:
    for i in range(found.size):
        life, arm, level, first = numbers[i]
        found[i] = laplace_of(secrets[i], life, arm, level, first, scale)


@pytest.mark.parametrize("scale", [1, 3, 1000, 5 << 20, MOST_STEPS - 1])
def test_noise_is_the_same_to_the_bit(scale: int) -> None:
    secrets, numbers = words(7, np.arange(2400, dtype=np.uint64)).view(np.int64).reshape(2, 300, 4)
    numbers[:, 1:] &= (1 << 40) - 1  # lives have any 64 bits
    found = np.zeros(300, dtype=np.int64)
    drawn(secrets, numbers, scale, found)
    expected = [
        laplace_of(secret, life, arm, level, first, scale)
        for secret, (life, arm, level, first) in zip(secrets, numbers.tolist(), strict=True)
    ]
    assert found.tolist() == expected


@dataclass(frozen=True)
class Halved(cb.Source):
    """The first reward of an arm counts, and of all others a half."""

    name: ClassVar[str] = "halved"

    def fields(self, num_arms: int) -> Mapping[str, Any]:
        return {"paid": num_arms}

    @staticmethod
    def drawn(s: Any, arm: int, reward: float, estimate: cb.Estimate) -> float:
        s.paid[arm] += 1.0
        return reward if s.paid[arm] == 1.0 else 0.5 * reward


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (cb.Private(1.0, 59), "more pulls than private:epsilon=1,horizon=59 is made for"),
        (cb.Private(1e-9, 60), "noise as large as that of private:epsilon=1e-09"),
        (Halved(), "no compiled kernel for source .*Halved"),
    ],
)
def test_the_reference_engine_plays_the_others(
    source: cb.Source, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = cb.at_source(source, cb.combine(cb.LocalSums(), cb.UCB()))
    found = cb.simulate(COINS, GRID, policy, 60, progress=False)
    assert found.meta["engines"] == ["reference"]
    assert cb.parse_policy("local-sums*ucb") in policy.members
    assert re.search(sentence, capsys.readouterr().err)


def test_no_shortcut_and_no_gpu_plays_rewards_as_they_are() -> None:
    setup = Setup(COINS, GRID, 60, recorded_rounds(60))
    assert gpu.obstacle(Task(setup, POLICIES[0])) == " for rewards from a source"
    loud = cb.at_source(cb.Private(0.01, 100), cb.combine(cb.LocalSums(), cb.UCB()))
    plain = cb.combine(cb.LocalSums(), cb.UCB())
    played = [
        cb.simulate(COINS, GRID, each, 60, keep="arms", progress=False) for each in (loud, plain)
    ]
    assert played[0].meta["engines"] == played[1].meta["engines"] == ["cpu"]
    assert (played[0].arms.values != played[1].arms.values).any()

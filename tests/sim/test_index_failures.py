"""A custom index that fails gets the same sentence in every engine: who, when, where and why."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.contract import Estimate, LocalView
from coopbandits.sim.cpu import runs
from coopbandits.sim.gpu.backend import VARIABLE, backend

PROBLEM = cb.GaussianBandit([0.0, 1.0, 0.5])
NETWORK = cb.Network.from_spec("cycle:4")


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, "emulated")
    backend.cache_clear()
    yield
    backend.cache_clear()


@dataclass(frozen=True)
class Even(cb.Index):
    """Plays all arms in turn; those below fail once an arm has ten pulls, which no trial makes."""

    name: ClassVar[str] = "even"
    random: ClassVar[bool] = False

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return -float(estimate.counts[arm])


class DividesInValue(Even):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(-float(estimate.counts[arm]) + max(0.0, -1.0 / (10.0 - estimate.counts[arm])))


class DividesInPrepare(Even):
    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = 1.0 / (10.0 - estimate.counts[0])


class ReturnsNaN(Even):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return math.nan if estimate.counts[arm] > 9.0 else -float(estimate.counts[arm])


class LogOfZero(Even):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(
            max(0.0, math.log(abs(10.0 - estimate.counts[arm]))) - 2.0 * estimate.counts[arm]
        )


class RootOfNegative(Even):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(min(0.0, sqrt(9.0 - estimate.counts[arm])) - 2.0 * estimate.counts[arm])


class Overflows(Even):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(min(0.0, math.exp(75.0 * estimate.counts[arm])) - estimate.counts[arm])


def _left(count: float) -> float:
    return 1.0 / (10.0 - count)


class DividesInAHelper(Even):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(min(0.0, _left(estimate.counts[arm])) - estimate.counts[arm])


class ReadsBeyond(Even):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        beyond = int(max(0.0, estimate.counts[arm] - 7.0))
        return float(0.0 * estimate.sums[beyond] - estimate.counts[arm])


class DividesInPick(Even):
    @staticmethod
    def pick(values: Any, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> int:
        if 1.0 / (10.0 - estimate.counts[0]) > 2.0:
            return 1
        return int(estimate.time) % 3


class PicksTooHigh(Even):
    @staticmethod
    def pick(values: Any, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> int:
        return 7 if estimate.counts[0] > 9.0 else int(estimate.time) % 3


DIVIDED = "ZeroDivisionError: float division by zero"
FAILURES: dict[type[cb.Index], str] = {
    DividesInValue: f"{DIVIDED} in value for arm 0",
    DividesInPrepare: f"{DIVIDED} in prepare",
    ReturnsNaN: "NaN for arm 0",
    LogOfZero: "ValueError: math domain error in value for arm 0",
    RootOfNegative: "ValueError: math domain error in value for arm 0",
    Overflows: "OverflowError: math range error in value for arm 0",
    DividesInAHelper: f"{DIVIDED} in value for arm 0",
    ReadsBeyond: "IndexError: list index out of range in value for arm 0",
    DividesInPick: f"{DIVIDED} in pick",
    PicksTooHigh: "arm 7",
}


def sentence(policy: Any, engine: str, **more: Any) -> str:
    with pytest.raises(cb.InputError) as caught:
        cb.simulate(PROBLEM, NETWORK, policy, 60, engine=engine, progress=False, **more)
    return str(caught.value)


@pytest.mark.covering(3)
@pytest.mark.parametrize("kind", FAILURES)
def test_engines_say_the_same(kind: type[cb.Index]) -> None:
    policy = cb.combine(cb.LocalSums(), kind())
    expected = sentence(policy, "reference")
    assert expected.startswith("agent 0 in round ")
    assert kind().spelling in expected and FAILURES[kind] in expected
    if "raised" in expected:
        assert f"{Path(__file__).name}:" in expected, "the line of the user's file"
    assert sentence(policy, "cpu") == expected


@pytest.mark.covering(2)
@pytest.mark.parametrize("kind", [DividesInValue, LogOfZero, DividesInPick, PicksTooHigh])
def test_the_gpu_says_the_same(kind: type[cb.Index]) -> None:
    policy = cb.combine(cb.LocalSums(), kind())
    assert sentence(policy, "gpu") == sentence(policy, "reference")


@pytest.mark.covering(2)
@pytest.mark.plays
@pytest.mark.parametrize(
    "aggregation",
    [cb.RunningConsensus(), cb.TreeSums(), cb.FloodedTotals(), cb.CentralTotals(1)],
    ids=lambda each: each.name,
)
def test_in_any_aggregation(aggregation: Any) -> None:
    policy = cb.combine(aggregation, LateInTime())
    expected = sentence(policy, "reference")
    assert "math domain error" in expected
    assert sentence(policy, "cpu") == expected


class LateInTime(Even):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(max(0.0, math.log(90.0 - estimate.time)) - 9.0 * estimate.counts[arm])


class Bounded(DividesInValue):
    """By the form that skips arms whose bound is too low."""

    @staticmethod
    def bound(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return 1.0


class WithBonus(Even):
    """By the form without values: (s + √(a n + c))/n."""

    prepare_reads: ClassVar[str] = "time"

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        return (view.sigma**2,)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = numbers[0] * math.log(30.0 - estimate.time)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        if estimate.counts[arm] <= 1e-12 * estimate.num_agents:
            return math.inf
        root = math.sqrt(scratch[0] * estimate.counts[arm])
        return float((estimate.sums[arm] + root) / estimate.counts[arm])

    @staticmethod
    def bonus(estimate: Estimate, numbers: Any, scratch: Any) -> tuple[float, float]:
        return scratch[0], 0.0


class WithNegativeBonus(WithBonus):
    """The bonus turns negative, so the root in `value` is undefined."""

    prepare_reads: ClassVar[str] = "time"

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = 20.5 - estimate.time

    value = staticmethod(WithBonus.value)
    bonus = staticmethod(WithBonus.bonus)


@pytest.mark.covering(3)
@pytest.mark.parametrize("index", [Bounded(), WithBonus(), WithNegativeBonus()])
@pytest.mark.parametrize("faults", [None, "loss=0.1"])
def test_in_every_compiled_form(index: cb.Index, faults: str | None) -> None:
    """With faults, the index with a bonus is not played by the shortcut for own sums."""
    policy = cb.combine(cb.LocalSums(), index)
    expected = sentence(policy, "reference", faults=faults)
    assert "raised" in expected
    assert sentence(policy, "cpu", faults=faults) == expected


def test_what_takes_too_long_to_play_again_is_named_without_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "REPLAYED", 100)
    found = sentence(cb.combine(cb.LocalSums(), ReturnsNaN()), "cpu")
    assert found.startswith("agent 0 in round 29 of run 0")
    assert found.endswith('engine="reference"')


class Guarded(Even):
    """Divides by zero nowhere, with NaN and ∞ on its way."""

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        count = estimate.counts[arm]
        if count == 10.0:
            return math.inf
        found = math.log(math.inf) + math.exp(-math.inf) + 1.0 / (10.0 - count)
        return -count if found == math.inf else math.inf - math.inf


def test_an_index_that_is_careful_plays_compiled() -> None:
    first, second = (
        cb.simulate(
            PROBLEM, NETWORK, cb.combine(cb.LocalSums(), Guarded()), 60, engine=engine, keep="arms"
        )
        for engine in ("reference", "cpu")
    )
    assert second.meta["engines"] == ["cpu"]
    np.testing.assert_array_equal(first.arms, second.arms)

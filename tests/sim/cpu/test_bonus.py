"""Indices that declare a bonus, on the kernels that need not compute an index in every round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from coopbandits.core.aggregate import AnyAggregation, LocalSums, StagedMixing
from coopbandits.core.contract import Estimate
from coopbandits.core.index import KLUCB, UCB, Index
from coopbandits.core.policy import combine
from coopbandits.core.registry import INDICES
from coopbandits.literature import InflatedUCB
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit
from coopbandits.sim import cpu, simulate
from coopbandits.sim.cpu import pulls, staged

PROBLEM, NETWORK = GaussianBandit([0.3, 0.5, 0.45, 0.1]), Network.from_spec("cycle:6")
AGGREGATIONS = [LocalSums(), StagedMixing(), StagedMixing(own_pulls=False)]


@dataclass(frozen=True)
class Growing(Index):
    """As UCB, from its formula."""

    name: ClassVar[str] = "growing"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = 0.8 * math.log(estimate.time)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        count = estimate.counts[arm]
        if count <= 1e-12 * estimate.num_agents:
            return math.inf
        return float(estimate.sums[arm] / count + math.sqrt(scratch[0] / count))

    @staticmethod
    def bonus(estimate: Estimate, numbers: Any, scratch: Any) -> tuple[float, float]:
        return scratch[0], 0.0


@dataclass(frozen=True)
class Falling(Growing):
    """Explores less and less: a bound for a stretch of rounds would not hold."""

    name: ClassVar[str] = "falling"

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = 60.0 / estimate.time


@dataclass(frozen=True)
class Offset(Index):
    """One with c > 0, but only late."""

    name: ClassVar[str] = "offset"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = max(0.0, estimate.time - 40.0)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        count = estimate.counts[arm]
        if count <= 1e-12 * estimate.num_agents:
            return math.inf
        return float((estimate.sums[arm] + math.sqrt(count + scratch[0])) / count)

    @staticmethod
    def bonus(estimate: Estimate, numbers: Any, scratch: Any) -> tuple[float, float]:
        return 1.0, scratch[0]


def played(aggregation: AnyAggregation, index: Index, engine: str) -> Any:
    policy = combine(aggregation, index)
    result = simulate(PROBLEM, NETWORK, policy, 300, 2, 0, engine, keep="arms")
    return result.arms.values.tolist()


@pytest.fixture
def shortcuts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of indices that take the faster kernels, as they do."""
    taken: list[str] = []
    for original in (staged.play_staged_bonus, staged.play_local_bonus):

        def spy(parts: Any, *rest: Any, original: Any = original) -> Any:
            with pytest.MonkeyPatch.context() as patch:

                def play(*given: Any) -> None:
                    taken.append(parts.index.name)
                    pulls.play_bonus(*given)

                patch.setattr(staged, "play_bonus", play)
                return original(parts, *rest)

        monkeypatch.setattr(cpu, original.__name__, spy)
    return taken


@pytest.mark.covering(3)
@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda part: part.spelling)
@pytest.mark.parametrize("index", [UCB(), KLUCB(), Growing()], ids=lambda part: part.spelling)
def test_a_mean_and_a_root_take_the_faster_kernel(
    shortcuts: list[str], aggregation: AnyAggregation, index: Index
) -> None:
    assert played(aggregation, index, "cpu") == played(aggregation, index, "reference")
    assert set(shortcuts) == {index.name}


@pytest.mark.covering(3)
@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda part: part.spelling)
@pytest.mark.parametrize(
    "index", [Falling(), Offset(), InflatedUCB()], ids=lambda part: part.spelling
)
def test_others_that_declare_a_bonus_do_not(
    shortcuts: list[str], aggregation: AnyAggregation, index: Index
) -> None:
    assert played(aggregation, index, "cpu") == played(aggregation, index, "reference")
    if not (isinstance(index, Falling) and aggregation == AGGREGATIONS[2]):
        assert not shortcuts  # without own pulls nothing falls within a stage


def test_at_least_two_shipped_indices_declare_a_bonus() -> None:
    """Else the tests above say little."""
    assert sum(kind().bonus is not None for kind in INDICES) >= 2

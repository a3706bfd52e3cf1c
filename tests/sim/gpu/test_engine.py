"""What the GPU engine says where it cannot play, and that batches change no bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.aggregate import LocalSums
from coopbandits.core.index import Index
from coopbandits.core.registry import parse_policy
from coopbandits.sim import gpu
from coopbandits.sim.gpu.backend import VARIABLE, backend
from coopbandits.sim.gpu.emulated import Emulated
from coopbandits.sim.gpu.runs import run_bytes
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup, recorded_rounds

PROBLEM = cb.GaussianBandit([1.0, 0.5])
NETWORK = cb.Network.from_spec("cycle:4")


def task(policy: Any, runs: int = 1, **more: Any) -> Task:
    return Task(Setup(PROBLEM, NETWORK, 30, recorded_rounds(30), runs, **more), policy)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("dducb:neighbor_pulls=true", "neighbours' pulls"),
        ("dducb:remix=true,own_pulls=false", "remixed totals"),
        ("ucb-network", "neighborhood-sums"),
        ("central-ucb", "after every pull"),
        ("local-sums*centred-draw:sigma=estimate", "for statistic"),
    ],
)
def test_what_has_no_kernel_is_played_by_the_cpu(
    text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = cb.simulate(PROBLEM, NETWORK, parse_policy(text), 20, engine="gpu", progress=False)
    assert result.meta["engines"] == ["cpu"]
    noted = capsys.readouterr().err
    assert why in noted
    assert "cpu engine plays it" in noted


def test_faults_are_left_to_the_cpu() -> None:
    found = cb.simulate(
        PROBLEM, NETWORK, parse_policy("dec-ts"), 20, engine="gpu", faults="loss=0.3"
    )
    assert found.meta["engines"] == ["cpu"]


@dataclass(frozen=True)
class Dictionary(Index):
    """Does what C++ cannot."""

    name: ClassVar[str] = "dictionary"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    @staticmethod
    def value(arm: int, estimate: Any, word: int, numbers: Any, scratch: Any) -> float:
        with_arm = (arm, estimate.counts[arm])
        return -float(with_arm[1])


def test_an_index_that_is_no_cpp_is_named_with_its_line() -> None:
    missing = gpu.obstacle(task(cb.combine(LocalSums(), Dictionary())))
    assert missing is not None
    assert "line 3 of value has (arm, estimate.counts[arm])" in missing


@dataclass(frozen=True)
class Fewest(Index):
    """Somebody's own: the arm pulled least often, weighed in a loop."""

    weight: float = 2.0
    name: ClassVar[str] = "fewest"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "arms"

    def numbers(self, view: Any) -> tuple[float, ...]:
        return (self.weight,)

    @staticmethod
    def prepare(estimate: Any, word: int, numbers: Any, scratch: Any) -> None:
        total = 0.0
        for k in range(len(estimate.counts)):
            total += numbers[0] * estimate.counts[k]
        scratch[0] = total

    @staticmethod
    def value(arm: int, estimate: Any, word: int, numbers: Any, scratch: Any) -> float:
        return float(scratch[0] - estimate.counts[arm] ** 2)


def test_an_index_of_somebody_else() -> None:
    policy = cb.combine(LocalSums(), Fewest())
    engines = [
        cb.simulate(PROBLEM, NETWORK, policy, 25, 2, engine=engine, keep="arms")
        for engine in ("gpu", "reference")
    ]
    assert engines[0].meta["engines"] == ["gpu"]
    assert np.array_equal(engines[0].arms, engines[1].arms)


@dataclass(frozen=True)
class NoNumber(Fewest):
    """Its values are no numbers, without an error in plain Python."""

    name: ClassVar[str] = "no-number"

    @staticmethod
    def value(arm: int, estimate: Any, word: int, numbers: Any, scratch: Any) -> float:
        huge = 1e200 * estimate.time * 1e200
        return float(huge - huge)


def test_a_value_that_is_no_number_is_refused() -> None:
    made = gpu.ENGINE.play
    with pytest.raises(
        cb.InputError, match=r"agent 0 in round 1 of run 0.*NoNumber.*NaN for arm 0"
    ):
        made(task(cb.combine(LocalSums(), NoNumber())), range(1), lambda _: None)


@pytest.mark.parametrize("text", ["dducb", "dec-ts"])
def test_a_run_is_the_same_bits_in_any_batch(text: str) -> None:
    whole = task(parse_policy(text), 35, keep="agents")
    together = gpu.ENGINE.play(whole, range(35), lambda _: None)
    alone = gpu.ENGINE.play(whole, range(33, 34), lambda _: None)
    for name in ("rewards", "worst", "arm_counts", "agent_pulls"):
        assert np.array_equal(getattr(together, name)[33:34], getattr(alone, name)), name


def test_memory_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    played = task(cb.DDUCB(), 5)
    expected = gpu.ENGINE.play(played, range(5), lambda _: None)
    monkeypatch.setattr(Emulated, "free_bytes", lambda _: 3 * run_bytes(played))
    found = gpu.ENGINE.play(played, range(5), lambda _: None)
    assert np.array_equal(found.rewards, expected.rewards)
    monkeypatch.setattr(Emulated, "free_bytes", lambda _: run_bytes(played) // 2)
    with pytest.raises(cb.InputError, match=r"dducb.* GB .*emulated"):
        gpu.ENGINE.play(played, range(5), lambda _: None)


def test_without_the_extra_or_a_device_or_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "device")
    backend.cache_clear()
    with pytest.raises(cb.InputError, match=r"cuda-core|CUDA device"):
        cb.simulate(PROBLEM, NETWORK, cb.DDUCB(), 20, engine="gpu")
    monkeypatch.setenv(VARIABLE, "abacus")
    backend.cache_clear()
    with pytest.raises(cb.InputError, match=f"{VARIABLE} 'abacus'"):
        cb.simulate(PROBLEM, NETWORK, cb.DDUCB(), 20, engine="gpu")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(cb.InputError, match=r"C\+\+ compiler"):
        Emulated()


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize("text", ["dducb", "dec-ts", "central-ts"])
def test_single_precision_is_close_and_is_named(text: str) -> None:
    network, policy = cb.Network.from_spec("regular:3,38,seed=1"), parse_policy(text)
    double, single = (
        cb.simulate(PROBLEM, network, policy, 100, 2, engine="gpu", keep="arms", precision=name)
        for name in ("float64", "float32")
    )
    assert single.meta["settings"]["precision"] == "float32"
    assert "precision" not in double.meta["settings"]
    apart = double.dataset["realized_regret"] - single.dataset["realized_regret"]
    assert 0.0 < float(np.abs(apart).max()) < 1e-3
    assert np.array_equal(double.arms, single.arms)


def test_single_precision_is_for_gpus_and_for_some_indices() -> None:
    with pytest.raises(cb.InputError, match=r"'float32'.*engine=.gpu."):
        cb.simulate(PROBLEM, NETWORK, cb.DDUCB(), 20, engine="cpu", precision="float32")
    with pytest.raises(cb.InputError, match="precision 'half'"):
        cb.simulate(PROBLEM, NETWORK, cb.DDUCB(), 20, precision="half")
    missing = gpu.obstacle(task(parse_policy("dec-bayes-ucb"), precision="float32"))
    assert missing is not None and "bayes-ucb:family=gaussian" in missing
    missing = gpu.obstacle(task(parse_policy("dec-ts:discount=0.9"), precision="float32"))
    assert missing is not None and "forget" in missing

"""Reward functions of one's own, compiled: the same rewards, whatever is edited or wrong."""

from __future__ import annotations

import importlib
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import njit

from coopbandits import (
    BernoulliBandit,
    BetaBandit,
    ExponentialBandit,
    GaussianBandit,
    InputError,
    LoggedBandit,
    MixtureBandit,
    Network,
    ParetoBandit,
    PoissonBandit,
    Problem,
    StudentTBandit,
    gamma_of,
    normal_of,
    parse_policy,
    simulate,
    word_at,
    word_of,
)
from coopbandits.core import draws
from coopbandits.sim.cpu import leaves
from coopbandits.sim.cpu.world import form_kind

CYCLE = Network.from_spec("cycle:5")


class Lottery(Problem):
    """Arm k pays 1/p_k with chance p_k: all means are 1, and chances differ."""

    def __init__(self, chances: list[float]) -> None:
        prizes = [[p, 1.0 / p] for p in chances]
        super().__init__([1.0] * len(chances), 0.5 / min(chances), numbers=prizes)

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return float(numbers[1]) if variate < numbers[0] else 0.0

    def describe(self) -> dict[str, Any]:
        return {"problem": "lottery", "numbers": self.kernel_form().table.tolist()}


class Cosine(Problem):
    """Arm k pays cos(z) + mean of a normal z, less its mean e^(−1/2)."""

    def __init__(self, means: list[float]) -> None:
        super().__init__(means, 1.0, variate="normal")

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return float(numbers[0] + math.cos(variate) - math.exp(-0.5))

    def describe(self) -> dict[str, Any]:
        return {"problem": "cosine", "means": self.means.tolist()}


class Sampler(Problem):
    """An own sampler: as many words as it likes, here of a ratio that has no simple quantile."""

    def __init__(self, means: list[float]) -> None:
        super().__init__(means, 0.6)

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        word = word_of(variate)
        first, second = gamma_of(word_at(word, 0), 2.0), gamma_of(word_at(word, 1), 2.0)
        return float(numbers[0] + first / (first + second) - 0.5 + 0.1 * normal_of(word))

    def describe(self) -> dict[str, Any]:
        return {"problem": "sampler", "means": self.means.tolist()}


class Doubled(GaussianBandit):
    """A subclass of ours that pays otherwise: twice the noise."""

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return float(numbers[0] + 2.0 * numbers[1] * variate)


class Textual(Lottery):
    """What numba does not compile."""

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return float(f"{numbers[1]}0") if variate < numbers[0] else 0.0


class Rarely(Lottery):
    """Pays no number once in ten thousand pulls, which no try finds."""

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        if variate < 1e-4:
            return math.nan
        return float(numbers[1]) if variate < numbers[0] else 0.0


class Raising(Lottery):
    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        if variate < 1e-4:
            raise ValueError("too small")
        return float(numbers[1]) if variate < numbers[0] else 0.0


GAUSSIAN, PARETO = GaussianBandit([0.2, 1.0, 0.6]), ParetoBandit([1.5, 2.0, 3.0], cap=20.0)
PROBLEMS: list[Problem] = [
    Lottery([0.5, 0.25, 0.1]),
    Cosine([0.2, 1.0, 0.6]),
    Sampler([0.2, 1.0, 0.6]),
    Doubled([0.2, 1.0, 0.6]),
    PoissonBandit([1.0, 2.5, 30.0]),
    ExponentialBandit([1.0, 2.0, 0.5]),
    PARETO,
    StudentTBandit([0.0, 1.0, 0.5], degrees=[2.0, 3.0, 30.0], scale=[1.0, 0.5, 2.0], cap=30.0),
    MixtureBandit([0.75, 0.25], [GAUSSIAN, PARETO]),
    MixtureBandit(
        [0.5, 0.125, 0.125, 0.125, 0.125],
        [
            BernoulliBandit([0.2, 0.5, 0.9]),
            BetaBandit([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]),
            LoggedBandit({"a": [1.0, 2.0], "b": [0.5], "c": [3.0, 1.0, 0.0]}),
            Cosine([0.2, 1.0, 0.6]),
            MixtureBandit([0.5, 0.5], [Lottery([0.5, 0.25, 0.1]), GAUSSIAN]),
        ],
    ),
]


@njit  # type: ignore[untyped-decorator, unused-ignore]  # by numba
def pay_all(kind, table, arm, variates):  # type: ignore[no-untyped-def]  # numba infers
    return [leaves.reward_from_variate(kind, table, arm, z) for z in variates]


@pytest.mark.covering(5)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_compiled_rewards_are_those_of_the_function_bit_for_bit(problem: Problem) -> None:
    words = draws.words(7, np.arange(3000, dtype=np.uint64))
    drawn = draws.normals(words) if problem.variate == "normal" else draws.uniforms(words)
    if problem.variate == "uniform":
        drawn = np.concatenate([drawn, [2.0**-53, 1.0 - 2.0**-53, 0.5, 0.25, 0.75]])
    table = np.array(problem.kernel_form().table)
    for arm in range(problem.num_arms):
        expected = problem.rewards(np.full(drawn.size, arm), drawn)
        found = np.array(pay_all(form_kind(problem), table, arm, drawn))
        assert np.array_equal(found.view(np.int64), expected.view(np.int64))


POLICIES = (
    "dducb", "dducb:own_pulls=false", "independent-ucb", "coop-ucb2:gamma=1.01",
    "mp-ucb:hop_limit=2",    "tree-ts", "flood-ucb", "gossip-ts", "running-sums*ucb", "central-ucb",
    "dducb:neighbor_pulls=true",
)  # fmt: skip


@pytest.mark.covering(4)
@pytest.mark.plays
@pytest.mark.parametrize("text", POLICIES)
def test_every_kernel_plays_the_arms_of_the_reference_engine(text: str) -> None:
    for problem in (PROBLEMS[0], PROBLEMS[4], PROBLEMS[9]):
        played = {}
        for engine in ("cpu", "reference"):
            result = simulate(
                problem, CYCLE, parse_policy(text), 80, 2, 3, engine, keep="arms", progress=False
            )
            assert result.meta["engines"] == [engine]
            played[engine] = result
        fast, slow = played["cpu"], played["reference"]
        assert np.array_equal(fast.arms, slow.arms)
        np.testing.assert_allclose(fast.realized_regret, slow.realized_regret, atol=1e-9)


@pytest.mark.covering(3)
@pytest.mark.plays
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_shuffled_arms(problem: Problem) -> None:
    fast, slow = (
        simulate(problem, CYCLE, parse_policy("dducb"), 60, 3, 1, engine, keep="arms",
                 shuffle_arms=True, progress=False)
        for engine in ("cpu", "reference")
    )  # fmt: skip
    assert np.array_equal(fast.arms, slow.arms)
    assert len(np.unique(fast.arms)) == problem.num_arms


@pytest.mark.plays
def test_a_custom_aggregation_is_compiled() -> None:
    own = parse_policy("benchmarks.parts:OwnPushSum*ucb")
    fast, slow = (
        simulate(PROBLEMS[0], CYCLE, own, 60, 1, 0, engine, keep="arms", progress=False)
        for engine in ("cpu", "reference")
    )
    assert fast.meta["engines"] == ["cpu"]
    assert np.array_equal(fast.arms, slow.arms)


@pytest.mark.plays
def test_clocks(capsys: pytest.CaptureFixture[str]) -> None:
    result = simulate(
        PROBLEMS[0], CYCLE, parse_policy("gossip-ts"), 200, 1, clocks="poisson", progress=False
    )
    assert result.meta["engines"] == ["cpu"]
    assert abs(float(result.realized_regret[0, 0, -1])) > 0.0
    capsys.readouterr()


def test_a_function_that_numba_does_not_compile_is_played_by_the_reference_engine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = simulate(Textual([0.5, 0.25]), CYCLE, parse_policy("dducb"), 30, progress=False)
    assert result.meta["engines"] == ["reference"]
    assert "cannot compile reward of Textual" in capsys.readouterr().err


@pytest.mark.plays
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # numba's own
@pytest.mark.parametrize("kind", [Rarely, Raising])
@pytest.mark.parametrize("text", ["dducb", "coop-ucb2:gamma=1.01"])
def test_what_is_no_number_is_noticed_in_compiled_code(kind: Any, text: str) -> None:
    with pytest.raises(InputError, match=f"reward of {kind.__name__}"):
        simulate(kind([0.5, 0.25]), CYCLE, parse_policy(text), 20_000, 1, 0, "cpu", progress=False)


def test_nor_does_the_reference_engine_take_it() -> None:
    with pytest.raises(InputError, match="reward nan is not finite"):
        simulate(
            Rarely([0.5, 0.25]), CYCLE, parse_policy("independent-ucb"), 20_000, 1, 0, "reference",
            progress=False,
        )  # fmt: skip


OWN = """
import coopbandits as cb

FACTOR = 1.0

def prize(chance):
    return FACTOR / chance

class Mine(cb.Problem):
    def __init__(self, chances=(0.5, 0.25, 0.1)):
        means = [chance * prize(chance) for chance in chances]
        super().__init__(means, 9.0, numbers=chances)

    @staticmethod
    def reward(numbers, variate):
        return prize(numbers[0]) if variate < numbers[0] else 0.0

    def describe(self):
        return {"problem": "mine", "means": self.means.tolist()}
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of somebody else's."""
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "own_problem.py"
    path.write_text(OWN)
    yield path
    sys.modules.pop("own_problem", None)


def load() -> ModuleType:
    importlib.invalidate_caches()
    if "own_problem" in sys.modules:
        return importlib.reload(sys.modules["own_problem"])
    return importlib.import_module("own_problem")


def paid(problem: Problem, engine: str) -> list[float]:
    result = simulate(
        problem, CYCLE, parse_policy("independent-ucb"), 60, 1, 0, engine, rounds=[20, 60],
        progress=False,
    )  # fmt: skip
    assert result.meta["engines"] == [engine]
    found: list[float] = result.realized_regret.values.ravel().tolist()
    return found


@pytest.mark.plays
def test_an_edited_function_plays_the_new_formula_in_the_same_process(own: Path) -> None:
    seen: list[list[float]] = []
    for place, text in enumerate((
        OWN,
        OWN.replace("FACTOR = 1.0", "FACTOR = 2.0"),  # a global
        OWN.replace("FACTOR / chance", "FACTOR / chance + 1.0"),  # a callee
        OWN.replace("variate < numbers[0] else", "variate >= 1.0 - numbers[0] else"),  # itself
    )):  # fmt: skip
        own.write_text(text)
        os.utime(own, (1e9 + place, 1e9 + place))  # so that no cached byte code is taken for it
        problem = load().Mine()
        seen.append(paid(problem, "cpu"))
        assert seen[-1] == pytest.approx(paid(problem, "reference"), abs=1e-9)
    assert len({tuple(each) for each in seen}) == len(seen)


PROGRAM = """
import coopbandits as cb, own_problem
world = own_problem.Mine(), cb.Network.from_spec("cycle:5")
result = cb.simulate(*world, cb.IndependentUCB(), 60, 1, 0, "cpu", rounds=[60])
print(result.realized_regret.values.tolist())
"""


@pytest.mark.slow
@pytest.mark.plays
def test_an_edited_function_plays_the_new_formula_in_a_new_process(own: Path) -> None:
    played = []
    for factor in ("1.0", "1.0", "2.0"):
        own.write_text(OWN.replace("FACTOR = 1.0", f"FACTOR = {factor}"))
        path = os.pathsep.join([str(own.parent), *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        played.append(done.stdout)
    assert played[0] == played[1] != played[2]

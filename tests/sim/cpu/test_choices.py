"""Compiled choices are the index's own functions: the same arms, whatever is edited or wrong."""

from __future__ import annotations

import importlib
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from numba import njit

from coopbandits import (
    KLUCB,
    MOSS,
    UCB,
    BayesUCB,
    BernoulliBandit,
    CentredDraw,
    GaussianBandit,
    Index,
    InflatedUCB,
    InputError,
    LocalSums,
    LocalView,
    Network,
    RunningSums,
    TopTwo,
    combine,
    simulate,
)
from coopbandits.core import draws
from coopbandits.core.choice import choose_arm
from coopbandits.core.contract import Estimate
from coopbandits.core.registry import INDICES
from coopbandits.sim.cpu.choice_forms import CONTEXT, FIXED, MEMORY, TROUBLE
from coopbandits.sim.cpu.choices import CannotCompileError, choose, compiled_choice

SHIPPED: list[Index] = [
    *(kind() for kind in INDICES),
    BayesUCB("bernoulli"), KLUCB("bernoulli"), KLUCB("bernoulli", c=3.0), KLUCB(c=3.0),
    TopTwo(family="bernoulli"), TopTwo(0.9), MOSS(horizon=5000), CentredDraw("estimate"),
    InflatedUCB(2.0, "closed"),
]  # fmt: skip


@njit  # type: ignore[untyped-decorator, unused-ignore]  # by numba
def call(  # type: ignore[no-untyped-def]  # numba infers
    address, rows, contexts, keys, pull, numbers, memory, scratch, arms, num_arms, squares
):
    choose(
        address, rows, rows.shape[1], contexts, CONTEXT, keys, pull, numbers, 0, memory, scratch,
        arms, 0, rows.shape[0], num_arms, squares,
    )  # fmt: skip


def view_of(num_arms: int) -> LocalView:
    return LocalView(0, 1.0, {}, num_arms, 0.5, 7, 0.5, {"epsilon_c:closed": 0.3})


class Table:
    """Registers of many agents, some hardly known, and what goes with them."""

    def __init__(self, index: Index, num_arms: int, seed: int, agents: int = 200) -> None:
        self.index, self.num_arms = index, num_arms
        num_squares = index.statistic.registers(num_arms).size - 2 * num_arms
        uniform = draws.uniforms(
            draws.words(seed, np.arange(agents * (2 * num_arms + 4), dtype=np.uint64))
        ).reshape(agents, -1)
        counts = np.floor(10.0 ** (4.0 * uniform[:, :num_arms]) - 1.0)
        counts[::7, 0] = 0.0
        counts[::11] = np.floor(counts[::11] / 9000.0)
        sums = counts * uniform[:, num_arms : 2 * num_arms]
        self.contexts = np.ones((agents, CONTEXT))
        self.contexts[:, 0] = np.where(uniform[:, -1] < 0.5, 1.0, 7.0)
        self.contexts[:, 1] = np.maximum(2.0, self.contexts[:, 0] * counts.sum(axis=1))
        self.contexts[:, 2] = np.floor(1.0 + 9.0 * uniform[:, -2])
        self.contexts[:, 3] = 1.0 + uniform[:, -3]
        squares = sums if num_squares == num_arms else sums.sum(axis=1, keepdims=True)
        parts = [sums, counts, squares[:, :num_squares]]
        self.rows = np.ascontiguousarray(np.hstack(parts))
        self.keys = draws.words(seed + 1, np.arange(agents, dtype=np.uint64))
        self.numbers = (*index.numbers(view_of(num_arms)), 0.0)

    def compiled(self, pull: int, memory: np.ndarray[Any, Any]) -> list[int]:
        choice = compiled_choice(self.index)
        arms = np.full(len(self.rows), -5)
        scratch = np.empty(FIXED * self.num_arms + self.index.scratch_size(self.num_arms))
        squares = self.rows.shape[1] - 2 * self.num_arms
        call(
            choice.address, self.rows, self.contexts, self.keys, pull, np.array([self.numbers]),
            memory, scratch, arms, self.num_arms, squares,
        )  # fmt: skip
        return arms.tolist()

    def expected(self, pull: int) -> list[int]:
        registers = self.index.statistic.registers(self.num_arms)
        arms = []
        for row, (factor, time, agents, ahead), key in zip(
            self.rows, self.contexts, self.keys.tolist(), strict=True
        ):
            estimate = registers.read(
                factor * row, time=time, num_agents=agents, anticipation=ahead
            )
            word = draws.word_at(key, pull)
            arms.append(choose_arm(self.index, self.numbers, estimate, word))
        return arms


@pytest.mark.parametrize("num_arms", [1, 2, 5, 17])
@pytest.mark.parametrize("index", SHIPPED, ids=lambda index: index.spelling)
def test_every_index_plays_the_same_arms_compiled(index: Index, num_arms: int) -> None:
    table = Table(index, num_arms, seed=3)
    memory = np.zeros((len(table.rows), MEMORY))
    for pull in range(3):
        assert table.compiled(pull, memory) == table.expected(pull)
        # What shortcuts remember must not matter when rows change.
        table.rows[:, :num_arms] *= 0.9
        table.rows[:, pull % num_arms] += 3.0 * (table.rows[:, num_arms + pull % num_arms] > 0)
        memory[::3, 0], memory[::3, 1] = num_arms - 1, 0.4
    assert not memory[:, TROUBLE].any()


def test_equal_indices_go_to_the_lowest_arm() -> None:
    for index in (UCB(), MOSS(), KLUCB("bernoulli")):
        table = Table(index, 4, seed=5, agents=3)
        table.rows[:] = [[1.0, 2.0, 2.0, 1.0, 4.0, 4.0, 4.0, 4.0]]
        assert table.compiled(0, np.zeros((3, MEMORY))) == [1, 1, 1]


# Indices of one's own.

OWN = """
import math
from dataclasses import dataclass
from typing import ClassVar
import coopbandits as cb
from coopbandits import word_at

FACTOR = 1.0

def spread(count):
    return FACTOR * math.sqrt(1.0 / count)

@dataclass(frozen=True)
class Mine(cb.Index):
    scale: float = 2.0
    name: ClassVar[str] = "mine"

    def numbers(self, view):
        return (self.scale * view.sigma,)

    @staticmethod
    def value(arm, estimate, word, numbers, scratch):
        count = estimate.counts[arm]
        if count <= 0.0:
            return math.inf
        return estimate.sums[arm] / count + numbers[0] * spread(count) + JITTER
"""
WORLD = GaussianBandit([0.2, 1.0, 0.6]), Network.from_spec("cycle:5")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of somebody else's."""
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "own_index.py"
    path.write_text(OWN.replace("JITTER", "0.0"))
    yield path
    sys.modules.pop("own_index", None)


def arms_of(index: Index, engine: str) -> list[Any]:
    result = simulate(*WORLD, combine(LocalSums(), index), 60, 1, 0, engine, keep="arms")
    assert result.meta["engines"] == [engine]
    arms: list[Any] = result.arms.values.tolist()
    return arms


def load() -> ModuleType:
    importlib.invalidate_caches()
    if "own_index" in sys.modules:
        return importlib.reload(sys.modules["own_index"])
    return importlib.import_module("own_index")


def test_an_own_index_runs_compiled_with_the_functions_it_calls(own: Path) -> None:
    module = load()
    assert arms_of(module.Mine(), "cpu") == arms_of(module.Mine(), "reference")
    assert arms_of(module.Mine(0.1), "cpu") == arms_of(module.Mine(0.1), "reference")


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("math.sqrt(1.0 / count)", "-1.0 / count"),
        ("FACTOR = 1.0", "FACTOR = -5.0"),
        ("+ 0.0", "+ cb.normal_of(word_at(word, arm))"),
    ],
    ids=["a function it calls", "a global", "the function itself"],
)
def test_an_edited_index_plays_the_new_formula_in_the_same_process(
    own: Path, old: str, new: str
) -> None:
    module = load()
    before = arms_of(module.Mine(), "cpu")
    text = own.read_text()
    assert text.count(old) == 1
    own.write_text(text.replace(old, new))
    os.utime(own, (1e9, 1e9))  # so that no cached byte code is taken for it
    module = load()
    assert arms_of(module.Mine(), "cpu") == arms_of(module.Mine(), "reference") != before


def test_a_patched_helper_is_seen(own: Path) -> None:
    module: Any = load()
    before = arms_of(module.Mine(), "cpu")
    module.spread = lambda count: -1.0 / count
    assert arms_of(module.Mine(), "cpu") == arms_of(module.Mine(), "reference") != before


@pytest.mark.slow
def test_helpers_of_another_module_and_tables_are_seen(own: Path) -> None:
    """numba looks neither at functions reached through a module nor at arrays among globals."""
    helper = own.with_name("own_helper.py")
    text = OWN.replace("JITTER", "own_helper.lean(TABLE[arm])").replace(
        "import coopbandits as cb", "import coopbandits as cb\nimport numpy as np, own_helper"
    )
    table = "TABLE = np.zeros(5000)\n"
    played: list[Any] = []
    for lean, more in (("0.0 * x", ""), ("x - x", "TABLE[0] = 9.0\n"), ("x", "TABLE[0] = 9.0\n")):
        helper.write_text(f"from numba import njit\n\n@njit\ndef lean(x):\n    return {lean}\n")
        own.write_text(text.replace("FACTOR = 1.0", f"FACTOR = 1.0\n{table}{more}"))
        for path in (helper, own):
            os.utime(path, (1e9 + len(played), 1e9 + len(played)))
        sys.modules.pop("own_helper", None)
        module = load()
        played.append(arms_of(module.Mine(), "cpu"))
        assert played[-1] == arms_of(module.Mine(), "reference")
    assert played[0] == played[1] != played[2]


PROGRAM = """
import coopbandits as cb, own_index
policy = cb.combine(cb.LocalSums(), own_index.Mine())
world = cb.GaussianBandit([0.2, 1.0, 0.6]), cb.Network.from_spec("cycle:5")
result = cb.simulate(*world, policy, 60, 1, 0, "cpu", keep="arms")
print(result.arms.values.tolist())
"""


@pytest.mark.slow
def test_an_edited_index_plays_the_new_formula_in_a_new_process(own: Path) -> None:
    played = []
    for helper in ("math.sqrt(1.0 / count)", "math.sqrt(1.0 / count)", "-1.0 / count"):
        text = OWN.replace("JITTER", "0.0").replace("math.sqrt(1.0 / count)", helper)
        own.write_text(text)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONPATH": str(own.parent), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        played.append(done.stdout)
    assert played[0] == played[1] != played[2]


@pytest.mark.slow
def test_an_index_that_moved_to_another_module_is_played(own: Path) -> None:
    path = os.pathsep.join([str(own.parent), *sys.path])
    source = OWN.replace("JITTER", str(os.getpid()))  # filed by nobody before
    own.unlink()
    for home in ("first_home", "second_home"):
        module = own.with_name(f"{home}.py")
        module.write_text(source)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.replace("own_index", home)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        module.unlink()


@dataclass(frozen=True)
class Broken(Index):
    """Gives no number once an arm has ten pulls, or picks an arm that does not exist."""

    picks: bool = False
    name: ClassVar[str] = "broken"

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return math.nan if estimate.counts[arm] > 10.0 else -float(estimate.counts[arm])


class Picky(Broken):
    @staticmethod
    def pick(values: Any, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> int:
        return 7


class Textual(Broken):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(str(estimate.counts[arm]) + "0")


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_values_that_are_no_numbers_are_refused(engine: str) -> None:
    with pytest.raises(InputError, match="NaN for arm"):
        simulate(*WORLD, combine(LocalSums(), Broken()), 60, engine=engine)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_arms_that_do_not_exist_are_refused(engine: str) -> None:
    with pytest.raises(InputError, match=r"picked"):
        simulate(*WORLD, combine(LocalSums(), Picky()), 60, engine=engine)


def test_no_weight_at_all_is_no_division_by_zero() -> None:
    """Running sums may leave an agent without weight: all its totals are 0 then."""
    policy = combine(RunningSums(), UCB())
    both = [
        simulate(*WORLD, policy, 120, 2, 0, engine, faults="bursts=10..9", keep="arms")
        for engine in ("cpu", "reference")
    ]
    assert both[0].arms.values.tolist() == both[1].arms.values.tolist()


def test_what_numba_cannot_compile_is_played_by_the_reference_engine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(CannotCompileError):
        compiled_choice(Textual())
    result = simulate(*WORLD, combine(LocalSums(), Textual()), 20)
    assert result.meta["engines"] == ["reference"]
    assert "cannot compile index" in capsys.readouterr().err


def factorial(k: int) -> float:
    return 1.0 if k <= 1 else k * factorial(k - 1)


def even(k: int) -> float:
    return 1.0 if k <= 0 else odd(k - 1)


def odd(k: int) -> float:
    return 0.0 if k <= 0 else even(k - 1)


class Recursive(Broken):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return factorial(3) - float(estimate.counts[arm])


class InTurns(Broken):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return even(3) - float(estimate.counts[arm])


class Importing(Broken):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        from math import sqrt

        return sqrt(4.0) - float(estimate.counts[arm])


class Formatting(Broken):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return len(f"{arm:>3}") - float(estimate.counts[arm])


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (Recursive(), "(function factorial calls itself)"),
        (InTurns(), "(function even calls itself)"),
        (Importing(), "unsupported opcode (IMPORT_NAME)"),
        (Formatting(), "format spec in f-strings not supported"),
    ],
)
def test_so_is_what_numba_cannot_even_read(
    index: Index, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = simulate(*WORLD, combine(LocalSums(), index), 20)
    assert result.meta["engines"] == ["reference"]
    assert reason in capsys.readouterr().err


class Spilling(Broken):
    """Fills a place of scratch per arm, and does not say so."""

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        for k in range(len(estimate.counts)):
            scratch[k] = estimate.counts[k]


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_scratch_beyond_its_end_is_refused_before_it_is_compiled(engine: str) -> None:
    with pytest.raises(InputError, match=r"place 1 of scratch.*scratch_size"):
        simulate(*WORLD, combine(LocalSums(), Spilling()), 20, engine=engine)


class Unpacking(Broken):
    """Asks for the length of its scratch, which compiled code does not know."""

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        for k in range(len(scratch)):
            scratch[k] = 0.0


def test_an_index_that_asks_for_lengths_is_played_by_the_reference_engine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = simulate(*WORLD, combine(LocalSums(), Unpacking()), 10)
    assert result.meta["engines"] == ["reference"]
    assert "asks how long" in capsys.readouterr().err


def test_a_subclass_of_a_shipped_index_is_another_one() -> None:
    """An overridden method is honoured, also where the parent has a kernel or shortcut."""
    assert arms_of(Lazy(), "cpu") == arms_of(Lazy(), "reference") != arms_of(UCB(), "cpu")


class Lazy(UCB):
    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return -float(estimate.counts[arm])


def test_bernoulli_divergence_plays_rewards_of_zero_and_one() -> None:
    problem, network = BernoulliBandit([0.1, 0.6, 0.3]), Network.from_spec("path:3")
    policy = combine(LocalSums(), KLUCB("bernoulli"))
    both = [simulate(problem, network, policy, 200, 2, 0, e) for e in ("cpu", "reference")]
    assert both[0].pulls.values.tolist() == both[1].pulls.values.tolist()


DIGESTS = """
from coopbandits.core.index import INDICES
from coopbandits.sim.cpu import choices
for kind in INDICES:
    print(kind.name, choices.digest(choices._ingredients(kind())))
"""


@pytest.mark.slow
def test_every_index_is_filed_under_the_same_digest_in_every_process() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert said[0] == said[1]
    assert len(set(said[0].splitlines())) == len(INDICES)

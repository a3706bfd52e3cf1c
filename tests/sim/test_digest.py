"""Digests of code: they follow what is edited, and nothing else."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import coopbandits as cb
from coopbandits.sim.digest import own_code
from coopbandits.sim.ledger import run_cell

SOURCE = """
from dataclasses import dataclass
from functools import partial
import math
import coopbandits as cb
from coopbandits.core import AnyAggregation, Machine
import edited_package.inner

SCALE = 2.0

@dataclass(frozen=True)
class Rule:
    power: float = 1.0

    def of(self, count):
        return count ** self.power

RULE = Rule()

def scaled(factor, count):
    return factor * count

def power(count, *, of=1.0):
    return RULE.of(count) ** of

twice = partial(scaled, 2.0)

def width(count):
    return SCALE / count

def spread(count):
    return edited_package.inner.half(twice(power(count)))

class Mine(Machine):
    fields = ("own",)

    def __init__(self, view, registers):
        self.registers, self.own = registers, registers.zeros()

    def estimate(self):
        return self.registers.read(self.own, time=2.0, num_agents=1.0)

    def observe(self, arm, reward):
        self.registers.add(self.own, arm, reward)

    def outgoing(self, neighbor):
        return None

    def receive(self, messages):
        pass

@dataclass(frozen=True)
class Alone(AnyAggregation):
    name = "alone"

    def make(self, view, registers):
        return Mine(view, registers)

    def spread(self, count):
        return spread(count)

@dataclass(frozen=True)
class Wide(cb.Index):
    level: float = 1.0
    name = "wide"

    @staticmethod
    def value(arm, estimate, word, numbers, scratch):
        count = estimate.counts[arm]
        if count <= 0.0:
            return math.inf
        return estimate.sums[arm] / count + math.sqrt(width(count))

class Coins(cb.Problem):
    def __init__(self):
        super().__init__([0.5, 0.2], 0.5)

    @staticmethod
    def reward(numbers, variate):
        return 1.0 if variate < numbers[0] else 0.0

    def describe(self):
        return {"problem": "coins"}
"""
NETWORK = cb.Network.from_spec("path:3")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what imports the module above after a piece of it was replaced."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write_package(tmp_path, "0.5")

    def write(old: str = "", new: str = "") -> Any:
        assert old in SOURCE
        (tmp_path / "edited_parts.py").write_text(SOURCE.replace(old, new))
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("edited_parts")

    yield write
    forget()


def forget() -> None:
    for name in ("edited_parts", "edited_package", "edited_package.inner"):
        sys.modules.pop(name, None)


def write_package(folder: Path, factor: str) -> None:
    (folder / "edited_package").mkdir(exist_ok=True)
    (folder / "edited_package" / "__init__.py").write_text("")
    # It knows the package it is in, as modules often do.
    source = f"import edited_package\ndef half(count):\n    return {factor} * count\n"
    (folder / "edited_package" / "inner.py").write_text(source)


def cell_of(module: Any, problem: cb.Problem | None = None) -> cb.Cell:
    policy = cb.combine(module.Alone(), module.Wide())
    return cb.Cell(problem or module.Coins(), NETWORK, policy, horizon=10)


EDITS = {
    "index": ("math.sqrt(width(count))", "math.sqrt(3.0 * width(count))"),
    "called": ("return SCALE / count", "return SCALE / (1.0 + count)"),
    "global": ("SCALE = 2.0", "SCALE = 3.0"),
    "keyword": ("*, of=1.0", "*, of=2.0"),
    "partial": ("return factor * count", "return factor + count"),
    "bound": ("partial(scaled, 2.0)", "partial(scaled, 3.0)"),
    "method of an instance": ("count ** self.power", "count * self.power"),
    "machine": ("time=2.0", "time=3.0"),
    "problem": ("else 0.0", "else -0.0"),
    "parent": ("class Coins(cb.Problem):", "class Base(cb.Problem): pass\nclass Coins(Base):"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_is_edited_makes_another_cell(written: Any, edit: str) -> None:
    before = cell_of(written())
    assert cell_of(written()).id == before.id
    assert cell_of(written(*EDITS[edit])).id != before.id


def test_modules_in_packages_are_followed(written: Any, tmp_path: Path) -> None:
    before = cell_of(written())
    write_package(tmp_path, "0.25")
    assert cell_of(written()).id != before.id


def test_comments_and_other_lines_make_no_other_cell(written: Any) -> None:
    before = cell_of(written())
    assert cell_of(written("SCALE = 2.0", "# wider\n\n\nSCALE = 2.0")).id == before.id


def test_another_process_finds_the_same_cell(written: Any, tmp_path: Path) -> None:
    cell = cell_of(written())
    code = (
        "import coopbandits as cb, edited_parts as m;"
        "print(cb.Cell(m.Coins(), cb.Network.from_spec('path:3'),"
        "cb.combine(m.Alone(), m.Wide()), horizon=10).id)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == cell.id


def test_worlds_hold_somebodys_problem(written: Any) -> None:
    before, after = written(), written(*EDITS["problem"])
    ids = {cell_of(before, cb.drift(each.Coins(), switch_every=5)).id for each in (before, after)}
    assert len(ids) == 2


def test_our_own_parts_have_no_code_among_settings() -> None:
    drifting = cb.drift(cb.GaussianBandit([1.0, 0.5]), switch_every=5)
    assert own_code(drifting, cb.parse_faults("loss=0.3"), cb.TreeTS()) == {}
    for text in ("tree-ts", "private:epsilon=1,horizon=9*flood-ucb", "resilient-ucb+liar@0"):
        assert own_code(cb.parse_policy(text)) == {}
    assert "policy_code" not in cb.Cell(drifting, NETWORK, cb.TreeTS(), 5).settings


def test_results_say_what_code_they_are_of_and_stand_side_by_side(written: Any) -> None:
    module = written()
    mine = cell_of(module)
    ours = cb.Cell(mine.problem, NETWORK, cb.TreeTS(), horizon=10)
    results = [(cell, run_cell(cell)) for cell in (mine, ours)]
    settings = results[0][1].meta["settings"]
    assert list(settings["code"]) == ["edited_parts.Coins"]
    code = settings["policy_code"][mine.policy.spelling]
    assert list(code) == ["edited_parts.Alone", "edited_parts.Wide"]
    (merged,) = cb.compare(results).values()
    assert merged.meta["settings"]["policy_code"] == settings["policy_code"]


def test_a_name_of_ours_does_not_make_a_cell_of_ours() -> None:
    class Other(cb.UCB):
        name = "ucb"

        @staticmethod
        def value(arm: int, estimate: Any, word: int, numbers: Any, scratch: Any) -> float:
            return -float(arm)

    cells = [
        cb.Cell(cb.GaussianBandit([1.0, 0.5]), NETWORK, cb.combine(cb.TreeSums(), index), 5)
        for index in (cb.UCB(), Other())
    ]
    assert cells[0].policy.spelling == cells[1].policy.spelling
    assert cells[0].id != cells[1].id

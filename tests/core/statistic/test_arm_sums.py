"""Sums and counts per arm, with and without the sum of squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import ArmSums, InputError, Registers

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True, database=None)

pulls = st.lists(st.tuples(st.integers(0, 2), st.floats(-50, 50)), max_size=12)


def filled(registers: Registers, *pulls: tuple[int, float]) -> Any:
    values = registers.zeros()
    for arm, reward in pulls:
        registers.add(values, arm, reward)
    return values


@pytest.mark.parametrize("squares", [False, True])
def test_pulls_by_hand(squares: bool) -> None:
    registers = ArmSums(squares).registers(2)
    values = filled(registers, (0, 2.0), (1, -1.0), (0, 3.0))
    assert values.tolist() == [5.0, -1.0, 2.0, 1.0] + [14.0] * squares
    registers.add(values, 1, 4.0, weight=0.25)
    assert values.tolist() == [5.0, 0.0, 2.0, 1.25] + [18.0] * squares
    estimate = registers.read(values, time=7.0, num_agents=3.0, anticipation=2.0)
    assert (estimate.sums.tolist(), estimate.counts.tolist()) == ([5.0, 0.0], [2.0, 1.25])
    assert estimate[2:] == (7.0, 3.0, 2.0, 18.0 * squares, ())
    assert registers.version(values) == 3.25
    assert registers.version(np.array([values, 2 * values])).tolist() == [3.25, 6.5]


@pytest.mark.parametrize("squares", [False, True])
def test_form(squares: bool) -> None:
    registers = ArmSums(squares).registers(3)
    assert registers.size == len(registers.names) == registers.zeros().size == 6 + squares
    assert registers.names[:6:3] == ("reward sum of arm 0", "pulls of arm 0")
    assert registers.layout == (6 + squares, 3, 6 if squares else -1)
    assert registers.decay == 1.0
    assert registers.nonnegative.tolist() == [False] * 3 + [True] * (3 + squares)
    assert ArmSums(squares).registers(3) is registers  # it holds no state


def test_shares_are_copies_and_what_belongs_to_arms_is_a_view() -> None:
    registers = ArmSums(squares=True).registers(2)
    values = filled(registers, (0, 2.0), (1, 3.0))
    sums, counts = registers.share(values)
    assert (sums.tolist(), counts.tolist()) == ([2.0, 3.0], [1.0, 1.0])
    sums += 1.0
    counts += 1.0
    assert values.tolist() == [2.0, 3.0, 1.0, 1.0, 13.0]
    registers.by_arm(values)[:, 1] = 0.0
    assert values.tolist() == [2.0, 0.0, 1.0, 0.0, 13.0]
    assert registers.by_arm(np.zeros((4, 5))).shape == (4, 2, 2)


def test_clipping_leaves_sums_alone() -> None:
    registers = ArmSums(squares=True).registers(2)
    values = np.array([-1.0, -2.0, -1e-12, 3.0, -1e-9])
    assert registers.clip(values).tolist() == [-1.0, -2.0, 0.0, 3.0, 0.0]
    assert values.tolist() == [-1.0, -2.0, -1e-12, 3.0, -1e-9]


def test_time_passes_without_a_trace_unless_registers_decay() -> None:
    registers = ArmSums().registers(1)
    values = np.array([3.0, 2.0])
    registers.age(values, rounds=5)
    assert values.tolist() == [3.0, 2.0]
    assert registers.decaying(1.0) is registers
    decaying = registers.decaying(0.5)
    assert (registers.decay, decaying.decay) == (1.0, 0.5)
    decaying.age(values, rounds=2)
    assert values.tolist() == [0.75, 0.5]
    assert decaying.pulls(values) == 0.5


@pytest.mark.parametrize(
    ("values", "bounded", "said"),
    [
        ([1.0, 0.0, 1.0, 2.0], True, ""),
        ([1.0 + 1e-12, -1e-12, 1.0, 2.0], True, ""),
        ([9.0, -9.0, 1.0, 2.0], False, ""),
        ([1.0, 0.0, -1.0, 2.0], False, "pulls [-1.0, 2.0], which are never negative"),
        ([1.1, 0.0, 1.0, 2.0], True, "rewards [1.1, 0.0] for [1.0, 2.0] pulls; each reward"),
        ([0.0, -0.1, 1.0, 2.0], True, "rewards [0.0, -0.1] for [1.0, 2.0] pulls; each reward"),
        ([[1.0, 0.0, 1.0, 2.0], [3.0, 0.0, 1.0, 2.0]], True, "rewards [[1.0, 0.0], [3.0, 0.0]]"),
    ],
)
def test_what_no_pulls_can_have_made(values: Any, bounded: bool, said: str) -> None:
    found = ArmSums().registers(2).excess(np.array(values), bounded)
    assert found.startswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("squares", "bounded", "refused"),
    [
        (0.5, True, False),
        (1.0, True, False),
        (1.1, True, True),
        (1.1, False, False),
        (-0.1, False, True),
    ],
)
def test_squares_that_no_pulls_can_have_made(squares: float, bounded: bool, refused: bool) -> None:
    found = ArmSums(True).registers(2).excess(np.array([1.0, 0.0, 1.0, 2.0, squares]), bounded)
    assert found.startswith("squared rewards [") == refused


@REPEATABLE
@given(pulls, pulls, st.booleans())
def test_two_sets_of_pulls_add_up(some: Any, more: Any, squares: bool) -> None:
    """All that an aggregation relies on."""
    registers = ArmSums(squares).registers(3)
    together = filled(registers, *some, *more)
    apart = filled(registers, *some) + filled(registers, *more)
    np.testing.assert_allclose(together, apart, rtol=1e-12, atol=1e-9)
    assert registers.version(together) == len(some) + len(more)
    assert not registers.excess(together, bounded=False)


@pytest.mark.parametrize("squares", [1, None, "yes"])
def test_squares_are_on_or_off(squares: Any) -> None:
    with pytest.raises(InputError, match=r"squares is .*; it must be true or false"):
        ArmSums(squares)


def test_spelling() -> None:
    assert ArmSums().spelling == "arm-sums"
    assert ArmSums(True).spelling == "arm-sums:squares=true"

"""Sums and counts per arm, with and without sums of squares, pooled or per arm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import ArmSums, InputError, Registers

REPEATABLE = settings(max_examples=30, deadline=None, derandomize=True, database=None)

pulls = st.lists(st.tuples(st.integers(0, 2), st.floats(-50, 50)), max_size=12)


def filled(registers: Registers, *pulls: tuple[int, float]) -> Any:
    values = registers.zeros()
    for arm, reward in pulls:
        registers.add(values, arm, reward)
    return values


SQUARES = {"none": [], "pooled": [18.0], "arms": [13.0, 5.0]}


@pytest.mark.parametrize("squares", SQUARES)
def test_pulls_by_hand(squares: str) -> None:
    registers = ArmSums(squares).registers(2)
    values = filled(registers, (0, 2.0), (1, -1.0), (0, 3.0))
    before = {"none": [], "pooled": [14.0], "arms": [13.0, 1.0]}
    assert values.tolist() == [5.0, -1.0, 2.0, 1.0, *before[squares]]
    registers.add(values, 1, 4.0, weight=0.25)
    assert values.tolist() == [5.0, 0.0, 2.0, 1.25, *SQUARES[squares]]
    estimate = registers.read(values, time=7.0, num_agents=3.0, anticipation=2.0)
    assert (estimate.sums.tolist(), estimate.counts.tolist()) == ([5.0, 0.0], [2.0, 1.25])
    assert estimate[2:5] == (7.0, 3.0, 2.0)
    assert list(estimate.squares) == SQUARES[squares]
    assert estimate.extra == ()
    assert registers.version(values) == 3.25
    assert registers.version(np.array([values, 2 * values])).tolist() == [3.25, 6.5]


@pytest.mark.parametrize(("squares", "more"), [("none", 0), ("pooled", 1), ("arms", 3)])
def test_form(squares: str, more: int) -> None:
    registers = ArmSums(squares).registers(3)
    assert registers.size == len(registers.names) == registers.zeros().size == 6 + more
    assert registers.names[:6:3] == ("reward sum of arm 0", "pulls of arm 0")
    assert registers.layout == (6 + more, 3, more)
    assert registers.decay == 1.0
    assert registers.nonnegative.tolist() == [False] * 3 + [True] * (3 + more)
    assert ArmSums(squares).registers(3) is registers  # it holds no state


def test_shares_are_copies_and_what_belongs_to_arms_is_a_view() -> None:
    registers = ArmSums("pooled").registers(2)
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
    registers = ArmSums("pooled").registers(2)
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
        ([1.0, 0.0, -1.0, 2.0], False, "pulls [-1.0, 2.0]"),
        ([1.1, 0.0, 1.0, 2.0], True, "rewards [1.1, 0.0] for [1.0, 2.0]"),
        ([0.0, -0.1, 1.0, 2.0], True, "rewards [0.0, -0.1] for [1.0, 2.0]"),
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
    found = ArmSums("pooled").registers(2).excess(np.array([1.0, 0.0, 1.0, 2.0, squares]), bounded)
    assert found.startswith("squared rewards [") == refused


@pytest.mark.parametrize(
    ("squares", "bounded", "refused"),
    [
        ([1.0, 0.5], True, False),
        ([1.1, 0.0], True, True),
        ([0.0, 0.6], True, True),
        ([1.1, 0.6], False, False),
        ([0.5, -0.1], False, True),
    ],
)
def test_squares_of_arms_that_no_pulls_can_have_made(
    squares: list[float], bounded: bool, refused: bool
) -> None:
    found = ArmSums("arms").registers(2).excess(np.array([1.0, 0.5, 1.0, 2.0, *squares]), bounded)
    assert found.startswith("squared rewards [") == refused


def test_squares_go_with_their_arms() -> None:
    registers = ArmSums("arms").registers(2)
    values = filled(registers, (0, 2.0), (1, 3.0))
    assert registers.by_arm(values).tolist() == [[2.0, 3.0], [1.0, 1.0], [4.0, 9.0]]
    wider = ArmSums("arms").registers(3)
    assert wider.moved(values, registers, [2, 0]).tolist() == [3, 0, 2, 1, 0, 1, 9, 0, 4]
    assert registers.of_no_arm(values).size == 0
    pooled = ArmSums("pooled").registers(2)
    assert pooled.of_no_arm(filled(pooled, (0, 2.0), (1, 3.0))).tolist() == [13.0]


@REPEATABLE
@given(pulls, pulls, st.sampled_from(sorted(SQUARES)))
def test_two_sets_of_pulls_add_up(some: Any, more: Any, squares: str) -> None:
    """All that an aggregation relies on."""
    registers = ArmSums(squares).registers(3)
    together = filled(registers, *some, *more)
    apart = filled(registers, *some) + filled(registers, *more)
    np.testing.assert_allclose(together, apart, rtol=1e-12, atol=1e-9)
    assert registers.version(together) == len(some) + len(more)
    assert not registers.excess(together, bounded=False)


@pytest.mark.parametrize("squares", [True, None, "arm"])
def test_squares_are_one_of_three(squares: Any) -> None:
    with pytest.raises(InputError, match=f"squares.*{squares}.*arms, none, pooled"):
        ArmSums(squares)


def test_spelling() -> None:
    assert ArmSums().spelling == "arm-sums"
    assert ArmSums("arms").spelling == "arm-sums:squares=arms"

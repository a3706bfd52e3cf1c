"""Sums of r x, of x xᵀ and of pulls, for one model and for one per arm."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import ArmSums, InputError, LinearSums, Registers
from coopbandits.core.statistic.linear import in_context
from coopbandits.core.statistic.statistic import VersionedRegisters

REPEATABLE = settings(max_examples=30, deadline=None, derandomize=True, database=None)

ARMS, SIZE = 3, 2
features = st.lists(st.floats(-9, 9), min_size=SIZE, max_size=SIZE)
pulls = st.lists(st.tuples(st.integers(0, ARMS - 1), st.floats(-9, 9), features), max_size=8)

BOTH = pytest.mark.parametrize("disjoint", [False, True])


def made(disjoint: bool = False) -> Registers:
    return LinearSums(disjoint).with_features(SIZE).registers(ARMS)


def filled(registers: Registers, pulls: Any) -> Any:
    values = registers.zeros()
    for arm, reward, x in pulls:
        registers.record(values, arm, reward, np.array(x, dtype=float))
    return values


def test_pulls_by_hand() -> None:
    registers = made()
    values = filled(registers, [(0, 2.0, [1, 3]), (2, -1.0, [0, 2])])
    assert values.tolist() == [2.0, 4.0, 1.0, 3.0, 13.0, 2.0]
    registers.record(values, 1, 4.0, np.array([2.0, 0.0]), 0.5)
    assert values.tolist() == [6.0, 4.0, 3.0, 3.0, 13.0, 2.5]
    estimate = registers.read(values, time=7.0, num_agents=3.0, anticipation=2.0)
    assert (estimate.sums.tolist(), estimate.counts.tolist()) == ([[6.0, 4.0]], [2.5])
    assert estimate.extra.outer.tolist() == [[3.0, 3.0, 13.0]]
    assert estimate[2:6] == (7.0, 3.0, 2.0, ())
    assert registers.version(values) == 2.5
    assert registers.version(np.array([values, 2 * values])).tolist() == [2.5, 5.0]


def test_a_model_per_arm_keeps_arms_apart() -> None:
    registers = made(True)
    values = filled(registers, [(0, 2.0, [1, 3]), (2, -1.0, [0, 2]), (2, 1.0, [0, 1])])
    estimate = registers.read(values, time=7.0, num_agents=3.0)
    assert estimate.sums.tolist() == [[2.0, 6.0], [0.0, 0.0], [0.0, -1.0]]
    assert estimate.counts.tolist() == [1.0, 0.0, 2.0]
    assert estimate.extra.outer.tolist() == [[1.0, 3.0, 9.0], [0.0] * 3, [0.0, 0.0, 5.0]]
    assert registers.version(values) == 3.0
    assert registers.version(np.array([values, 2 * values])).tolist() == [3.0, 6.0]


@BOTH
def test_form(disjoint: bool) -> None:
    registers, models = made(disjoint), ARMS if disjoint else 1
    assert registers.size == len(registers.names) == registers.zeros().size == 6 * models
    assert registers.names[:6] == tuple(
        name + " of arm 0" * disjoint
        for name in ("reward·0", "reward·1", "0·0", "0·1", "1·1", "pulls")
    )
    assert (registers.num_features, registers.one_context) == (SIZE, disjoint)
    assert registers.layout is None
    assert registers.nonnegative.tolist() == [False, False, True, False, True, True] * models
    assert made(disjoint) is registers  # it holds no state
    assert json.dumps(registers.zeros().tolist())


@BOTH
@REPEATABLE
@given(pulls, pulls)
def test_registers_of_two_sets_of_pulls_add_up(disjoint: bool, one: Any, other: Any) -> None:
    registers = made(disjoint)
    both = filled(registers, one) + filled(registers, other)
    assert np.allclose(both, filled(registers, one + other), atol=1e-9)
    assert registers.excess(both, bounded=False) == ""


@REPEATABLE
@given(st.lists(st.tuples(st.integers(0, ARMS - 1), st.floats(0, 1), features), max_size=8))
def test_rewards_in_0_to_1_are_believed(told: Any) -> None:
    for disjoint in (False, True):
        registers = made(disjoint)
        assert registers.excess(filled(registers, told), bounded=True) == ""


@pytest.mark.parametrize(
    ("values", "bounded", "phrase"),
    [
        ([0, 0, 0, 0, 0, -1.0], False, "pulls.* below 0"),
        ([0, 0, -1.0, 0, 0, 1], False, "pulls.* below 0"),
        ([0, 0, float("nan"), 0, 0, 1], False, "pulls.* below 0"),
        ([3.0, 0, 4.0, 0, 1.0, 1], True, r"rewards.* 3\b.* 2\b"),
        ([float("nan"), 0, 0, 0, 0, 1], False, "sums.*finite"),
        ([0, 0, 1.0, float("inf"), 1.0, 1], False, "sums.*finite"),
        ([0, 0, 1.0, -1.1, 1.0, 1], False, "products of features"),
        # Each is possible by itself, but not both rewards with features that are opposites.
        ([0.9, 0.9, 1.0, -1.0, 1.0, 1], True, "products of features"),
    ],
)
def test_what_no_pulls_can_have_made(values: Any, bounded: bool, phrase: str) -> None:
    assert re.match(phrase, made().excess(np.array(values, dtype=float), bounded))
    assert made().excess(np.array([3.0, 0, 4.0, 0, 1.0, 1]), bounded=False) == ""


@BOTH
@REPEATABLE
@given(pulls)
def test_features_within_bounds_are_believed_and_beyond_are_not(disjoint: bool, told: Any) -> None:
    registers = made(disjoint)
    for inner in (registers, VersionedRegisters(registers)):
        values = filled(inner, told)
        largest = max((abs(x) for *_, pair in told for x in pair), default=0.0)
        assert inner.features_excess(values, largest) == ""
        assert inner.features_excess(values, math.inf) == ""
    values = filled(registers, [(1, 0.5, [3.0, 0.0])])
    assert registers.features_excess(values, 3.0) == ""
    assert registers.features_excess(values, 2.0) == (
        "squared features of up to 9, where features up to 2 of so many pulls allow 4"
    )
    assert made_plain().features_excess(made_plain().zeros(), 1.0) == ""


def made_plain() -> Registers:
    return ArmSums().registers(ARMS)


@BOTH
def test_shares_are_copies_and_what_belongs_to_a_model_is_a_view(disjoint: bool) -> None:
    registers = made(disjoint)
    values = filled(registers, [(1, 2.0, [1, 3])])
    before = values.copy()
    sums, counts = registers.share(values)
    assert (sums.sum(), counts.sum()) == (8.0, 1.0)
    sums += 1.0
    counts += 1.0
    assert np.array_equal(values, before)
    assert registers.by_arm(values).shape == (6, ARMS if disjoint else 1)
    registers.by_arm(values)[:, 1 if disjoint else 0] = 0.0
    assert not values.any()
    assert registers.by_arm(np.zeros((4, registers.size))).shape[:2] == (4, 6)


def test_a_context_joins_the_estimate() -> None:
    registers = made()
    estimate = registers.read(registers.zeros(), time=2.0, num_agents=1.0)
    shown = in_context(estimate, np.ones((ARMS, SIZE)))
    assert shown.extra.features.tolist() == [[1.0, 1.0]] * ARMS
    assert shown.extra.open_outer is None


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="features"):
        LinearSums().registers(2)
    with pytest.raises(InputError, match=r"disjoint.* 1\b"):
        LinearSums(1)  # type: ignore[arg-type]  # it is refused
    with pytest.raises(InputError, match=r"features.* -1\b"):
        LinearSums().with_features(-1)
    registers = made()
    values = registers.zeros()
    with pytest.raises(InputError, match=r"arm 1\b.*context"):
        registers.record(values, 1, 2.0)
    with pytest.raises(InputError, match=r"arm 1\b.*context"):
        registers.add(values, 1, 2.0)
    assert not values.any()

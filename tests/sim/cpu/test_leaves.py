"""Compiled leaves agree with their sources bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from coopbandits import BernoulliBandit, BetaBandit, GaussianBandit, LoggedBandit, Problem
from coopbandits.core import choice, draws
from coopbandits.problems.rewards import reward_from_variate
from coopbandits.sim.cpu import leaves
from coopbandits.sim.tapes import tape_words

CUBICS = draws.normal_cubics()
CELL_EDGES = [
    (cell << (64 - draws.CELL_BITS)) + step
    for cell in range(1 << draws.CELL_BITS)
    for step in (0, (1 << (64 - draws.CELL_BITS)) - 1)
]
EXTREMES = [0, 1, 2**11 - 1, 2**11, 2**12 - 1, 2**12, 2**63 - 1, 2**63, 2**64 - 2**11, 2**64 - 1]
WORDS = np.concatenate([
    np.array(EXTREMES + CELL_EDGES, dtype=np.uint64),
    draws.words(17, np.arange(100_000, dtype=np.uint64)),
])  # fmt: skip

# Ties at the edge of the tolerance, infinities of both signs, and signed zeros.
VALUES = st.one_of(
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, 1.0, 1.0 - 1e-9, 1.0 - 2e-9, 1.0 + 5e-10, math.inf, -math.inf]),
)


def bits(values: Any) -> list[int]:
    """Equal only where the very bits are, signed zeros included."""
    return np.asarray(values, dtype=np.float64).view(np.int64).tolist()  # type: ignore[no-any-return]  # ints


def called(leaf: Any) -> Callable[..., Any]:
    """Return a function that Python can call and that calls a leaf, which only kernels do."""
    callers: dict[int, Callable[..., Any]] = {
        1: lambda a: leaf(a),
        2: lambda a, b: leaf(a, b),
        3: lambda a, b, c: leaf(a, b, c),
        4: lambda a, b, c, d: leaf(a, b, c, d),
    }
    compiled: Callable[..., Any] = njit(callers[leaf.py_func.__code__.co_argcount])
    return compiled


def each(leaf: Any, *more: Any) -> list[float]:
    call = called(leaf)
    return [call(word, *more) for word in WORDS]


def test_uniforms() -> None:
    assert bits(each(leaves.uniform)) == bits(draws.uniforms(WORDS))


def test_normals() -> None:
    assert bits(each(leaves.normal, CUBICS)) == bits(draws.normals(WORDS))


@pytest.mark.parametrize("is_normal", [True, False])
def test_variates(is_normal: bool) -> None:
    expected = draws.normals(WORDS[:100]) if is_normal else draws.uniforms(WORDS[:100])
    variate = called(leaves.variate)
    assert bits([variate(is_normal, word, CUBICS) for word in WORDS[:100]]) == bits(expected)


@pytest.mark.parametrize("first", [0, 10**6, 2**40])
def test_words(first: int) -> None:
    keys = WORDS[:: WORDS.size // 200]
    expected = tape_words(keys, first, 50)
    word_at = called(leaves.word_at)
    found = [[int(word_at(key, first + i)) for i in range(50)] for key in keys]
    assert found == expected.tolist()


@settings(deadline=None)  # the first call compiles
@given(st.lists(VALUES, min_size=1, max_size=20))
def test_best_arm(values: list[float]) -> None:
    array = np.array(values)
    assert leaves.best_arm(array) == choice.best_arm(array)


@pytest.mark.parametrize(
    ("values", "arm"),
    [
        ([1.0, 1.0, 1.0], 0),
        ([0.0, math.inf, math.inf], 1),
        ([-math.inf, -math.inf], 0),
        ([-math.inf, -5.0], 1),
        ([1.0, 1.0 + 0.5e-9], 0),
        ([1.0, 1.0 + 3e-9], 1),
        ([1e6, 1e6 + 0.5e-3], 0),
        ([1e6, 1e6 + 3e-3], 1),
        ([0.0, 0.5e-9], 0),
        ([-1e6, -1e6 + 0.5e-3], 0),
    ],
)
def test_best_arm_by_hand(values: list[float], arm: int) -> None:
    assert leaves.best_arm(np.array(values)) == arm == choice.best_arm(np.array(values))


@pytest.mark.parametrize(
    "problem",
    [
        GaussianBandit([0.3, -1.0], sigma=0.7),
        BernoulliBandit([0.25, 1.0, 0.0]),
        BetaBandit([2.0, 0.5], [3.0, 0.5]),
        LoggedBandit(np.array([[1.0, 0.25], [2.0, np.nan], [-0.5, 3.0]])),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_rewards(problem: Problem) -> None:
    form = problem.kernel_form()
    sample = WORDS[:: WORDS.size // 500]
    drawn = draws.normals(sample) if problem.variate == "normal" else draws.uniforms(sample)
    table = np.array(form.table)
    compiled = called(leaves.reward_from_variate)
    for arm in range(problem.num_arms):
        found = [compiled(form.kind, table, arm, z) for z in drawn]
        assert bits(found) == bits(problem.rewards(np.full(drawn.size, arm), drawn))
        assert bits(found) == bits([reward_from_variate(form.kind, table, arm, z) for z in drawn])

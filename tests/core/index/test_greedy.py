"""ε-greedy: how often it explores, and whom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from coopbandits.core import EpsilonGreedy, Estimate, InputError
from coopbandits.core.choice import choose_arm
from coopbandits.core.draws import words
from coopbandits.core.index.greedy import LOWEST, any_of, largest_of

from ..fleet import values_of

ESTIMATE = Estimate(np.array([2.0, 8.0, 3.0, 1.0]), np.array([10.0, 10.0, 10.0, 10.0]), 40.0, 1.0)
WORDS = words(5, np.arange(4000, dtype=np.uint64)).tolist()


def played(index: EpsilonGreedy, estimate: Estimate, allowed: Any = None) -> Any:
    arms = [choose_arm(index, (index.constant,), estimate, word, allowed) for word in WORDS]
    return np.bincount(arms, minlength=4)


def test_values_are_means() -> None:
    assert values_of(EpsilonGreedy(), ESTIMATE).tolist() == [0.2, 0.8, 0.3, 0.1]
    unseen = values_of(
        EpsilonGreedy(), ESTIMATE._replace(counts=np.array([10.0, 1e-13, 0.0, -1.0]))
    )
    assert unseen.tolist() == [0.2, math.inf, math.inf, math.inf]


@pytest.mark.parametrize(("constant", "time"), [(5.0, 40.0), (2.0, 40.0), (5.0, 200.0)])
def test_frequencies(constant: float, time: float) -> None:
    """ε = min(1, cK/s), over all arms alike."""
    epsilon = min(1.0, constant * 4 / time)
    counts = played(EpsilonGreedy(constant), ESTIMATE._replace(time=time))
    expected = len(WORDS) * (np.array([0.0, 1.0 - epsilon, 0.0, 0.0]) + epsilon / 4)
    assert chisquare(counts, expected).pvalue > 0.01


def test_late_it_hardly_explores() -> None:
    assert played(EpsilonGreedy(1e-9), ESTIMATE).tolist() == [0, len(WORDS), 0, 0]


def test_only_allowed_arms_are_explored() -> None:
    """ε stays, and is shared by those that are allowed."""
    counts = played(EpsilonGreedy(5.0), ESTIMATE, [0, 2])
    assert counts[[1, 3]].tolist() == [0, 0]
    assert binomtest(int(counts[0]), len(WORDS), 0.5 / 2).pvalue > 0.01


def test_an_arm_never_seen_comes_first() -> None:
    unseen = ESTIMATE._replace(counts=np.array([10.0, 10.0, 0.0, 0.0]))
    assert played(EpsilonGreedy(), unseen).tolist() == [0, 0, len(WORDS), 0]
    counts = played(EpsilonGreedy(1e9), unseen, [0, 1, 3])
    assert counts.tolist() == [0, 0, 0, len(WORDS)]


def test_the_largest_within_rounding() -> None:
    assert largest_of([1.0 - 0.9e-9, 1.0]) == 0
    assert largest_of([1.0 - 1.1e-9, 1.0]) == 1
    assert largest_of([-math.inf, 3.0, math.inf, math.inf]) == 2
    assert largest_of([-math.inf, -math.inf]) == 0
    assert largest_of([5.0]) == 0
    assert largest_of([math.nan, math.nan]) == 0  # somebody else refuses those


def test_any_arm() -> None:
    values = [-math.inf, 3.0, -math.inf, math.inf, 0.0]
    assert [any_of(values, u, LOWEST) for u in (0.0, 0.33, 0.34, 0.66, 0.67, 0.999999)] == [
        1,
        1,
        3,
        3,
        4,
        4,
    ]
    assert any_of([-math.inf], 0.5, LOWEST) == 0


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan, "big"])
def test_a_rate_that_is_no_rate(constant: Any) -> None:
    with pytest.raises(InputError, match=f"constant.* {constant!r}"):
        EpsilonGreedy(constant)


def test_its_constant_is_no_bonus() -> None:
    assert EpsilonGreedy().bonus_constant is None

"""Top-two sampling: the leader with probability β, else whoever leads another draw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from coopbandits.core import BetaDraw, CentredDraw, Estimate, InputError, TopTwo
from coopbandits.core.choice import choose_arm
from coopbandits.core.draws import words

from ..fleet import one_view, values_of

ESTIMATE = Estimate(np.array([3.0, 6.0, 4.0]), np.array([10.0, 10.0, 10.0]), 30.0, 1.0)
WORDS = words(9, np.arange(3000, dtype=np.uint64)).tolist()


def played(index: TopTwo, estimate: Estimate = ESTIMATE, allowed: Any = None) -> Any:
    numbers = index.numbers(one_view(num_arms=3, sigma=0.5))
    arms = [choose_arm(index, numbers, estimate, word, allowed) for word in WORDS]
    return np.bincount(arms, minlength=3)


def leading(family: str, arms: Any) -> Any:
    """How likely each of some arms leads a draw, by many draws of numpy's own."""
    random = np.random.default_rng(0)  # noqa: TID251  an oracle of its own
    size = (100_000, 3)
    if family == "gaussian":
        draws = random.normal((13 / 30 + ESTIMATE.sums) / 11, 0.5 / math.sqrt(11), size)
    else:
        draws = random.beta(1 + ESTIMATE.sums, 11 - ESTIMATE.sums, size)
    barred = [k for k in range(3) if k not in arms]
    draws[:, barred] = -math.inf
    return np.bincount(draws.argmax(axis=1), minlength=3) / len(draws)


@pytest.mark.plays
@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("arms", [(0, 1, 2), (0, 2)])
def test_frequencies(family: str, share: float, arms: tuple[int, ...]) -> None:
    """Arm k leads with p_k; else it follows leader j with p_k/(1 − p_j)."""
    p = leading(family, arms)
    second = [sum(p[j] * p[k] / (1 - p[j]) for j in arms if j != k) for k in range(3)]
    expected = share * p + (1 - share) * np.array(second)
    counts = played(TopTwo(share, family), allowed=arms)
    for k in range(3):
        assert binomtest(int(counts[k]), len(WORDS), min(1.0, expected[k])).pvalue > 0.005


@pytest.mark.parametrize(
    ("family", "draw"), [("gaussian", CentredDraw()), ("bernoulli", BetaDraw())]
)
def test_its_values_are_a_draw_of_the_posterior(family: str, draw: Any) -> None:
    for word in WORDS[:20]:
        found = values_of(TopTwo(family=family), ESTIMATE, word, sigma=0.5)
        assert found.tolist() == values_of(draw, ESTIMATE, word, sigma=0.5).tolist()


def test_one_that_always_leads_is_played() -> None:
    sure = Estimate(np.array([0.0, 1e7, 0.0]), np.full(3, 1e7), 3e7, 1.0)
    numbers = TopTwo(0.1).numbers(one_view())
    assert {choose_arm(TopTwo(0.1), numbers, sure, word) for word in WORDS[:200]} == {1}


def test_a_single_arm() -> None:
    one = Estimate(np.array([3.0]), np.array([4.0]), 4.0, 1.0)
    assert all(choose_arm(TopTwo(0.1), (0.1, 1.0, 0.0), one, word) == 0 for word in WORDS[:50])
    numbers = TopTwo(0.1).numbers(one_view())
    assert {choose_arm(TopTwo(0.1), numbers, ESTIMATE, word, [2]) for word in WORDS[:200]} == {2}


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, math.nan, "half", True])
def test_beta_is_a_probability(share: Any) -> None:
    with pytest.raises(InputError, match=r"beta is .*; it must be above 0, and at most 1"):
        TopTwo(share)


def test_families() -> None:
    with pytest.raises(InputError, match="unknown family of rewards 'normal'"):
        TopTwo(family="normal")

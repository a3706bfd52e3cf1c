"""Top-two sampling: the leader with probability β, else its challenger by transportation cost."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import rel_entr
from scipy.stats import binomtest

from coopbandits.core import BetaDraw, CentredDraw, Estimate, InputError, TopTwo
from coopbandits.core.choice import choose_arm
from coopbandits.core.draws import words
from coopbandits.core.index.top_two import transportation_cost

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


def cost(family: str, leader: int, arm: int, estimate: Estimate = ESTIMATE) -> float:
    """W by its definition: how many nats it takes to make both means equal, at the least."""
    means, counts = estimate.sums / estimate.counts, estimate.counts
    if means[arm] >= means[leader]:
        return 0.0

    def nats(x: float) -> float:
        if family == "gaussian":
            d = [(means[k] - x) ** 2 / (2 * 0.5**2) for k in (leader, arm)]
        else:
            d = [rel_entr(m, x) + rel_entr(1 - m, 1 - x) for m in means[[leader, arm]]]
        return float(counts[leader] * d[0] + counts[arm] * d[1])

    found = minimize_scalar(nats, bounds=(means[arm], means[leader]), method="bounded")
    return float(found.fun)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_transportation_costs(family: str) -> None:
    uneven = Estimate(np.array([30.0, 6.0, 1.0]), np.array([40.0, 10.0, 7.0]), 57.0, 1.0)
    numbers = TopTwo(0.5, family).numbers(one_view(num_arms=3, sigma=0.5))
    for estimate in (ESTIMATE, uneven):
        for leader, arm in itertools.permutations(range(3), 2):
            found = transportation_cost(leader, arm, estimate, numbers)
            assert found == pytest.approx(cost(family, leader, arm, estimate), rel=1e-6)


@pytest.mark.parametrize(
    ("sums", "counts"),
    [([1.0, 0.0], [4.0, 0.0]), ([0.0, 1.0], [1e-13, 4.0]), ([2.0, 2.0], [3.0, 2.0])],
)
def test_nothing_speaks_against_an_arm_that_is_unknown_or_ahead(sums: Any, counts: Any) -> None:
    for family in (0.0, 1.0):
        assert (
            transportation_cost(0, 1, Estimate(sums, counts, 5.0, 1.0), (0.5, 1.0, family)) == 0.0
        )


def test_sums_beyond_the_counts_cost_no_more_than_certain_ones() -> None:
    beyond, exact = (
        Estimate(sums, [3.0, 2.0], 5.0, 1.0) for sums in ([3.0 + 1e-12, -1e-16], [3, 0])
    )
    found = [transportation_cost(0, 1, each, (0.5, 1.0, 1.0)) for each in (beyond, exact)]
    assert found[0] == found[1] == pytest.approx(-3 * math.log(0.6) - 2 * math.log(0.4))


@pytest.mark.covering(3)
@pytest.mark.plays
@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("arms", [(0, 1, 2), (0, 2)])
def test_frequencies(family: str, share: float, arms: tuple[int, ...]) -> None:
    """Arm k leads with probability p_k, and every leader has one challenger."""
    p = leading(family, arms)
    expected = share * p
    for leader in arms:
        costs = {k: cost(family, leader, k) for k in arms if k != leader}
        tied = [k for k in costs if costs[k] == min(costs.values())]
        expected[tied] += (1 - share) * p[leader] / len(tied)
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


def test_a_leader_that_is_certain_is_still_challenged() -> None:
    """By the arm with the least evidence against it, whatever draws of the posterior say."""
    certain = Estimate(np.array([0.0, 2e7, 1e7]), np.full(3, 2e7), 6e7, 1.0)
    counts = played(TopTwo(0.1), certain)
    assert counts[0] == 0
    assert binomtest(int(counts[1]), len(WORDS), 0.1).pvalue > 0.005


def test_ties_are_broken_at_random() -> None:
    tied = Estimate(
        np.array([0.3e7, 0.6e7, 0.1 + 0.2, 0.3]), np.array([1e7, 1e7, 1.0, 1.0]), 2e7, 1.0
    )
    numbers = TopTwo(1e-9).numbers(one_view(num_arms=4, sigma=1e-3))
    arms = [choose_arm(TopTwo(1e-9), numbers, tied, word) for word in WORDS]
    counts = np.bincount(arms, minlength=4)
    assert counts[0] == counts[1] == 0
    assert binomtest(int(counts[2]), len(WORDS), 0.5).pvalue > 0.005


def test_a_single_arm() -> None:
    one = Estimate(np.array([3.0]), np.array([4.0]), 4.0, 1.0)
    assert all(choose_arm(TopTwo(0.1), (0.1, 1.0, 0.0), one, word) == 0 for word in WORDS[:50])
    numbers = TopTwo(0.1).numbers(one_view())
    assert {choose_arm(TopTwo(0.1), numbers, ESTIMATE, word, [2]) for word in WORDS[:200]} == {2}


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, math.nan, "half", True])
def test_beta_is_a_probability(share: Any) -> None:
    with pytest.raises(InputError, match=f"beta.* {share!r}"):
        TopTwo(share)


def test_families() -> None:
    assert TopTwo(family="bernoulli").support == (0.0, 1.0)
    assert TopTwo().support == (-math.inf, math.inf)
    with pytest.raises(InputError, match="'normal'"):
        TopTwo(family="normal")

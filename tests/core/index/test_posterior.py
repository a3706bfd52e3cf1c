"""Posterior draws: moments and distribution against the posterior itself."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import rel_entr
from scipy.stats import beta, binomtest, kstest, norm

from coopbandits.core import BetaDraw, CentredDraw, Estimate, InputError, NormalDraw, TopTwo
from coopbandits.core.choice import choose_arm
from coopbandits.core.draws import normals, words
from coopbandits.core.index.posterior import UNKNOWN, pooled_sigma, transportation_cost

from ..fleet import one_view, values_of

ESTIMATE = Estimate(np.array([20.0, -10.0, 0.0]), np.array([80.0, 20.0, 0.0]), 100.0, 5.0)
WORDS = words(31, np.arange(20_000, dtype=np.uint64)).tolist()


def test_normal_draws_by_hand() -> None:
    """σ = 0.5: τ = 1 + 4n, h = 4s; the k-th arm takes the k-th word of its key."""
    z = normals(words(99, np.arange(3, dtype=np.uint64)))
    expected = [
        80 / 321 + z[0] / np.sqrt(321),
        -40 / 81 + z[1] / np.sqrt(81),
        z[2],
    ]
    found = values_of(NormalDraw(), ESTIMATE, 99, sigma=0.5)
    assert found.tolist() == pytest.approx(expected, rel=1e-14)


def test_declared_draws_are_what_values_are_drawn_from() -> None:
    """σ = 0.5: a value is mean + deviation · z, z the normal of the arm's word."""
    z = normals(words(99, np.arange(3, dtype=np.uint64)))
    squares = ESTIMATE._replace(squares=np.array([60.0]))
    for index in (NormalDraw(), CentredDraw(), CentredDraw("estimate")):
        found = index.draws(squares, index.numbers(one_view(num_arms=3, sigma=0.5)))
        assert found.family == "normal"
        expected = values_of(index, squares, 99, sigma=0.5).tolist()
        assert (found.first + found.second * z).tolist() == pytest.approx(expected, rel=1e-12)
    hits = Estimate(np.array([60.0, 2.5, 0.0]), np.array([80.0, 20.0, 0.0]), 100.0, 5.0)
    family, first, second = BetaDraw().draws(hits, ())
    assert (family, first.tolist(), second.tolist()) == ("beta", [61, 3.5, 1], [21, 18.5, 1])


@pytest.mark.plays
def test_normal_draws_follow_the_posterior() -> None:
    drawn = np.array([values_of(NormalDraw(), ESTIMATE, word, sigma=2.0) for word in WORDS])
    for k, (total, count) in enumerate(((20.0, 80.0), (-10.0, 20.0), (0.0, 0.0))):
        tau = 1 + count / 4
        assert kstest(drawn[:, k], norm(total / 4 / tau, tau**-0.5).cdf).pvalue > 0.01
    assert np.abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 4.5 / np.sqrt(len(WORDS))


@pytest.mark.covering(2)
@pytest.mark.plays
@pytest.mark.parametrize(
    ("total", "count", "posterior"),
    [(60.0, 80.0, beta(61, 21)), (2.5, 20.0, beta(3.5, 18.5)), (0.0, 0.0, beta(1, 1))],
)
def test_beta_draws_follow_the_posterior(total: float, count: float, posterior: Any) -> None:
    """Many arms alike make a large sample of few words."""
    arms = 500
    estimate = Estimate(np.full(arms, total), np.full(arms, count), 100.0, 5.0)
    drawn = np.array([values_of(BetaDraw(), estimate, word) for word in WORDS[:60]])
    assert kstest(drawn.ravel(), posterior.cdf).pvalue > 0.01
    # Neither the arms of one word nor the same arm of two words hang together.
    limit = 4.5 / np.sqrt(drawn.size)
    assert abs(np.corrcoef(drawn[:, 1:].ravel(), drawn[:, :-1].ravel())[0, 1]) < limit
    assert abs(np.corrcoef(drawn[1:].ravel(), drawn[:-1].ravel())[0, 1]) < limit


@pytest.mark.parametrize(
    ("total", "count", "wins", "losses"),
    [
        (-1e-15, 5.0, 0.0, 5.0),
        (5.0 + 1e-13, 5.0, 5.0, 0.0),
        (-1e-16, -1e-16, 0.0, 0.0),
        (1e-16, -1e-16, 0.0, 0.0),
        (7.0, 5.0, 5.0, 0.0),
    ],
)
def test_beta_draws_take_what_rounding_leaves(
    total: float, count: float, wins: float, losses: float
) -> None:
    spoiled = Estimate(np.array([total]), np.array([count]), 5.0, 1.0)
    clean = Estimate(np.array([wins]), np.array([wins + losses]), 5.0, 1.0)
    for word in WORDS[:50]:
        found = values_of(BetaDraw(), spoiled, word)
        assert found == pytest.approx(values_of(BetaDraw(), clean, word), rel=1e-9)
        assert 0.0 < found[0] < 1.0


def centred(estimate: Estimate, word: int, *, sigma: float | None) -> NDArray[np.float64]:
    """Draws with a known σ, or None for one that is estimated."""
    if sigma is None:
        return values_of(CentredDraw("estimate"), estimate, word)
    return values_of(CentredDraw(), estimate, word, sigma=sigma)


def test_centred_draws_by_hand() -> None:
    """One pull of the mean 0.1 for a prior; c = 2 makes every pull count twice."""
    z = normals(words(99, np.arange(3, dtype=np.uint64)))
    found = centred(ESTIMATE._replace(anticipation=2.0), 99, sigma=0.5)
    expected = [
        40.1 / 161 + 0.5 * z[0] / np.sqrt(161),
        -19.9 / 41 + 0.5 * z[1] / np.sqrt(41),
        0.1 + 0.5 * z[2],
    ]
    assert found.tolist() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("sigma", [2.0, None])
def test_centred_draws_know_neither_zero_nor_unit(sigma: float | None) -> None:
    """Rewards 10 + 3u are drawn as u: sums, squares and σ follow."""
    squares = 250.0
    moved = ESTIMATE._replace(
        sums=3 * ESTIMATE.sums + 10 * ESTIMATE.counts,
        squares=[9 * squares + 60 * ESTIMATE.sums.sum() + 100 * ESTIMATE.counts.sum()],
    )
    for word in WORDS[:20]:
        plain = centred(ESTIMATE._replace(squares=[squares]), word, sigma=sigma)
        found = centred(moved, word, sigma=sigma and 3 * sigma)
        assert found.tolist() == pytest.approx((10 + 3 * plain).tolist(), rel=1e-9)


def test_without_data_all_arms_are_drawn_alike() -> None:
    nothing = Estimate(np.zeros(4), np.zeros(4), 2.0, 1.0)
    z = normals(words(7, np.arange(4, dtype=np.uint64)))
    assert centred(nothing, 7, sigma=3.0).tolist() == (3.0 * z).tolist()
    assert centred(nothing, 7, sigma=None).tolist() == z.tolist()


def test_sigma_is_found_from_the_scatter_within_arms() -> None:
    """Rewards 1, 3 of one arm and 5, 7, 9 of another: 2 + 8 about their means, 5 − 2 − 2 free."""
    found = Estimate(
        np.array([4.0, 21.0, 0.0]), np.array([2.0, 3.0, 0.0]), 5.0, 1.0, squares=[165.0]
    )
    assert pooled_sigma(found) == pytest.approx(np.sqrt(10.0))
    assert pooled_sigma(found._replace(time=4.0)) == UNKNOWN
    assert pooled_sigma(found._replace(squares=[155.0 - 1e-12])) == 0.0
    assert pooled_sigma(found._replace(squares=[155.0 + 1e-12])) == 0.0
    assert pooled_sigma(found._replace(squares=[155.0 + 5e-12])) == pytest.approx(2.24e-6, rel=0.01)
    many = normals(words(3, np.arange(60_000, dtype=np.uint64))).reshape(3, -1) * 1.7 + [
        [0],
        [4],
        [9],
    ]
    pooled = Estimate(many.sum(axis=1), np.full(3, 2e4), 6e4, 9.0, squares=[(many**2).sum()])
    assert pooled_sigma(pooled) == pytest.approx(1.7, rel=0.01)
    by_arm = pooled._replace(squares=(many**2).sum(axis=1))
    assert pooled_sigma(by_arm) == pytest.approx(pooled_sigma(pooled))


def test_beta_draws_anticipate() -> None:
    estimate = Estimate(np.array([3.0, 1.0]), np.array([4.0, 4.0]), 8.0, 2.0)
    more = Estimate(np.array([7.5, 2.5]), np.array([10.0, 10.0]), 8.0, 2.0)
    for word in WORDS[:5]:
        found = values_of(BetaDraw(), estimate._replace(anticipation=2.5), word)
        assert found.tolist() == values_of(BetaDraw(), more, word).tolist()


def test_draws_hang_on_the_word_alone() -> None:
    for word in WORDS[:5]:
        again = values_of(NormalDraw(), ESTIMATE, word, sigma=1.0)
        assert again.tolist() == values_of(NormalDraw(), ESTIMATE, word, sigma=1.0).tolist()
    firsts = {values_of(NormalDraw(), ESTIMATE, word, sigma=1.0)[0] for word in WORDS[:100]}
    assert len(firsts) == 100


TOP_TWO_ESTIMATE = Estimate(np.array([3.0, 6.0, 4.0]), np.array([10.0, 10.0, 10.0]), 30.0, 1.0)
TOP_TWO_WORDS = words(9, np.arange(3000, dtype=np.uint64)).tolist()


def played(index: TopTwo, estimate: Estimate = TOP_TWO_ESTIMATE, allowed: Any = None) -> Any:
    numbers = index.numbers(one_view(num_arms=3, sigma=0.5))
    arms = [choose_arm(index, numbers, estimate, word, allowed) for word in TOP_TWO_WORDS]
    return np.bincount(arms, minlength=3)


def leading(family: str, arms: Any) -> Any:
    """How likely each of some arms leads a draw, by many draws of numpy's own."""
    random = np.random.default_rng(0)  # noqa: TID251  an oracle of its own
    size = (100_000, 3)
    if family == "gaussian":
        draws = random.normal((13 / 30 + TOP_TWO_ESTIMATE.sums) / 11, 0.5 / math.sqrt(11), size)
    else:
        draws = random.beta(1 + TOP_TWO_ESTIMATE.sums, 11 - TOP_TWO_ESTIMATE.sums, size)
    barred = [k for k in range(3) if k not in arms]
    draws[:, barred] = -math.inf
    return np.bincount(draws.argmax(axis=1), minlength=3) / len(draws)


def cost(family: str, leader: int, arm: int, estimate: Estimate = TOP_TWO_ESTIMATE) -> float:
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
    for estimate in (TOP_TWO_ESTIMATE, uneven):
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
        assert binomtest(int(counts[k]), len(TOP_TWO_WORDS), min(1.0, expected[k])).pvalue > 0.005


@pytest.mark.parametrize(
    ("family", "draw"), [("gaussian", CentredDraw()), ("bernoulli", BetaDraw())]
)
def test_its_values_are_a_draw_of_the_posterior(family: str, draw: Any) -> None:
    for word in TOP_TWO_WORDS[:20]:
        found = values_of(TopTwo(family=family), TOP_TWO_ESTIMATE, word, sigma=0.5)
        assert found.tolist() == values_of(draw, TOP_TWO_ESTIMATE, word, sigma=0.5).tolist()


def test_a_leader_that_is_certain_is_still_challenged() -> None:
    """By the arm with the least evidence against it, whatever draws of the posterior say."""
    certain = Estimate(np.array([0.0, 2e7, 1e7]), np.full(3, 2e7), 6e7, 1.0)
    counts = played(TopTwo(0.1), certain)
    assert counts[0] == 0
    assert binomtest(int(counts[1]), len(TOP_TWO_WORDS), 0.1).pvalue > 0.005


def test_ties_are_broken_at_random() -> None:
    tied = Estimate(
        np.array([0.3e7, 0.6e7, 0.1 + 0.2, 0.3]), np.array([1e7, 1e7, 1.0, 1.0]), 2e7, 1.0
    )
    numbers = TopTwo(1e-9).numbers(one_view(num_arms=4, sigma=1e-3))
    arms = [choose_arm(TopTwo(1e-9), numbers, tied, word) for word in TOP_TWO_WORDS]
    counts = np.bincount(arms, minlength=4)
    assert counts[0] == counts[1] == 0
    assert binomtest(int(counts[2]), len(TOP_TWO_WORDS), 0.5).pvalue > 0.005


def test_a_single_arm() -> None:
    one = Estimate(np.array([3.0]), np.array([4.0]), 4.0, 1.0)
    assert all(
        choose_arm(TopTwo(0.1), (0.1, 1.0, 0.0), one, word) == 0 for word in TOP_TWO_WORDS[:50]
    )
    numbers = TopTwo(0.1).numbers(one_view())
    assert {
        choose_arm(TopTwo(0.1), numbers, TOP_TWO_ESTIMATE, word, [2])
        for word in TOP_TWO_WORDS[:200]
    } == {2}


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, math.nan, "half", True])
def test_beta_is_a_probability(share: Any) -> None:
    with pytest.raises(InputError, match=f"beta.* {share!r}"):
        TopTwo(share)


def test_families() -> None:
    assert TopTwo(family="bernoulli").support == (0.0, 1.0)
    assert TopTwo().support == (-math.inf, math.inf)
    with pytest.raises(InputError, match="'normal'"):
        TopTwo(family="normal")

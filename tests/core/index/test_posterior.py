"""Posterior draws: moments and distribution against the posterior itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, kstest, norm

from coopbandits.core import BetaDraw, CentredDraw, Estimate, NormalDraw
from coopbandits.core.draws import normals, words
from coopbandits.core.index.posterior import UNKNOWN, pooled_sigma

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

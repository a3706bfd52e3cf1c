"""Privacy: the noise of sums, and what no noise is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.core import Estimate, InputError, Private
from coopbandits.core.draws import word_at, words
from coopbandits.core.sources.private import PrivateTap, laplace_of

from ..fleet import one_view, through_json

NOTHING = Estimate(np.zeros(2), np.zeros(2), 2.0, 1.0)


def tap(epsilon: float, horizon: int, word: int = 1) -> PrivateTap:
    return Private(epsilon, horizon).make(one_view(random_word=word))


def test_laplace_variates_have_mean_zero_and_twice_the_squared_scale() -> None:
    drawn = np.array([laplace_of(w, 3.0) for w in words(5, np.arange(8_000, dtype=np.uint64))
                      .tolist()])  # fmt: skip
    assert abs(drawn.mean()) < 4 * math.sqrt(18 / drawn.size)
    assert abs(drawn.var() / 18 - 1) < 4 * math.sqrt(5 / drawn.size)  # kurtosis 6
    assert abs(np.mean(np.abs(drawn) > 3 * math.log(2)) - 0.5) < 0.023  # the median of |X|


@pytest.mark.parametrize("pulls", [1, 6, 7, 8])
def test_released_sums_have_one_variate_per_block(pulls: int) -> None:
    """7 pulls are blocks of 4, 2 and 1, each with Laplace noise of scale L/ε; here L = 4."""
    released = []
    for word in words(9, np.arange(1_000, dtype=np.uint64)).tolist():
        one = tap(0.5, 8, word)
        released.append(sum(one.drawn(1, 0.25, NOTHING) for _ in range(pulls)) - 0.25 * pulls)
    errors = np.array(released)
    variance = pulls.bit_count() * 2 * (4 / 0.5) ** 2
    assert variance <= 2 * 4**3 / 0.5**2
    assert abs(errors.mean()) < 4 * math.sqrt(variance / errors.size)
    assert abs(errors.var() / variance - 1) < 4 * math.sqrt(5 / errors.size)


def test_thirteen_pulls_are_blocks_of_eight_four_and_one() -> None:
    one = tap(1.0, 16, word=3)
    blocks = [(3, 0), (2, 8), (0, 12)]  # level, first pull
    key = word_at(3, 0)
    expected = sum(laplace_of(word_at(word_at(key, level), at), 5.0) for level, at in blocks)
    assert one.noise(0, 13) == pytest.approx(expected)
    assert one.noise(0, 13) != one.noise(1, 13)
    assert one.noise(0, 0) == 0.0


def test_equal_words_make_equal_noise_and_a_state_continues() -> None:
    left, right = tap(1.0, 50, 7), tap(1.0, 50, 7)
    first = [left.drawn(0, 0.5, NOTHING) for _ in range(9)]
    assert first == [right.drawn(0, 0.5, NOTHING) for _ in range(9)]
    fresh = tap(1.0, 50, 7)
    fresh.restore_state(through_json(left.export_state()))
    assert fresh.drawn(0, 0.5, NOTHING) == right.drawn(0, 0.5, NOTHING)


def test_without_noise_rewards_are_as_they_are_and_with_it_they_are_clipped() -> None:
    free = tap(math.inf, 3)
    assert [free.drawn(0, reward, NOTHING) for reward in (-2.0, 0.3, 5.0)] == [-2.0, 0.3, 5.0]
    left, right = tap(1.0, 3), tap(1.0, 3)
    assert left.drawn(0, 5.0, NOTHING) == right.drawn(0, 1.0, NOTHING)
    assert left.drawn(1, -5.0, NOTHING) == right.drawn(1, 0.0, NOTHING)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="epsilon is 0; it must be a positive number, or inf"):
        Private(0, 10)
    with pytest.raises(InputError, match="horizon is 0; it must be a whole number, at least 1"):
        Private(1.0, 0)
    one = tap(1.0, 1)
    one.drawn(0, 0.5, NOTHING)
    with pytest.raises(InputError, match="arm 0 was pulled more than 1 times, for which"):
        one.drawn(0, 0.5, NOTHING)
    assert one.counts.tolist() == [1, 0]
    with pytest.raises(InputError, match=r"state field counts is \[2, 0\]; they go from 0 to 1"):
        one.restore_state({"counts": [2, 0]})

"""Counting agents by the smallest of many exponentials."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from coopbandits.core import InputError
from coopbandits.core.aggregate import PullMixing
from coopbandits.core.aggregate.extrema import (
    EXPONENTIALS,
    check_minima,
    count_agents,
    exponentials,
    require_word,
)
from coopbandits.core.draws import words

from ..fleet import machine, one_view  # as in test_local


def test_exponentials_are_unit_exponentials() -> None:
    drawn = [exponentials(word) for word in words(7, np.arange(1, 400, dtype=np.uint64)).tolist()]
    assert drawn[0].size == EXPONENTIALS == 32
    assert kstest(np.concatenate(drawn), "expon").pvalue > 0.01
    assert exponentials(5).tolist() == exponentials(5).tolist()


@pytest.mark.parametrize("num_agents", [1, 20, pytest.param(60, marks=pytest.mark.slow)])
def test_the_estimate_has_the_mean_and_spread_of_theory(num_agents: int) -> None:
    """Mean N and relative standard deviation 1/√(L − 2), in 400 networks; 4 standard errors."""
    counters = np.arange(400 * num_agents, dtype=np.uint64)
    drawn = np.array([exponentials(word) for word in words(9, counters).tolist()])
    minima = drawn.reshape(400, num_agents, EXPONENTIALS).min(axis=1)
    ratios = 31.0 / minima.sum(axis=1) / num_agents
    assert abs(ratios.mean() - 1.0) < 4 * 30**-0.5 / 20
    assert 0.85 < ratios.std() * 30**0.5 < 1.15
    found = [count_agents(row.sum()) for row in minima]
    assert found == pytest.approx(np.maximum(1.0, ratios * num_agents).tolist())


def test_minima_are_left_out_where_both_agree() -> None:
    mine = machine(PullMixing(), one_view(random_word=3))
    minima = exponentials(3)
    total = sum(minima.tolist())
    for told, expected in ((total, []), (0.0, minima.tolist())):
        mine.told[:] = told
        message = mine.outgoing(1)
        assert message is not None
        assert message[5:].tolist() == [total, *expected]


def test_minima_that_are_not_positive_are_refused() -> None:
    check_minima({1: np.array([-1.0, 2.0, 3.0]), 2: np.array([-1.0])}, 1)
    with pytest.raises(InputError, match=r"\b2\b.*minima"):
        check_minima({1: np.array([1.0]), 2: np.array([-1.0, 2.0, 0.0])}, 1)


@pytest.mark.parametrize("word", [0, -1, 2**64])
def test_a_word_must_be_told(word: int) -> None:
    with pytest.raises(InputError, match=f"random_word.*agent 0.* {word}\\b"):
        require_word(one_view(random_word=word))
    assert require_word(one_view(random_word=2**64 - 1)) == 2**64 - 1

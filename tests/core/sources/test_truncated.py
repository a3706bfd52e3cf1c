"""Truncation: thresholds by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.core import Estimate, InputError, Truncated

from ..fleet import one_view


def drawn(reward: float, count: float, time: float, limit: float, moment: float) -> float:
    estimate = Estimate(np.zeros(1), np.array([count]), time, 1.0)
    return Truncated(limit, moment).make(one_view(num_arms=1)).drawn(0, reward, estimate)


def test_rewards_above_the_threshold_count_as_nothing() -> None:
    """(u n / ln t²)^{1/p} with u = 3, n = 20, t = 50."""
    for moment in (1.5, 2.0):
        largest = (3 * 20 / math.log(50**2)) ** (1 / moment)
        for sign in (-1.0, 1.0):
            assert drawn(sign * 0.999 * largest, 19, 50, 3.0, moment) == sign * 0.999 * largest
            assert drawn(sign * 1.001 * largest, 19, 50, 3.0, moment) == 0.0


def test_before_the_first_pull_the_time_is_two() -> None:
    assert drawn(1.2, 0, 1.0, 2.0, 2.0) == 1.2  # √(2/ln 4) = 1.201
    assert drawn(1.21, 0, 1.0, 2.0, 2.0) == 0.0


def test_any_rewards_are_truncated_and_a_restart_changes_nothing() -> None:
    source = Truncated(2.0)
    assert source.support == (-math.inf, math.inf)
    assert source.needs == frozenset()
    tap = source.make(one_view(num_arms=1))
    before = tap.export_state()
    tap.reopened(7)
    assert tap.export_state() == before


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"limit.* 0\b"):
        Truncated(0)
    for moment in (1, 2.1):
        with pytest.raises(InputError, match=f"moment.* {moment!r}"):
            Truncated(1.0, moment)

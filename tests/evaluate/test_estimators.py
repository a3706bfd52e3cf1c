"""Estimates of a policy's value against what it is."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from coopbandits import InputError
from coopbandits.evaluate import direct, doubly_robust, ips

from .worlds import BEST, MEANS, best_arm, drawn

SKEWED = [0.7, 0.2, 0.1]
EVEN = [1 / 3] * 3


def bias(estimate: Any, truth: float, chances: Any, logs: int = 60, **more: Any) -> float:
    """Return how many standard errors the mean of many estimates is from the truth."""
    found = np.array([estimate(drawn(300, chances, seed, **more)).mean for seed in range(logs)])
    return float(abs(found.mean() - truth) / (found.std(ddof=1) / np.sqrt(logs)))


@pytest.mark.parametrize("chances", [EVEN, SKEWED], ids=["even", "skewed"])
def test_estimates_are_unbiased(chances: Any) -> None:
    for estimate in (
        lambda log: ips(log, best_arm),
        lambda log: doubly_robust(log, best_arm),
        lambda log: doubly_robust(log, best_arm, folds=5, ridge=3.0),
    ):
        assert bias(estimate, BEST, chances) < 3.5


def test_errors_tell_how_far_off_an_estimate_is() -> None:
    for estimate in (ips, doubly_robust):
        found = [estimate(drawn(400, SKEWED, seed), best_arm) for seed in range(80)]
        off = np.array([(each.mean - BEST) / each.error for each in found])
        assert 0.7 < off.std() < 1.3


def test_a_model_makes_the_error_smaller_and_a_wrong_one_does_no_harm() -> None:
    log = drawn(2000, EVEN)
    assert doubly_robust(log, best_arm).error < 0.5 * ips(log, best_arm).error
    assert abs(direct(log, best_arm).mean - BEST) < 0.03
    # One context pays the third arm 2 more, which no linear model can say.
    third = np.tile([0.0, 0.0, 1.0], (300, 1))
    truth = float(MEANS[:, 2].mean()) + 0.5
    assert bias(lambda log: doubly_robust(log, third), truth, SKEWED, curved=2.0) < 3.5


def test_the_logging_policy_has_the_value_of_the_log() -> None:
    log = drawn(500, SKEWED)
    same = np.tile(SKEWED, (500, 1))
    found = ips(log, same)
    assert np.isclose(found.mean, log.rewards.mean())
    assert np.isclose(found.effective, 500.0)
    assert np.isclose(ips(log, same, normalise=True).mean, log.rewards.mean())


def test_normalised_weights_ignore_a_shift() -> None:
    """1000 more per reward is 1000 more, which plain weights only reach on average."""
    log, shifted = drawn(200, SKEWED), drawn(200, SKEWED)
    shifted.rewards.flags.writeable = True
    shifted.rewards[:] += 1000.0
    moved = ips(shifted, best_arm, normalise=True).mean - ips(log, best_arm, normalise=True).mean
    assert np.isclose(moved, 1000.0)
    assert not np.isclose(ips(shifted, best_arm).mean - ips(log, best_arm).mean, 1000.0)


def test_few_shared_decisions_are_told() -> None:
    log = drawn(600, [0.98, 0.01, 0.01])
    assert ips(log, np.tile([0.0, 0.0, 1.0], (600, 1))).effective < 20


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda log: ips(log, np.ones((2, 3))), r"chances have shape \(2, 3\); give \(9, 3\)"),
        (lambda log: ips(log, np.ones((9, 3))), r"chances of decision 0 are \[1.0, 1.0, 1.0\]"),
        (lambda log: ips(log, np.tile([2.0, -1.0, 0.0], (9, 1))), "must be at least 0"),
        (lambda log: ips(log, np.full((9, 3), np.nan)), "chances of decision 0"),
        (lambda log: ips(log, "best"), "chances are 'best'; give numbers"),
        (
            lambda log: ips(log, best_arm, normalise=cast("bool", 2)),
            "normalise is 2; it must be true or false",
        ),
        (lambda log: doubly_robust(log, best_arm, folds=1), "folds is 1; it must be a whole"),
        (lambda log: doubly_robust(log, best_arm, folds=10), "folds is 10 for 9 decisions"),
        (lambda log: direct(log, best_arm, ridge=0.0), "ridge is 0.0; it must be a positive"),
        (lambda log: ips(log, np.eye(3)[(log.arms + 1) % 3]), "none of the logged arms"),
    ],
)
def test_bad_input_is_refused(call: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(drawn(9, EVEN))

"""Estimates of a policy's value against its true value."""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from runpy import run_path
from typing import Any, cast

import numpy as np
import pytest

from coopbandits import InputError
from coopbandits.evaluate import DecisionLog, SupportWarning, direct, doubly_robust, ips

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


@pytest.mark.parametrize(
    "estimate",
    [lambda log, wanted: ips(log, wanted), lambda log, wanted: doubly_robust(log, wanted, folds=2)],
    ids=["ips", "doubly robust"],
)
def test_estimates_are_unbiased_on_the_log_of_a_learner(estimate: Any) -> None:
    """Exactly: over all logs of four decisions by a greedy learner, weighted by their probability.

    A model that has seen later decisions misses by 0.0024, since what is played later depends on
    the rewards before.
    """
    means, floor, total = (0.3, 0.6), 0.2, 0.0
    for outcome in product(product((0, 1), (0.0, 1.0)), repeat=4):
        sums, counts, probability, propensities = np.zeros(2), np.zeros(2), 1.0, []
        for arm, reward in outcome:
            first, second = (sums + 0.5) / (counts + 1)
            chances = np.full(2, floor / 2)
            chances[int(second >= first)] += 1 - floor
            propensities.append(chances[arm])
            probability *= chances[arm] * (means[arm] if reward else 1 - means[arm])
            sums[arm] += reward
            counts[arm] += 1
        arms, rewards = map(np.array, zip(*outcome, strict=True))
        log = DecisionLog(
            np.empty((4, 1, 0)), arms, rewards, np.array(propensities),
            np.ones((4, 2), dtype=bool), np.arange(4), np.zeros(4, dtype=np.int64),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)
            try:
                value = estimate(log, np.tile([0.0, 1.0], (4, 1))).mean
            except InputError:  # no weight at all: IPS would return 0
                value = 0.0
        total += probability * value
    assert np.isclose(total, means[1], rtol=1e-12)


def test_errors_match_the_scatter_of_estimates() -> None:
    for estimate in (ips, doubly_robust, direct):
        found = [estimate(drawn(400, SKEWED, seed), best_arm) for seed in range(80)]
        off = np.array([(each.mean - BEST) / each.error for each in found])
        assert 0.7 < off.std() < 1.3


def test_the_direct_estimate_without_features_has_an_error() -> None:
    """It is the mean of an arm, shrunk to the average by one pull."""
    log = DecisionLog.from_table(
        {"arm": [0, 1] * 50, "reward": np.arange(100) % 7 / 3}, propensity=0.5
    )
    second = np.tile([0.0, 1.0], (100, 1))
    rewards, found = log.rewards[1::2], direct(log, second)
    assert np.isclose(found.mean, (rewards.sum() + log.rewards.mean()) / 51)
    assert np.isclose(found.error, rewards.std(ddof=1) / np.sqrt(50), rtol=0.05)
    assert np.isclose(found.effective, 50.0)
    assert found.low < found.mean < found.high


EXAMPLE = Path(__file__).parents[2] / "examples" / "evaluation_coverage.py"
coverage: Any = run_path(str(EXAMPLE))["coverage"]


@pytest.mark.slow
@pytest.mark.parametrize("rewards", ["exponential", "lognormal"])
@pytest.mark.parametrize("size", [50, 200, 1000])
@pytest.mark.parametrize("name", ["ips", "ips, normalised", "doubly_robust", "direct"])
def test_intervals_hold_the_value(name: str, size: int, rewards: str) -> None:
    """Of 2000 logs with skewed rewards; two errors of a share of 0.95 are 0.01."""
    held, _ = coverage(name, rewards, size, 2000)
    print(f"{name}, {rewards}, {size}: {held:.3f}")
    least = {50: 0.885, 200: 0.92, 1000: 0.925}[size]
    assert least < held < 0.975


@pytest.mark.slow
@pytest.mark.parametrize("size", [50, 200])
def test_intervals_of_replays_hold_the_value(size: int) -> None:
    held, plain = coverage("replay", "exponential", size, 2000)
    print(f"replay, {size}: {held:.3f}; of ± 1.96 errors {plain:.3f}")
    assert 0.92 < held < 0.975


@pytest.mark.parametrize("name", ["ips", "ips, normalised", "doubly_robust", "direct"])
def test_intervals_hold_the_value_of_200_logs(name: str) -> None:
    """More often than those of ± 1.96 standard errors."""
    held, plain = coverage(name, "exponential", 50, 200)
    assert 0.8 < plain < held
    assert 0.885 < held < 1.0


@pytest.mark.parametrize("logs", [20, pytest.param(40, marks=pytest.mark.slow)])
def test_intervals_of_replays_hold_the_value_of_some_logs(logs: int) -> None:
    held, _ = coverage("replay", "exponential", 50, logs)
    assert 0.85 <= held <= 1.0


def test_a_log_that_lacks_support_is_warned_about() -> None:
    log = drawn(400, [0.5, 0.5, 0.0])
    even = np.full((400, 3), 1 / 3)
    for estimate in (ips, doubly_robust):
        with pytest.warns(SupportWarning, match=r"weights.* 0\.6\d*.* 1\b"):
            estimate(log, even)
        with pytest.warns(SupportWarning, match=r"\d\.\d effective decisions"):
            estimate(drawn(100, [0.96, 0.02, 0.02], 4), np.tile([0.0, 0.0, 1.0], (100, 1)))
    with pytest.warns(SupportWarning, match=r"arm 2\b"):
        direct(log, even)


def test_equal_terms_show_no_error() -> None:
    log = DecisionLog.from_table({"arm": [0, 1] * 20, "reward": [1.0] * 40}, propensity=0.5)
    found = ips(log, np.full((40, 2), 0.5))
    assert found.mean == 1.0
    assert np.isnan([found.error, found.low, found.high]).all()


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


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda log: ips(log, np.ones((2, 3))),
            r"probabilities.*\(2, 3\).*\(9, 3\)",
        ),
        (
            lambda log: ips(log, np.ones((9, 3))),
            r"decision 0\b.*\[1\.0, 1\.0, 1\.0\]",
        ),
        (lambda log: ips(log, np.tile([2.0, -1.0, 0.0], (9, 1))), "must be at least 0"),
        (lambda log: ips(log, np.full((9, 3), np.nan)), r"decision 0\b"),
        (lambda log: ips(log, "best"), "probabilities.* 'best'"),
        (
            lambda log: ips(log, best_arm, normalise=cast("bool", 2)),
            r"normalise.* 2\b",
        ),
        (lambda log: doubly_robust(log, best_arm, folds=1), r"folds.* 1\b"),
        (lambda log: doubly_robust(log, best_arm, folds=10), r"folds.* 10\b.* 9 "),
        (lambda log: direct(log, best_arm, ridge=0.0), r"ridge.* 0\.0"),
        (lambda log: ips(log, np.eye(3)[(log.arms + 1) % 3]), "logged arms"),
    ],
)
def test_bad_input_is_refused(call: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(drawn(9, EVEN))

"""Decisions as they are logged: chances that are true, and a floor that holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coopbandits import DDUCB, CentralTS, GaussianBandit, InputError, Network, parse_policy
from coopbandits.evaluate import ips, log_decisions

from .worlds import BEST, PROBLEM, best_arm

pytestmark = pytest.mark.plays

CYCLE = Network.from_spec("cycle:4")
DRAWN = parse_policy("flooded-totals*lin-ts:disjoint=true")


def test_one_over_the_chance_counts_every_arm_once() -> None:
    """Whatever the policy learns meanwhile: E[1{a = k}/p] is 1 for every arm."""
    log = log_decisions(PROBLEM, CYCLE, DRAWN, 250, floor=0.3)
    assert log.propensities.min() >= 0.3 / 3 - 1e-12
    for arm in range(3):
        terms = (log.arms == arm) / log.propensities
        assert abs(terms.mean() - 1.0) < 4 * terms.std() / np.sqrt(len(log))
    found = ips(log, best_arm)
    assert abs(found.mean - BEST) < 4 * found.error


def test_the_log_tells_what_happened() -> None:
    log = log_decisions(PROBLEM, CYCLE, DRAWN, 20, seed=3)
    assert len(log) == 80
    assert log.times.tolist() == [t for t in range(20) for _ in range(4)]
    assert log.agents.tolist() == [0, 1, 2, 3] * 20
    means = PROBLEM.expected(log.features)
    noise = log.rewards - means[np.arange(80), log.arms]
    assert abs(noise.std() - 0.3) < 0.1
    shares = log.propensities * 20  # of 20 words
    assert np.allclose(shares, np.round(shares))
    assert len(np.unique(log.propensities)) > 3


def test_a_policy_without_chance_is_certain() -> None:
    log = log_decisions(GaussianBandit([1, 0]), CYCLE, DDUCB(), 10)
    assert set(log.propensities) == {1.0}
    assert log.num_features == 0
    floored = log_decisions(GaussianBandit([1, 0]), CYCLE, DDUCB(), 40, floor=0.5)
    assert np.isclose(np.unique(floored.propensities), [0.25, 0.75]).all()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"draws": 0}, "draws is 0; it must be a whole number, at least 1"),
        ({"floor": 1.5}, "floor is 1.5; it must be a number from 0 to 1"),
        ({"policy": CentralTS()}, "give one that is made of parts and has agents"),
    ],
)
def test_bad_settings_are_refused(more: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        log_decisions(
            **({"problem": PROBLEM, "network": CYCLE, "policy": DRAWN, "horizon": 3} | more)
        )


def test_problem_network_and_policy_may_be_texts() -> None:
    told = log_decisions(GaussianBandit([1.0, 0.5]), CYCLE, parse_policy("flood-ts"), 5)
    found = log_decisions("gaussian:means=1,0.5", "cycle:4", "flood-ts", 5)
    assert np.array_equal(found.rewards, told.rewards)
    assert np.array_equal(found.propensities, told.propensities)

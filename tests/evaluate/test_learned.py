"""Policies that have learned from the first part of a log, and are judged by the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coopbandits import InputError, parse_policy
from coopbandits.evaluate import doubly_robust, ips, learned, log_decisions

from .worlds import BEST, MEANS, best_arm, drawn

LOG = drawn(1200, [1 / 3, 1 / 3, 1 / 3])
GREEDY = parse_policy("local-sums*lin-ucb:disjoint=true,scale=1e-9")


def test_a_policy_that_has_learned_plays_the_best_arm() -> None:
    rest, chances = learned(LOG, GREEDY, sigma=0.3)
    assert len(rest) == 600
    assert np.array_equal(rest.rewards, LOG.rewards[600:])
    assert (chances * best_arm(rest.features)).sum() > 590
    for value in (ips(rest, chances), doubly_robust(rest, chances)):
        assert abs(value.mean - BEST) < 4 * value.error


def test_probabilities_of_random_choices_are_counted_or_integrated() -> None:
    _, counted = learned(LOG, "local-sums*top-two", sigma=3.0, draws=8)
    assert np.allclose(counted.sum(axis=1), 1.0)
    assert set(np.unique((8 * counted).round(9))) <= set(range(9))
    assert len(np.unique(counted, axis=0)) == 1  # no features: one state, one distribution
    exact = learned(LOG, "local-sums*lin-ts:disjoint=true", sigma=3.0)[1]
    assert np.allclose(exact.sum(axis=1), 1.0)
    assert ((exact > 0.0) & (exact < 1.0)).all()
    assert len(np.unique(exact.round(9), axis=0)) == 4  # contexts


def test_a_blind_policy_plays_what_is_best_on_average() -> None:
    rest, chances = learned(LOG, parse_policy("independent-ucb:constant=1e-9"), sigma=0.3)
    assert set(np.argmax(chances, axis=1)) == {int(MEANS.mean(axis=0).argmax())}
    assert abs(ips(rest, chances).mean - MEANS.mean(axis=0).max()) < 4 * ips(rest, chances).error


def test_learners_of_other_libraries_have_probabilities() -> None:
    """Greedy ones play the best mean of the first half; being asked changes nothing."""
    arms, rewards = LOG.arms[:600], LOG.rewards[:600]
    best = int(np.argmax([rewards[arms == k].mean() for k in range(3)]))
    for library in ("mabwiser", "river"):
        chances = learned(LOG, f"{library}:learner=EpsilonGreedy,epsilon=0")[1]
        assert np.array_equal(chances, np.tile(np.eye(3)[best], (600, 1)))
    ucb = "mabwiser:learner=UCB1,alpha=1"
    log = log_decisions("bernoulli:0.2,0.8", "path:2", ucb, 20, floor=0.0)
    assert log.arms[:4].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("policy", "more", "sentence"),
    [
        ("local-sums*lin-ts", {}, "one model for all arms"),
        ("central-ts", {}, "central-ts"),
        ("flood-ts", {"share": 1.0}, r"share.* 1\.0"),
        (
            "flood-ts",
            {"share": 1e-9},
            r"1e-09.* 1200\b",
        ),
        ("flood-ts", {"draws": 0}, "draws is 0"),
        ("flood-ts", {"sigma": 0.0}, "sigma"),
    ],
)
def test_bad_input_is_refused(policy: str, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        learned(LOG, parse_policy(policy), **more)


def test_a_log_without_features_is_refused_by_those_that_look_at_some() -> None:
    bare = replace(LOG, features=np.empty((1200, 1, 0)))
    with pytest.raises(InputError, match="features"):
        learned(bare, GREEDY)


def test_a_policy_may_be_a_text() -> None:
    found = learned(LOG, "independent-ucb", sigma=0.3)[1]
    assert np.array_equal(found, learned(LOG, parse_policy("independent-ucb"), sigma=0.3)[1])
    with pytest.raises(InputError, match=r"\b3\b"):
        learned(LOG, 3)  # type: ignore[arg-type]  # what is to be refused

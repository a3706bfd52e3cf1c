"""Rewards that are linear in features: where features come from, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coopbandits import InputError, LinearBandit, drift, parse_problem, sites
from coopbandits.core.draws import words
from coopbandits.problems.kinds import make_problem

KEYS = words(3, np.arange(4, dtype=np.uint64))


def test_points_on_the_sphere_have_length_one_and_no_direction() -> None:
    problem = LinearBandit([0.6, 0.0, 0.8], num_arms=5)
    drawn = problem.features.draw(KEYS, 0, 800)
    assert drawn.shape == (4, 800, 5, 3)
    assert np.allclose((drawn**2).sum(axis=-1), 1.0)
    assert np.abs(drawn.mean(axis=(0, 1, 2))).max() < 4 / np.sqrt(3 * 16000)
    assert np.allclose((drawn**2).mean(axis=(0, 1, 2)), 1 / 3, atol=0.01)


def test_normal_features() -> None:
    drawn = LinearBandit([1.0, 1.0], features="gaussian").features.draw(KEYS, 0, 500)
    assert np.abs(drawn.mean()) < 4 / np.sqrt(drawn.size)
    assert abs(drawn.var() - 1.0) < 0.05


@pytest.mark.parametrize(
    "problem",
    [
        LinearBandit([1.0, 0.0], num_arms=3),
        LinearBandit([[1.0, 0.0], [0.0, 1.0]]),
        LinearBandit([1.0, 0.0], num_arms=3, features=np.arange(14.0).reshape(7, 2)),
        LinearBandit([1.0, 0.0], num_arms=3, features=np.arange(12.0).reshape(2, 3, 2)),
        LinearBandit([[1.0, 0.0], [0.0, 1.0]], features=np.arange(14.0).reshape(7, 2)),
    ],
    ids=["sphere", "model per arm", "row per arm", "table of arms", "table of contexts"],
)
def test_a_context_depends_on_its_place_alone(problem: LinearBandit) -> None:
    whole = problem.features.draw(KEYS, 0, 9)
    pieces = [problem.features.draw(KEYS, 0, 4), problem.features.draw(KEYS, 4, 5)]
    assert np.array_equal(whole, np.concatenate(pieces, axis=1))
    assert np.array_equal(problem.features.draw(KEYS[2:3], 3, 2), whole[2:3, 3:5])
    assert len(np.unique(whole.reshape(36, -1), axis=0)) > 1


def test_tables_are_drawn_evenly() -> None:
    table = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    problem = LinearBandit([1.0, 0.5], num_arms=4, features=table)
    drawn = problem.features.draw(KEYS, 0, 600)[..., 0]
    shares = [np.mean(drawn == value) for value in (1.0, 0.0, 3.0)]
    assert np.allclose(shares, 1 / 3, atol=4 * np.sqrt(2 / 9 / drawn.size))
    assert len(np.unique(drawn[0, 0])) > 1 or len(np.unique(drawn[0, 1])) > 1  # each arm its own
    arms = LinearBandit([1.0, 0.5], num_arms=2, features=[[[1, 0], [0, 1]], [[2, 0], [0, 2]]])
    together = arms.features.draw(KEYS, 0, 50)
    assert np.array_equal(together[..., 0, 0], together[..., 1, 1])  # one entry tells of all arms


def test_expected_rewards() -> None:
    one = LinearBandit([1.0, 2.0], num_arms=2)
    assert one.expected(np.array([[1.0, 1.0], [0.0, 1.0]])).tolist() == [3.0, 2.0]
    each = LinearBandit([[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]])
    assert (each.num_arms, each.num_features, each.one_context) == (3, 2, True)
    assert each.expected(np.array([[1.0, 3.0]])).tolist() == [7.0, 3.0, 1.0]
    assert each.expected(np.array([[1.0, 3.0]] * 3)).tolist() == [7.0, 3.0, 1.0]


def test_equal_settings_make_equal_problems() -> None:
    table = [[1.0, 0.0], [0.5, 1.0]]
    one, same = (LinearBandit([1.0, 2.0], 4, features=table, sigma=0.5) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    for other in (
        LinearBandit([1.0, 2.0], 4, sigma=0.5),
        LinearBandit([1.0, 2.0], 5, features=table, sigma=0.5),
        LinearBandit([1.0, 2.0], 4, features=table[::-1], sigma=0.5),
        LinearBandit([1.0, 3.0], 4, features=table, sigma=0.5),
    ):
        assert one != other
    assert one.describe()["features"]["contexts"] == 2
    with pytest.raises(ValueError, match="read-only"):
        one.theta[0] = 3.0


def test_texts_and_tables_make_them() -> None:
    problem = parse_problem("linear:0.6,0.8,num_arms=5,sigma=0.5,features=gaussian")
    assert problem == LinearBandit([0.6, 0.8], 5, features="gaussian", sigma=0.5)
    assert parse_problem("linear:theta=1,0/0,1") == LinearBandit([[1, 0], [0, 1]])
    table = {"kind": "linear", "theta": [[1, 0], [0, 1]], "sigma": 0.5}
    assert make_problem("p", table) == LinearBandit([[1, 0], [0, 1]], sigma=0.5)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LinearBandit([]), "theta is .*; give one finite coefficient per feature"),
        (lambda: LinearBandit([1.0, np.nan]), "theta is .*; give one finite coefficient"),
        (lambda: LinearBandit([[1.0], [1.0, 2.0]]), "theta .* cannot be read as numbers"),
        (lambda: LinearBandit(np.zeros((2, 2, 2))), "theta is "),
        (lambda: LinearBandit([[1.0], [2.0]], 3), "num_arms is 3, but theta has .* of 2 arms"),
        (lambda: LinearBandit([1.0], 0), "num_arms is 0; it must be a whole number, at least 1"),
        (lambda: LinearBandit([1.0], sigma=0.0), "sigma"),
        (lambda: LinearBandit([1.0], features="cube"), "unknown kind of features 'cube'"),
        (lambda: LinearBandit([1.0], features=[[1.0, 2.0]]), r"features have shape \(1, 2\)"),
        (lambda: LinearBandit([1.0], features=np.zeros((0, 1))), r"features have shape \(0, 1\)"),
        (lambda: LinearBandit([1.0], features=[[np.inf]]), "values that are not finite"),
        (lambda: LinearBandit([1.0], features=[["PT"]]), "features .* cannot be read as numbers"),
        (lambda: LinearBandit([1.0]).means, "has no means, since rewards depend on the context"),
        (lambda: drift(LinearBandit([1.0]), switch_every=3).reward_tables([0]), "has no means"),
        (lambda: sites(LinearBandit([1.0]), 0.1), "has no means"),
    ],
)
def test_bad_input_is_refused(make: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()


def test_other_attributes_are_missed_as_usual() -> None:
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = LinearBandit([1.0]).colour

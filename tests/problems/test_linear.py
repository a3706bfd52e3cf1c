"""Rewards that are linear in features: where features come from, and what is refused."""

from __future__ import annotations

from pathlib import Path
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
    contexts = LinearBandit([[1, 0], [0, 1]], features=[[1, 0], [1, 1]])
    assert parse_problem("linear:1,0/0,1,features=1,0/1,1") == contexts
    file = {"kind": "linear", "theta": "1,0/0,1", "features": [[1, 0], [1, 1]]}
    assert make_problem("p", file) == contexts
    table = {"kind": "linear", "theta": [[1, 0], [0, 1]], "sigma": 0.5}
    assert make_problem("p", table) == LinearBandit([[1, 0], [0, 1]], sigma=0.5)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LinearBandit([]), r"theta.* \[\]"),
        (lambda: LinearBandit([1.0, np.nan]), "theta.* nan"),
        (lambda: LinearBandit([[1.0], [1.0, 2.0]]), r"theta.*\[\[1\.0\], \[1\.0, 2\.0\]\]"),
        (lambda: LinearBandit(np.zeros((2, 2, 2))), "theta is "),
        (lambda: LinearBandit([[1.0], [2.0]], 3), r"num_arms.* 3\b.*theta.* 2 arms"),
        (lambda: LinearBandit([1.0], 0), r"num_arms.* 0\b"),
        (lambda: LinearBandit([1.0], sigma=0.0), "sigma"),
        (lambda: LinearBandit([1.0], features="cube"), "features.*'cube'"),
        (lambda: LinearBandit([1.0], features=[[1.0, 2.0]]), r"features.*\(1, 2\)"),
        (lambda: LinearBandit([1.0], features=np.zeros((0, 1))), r"features.*\(0, 1\)"),
        (lambda: LinearBandit([1.0], features=[[np.inf]]), "finite"),
        (lambda: LinearBandit([1.0], features=[["PT"]]), "features.*'PT'"),
        (lambda: LinearBandit([1.0]).means, "no means"),
        (lambda: drift(LinearBandit([1.0]), switch_every=3), "switch_every"),
        (lambda: drift(LinearBandit([1.0]), {5: [1, 2]}), r"\(2,\)"),
        (lambda: drift(LinearBandit([1.0]), {5: ["PT"]}), "theta.*'PT'"),
        (
            lambda: sites(LinearBandit([1.0]), groups=[LinearBandit([1.0], features="gaussian")]),
            "same features",
        ),
    ],
)
def test_bad_input_is_refused(make: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()


def test_theta_drifts_and_differs_between_sites() -> None:
    one = LinearBandit([1.0, 0.0], 4)
    steps = drift(one, {10: [0, 1], 20: "1,1"}).reward_tables("ab")
    assert steps.theta is not None
    assert steps.theta.tolist() == [[[1, 0], [0, 1], [1, 1]]]
    assert (steps.starts.tolist(), steps.in_context) == ([0, 10, 20], True)
    each = LinearBandit([[1.0, 0.0], [0.0, 1.0]])
    turned = drift(each, switch_every=7).reward_tables("ab").theta
    assert turned is not None
    assert turned.tolist() == [[[[1, 0], [0, 1]], [[0, 1], [1, 0]]]]
    ramp = drift(each, ramp=(0, 10, [[0, 0], [0, 1]]), pieces=2).reward_tables("ab").theta
    assert ramp is not None
    assert ramp[0, :, 0, 0].tolist() == [0.75, 0.25, 0.0]
    spread = sites(one, 0.1, seed=3).reward_tables("abc").theta
    assert spread is not None
    assert spread.shape == (3, 1, 2)
    assert len(np.unique(spread)) == 6
    both = sites(drift(each, {5: [[2, 0], [0, 2]]}), groups=[[[1, 1], [1, 1]], each])
    assert "drift: 2 segments; sites: 2 models and LinearBandit" in repr(both)
    found = both.reward_tables("ab").theta
    assert found is not None
    assert found[:, 1].tolist() == [[[2, 1], [1, 2]], [[2, 0], [0, 2]]]


def test_changes_are_written_like_means() -> None:
    table = {"kind": "linear", "theta": "1,0/0,1"}
    written = [
        table | {"drift": "steps=10:0,1;1,0/20:1,0;0,1"},
        table | {"drift": {"steps": {"10": [[0, 1], [1, 0]], "20": [[1, 0], [0, 1]]}}},
    ]
    text, file = (make_problem("p", each) for each in written)
    assert (
        text
        == file
        == drift(LinearBandit([[1, 0], [0, 1]]), {10: [[0, 1], [1, 0]], 20: [[1, 0], [0, 1]]})
    )


LOG: Any = {
    "hour": [at % 4 * 6 for at in range(240)],
    "country": ["DE" if at % 3 else "PT" for at in range(240)],
    "shown": ["red" if at // 12 % 2 else "blue" for at in range(240)],
}


def logged(noise: float) -> dict[str, Any]:
    """A table whose rewards are known: 1 + 0.1 hour for blue, 2 in Portugal and else 0 for red."""
    hours, arms = np.array(LOG["hour"]), np.array(LOG["shown"])
    rewards = np.where(arms == "blue", 1 + 0.1 * hours, 2.0 * (np.array(LOG["country"]) == "PT"))
    return dict(LOG) | {"clicked": rewards + noise * np.tile([1, -1, -1, 1], 60)}


def test_a_log_becomes_a_problem() -> None:
    names: Any = {"arm": "shown", "reward": "clicked"}
    problem = LinearBandit.from_log(logged(0.0), ["hour", "country"], **names, ridge=1e-9, sigma=1)
    assert problem.arm_names == ("blue", "red")
    assert problem.num_features == 4  # 1, hour, DE, PT
    table = np.array([[[1.0, 0.0, 0.0, 1.0]], [[1.0, 18.0, 0.0, 1.0]], [[1.0, 12.0, 1.0, 0.0]]])
    assert problem.expected(table)[:, 0] == pytest.approx([1.0, 2.8, 2.2], abs=1e-6)
    assert problem.features.table.shape == (240, 1, 4)
    noisy = LinearBandit.from_log(logged(0.3), ["hour", "country"], **names)
    assert 0.1 < noisy.sigma < 0.6


def test_arms_of_a_log_may_be_numbers(tmp_path: Path) -> None:
    lines = ["x,arm,reward", *(f"{at % 3},{at % 2},{at % 5}" for at in range(30))]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    problem = parse_problem(f"linear-log:{tmp_path}/log.csv,context=x,ridge=2")
    assert problem == LinearBandit.from_log(tmp_path / "log.csv", ["x"], ridge=2.0)
    assert (problem.num_arms, problem.num_features) == (2, 2)
    table = {"kind": "linear-log", "file": f"{tmp_path}/log.csv", "context": ["x"], "ridge": 2.0}
    assert make_problem("p", table) == problem


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"reward": [1, np.nan]}, "'reward'.* nan.*row 1"),
        ({"reward": ["a", "b"]}, "'reward'.*text"),
        ({"x": [1, np.inf]}, "'x'.* inf.*row 1"),
        ({"x": ["PT", None]}, "'x'.*empty"),
        ({"arm": [0, 2]}, r"arm 1\b"),
        ({"arm": [0, -1]}, "0, 1, …"),
        ({"arm": [0, 0.5]}, "0, 1, …"),
        ({"arm": [0, 1e12]}, "0, 1, …"),
        ({"reward": [1, 1]}, "sigma"),
        ({"arm": [], "x": [], "reward": []}, "0, 1, …"),
        ({"y": [1]}, "different lengths"),
    ],
)
def test_bad_logs_are_refused(changes: dict[str, Any], sentence: str) -> None:
    table = {"x": [1, 2], "arm": [0, 1], "reward": [1.0, 0.0]} | changes
    with pytest.raises(InputError, match=sentence):
        LinearBandit.from_log(table, ["x"])


def test_wrong_columns_of_a_log_are_refused() -> None:
    table = {"x": [1, 2], "arm": [0, 1], "reward": [1.0, 0.0]}
    with pytest.raises(InputError, match=r"'z'.*arm, reward, x"):
        LinearBandit.from_log(table, ["z"])
    with pytest.raises(InputError, match=r"context.* 'x'"):
        LinearBandit.from_log(table, "x")
    with pytest.raises(InputError, match="ridge"):
        LinearBandit.from_log(table, ["x"], ridge=0.0)
    users = {"x": [f"user {i}" for i in range(1001)], "arm": [0] * 1001, "reward": [1] * 1001}
    with pytest.raises(InputError, match=r"1001.* 1000\b"):
        LinearBandit.from_log(users, ["x"])
    with pytest.raises(InputError, match=r"file.* 3\b.*context"):
        make_problem("p", {"kind": "linear-log", "file": 3, "context": ["x"]})


def test_other_attributes_are_missed_as_usual() -> None:
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = LinearBandit([1.0]).colour

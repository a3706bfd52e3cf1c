"""Logged rewards of every kind, and the reading that each gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from coopbandits import InputError, LoggedBandit, parse_problem

NAN = float("nan")

WIDE = {"blue": [1.0, 0.0, 1.0], "green": [0.0, 0.5, None]}
LONG = {
    "variant": ["blue", "green", "blue", "green", "blue"],
    "click": [1.0, 0.0, 0.0, 0.5, 1.0],
}
EXPECTED = LoggedBandit({"blue": [0.0, 1.0, 1.0], "green": [0.0, 0.5]})
AS_LONG = "one row per reward, arm in 'variant', reward in 'click'"


def test_the_expected_one() -> None:
    assert EXPECTED.means.tolist() == [2 / 3, 0.25]
    assert EXPECTED.num_rewards == (3, 2)
    assert EXPECTED.arm_names == ("blue", "green")
    assert repr(EXPECTED).endswith("sigma=0.5, read as one list per arm)")


@pytest.mark.parametrize(
    ("rewards", "reading"),
    [
        ({"blue": np.array([1, 0, 1]), "green": (0, NAN, 0.5)}, "one list per arm"),
        (pd.DataFrame(WIDE), "one column per arm"),
        (pl.DataFrame(WIDE), "one column per arm"),
        (pd.DataFrame(WIDE, dtype="Float64"), "one column per arm"),
        (pd.DataFrame(LONG), AS_LONG),
        (pl.DataFrame(LONG), AS_LONG),
        (pd.DataFrame(LONG).astype({"variant": "category"}), AS_LONG),
        (pl.DataFrame(LONG).with_columns(pl.col("variant").cast(pl.Categorical)), AS_LONG),
        (pd.DataFrame(LONG).iloc[::-1], AS_LONG),
    ],
)
def test_readings_of_the_same_rewards(rewards: Any, reading: str) -> None:
    problem = LoggedBandit(rewards)
    assert problem == EXPECTED
    assert problem.reading == reading
    assert reading in repr(problem)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(("columns", "reading"), [(WIDE, "one column per arm"), (LONG, AS_LONG)])
def test_files(tmp_path: Path, suffix: str, columns: Any, reading: str) -> None:
    path, frame = tmp_path / f"log.{suffix}", pl.DataFrame(columns)
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    for problem in (
        LoggedBandit(path),
        LoggedBandit(str(path)),
        LoggedBandit.from_file(path),
        parse_problem(f"logged:{path}"),
    ):
        assert isinstance(problem, LoggedBandit)
        assert (problem, problem.reading) == (EXPECTED, reading)


def test_lists_by_arm() -> None:
    for rewards in ([[1, 0, 1], [0, 0.5]], ([1.0, 0.0, 1.0], np.array([0.5, NAN, 0.0]))):
        problem = LoggedBandit(rewards, ["blue", "green"])
        assert (problem, problem.reading) == (EXPECTED, "one list per arm")
    equal = [np.array([1.0, 0.0]), np.array([0.5, 0.5])]
    assert LoggedBandit(equal).means.tolist() == [0.5, 0.5]
    assert LoggedBandit(np.array(equal)).means.tolist() == [0.75, 0.25]


def test_names_or_a_word_decide() -> None:
    rewards = [[1.0, 0.0, 0.5], [0.0, 1.0, 1.0]]
    by_arm, by_column = (LoggedBandit(rewards, reading=how) for how in ("arms", "wide"))
    assert (by_arm.num_arms, by_column.num_arms) == (2, 3)
    assert LoggedBandit(rewards, ["a", "b"]).means.tolist() == by_arm.means.tolist()
    assert LoggedBandit(rewards, ["a", "b", "c"]).means.tolist() == by_column.means.tolist()
    assert LoggedBandit(np.array(rewards), reading="arms").num_arms == 2


def test_columns_can_be_named(tmp_path: Path) -> None:
    frame = pd.DataFrame({"day": ["mo", "tu", "mo"], "arm": [1, 0, 1], "reward": [1, 2, 4]})
    problem = LoggedBandit(frame)
    assert (problem.arm_names, problem.means.tolist()) == (("0", "1"), [2.0, 2.5])
    assert problem.reading == "one row per reward, arm in 'arm', reward in 'reward'"
    by_day = LoggedBandit(frame, arm="day", reward="reward")
    assert (by_day.arm_names, by_day.means.tolist()) == (("mo", "tu"), [2.5, 2.0])
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert parse_problem(f"logged:{tmp_path}/log.csv,arm=day,reward=reward") == by_day
    assert LoggedBandit({"arm": [0, 1], "reward": [1, 3]}, sigma=1, reading="long").num_arms == 2
    assert LoggedBandit({"arm": [0, 1], "reward": [1, 3]}, reading="arms").arm_names == (
        "arm",
        "reward",
    )


def test_missing_values() -> None:
    frame = pd.DataFrame({"variant": ["a", None, "a", "b"], "click": [1.0, NAN, NAN, 0.0]})
    assert LoggedBandit(frame, sigma=1).num_rewards == (1, 1)
    frame = pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [True, False]})
    assert LoggedBandit(frame).means.tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    ("rewards", "how", "sentence"),
    [
        (
            [[1, 0], [0, 1]],
            {},
            "2 lists of 2",
        ),
        ([[1, 0], [0, 1]], {"arm_names": ["a", "b"]}, "reading='arms'.*reading='wide'"),
        ({"arm": [0, 1], "reward": [1, 3]}, {}, "reading="),
        (pd.DataFrame({"arm": [0, 1], "x": [1, 3]}), {}, "'arm', 'x'"),
        (pd.DataFrame({"a": ["x"], "b": [1], "c": [2]}), {}, "arm=….*reward=…"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), {}, "unclear"),
        (pd.DataFrame(LONG), {"reading": "wide"}, "'variant'"),
        (pd.DataFrame(WIDE), {"reading": "arms"}, "no lists"),
        (
            pd.DataFrame(LONG),
            {"arm": "variants"},
            "'variants'",
        ),
        (
            pd.DataFrame(LONG),
            {"arm": "click", "reward": "variant"},
            "'variant'",
        ),
        (
            pd.DataFrame(LONG),
            {"reading": "tall"},
            "reading 'tall'.*arms, long, wide",
        ),
        (pd.DataFrame(), {}, "no columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, "'a'"),
        (pl.LazyFrame(WIDE), {}, "collect"),
        (
            pd.DataFrame({"v": ["a", None], "x": [1, 2]}),
            {},
            r"2\.0.*row 1",
        ),
        ({"a": [1, 2], "b": [1]}, {"reading": "wide"}, "lengths"),
        ({"a": [[1]], "b": [1]}, {}, r"'a'.*\(1, 1\)"),
        ({"a": ["x"]}, {}, r"'a'.*\['x'\]"),
        ({}, {}, "no arms"),
        (np.eye(2), {"reading": "long"}, "no columns"),
        ({"a": [1, 2], "b": []}, {}, "arm 'b'"),
    ],
)
def test_refused(rewards: Any, how: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        LoggedBandit(rewards, **how)


TIMED = {"when": [3, 1, 2, 4], "a": [0.3, 0.1, None, 0.4], "b": [3, 1, 2, 4]}


@pytest.mark.parametrize(
    "when", [[3, 1, 2, 4], ["2026-01-03", "2026-01-01", "2026-01-02T12:00", "2026-01-04"]]
)
def test_a_column_of_times_cuts_a_log_into_pieces(when: list[Any]) -> None:
    log = LoggedBandit(TIMED | {"when": when}, time="when")
    assert log.arm_names == ("a", "b")
    early, late = log.pieces(2)
    np.testing.assert_allclose(early.means, [0.1, 1.0 if isinstance(when[0], str) else 1.5])
    assert late.num_rewards[0] == 2
    assert early.sigma == log.sigma


def test_long_tables_have_times_too() -> None:
    table = {"arm": ["x", "y", "x", "y"], "reward": [1, 2, 3, 4], "t": [0, 0, 1, 1]}
    first, second = LoggedBandit(table, time="t", reading="long").pieces(2)
    assert first.means.tolist() == [1, 2]
    assert second.means.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("rewards", "sentence"),
    [
        (TIMED | {"when": ["a", "b", "c", "d"]}, "time"),
        (TIMED | {"when": [1, 2, None, 4]}, "time"),
        ({"a": [1, 2, 3, 4]}, "unknown column"),
        ([[1, 2], [3, 4]], "no columns"),
    ],
)
def test_times_are_refused(rewards: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        LoggedBandit(rewards, time="when")


def test_pieces_need_a_time_and_rewards_of_every_arm() -> None:
    with pytest.raises(InputError, match="no time"):
        LoggedBandit({"a": [1, 2], "b": [1, 2]}).pieces(2)
    with pytest.raises(InputError, match="no logged reward"):
        LoggedBandit(TIMED, time="when").pieces(4)

"""Logs of decisions: stored, read again, and read from tables of other people."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopbandits import GaussianBandit, InputError, LinearBandit, Network, parse_policy, subsets
from coopbandits.evaluate import DecisionLog, log_decisions

from .worlds import drawn

FIELDS = ("features", "arms", "rewards", "propensities", "allowed", "times", "agents")
CYCLE = Network.from_spec("cycle:3")

LOGS = {
    "one context": lambda: drawn(7, [0.5, 0.3, 0.2]),
    "features per arm": lambda: log_decisions(
        LinearBandit([0.6, 0.8], 4), CYCLE, parse_policy("local-sums*lin-ts"), 3, floor=0.2
    ),
    "subsets": lambda: log_decisions(
        subsets(GaussianBandit([1, 0, 2]), [[0, 1], [1, 2]]), CYCLE, parse_policy("flood-ts"), 4
    ),
    "last arm never allowed": lambda: log_decisions(
        subsets(GaussianBandit([1, 0, 2]), [[0, 1]]), CYCLE, parse_policy("flood-ts"), 4
    ),
    "features of an arm that is never allowed": lambda: log_decisions(
        subsets(LinearBandit([0.6, 0.8], 4), [[0, 1]]),
        CYCLE,
        parse_policy("local-sums*lin-ts"),
        3,
        floor=0.2,
    ),
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_what_is_saved_is_read_again(name: str, ending: str, tmp_path: Path) -> None:
    log = LOGS[name]()
    log.save(tmp_path / f"log.{ending}")
    again = DecisionLog.load(tmp_path / f"log.{ending}")
    for field in FIELDS:
        assert np.array_equal(getattr(again, field), getattr(log, field)), field


def test_a_line_is_a_decision(tmp_path: Path) -> None:
    LOGS["one context"]().save(tmp_path / "log.jsonl")
    line = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])
    assert list(line) == ["time", "agent", "context", "allowed", "arm", "propensity", "reward"]
    assert line["allowed"] == [0, 1, 2]


def test_tables_of_other_people() -> None:
    table = {
        "hour": [1, 13, 22], "country": ["PT", "DE", "PT"], "shown": [0, 2, 1],
        "clicked": [0, 1, 1], "chance": [0.5, 0.25, 0.25],
    }  # fmt: skip
    names: Any = {"arm": "shown", "reward": "clicked"}
    log = DecisionLog.from_table(table, ["hour", "country"], propensity="chance", **names)
    assert log.features[:, 0].tolist() == [[1, 0, 1], [13, 1, 0], [22, 0, 1]]
    assert (log.num_arms, log.num_features, len(log)) == (3, 3, 3)
    assert log.propensities.tolist() == [0.5, 0.25, 0.25]
    named = DecisionLog.from_table(table | {"shown": ["b", "c", "a"]}, propensity=0.5, **names)
    assert named.arms.tolist() == [1, 2, 0]
    with pytest.raises(InputError, match=r"propensity.* 0\b"):
        DecisionLog.from_table(table, propensity=0, **names)
    even = DecisionLog.from_table(table, propensity=1 / 3, **names)
    assert even.features.shape == (3, 1, 0)
    assert set(even.propensities) == {1 / 3}


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"arm": [0], "reward": [1.0]}, "'propensity'"),
        (
            {"arm": ["a", None], "reward": [1, 1], "propensity": [1, 1]},
            "'arm'.*empty",
        ),
        ({"arm": [0], "reward": ["a"], "propensity": [1]}, "'reward'.*text"),
        ({"arm": [0.5], "reward": [1], "propensity": [1]}, "0, 1, …"),
        ({"arm": [-1], "reward": [1], "propensity": [1]}, "0, 1, …"),
        (
            {"arm": [0], "reward": [np.inf], "propensity": [1]},
            "'reward'.* inf.*row 0",
        ),
        ({"arm": [0], "reward": [1], "propensity": [0]}, r"propensity.* 0\.0"),
        ({"arm": [0], "reward": [1], "propensity": [1.5]}, "propensity 1.5"),
        ({"arm": [0, 1], "reward": [1], "propensity": [1]}, "different lengths"),
        (
            {"arm": [999_999] * 3000, "reward": [1] * 3000, "propensity": [1] * 3000},
            "3000 decisions.* 1000000 arms",
        ),
        ([[0, 1.0]], r"list\b.*DataFrame"),
        ("missing.csv", "does not exist"),
    ],
)
def test_bad_tables_are_refused(table: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        DecisionLog.from_table(table)


def test_bad_contexts_are_refused() -> None:
    table: Any = {"arm": [0, 1], "reward": [1, 0], "propensity": [1, 1]}
    with pytest.raises(InputError, match=r"'hour'.* nan.*row 1"):
        DecisionLog.from_table(table | {"hour": [3, np.nan]}, ["hour"])
    with pytest.raises(InputError, match=r"'where'.*empty"):
        DecisionLog.from_table(table | {"where": ["PT", None]}, ["where"])
    log = drawn(3, [0.5, 0.3, 0.2])
    with pytest.raises(InputError, match=r"arm.*allowed"):
        replace(log, allowed=np.zeros((3, 3), dtype=bool))
    with pytest.raises(InputError, match="lengths"):
        replace(log, rewards=np.zeros(2))
    with pytest.raises(InputError, match=r"features.* 3 arms"):
        replace(log, features=np.zeros((3, 2, 2)))


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"reward": None}, "reward None.*decision 1"),
    ({"reward": "1"}, "reward '1'.*decision 1"),
    ({"reward": float("nan")}, "decision 1.*reward nan"),
    ({"reward": 10**400}, "reward.*float"),
    ({"propensity": 0}, r"decision 1.*propensity 0\.0"),
    ({"arm": 0.5}, r"arm 0\.5.*decision 1"),
    ({"arm": -1}, "decision 1.*arm -1.* 0 to 1"),
    ({"arm": 2}, "decision 1.*arm 2.*allowed"),
    ({"allowed": 3}, "allowed 3.*decision 1"),
    ({"allowed": [0, "1"]}, "allowed.*decision 1"),
    ({"allowed": [-1, 1]}, "allowed.*decision 1"),
    ({"allowed": [1, 10**12]}, "2 decisions.* 1000000000001 arms"),
    ({"context": [1.0, 2.0]}, "contexts"),
    ({"context": ["PT"]}, "contexts"),
    ({"context": None}, "contexts"),
    ({"num_arms": "3"}, "num_arms '3'.*decision 0"),
    ({"num_arms": 10**12}, "2 decisions.* 1000000000000 arms"),
    ({"time": -1}, "decision 1.*time -1"),
    ({"time": [1]}, r"time \[1\].*decision 1"),
]


def test_bad_files_are_refused(tmp_path: Path) -> None:
    log = drawn(3, [0.5, 0.3, 0.2])
    with pytest.raises(InputError, match=r"'\.csv'.*\.jsonl.*\.parquet"):
        log.save(tmp_path / "log.csv")
    with pytest.raises(InputError, match=r"'\.txt'"):
        DecisionLog.load(tmp_path / "log.txt")
    for name, text in (("no.jsonl", "{"), ("no.parquet", "x")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=r"holds no JSON lines|cannot be read"):
            DecisionLog.load(tmp_path / name)
    with pytest.raises(InputError, match=r"cannot be read"):
        DecisionLog.load(tmp_path / "missing.jsonl")
    whole = {"time": 0, "agent": 0, "context": [1.0], "allowed": [0, 1], "arm": 1}
    line = whole | {"propensity": 0.5, "reward": 1.0}
    for change, sentence in HOSTILE:
        lines = [json.dumps(line), json.dumps(line | change)]
        (tmp_path / "bad.jsonl").write_text("\n".join(lines))
        with pytest.raises(InputError, match=sentence):
            DecisionLog.load(tmp_path / "bad.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match="time, agent, context"):
        DecisionLog.load(tmp_path / "empty.jsonl")
    (tmp_path / "other.jsonl").write_text('{"arm": 1}\n')
    with pytest.raises(InputError, match="time, agent, context"):
        DecisionLog.load(tmp_path / "other.jsonl")


ONE: dict[str, Any] = {
    "features": [[[]]], "arms": [0], "rewards": [1], "propensities": [0.5],
    "allowed": [[True, True]], "times": [0], "agents": [0],
}  # fmt: skip


def test_lists_make_a_log() -> None:
    log = DecisionLog(**ONE)
    assert (len(log), log.num_arms, log.num_features) == (1, 2, 0)
    kinds = [getattr(log, field).dtype.kind for field in FIELDS]
    assert "".join(kinds) == "fiffbii"
    small = DecisionLog(**ONE | {"arms": np.array([1], dtype=np.uint8)})
    assert small.arms.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"arms": [0.5]},
            r"arms\b.*float64.*\(1,\)",
        ),
        ({"arms": [[0]]}, r"arms\b.*\(1, 1\).* 1 dim"),
        ({"arms": 0}, r"arms\b.*int64.*\(\)"),
        ({"rewards": ["a"]}, r"rewards.*<U1.*\(1,\)"),
        ({"rewards": [True]}, "rewards.*bool"),
        ({"allowed": [[1.0, 1.0]]}, "allowed.*float64"),
        ({"features": [[1.0]]}, r"features.*\(1, 1\).* 3 dim"),
        ({"features": [[[1.0], [1.0, 2.0]]]}, "features"),
        ({"times": [None]}, "times.*object"),
        ({"arms": []}, r"columns of lengths"),
    ],
)
def test_columns_of_another_kind_are_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        DecisionLog(**ONE | change)

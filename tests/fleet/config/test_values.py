from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from msgspec import Meta

from coopbandits.core.errors import InputError
from coopbandits.fleet.config.values import (
    Count,
    Name,
    Rate,
    TableReader,
    read_duration,
    read_value,
    show_duration,
    table_of,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("30min", 1800.0),
        ("2h", 7200.0),
        (" 1.5 h ", 5400.0),
        ("7d", 604800.0),
        ("36500d", 36500 * 86400.0),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert read_duration("half_life", text) == seconds


@pytest.mark.parametrize(
    "value",
    ["2", "h", "2 weeks", "-2h", "0s", "1e3s", "2h30min", "36501d", "9" * 400 + "d", "٢h",
     7200, 2.0, True, None, ["2h"], "nan s", "inf h", ""],
)  # fmt: skip
def test_anything_else_is_one_sentence(value: Any) -> None:
    with pytest.raises(InputError, match=r"\[cluster\] half_life.*'90s'"):
        read_duration("[cluster] half_life", value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 s"), (90.0, "1.5 min"), (7200.0, "2 h"), (604800.0, "7 d")],
)
def test_durations_are_shown(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@dataclass(frozen=True)
class Section:
    name: Name
    count: Count = 3
    rate: Rate | None = None
    made: str = "no key"


def test_the_keys_of_a_table_are_the_annotated_fields() -> None:
    types, required = table_of(Section)
    assert list(types) == ["name", "count", "rate"]
    assert list(required) == ["name"]


def test_all_problems_of_a_table_are_collected_and_the_rest_is_read() -> None:
    reader = TableReader({"a": {"nam": "x", "count": 2.0, "rate": 5}, "b": {}}, ["a"])
    assert reader.table("a", table_of(Section)) == {"rate": 5.0}
    for found, parts in zip(
        reader.problems,
        (["'b'", "known are a"], ["'nam'", "'name'"], ["no name"], ["2.0", "whole", ": write 2"]),
        strict=True,
    ):
        assert all(part in found for part in parts)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("ab", "names is 'ab'; it must be up to 32 names"),
        (["a"] * 33, "up to 32 names"),
        (["a", ""], "names[1] is ''"),
        ([3], "names[0] is 3;"),
    ],
)
def test_items_of_lists_are_named_by_their_place(value: Any, sentence: str) -> None:
    kind = Annotated[tuple[Name, ...], Meta(max_length=32, description="up to 32 names")]
    assert read_value("names", ["a", "b"], kind) == ("a", "b")
    with pytest.raises(InputError, match=re.escape(sentence)):
        read_value("names", value, kind)

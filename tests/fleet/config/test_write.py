from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coopbandits import InputError
from coopbandits.fleet.config import write_config

from .sample import GOOD

TABLES: dict[str, Any] = {
    "one": {
        "text": 'a "quoted" \\ word\n\t\x00\x7f\x1b é 😀',
        "empty": "",
        "yes": True,
        "no": False,
        "whole": -3,
        "large": 2**62,
        "real": 0.1,
        "huge": 1e300,
        "tiny": 5e-324,
        "inf": float("inf"),
        "date": datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC),
        "list": [1.0, "two", [True]],
        "none": [],
        "table": {"a b": [0, 24], 'what "it" is': {"x": "y"}},
    },
    "empty": {},
    "many": [{"id": "a"}, {"id": "b", "port": 1}],
    "nobody": [],
}


def test_what_is_written_is_read_again() -> None:
    read = tomllib.loads(write_config(TABLES))
    assert read == {name: table for name, table in TABLES.items() if name != "nobody"}
    assert tomllib.loads(write_config(GOOD)) == GOOD


def test_paths_are_texts() -> None:
    assert tomllib.loads(write_config({"a": {"b": Path("/x/y z")}})) == {"a": {"b": "/x/y z"}}


@pytest.mark.parametrize("value", [None, {"a": None}, b"x"])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="TOML"):
        write_config({"a": {"b": value}})

from __future__ import annotations

from typing import Any

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.config.values import read_duration, show_duration


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

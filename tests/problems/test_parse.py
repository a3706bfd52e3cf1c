from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coopbandits.core.errors import InputError
from coopbandits.problems.parse import format_means, parse_means


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("1,0.8x16", [1.0] + [0.8] * 16),
        ("1, 0.8×2", [1.0, 0.8, 0.8]),
        (" 0.5 X 2 , -1e-3", [0.5, 0.5, -0.001]),
        (".5,1.,+2x1", [0.5, 1.0, 2.0]),
        ("7", [7.0]),
        ("1x0003", [1.0] * 3),
    ],
)
def test_reads(text: str, means: list[float]) -> None:
    assert parse_means(text) == means


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "empty part"),
        ("1,,2", "empty part"),
        ("1,2,", "empty part"),
        ("1;2", "'1;2'"),
        ("one", "'one'"),
        ("nan", "'nan'"),
        ("0.8x", "'0.8x'"),
        ("x3", "'x3'"),
        ("0.8x-2", "'0.8x-2'"),
        ("0.8x1.5", "'0.8x1.5'"),
        ("1_0", "'1_0'"),
        ("0.8x0", "'0.8x0'"),
        ("1e400", "'1e400'"),
        ("1x1000001", "1000000"),
        ("1,1x1000000", "1000000"),
        ("1x" + "9" * 5000, "1000000"),
    ],
)
def test_refuses(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_means(text)
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 300


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_written_means_read_the_same(means: list[float]) -> None:
    assert parse_means(format_means(means)) == means


def test_format_shortens() -> None:
    assert format_means([1.0, 0.8, 0.8]) == "1.0, 0.8x2"
    assert format_means([1.0, 2.0, 3.0], most=2) == "1.0, 2.0, …"
    assert format_means([1.0, 2.0], most=2) == "1.0, 2.0"

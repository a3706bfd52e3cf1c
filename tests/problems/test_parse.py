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
        ("", "there is an empty part; write numbers separated by commas"),
        ("1,,2", "there is an empty part"),
        ("1,2,", "there is an empty part"),
        ("1;2", "part '1;2' is no number; write numbers separated by commas, such as 1,0.8x16"),
        ("one", "part 'one' is no number"),
        ("nan", "part 'nan' is no number"),
        ("0.8x", "part '0.8x' is no number"),
        ("x3", "part 'x3' is no number"),
        ("0.8x-2", "part '0.8x-2' is no number"),
        ("0.8x1.5", "part '0.8x1.5' is no number"),
        ("1_0", "part '1_0' is no number"),
        ("0.8x0", "part '0.8x0' repeats zero times"),
        ("1e400", "part '1e400' is too large for a float; use finite numbers"),
        ("1x1000001", "ask for more than 1000000 arms; repeat fewer times"),
        ("1,1x1000000", "ask for more than 1000000 arms"),
        ("1x" + "9" * 5000, "ask for more than 1000000 arms"),
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

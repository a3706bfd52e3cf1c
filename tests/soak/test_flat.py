"""The verdict of a soak: it sees what grows, and not what only goes up and down."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .flat import Sample, find_growth


def series(
    memory: Callable[[int], float] = lambda _: 60.0,
    descriptors: Callable[[int], int] = lambda _: 20,
    journal: Callable[[int], int] = lambda t: t * 14_000 % 2_100_000,
) -> list[Sample]:
    return [Sample(float(t), memory(t), descriptors(t), journal(t)) for t in range(0, 3600, 2)]


def test_what_goes_up_and_down_is_flat() -> None:
    assert find_growth(series(lambda t: 60.0 + t % 7 * 0.3 + min(t, 200) * 0.02)) == []
    assert find_growth(series(descriptors=lambda t: 20 + (t in (3000, 3598)))) == []


@pytest.mark.parametrize(
    ("grown", "sentence"),
    [(series(lambda t: 60.0 + t / 1000), "memory grew by 1.8 MB"),
     (series(descriptors=lambda t: 20 + t // 3000), "descriptors grew from 20 to 21"),
     (series(descriptors=lambda t: 20 + (t % 100 == 0) + t // 3000), "descriptors grew from 20 to"),
     (series(journal=lambda t: t * 1000), "the journal grew to 3598000 bytes")],
)  # fmt: skip
def test_what_grows_is_told(grown: list[Sample], sentence: str) -> None:
    (found,) = find_growth(grown)
    assert found.startswith(sentence)

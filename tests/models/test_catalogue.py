"""What models tell of the arms that were named."""

from __future__ import annotations

import pytest

from coopbandits.literature.catalogue import parse_model
from coopbandits.models.catalogue import Played


@pytest.mark.parametrize(
    ("model", "means", "line"),
    [
        ("one-exchange", [0.5, 0.5, 0.5], ("runs that named the best arm", "40 of 40")),
        ("one-exchange", [0.0, 1.0, 1.0], ("runs that named the best arm", "40 of 40")),
        (
            "many-exchanges:tolerance=0.2,delta=0.5",
            [0.7, 0.9, 0.9, 0.8],
            ("runs that named an arm within the tolerance", "40 of 40"),
        ),
    ],
)
def test_arms_that_are_as_good_are_no_failures(
    model: str, means: list[float], line: tuple[str, str]
) -> None:
    assert parse_model(model).play(Played(means, 3, 200, 40, 0))[0] == line


def test_other_arms_are_failures() -> None:
    ((_, told), *_) = parse_model("one-exchange").play(Played([0.5, 0.51], 1, 8, 40, 0))
    assert int(told.split()[0]) < 40

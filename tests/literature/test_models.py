"""Models: their random numbers and tables of means, and what they report of named arms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits import InputError
from coopbandits.literature.models import Dice, Played, parse_model, read_table, vary


def test_numbers_follow_from_the_place_alone() -> None:
    one, two = Dice(1, 2), Dice(1, 2)
    first = [one.uniform() for _ in range(5)]
    assert first == two.uniforms(5).tolist()
    assert one.uniform() == two.uniform()
    assert Dice(1, 3).uniform() != first[0]


def test_choices_are_even() -> None:
    dice = Dice(4)
    counts = [0, 0, 0]
    for _ in range(3000):
        counts[dice.one_of([0, 1, 2])] += 1
    assert counts == pytest.approx([1000] * 3, abs=110)
    assert sorted(dice.shuffled(20)) == list(range(20)) != dice.shuffled(20)


def test_numbers_are_counted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pieces = Dice(7), Dice(7)
    expected = float(np.mean(whole.uniforms(1000) < 0.3))
    monkeypatch.setattr("coopbandits.literature.models.PIECE", 64)
    assert pieces.share_below(0.3, 1000) == expected
    assert pieces.uniform() == whole.uniform()


def test_means_that_vary_average_to_those_given_and_favourites_differ() -> None:
    table = vary([0.5, 0.5, 0.4], 6, 0.4)
    assert table.shape == (6, 3)
    np.testing.assert_allclose(table.mean(axis=0), [0.5, 0.5, 0.4])
    assert set(table.argmax(axis=1).tolist()) == {0, 1, 2}
    assert np.ptp(table, axis=0) == pytest.approx([0.8, 0.8, 0.8], abs=0.15)
    assert vary([0.5, 0.4], 1, 0.4).tolist() == [[0.5, 0.4]]
    assert vary([0.9, 0.8], 3, 0.1).max() == 1.0  # 1 − 0.9 is below 0.1 by rounding


def test_tables_of_means_are_checked() -> None:
    with pytest.raises(InputError, match=r"spread.* 0\.2\b"):
        vary([0.9, 0.5], 2, 0.2)
    with pytest.raises(InputError, match=r"spread.* 0\.1\b"):
        vary([0.9, 0.5], 2, -1)
    for wrong in ([[0.5]], [0.5, 0.4], np.zeros((0, 3))):
        with pytest.raises(InputError, match="one row per agent"):
            read_table(wrong)
    with pytest.raises(InputError, match=r"mean.* 1\.5\b"):
        read_table([[0.5, 1.5]])
    with pytest.raises(InputError, match=r"mean.* nan"):
        read_table([[0.5, math.nan]])
    for rows in ([[0.5, 0.4], [0.5]], [["a", "b"]]):
        with pytest.raises(InputError, match="array of numbers"):
            read_table(rows)


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

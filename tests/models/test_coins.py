"""Chance of the other models: in any order, and the same again."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits.models.coins import Dice


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
    monkeypatch.setattr("coopbandits.models.coins.PIECE", 64)
    assert pieces.share_below(0.3, 1000) == expected
    assert pieces.uniform() == whole.uniform()

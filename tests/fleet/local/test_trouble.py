from __future__ import annotations

from coopbandits.fleet.local.faults import Dice


def test_dice_fall_by_the_seed() -> None:
    words = [Dice(3, 0).word() for _ in range(2)]
    assert words[0] == words[1]
    dice = Dice(3, 0)
    drawn = [dice.word() for _ in range(50)]
    assert len(set(drawn)) == 50
    assert drawn[0] != Dice(3, 1).word() != Dice(4, 1).word()


def test_everybody_is_picked() -> None:
    dice = Dice(0, 0)
    assert {dice.pick("abcd") for _ in range(60)} == set("abcd")


def test_a_split_has_two_sides() -> None:
    dice, names = Dice(0, 2), ["a", "b", "c"]
    sides = [dice.split(names) for _ in range(60)]
    assert {frozenset(side) for side in sides} == {
        frozenset(side) for side in ("a", "b", "c", "ab", "ac", "bc")
    }
    assert 0 < len(Dice(0, 2).split([str(n) for n in range(64)])) < 64

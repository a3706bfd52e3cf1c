"""The best arm with few exchanges: errors, pulls, and how many players help how much."""

from __future__ import annotations

import math

import pytest

from coopbandits import InputError
from coopbandits.models import many_exchanges, one_exchange
from coopbandits.models.best_arm import winner

MEANS = [0.4, 0.7, 0.5, 0.4, 0.3]


@pytest.mark.plays
def test_errors_stay_below_delta_in_400_runs() -> None:
    """δ = 0.1; by the union bound the error is at most 0.083, so 40 errors are 0.1 · 400."""
    result = many_exchanges(MEANS, players=10, delta=0.1, runs=400)
    errors = int((result.arms != 1).sum())
    print(f"{errors} errors in 400 runs, {result.pulls.mean():.0f} pulls per player")
    assert errors <= 40


def test_pulls_follow_from_the_formula() -> None:
    """Arms 0.9 and 0.1 differ by more than ε_1 = 1/2 from the first round on, as a rule."""
    result = many_exchanges([0.9, 0.1], players=3, delta=0.05, runs=20)
    first = math.ceil(2 / (3 * 0.25) * math.log(4 * 2 / 0.05))
    assert (result.pulls >= 2 * first).all()
    assert sorted(result.pulls)[10] == 2 * first
    assert result.exchanges[result.pulls == 2 * first].tolist()[:3] == [1, 1, 1]


def test_players_share_the_pulls() -> None:
    one = many_exchanges(MEANS, players=1, delta=0.1, runs=5).pulls.mean()
    ten = many_exchanges(MEANS, players=10, delta=0.1, runs=5).pulls.mean()
    assert 8 < one / ten < 12


def test_a_tolerance_stops_earlier_and_equal_arms_need_one() -> None:
    close = [0.5, 0.5, 0.1]
    with pytest.raises(InputError, match=r"two arms have the largest mean 0\.5, so there is no"):
        many_exchanges(close, players=5, delta=0.1)
    result = many_exchanges(close, players=5, delta=0.1, tolerance=0.2, runs=10)
    assert set(result.arms.tolist()) <= {0, 1}
    assert result.exchanges.max() <= 4  # ε_4 = 1/16 < 0.2/2


@pytest.mark.plays
def test_one_exchange_finds_it_with_fewer_pulls_the_more_players() -> None:
    """400 pulls of one player are too few; of 25 with an exchange they are not."""
    alone = one_exchange([0.5] * 9 + [0.6], players=1, budget=400, runs=40)
    many = one_exchange([0.5] * 9 + [0.6], players=25, budget=400, runs=40)
    right = [(result.arms == 9).mean() for result in (alone, many)]
    print(f"alone {right[0]:.2f}, 25 players {right[1]:.2f}")
    assert right[0] < 0.8
    assert right[1] > 0.9
    assert many.exchanges.tolist() == [1] * 40


def test_who_is_named_often_and_praised_wins() -> None:
    told = [(0, 0.99), (1, 0.5), (1, 0.6), (1, 0.5), (2, 0.7), (2, 0.6), (2, 0.7), (3, 0.2),
            (4, 0.1)]  # fmt: skip
    assert winner(told) == 2  # arm 0 was named once, less than √9 times
    assert winner([(0, 0.2), (0, 0.3), (1, 0.9), (2, 0.9), (3, 0.9), (4, 0.9), (5, 0.9)]) == 0


def test_bad_input() -> None:
    with pytest.raises(InputError, match="delta is 1; it must be a number between 0 and 1"):
        many_exchanges(MEANS, 2, 1)
    with pytest.raises(InputError, match="tolerance is -1; it must be a number in"):
        many_exchanges(MEANS, 2, 0.1, -1)
    with pytest.raises(InputError, match="budget is 5, and a player takes 5 arms; give at least 2"):
        one_exchange(MEANS, 2, 5)

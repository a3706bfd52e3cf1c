"""The best arm with few exchanges: errors, pulls, and how many players help how much."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits import InputError
from coopbandits.literature import many_exchanges, one_exchange
from coopbandits.literature.hillel2013 import _exchange_until_sure, winner
from coopbandits.literature.models import Dice

MEANS = [0.4, 0.7, 0.5, 0.4, 0.3]


def errors(means: list[float], delta: float, log: float | None = None) -> int:
    """Return how often of 400 runs a wrong arm is named, by one player; `log` is the logarithm."""
    within = delta if log is None else 4 * len(means) / math.exp(log)
    found = [
        _exchange_until_sure(np.array(means), 1, within, 0.0, Dice(0, run))[0] for run in range(400)
    ]
    return sum(arm != int(np.argmax(means)) for arm in found)


@pytest.mark.plays
def test_errors_stay_below_delta_and_the_logarithm_is_why() -> None:
    """δ = 0.1: at most 40 of 400, and more than that once ln(4K/δ) = 5.3 is left out."""
    apart = [0.45, 0.7, 0.55, 0.3, 0.15]  # also those that are left once the best is out
    kept, broken = errors(apart, 0.1), errors(apart, 0.1, log=0.02)
    print(f"{kept} errors in 400 runs, {broken} without the logarithm")
    assert kept <= 40 < broken


@pytest.mark.parametrize("runs", [1000, pytest.param(3000, marks=pytest.mark.slow)])
def test_the_best_arm_is_dropped_as_often_as_binomials_say(runs: int) -> None:
    """One exchange after 3 pulls of each of two arms; dropped if it is 2 rewards or more behind."""
    pulls = 3
    delta = 8 / math.exp(pulls / 8)  # ⌈2/(1/4) · ln(8/δ)⌉ = 3
    found = [
        _exchange_until_sure(np.array([0.7, 0.5]), 1, delta, 0.0, Dice(1, run))
        for run in range(runs)
    ]
    dropped = sum(arm == 1 and exchanges == 1 for arm, _, exchanges, _ in found)
    paid = [[math.comb(pulls, k) * p**k * (1 - p) ** (pulls - k) for k in range(4)]
            for p in (0.7, 0.5)]  # fmt: skip
    chance = sum(paid[0][i] * paid[1][j] for i in range(4) for j in range(4) if i < j - 1.5)
    assert dropped == pytest.approx(runs * chance, abs=4 * math.sqrt(runs * chance * (1 - chance)))


def test_what_is_told() -> None:
    """Everybody tells everybody else one mean per arm left; in the end an arm and its mean."""
    result = many_exchanges([0.9, 0.1], players=3, delta=0.05, runs=4)
    assert result.messages.tolist() == (6 * result.exchanges).tolist()
    assert result.values.tolist() == (12 * result.exchanges).tolist()
    once = one_exchange([0.9, 0.1], players=4, budget=40, runs=2)
    assert (once.messages.tolist(), once.bits.tolist()) == ([12, 12], [24 * 64] * 2)


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
    with pytest.raises(InputError, match=r"two arms.* 0\.5\b"):
        many_exchanges(close, players=5, delta=0.1)
    result = many_exchanges(close, players=5, delta=0.1, tolerance=0.2, runs=10)
    assert set(result.arms.tolist()) <= {0, 1}
    assert result.exchanges.max() <= 4  # ε_4 = 1/16 < 0.2/2


@pytest.mark.plays
@pytest.mark.parametrize("runs", [20, pytest.param(40, marks=pytest.mark.slow)])
def test_one_exchange_finds_it_with_fewer_pulls_the_more_players(runs: int) -> None:
    """400 pulls of one player are too few; of 25 with an exchange they are not."""
    alone = one_exchange([0.5] * 9 + [0.6], players=1, budget=400, runs=runs)
    many = one_exchange([0.5] * 9 + [0.6], players=25, budget=400, runs=runs)
    right = [(result.arms == 9).mean() for result in (alone, many)]
    print(f"alone {right[0]:.2f}, 25 players {right[1]:.2f}")
    assert right[0] < 0.8
    assert right[1] > 0.9
    assert many.exchanges.tolist() == [1] * runs


def test_who_is_named_often_and_praised_wins() -> None:
    told = [(0, 0.99), (1, 0.5), (1, 0.6), (1, 0.5), (2, 0.7), (2, 0.6), (2, 0.7), (3, 0.2),
            (4, 0.1)]  # fmt: skip
    assert winner(told) == 2  # arm 0 was named once, less than √9 times
    assert winner([(0, 0.2), (0, 0.3), (1, 0.9), (2, 0.9), (3, 0.9), (4, 0.9), (5, 0.9)]) == 0


def test_arms_that_take_too_long_to_tell_apart_are_refused() -> None:
    with pytest.raises(InputError, match=r"0\.50001.* 0\.5\b"):
        many_exchanges([0.5, 0.50001], players=2, delta=0.1)
    with pytest.raises(InputError, match="tolerance"):
        many_exchanges([0.5, 0.5], players=2, delta=0.1, tolerance=1e-300)
    assert many_exchanges([0.5, 0.50001], players=2, delta=0.1, tolerance=0.1).arms.size == 1


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"delta.* 1\b"):
        many_exchanges(MEANS, 2, 1)
    with pytest.raises(InputError, match=r"tolerance.* -1\b"):
        many_exchanges(MEANS, 2, 0.1, -1)
    with pytest.raises(InputError, match=r"budget.* 5\b.* 20\b"):
        one_exchange(MEANS, 2, 5)

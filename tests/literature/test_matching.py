"""Matchings: the auction against all matchings, and what a run counts."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits import InputError
from coopbandits.literature import auction, best_matching, ducb4
from coopbandits.literature.matching import Table
from coopbandits.models.coins import Dice


def total(values: np.ndarray, arms: list[int] | tuple[int, ...]) -> float:
    return float(sum(values[i, k] for i, k in enumerate(arms)))


@settings(deadline=None, max_examples=150)
@given(
    st.integers(1, 4),
    st.integers(0, 2),
    st.floats(0.01, 0.5),
    st.lists(st.floats(0, 1), min_size=24, max_size=24),
    st.booleans(),
)
def test_the_auction_is_within_its_bound_of_the_best_matching(
    players: int, more: int, step: float, numbers: list[float], alike: bool
) -> None:
    """Also where all players want the same arm, which takes most bids."""
    arms = max(2, players + more)
    rows = np.array(numbers).reshape(4, 6)[:players, :arms]
    values = np.broadcast_to(rows[:1], rows.shape) if alike else rows
    found, bids = auction(values, step)
    assert len(set(found)) == players
    best = max(total(values, each) for each in permutations(range(arms), players))
    assert best - total(values, found) <= players * step + 1e-9
    spread = float(np.ptp(values, axis=1).max())
    assert bids <= (players - 1) * (np.floor(spread / step) + 1) + 1
    assert total(values, best_matching(values)) == pytest.approx(best)


def test_an_auction_by_hand() -> None:
    """Both want arm 0. Player 0 bids 0.5 + 0.1; player 1 is better off there by 0.8 and bids it."""
    assert auction(np.array([[0.9, 0.4], [0.9, 0.1]]), 0.1) == ([1, 0], 3)


def test_a_run_counts_rounds_rewards_and_messages() -> None:
    table = Table(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), 10, 2, Dice(0))
    table.pull_all_arms()
    assert table.sums.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert (table.counts == 1).all()
    assert table.match(table.sums, 0.1) == [0, 1]
    assert (table.left, table.silent, table.messages, table.values) == (3, 4, 2, 4)
    table.pull([0, 1], rounds=2, learn=False)
    assert (table.left, table.rounds, table.earned.tolist()) == (1, 3, [3.0, 3.0])
    table.broadcast(5, 5, 1)
    assert (table.messages, table.values) == (3, 5)  # one round is left
    table.pull([0, 1])
    assert (table.left, table.silent, table.earned.tolist()) == (0, 5, [3.0, 3.0])


def test_one_player_does_not_talk() -> None:
    result = ducb4([[0.9, 0.1]], horizon=500)
    assert (result.messages.tolist(), result.silent_rounds.tolist()) == ([0], [0])


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"3 players.* 2 arms"):
        ducb4([[0.5, 0.5]] * 3, horizon=10)
    with pytest.raises(InputError, match=r"step.* 0\b"):
        ducb4([[0.5, 0.5]] * 2, horizon=10, step=0)
    with pytest.raises(InputError, match=r"bid_rounds.* 0\b"):
        ducb4([[0.5, 0.5]] * 2, horizon=10, bid_rounds=0)
    with pytest.raises(InputError, match=r"\(2,\)"):
        ducb4([0.5, 0.5], horizon=10)

"""dUCB4: the auction against all matchings, frames at powers of two, and growth as ln² T."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits import InputError
from coopbandits.literature import auction, best_matching, de3, ducb4
from coopbandits.literature.kalathil2014 import Table
from coopbandits.literature.models import Dice

TABLE = [[0.9, 0.1, 0.2], [0.8, 0.6, 0.1]]


def naive(means: list[list[float]], horizon: int, step: float) -> tuple[list[int], int]:
    """Return frames, as the first round that follows each, and the rounds they took.

    The paper's loop round by round, with a counter, for arms that always pay their mean.
    """
    mu = np.array(means)
    players, arms = mu.shape
    counts, t, eta, last = np.ones_like(mu), arms, 1, [-1] * players
    frames, silent = [], 0
    while t + silent < horizon:
        if math.log2(eta).is_integer():
            index = mu + np.sqrt((players + 2) * math.log(t) / counts)
            owner: dict[int, int] = {}
            prices, held = np.zeros(arms), [-1] * players
            while -1 in held:
                i = held.index(-1)
                k, second = np.argsort(prices - index[i], kind="stable")[:2]
                prices[k] += index[i, k] - prices[k] - index[i, second] + prices[second] + step
                if k in owner:
                    held[owner[k]] = -1
                owner[k], held[i] = i, int(k)
                silent += 1
            silent += players
            frames.append(t)
            if held != last:
                eta, last = 1, held
        if t + silent >= horizon:
            break
        counts[range(players), last] += 1
        t, eta = t + 1, eta + 1
    return frames, silent


def test_frames_are_those_of_the_loop_with_a_counter() -> None:
    """On arms that pay 0 or 1 for certain; two players who want the same arm."""
    means = [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    result = ducb4(means, horizon=700, step=0.03)
    frames, silent = naive(means, 700, 0.03)
    assert result.auctions.tolist() == [len(frames)]
    assert min(silent, 700) - 6 <= result.silent_rounds[0] <= silent
    gaps = np.diff(frames)
    assert (np.log2(gaps) % 1 == 0).all()
    assert gaps.max() == 8  # the counter is reset often in so short a run


def test_communication_costs_what_it_takes() -> None:
    cheap, dear = (ducb4(TABLE, horizon=4000, bid_rounds=rounds, runs=2) for rounds in (1, 6))
    assert (dear.regret > cheap.regret).all()
    assert (cheap.silent_rounds >= 4 * cheap.auctions - 4).all()  # two bids and two interrupts
    assert (cheap.values < 2 * cheap.messages).all()  # interrupts have one value
    # In silent rounds nobody earns: 1.5 in the best matching.
    assert (cheap.regret >= 1.5 * cheap.silent_rounds).all()


def test_it_finds_the_matching_though_both_prefer_one_arm() -> None:
    """The second half of a long run is cheaper than the first, and no arm is shared."""
    half, whole = (ducb4(TABLE, horizon=t, runs=3).regret for t in (20_000, 40_000))
    print(half.mean(), whole.mean())
    assert (whole - half < 0.5 * half).all()


def test_seeds() -> None:
    one, two, other = (ducb4(TABLE, 500, seed=seed).agent_regret for seed in (3, 3, 4))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.slow
def test_regret_grows_as_the_squared_logarithm_and_more_than_that_of_de3() -> None:
    """Each interval is 4 times longer; linear regret would quadruple what is lost in it."""
    times = [4000, 16_000, 64_000, 256_000]
    regret = np.array([ducb4(TABLE, t, runs=10).regret.mean() for t in times])
    logs = np.diff(np.log(times) ** 2)
    rates = np.diff(regret) / logs
    print(f"regret {regret}, per unit of ln² t {rates}")
    assert (np.diff(rates) < 0).all()
    assert (rates[1:] > 0.7 * rates[:-1]).all()  # not faster than it has to, either
    assert de3(TABLE, times[-1], runs=4).regret.max() < regret[-1] / 10


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

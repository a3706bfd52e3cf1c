"""dUCB4: frames at powers of two, what communication costs, and growth as ln² T."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.literature import de3, ducb4

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

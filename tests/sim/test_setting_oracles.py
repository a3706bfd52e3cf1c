"""Regrets at full size against an independent, vectorised simulation of the same instances.

The oracles are means of 20 and of 10 runs of code that shares nothing with this package. `make
test-slow` plays them, and prints the tables.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import coopbandits as cb

pytestmark = pytest.mark.slow

CYCLE = cb.Network.from_spec("cycle:20")


def agrees(name: str, regrets: NDArray[np.float64], mean: float, error: float | None) -> bool:
    """Tell whether both means are within three standard errors of their difference.

    Where the oracle came without an error, it is taken to be ours.
    """
    own = float(regrets.std(ddof=1) / np.sqrt(regrets.size))
    both = float(np.hypot(own, own if error is None else error))
    distance = (regrets.mean() - mean) / both
    print(f"{name}: {regrets.mean():.0f} ± {own:.0f}, oracle {mean:g}, {distance:+.1f}")
    return bool(abs(distance) <= 3.0)


COINS = {
    "independent-ucb:constant=2": (1583, 17),
    "independent-ts:family=bernoulli": (621, 25),
    "flood-ucb": (205, 7),
    "flood-ts:family=bernoulli": (53, 3),
}


def test_a_plain_instance() -> None:
    """Five coins on a cycle of 20, 3000 rounds, 20 runs."""
    policies = [cb.parse_policy(text) for text in COINS]
    coins = cb.BernoulliBandit([0.9, 0.8, 0.8, 0.8, 0.8])
    result = cb.simulate(coins, CYCLE, policies, 3000, 20, rounds=1)
    final = result.regret.values[..., -1]
    close = [agrees(name, row, *COINS[name]) for name, row in zip(COINS, final, strict=True)]
    assert all(close)


SITES = {
    0.0: {
        "independent-ts": 776, "flood-ts": 57, "flood-ts:spread=0": 58, "flood-ts:spread=0.1": 507,
    },
    0.1: {"independent-ts": 681, "flood-ts": 1050, "flood-ts:spread=0.1": 550},
    0.3: {
        "independent-ts": 516, "flood-ts": 6853, "flood-ts:spread=0.3": 553,
        "flood-ts:spread=0.1": 843,
    },
}  # fmt: skip


@pytest.mark.parametrize("spread", SITES)
def test_sites_that_differ(spread: float) -> None:
    """Means that differ by a spread, anew in each of 10 runs; 1500 rounds on a cycle of 20."""
    base = cb.GaussianBandit([0.3, 0.2, 0.2, 0.1, 0.0], sigma=0.5)
    policies = [cb.parse_policy(text) for text in SITES[spread]]
    runs = [
        cb.simulate(cb.sites(base, spread, seed=seed), CYCLE, policies, 1500, 1, seed, rounds=1)
        for seed in range(10)
    ]
    final = np.stack([run.regret.values[:, 0, -1] for run in runs], axis=1)
    wanted = SITES[spread].items()
    close = [agrees(name, row, mean, None) for (name, mean), row in zip(wanted, final, strict=True)]
    assert all(close)


LINEAR = {
    "local-sums*lin-ts": (394, 8),
    "flooded-totals*lin-ts": (67, 7),
    "central-totals*lin-ts": (44, 6),
}


def test_a_linear_instance() -> None:
    """Ten arms on the unit sphere in every round, five coefficients; 400 rounds on a cycle."""
    policies = [cb.parse_policy(text) for text in LINEAR]
    linear = cb.LinearBandit([1.0, 0.0, 0.0, 0.0, 0.0], num_arms=10, sigma=0.5)
    result = cb.simulate(linear, CYCLE, policies, 400, 20, rounds=1)
    final = result.regret.values[..., -1]
    close = [agrees(name, row, *LINEAR[name]) for name, row in zip(LINEAR, final, strict=True)]
    assert all(close)

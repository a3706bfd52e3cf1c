from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit
from coopbandits.theory import coop_ucb_a, coop_ucb_b, coop_ucb_bound, epsilon_c

PROBLEM = GaussianBandit([1.0, 0.5, 0.75], sigma=2.0)
PAW = Network([(1, 2), (2, 3), (1, 3), (3, 4)])  # eigenvalues 1, 3/4, 1/4, 0


def test_a_term_by_term() -> None:
    mean = (9 / 16) / (7 / 16) + (1 / 16) / (15 / 16)
    expected = 16 * 1.5 * 4 * (1 + mean) * (1 / 0.5 + 1 / 0.25) * math.log(50 * 4)
    assert coop_ucb_a(PROBLEM, PAW, 1.5, 50) == pytest.approx(expected, rel=1e-12)


def test_b_term_by_term() -> None:
    expected = 4 * (1.5 / 0.5 + 2 * ((3 / 4) / (1 / 4) + (1 / 4) / (3 / 4)))
    assert coop_ucb_b(PAW, 1.5) == pytest.approx(expected, rel=1e-12)


def test_the_sum() -> None:
    expected = coop_ucb_a(PROBLEM, PAW, 1.5, 50) + coop_ucb_b(PAW, 1.5) * 0.75
    assert coop_ucb_bound(PROBLEM, PAW, 1.5, 50) == pytest.approx(expected, rel=1e-12)


def test_values_of_ones_own() -> None:
    """Σ_j (1 + ε_j)/N of 1, 2, 3, 4 is 3.5."""
    expected = 16 * 1.5 * 4 * 3.5 * 6 * math.log(50 * 4)
    own = coop_ucb_a(PROBLEM, PAW, 1.5, 50, epsilons=[1, 2, 3, 4])
    assert own == pytest.approx(expected, rel=1e-12)
    landgren = epsilon_c(PAW, form="landgren")
    assert coop_ucb_a(PROBLEM, PAW, 1.5, 50, landgren) > coop_ucb_a(PROBLEM, PAW, 1.5, 50)


def test_cycle_of_the_example() -> None:
    """An odd cycle, weights of 1/2: λ_j = cos(2πj/N), so Σ λ²/(1−λ²) is a sum of cot²."""
    N = 11
    shift = np.roll(np.eye(N), 1, axis=1)
    network = Network.from_spec(f"cycle:{N}", weights=(shift + shift.T) / 2)
    angles = 2 * np.pi * np.arange(1, N) / N
    assert epsilon_c(network).mean() == pytest.approx((1 / np.tan(angles) ** 2).sum(), rel=1e-9)
    sizes = np.abs(np.cos(angles))
    expected = N * (2 + math.sqrt(N) * (sizes / (1 - sizes)).sum())
    assert coop_ucb_b(network, 2.0) == pytest.approx(expected, rel=1e-9)


def test_curve() -> None:
    rounds = np.array([1, 20, 300])
    curve = coop_ucb_bound(PROBLEM, PAW, 2.0, rounds)
    assert (np.diff(curve) > 0).all()
    assert curve[1] == pytest.approx(coop_ucb_bound(PROBLEM, PAW, 2.0, 20))


@pytest.mark.parametrize("gamma", [1.0, math.inf, math.nan, "2"])
def test_gamma_outside(gamma: Any) -> None:
    sentence = f"gamma.* {gamma!r}"
    with pytest.raises(InputError, match=sentence):
        coop_ucb_a(PROBLEM, PAW, gamma, 50)
    with pytest.raises(InputError, match=sentence):
        coop_ucb_b(PAW, gamma)


@pytest.mark.parametrize("epsilons", [[1.0], [1, 2, 3, -4], [1, 2, 3, math.nan], 1.0])
def test_epsilons_outside(epsilons: Any) -> None:
    with pytest.raises(InputError, match=r"epsilons.* 4 .*epsilon_c\(network\)"):
        coop_ucb_a(PROBLEM, PAW, 2.0, 50, epsilons)

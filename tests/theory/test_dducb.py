from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coopbandits.core import DDUCB, InputError
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit
from coopbandits.theory import (
    as_analysed,
    asymptotic_shape,
    finite_time_bound,
    instance_independent_shape,
    sharper_finite_time_bound,
    stage_rounds,
    worst_arm_regret,
)

PAPER = GaussianBandit([1.0] + [0.8] * 16)
SMALL = GaussianBandit([1.0, 0.5, 0.75], sigma=2.0)
CYCLE = Network.from_spec("cycle:100")
PAW = Network([(1, 2), (2, 3), (1, 3), (3, 4)])  # λ = 3/4
COMPLETE = Network.from_spec("complete:5")  # λ = 0
PLAIN = as_analysed(DDUCB())
BOUNDS = (finite_time_bound, sharper_finite_time_bound)
SHAPES = (asymptotic_shape, instance_independent_shape)
Curve = Callable[..., Any]


def test_the_paper_on_a_cycle() -> None:
    """N = 100, C = 164, T = 10 000, sixteen gaps of 0.2."""
    expected = 16 * 32 * (1 + 1 / 11) * math.log(10_000 * 100) / 0.2
    expected += (100 * (6 * 164 + 1) + 4) * (16 * 0.2)
    bound = finite_time_bound(PAPER, CYCLE, PLAIN, 10_000)
    assert bound == pytest.approx(expected, rel=1e-12)
    assert round(bound) == 353_796
    assert bound > worst_arm_regret(PAPER, CYCLE, 10_000)


def test_the_sharper_bound_on_a_cycle() -> None:
    expected = 16 * 32 * (1 + 1 / 11) * math.log(10_000 * 100) / 0.2
    expected += 100 * (2 * 164 + 1) * 3.2
    expected += 2 * 100 * 164 / 17**2 * (1 + 1 / 100**2) * 3.2
    expected += 2 * 2 / ((2 - 1) * (100 * 164)) * 3.2
    bound = sharper_finite_time_bound(PAPER, CYCLE, PLAIN, 10_000)
    assert bound == pytest.approx(expected, rel=1e-12)
    assert round(bound) == 144_226


def test_general_eta_and_epsilon_term_by_term() -> None:
    """N = 4, λ = 3/4, K = 3, gaps 0.5 and 0.25, σ² = 4, η = 3, ε = 0.05."""
    policy = replace(PLAIN, eta=3.0, epsilon=0.05)
    C = math.ceil(math.log(2 * 4 / 0.05) / math.sqrt(2 * math.log(4 / 3)))
    assert C == 7
    leading = 16 * 3 * 1.1 * 4 * math.log(50 * 4) * (1 / 0.5 + 1 / 0.25)
    plain = leading + (4 * (6 * 7 + 1) + 2 * 3 / 2) * 0.75
    sharper = 4 * (2 * 7 + 1) + 2 * 4 * 7 / 27 * (1 + 1 / 64) + 2 * 3 / (2 * (4 * 7) ** 2)
    assert finite_time_bound(SMALL, PAW, policy, 50) == pytest.approx(plain, rel=1e-12)
    assert sharper_finite_time_bound(SMALL, PAW, policy, 50) == pytest.approx(
        leading + sharper * 0.75, rel=1e-12
    )


@pytest.mark.parametrize(
    ("change", "delay"),
    [
        ({"accelerated": False}, math.ceil(math.log(4 * 22) / math.log(4 / 3))),
        ({"mixing_rounds": 30}, 30),
        ({"values_per_message": 4}, math.ceil(2 * 3 * 7 / 4)),
    ],
    ids=["plain mixing", "longer stages", "budget"],
)
def test_other_stages(change: dict[str, Any], delay: int) -> None:
    policy = replace(PLAIN, **change)
    assert stage_rounds(SMALL, PAW, policy) == delay
    leading = 32 * (1 + 1 / 11) * 4 * math.log(50 * 4) * 6
    expected = leading + (4 * (6 * delay + 1) + 4) * 0.75
    assert finite_time_bound(SMALL, PAW, policy, 50) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("network", [PAW, COMPLETE, Network.from_spec("grid:4x4"), CYCLE])
@pytest.mark.parametrize("eta", [1.5, 2.0, 40.0, 400.0])
def test_sharper_is_below(network: Network, eta: float) -> None:
    policy = replace(PLAIN, eta=eta, epsilon=0.02)
    rounds = np.array([1, 10, 10_000, 10**9])
    plain = finite_time_bound(SMALL, network, policy, rounds)
    sharper = sharper_finite_time_bound(SMALL, network, policy, rounds)
    assert (sharper <= plain).all()
    assert np.isfinite(sharper).all()


def test_asymptotic_shape_term_by_term() -> None:
    delay = 4 * math.log(4 * 22) / math.sqrt(math.log(4 / 3))
    expected = 2 * (1 + 1 / 22) * 4 * 6 * math.log(50 * 4) + (delay + 2) * 0.75
    assert asymptotic_shape(SMALL, PAW, PLAIN, 50) == pytest.approx(expected, rel=1e-12)


def test_instance_independent_shape_term_by_term() -> None:
    delay = 4 * 0.5 * math.log(4) / math.sqrt(math.log(4 / 3))
    expected = math.sqrt(3 * 50 * 4 * 4 * math.log(50 * 4)) + 3 * delay
    assert instance_independent_shape(SMALL, PAW, PLAIN, 50) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "delay"),
    [
        ({"accelerated": False}, 4 * math.log(4 * 22) / math.log(4 / 3)),
        ({"lambda_bound": 0.9}, 4 * math.log(4 * 22) / math.sqrt(math.log(10 / 9))),
        ({"mixing_rounds": 30}, 4 * 30),
        ({"values_per_message": 4}, 4 * 11),
    ],
    ids=["plain mixing", "bound on λ", "longer stages", "budget"],
)
def test_delay_in_the_shapes(change: dict[str, Any], delay: float) -> None:
    expected = 2 * (1 + 1 / 22) * 4 * 6 * math.log(50 * 4) + (delay + 2) * 0.75
    shape = asymptotic_shape(SMALL, PAW, replace(PLAIN, **change), 50)
    assert shape == pytest.approx(expected, rel=1e-12)


def test_delay_vanishes_from_the_shapes_on_a_complete_graph() -> None:
    expected = 2 * (1 + 1 / 22) * 4 * 6 * math.log(50 * 5) + 2 * 0.75
    assert asymptotic_shape(SMALL, COMPLETE, PLAIN, 50) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("function", BOUNDS + SHAPES)
def test_curves(function: Curve) -> None:
    rounds = np.array([1, 20, 300, 4000])
    curve = function(SMALL, PAW, PLAIN, rounds)
    assert curve.shape == (4,)
    assert (np.diff(curve) > 0).all()
    assert [function(SMALL, PAW, PLAIN, int(T)) for T in rounds] == pytest.approx(curve.tolist())


@pytest.mark.parametrize("function", BOUNDS)
def test_bounds_grow_with_delay_and_noise(function: Curve) -> None:
    slow = replace(PLAIN, mixing_rounds=40)
    assert function(SMALL, PAW, slow, 50) > function(SMALL, PAW, PLAIN, 50)
    noisy = GaussianBandit(SMALL.means, sigma=3.0)
    assert function(noisy, PAW, PLAIN, 50) > function(SMALL, PAW, PLAIN, 50)


def test_one_agent_and_equal_arms() -> None:
    alone = Network.from_spec("complete:1")
    assert finite_time_bound(SMALL, alone, PLAIN, 1) == pytest.approx((7 + 4) * 0.75)
    assert finite_time_bound(GaussianBandit([1.0, 1.0]), PAW, PLAIN, 10) == 0.0


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (finite_time_bound, "finite-time bound"),
        (sharper_finite_time_bound, "sharper finite-time bound"),
        (asymptotic_shape, "asymptotic shape"),
        (instance_independent_shape, "instance-independent shape"),
    ],
)
def test_refusals_name_what_was_asked(function: Curve, name: str) -> None:
    with pytest.raises(InputError, match=f"{name}.*bonus_factor=4.* 2\\b"):
        function(SMALL, PAW, replace(PLAIN, bonus_factor=2.0), 50)


def test_own_pulls_have_shapes_but_no_finite_time_bound() -> None:
    policy = DDUCB(bonus_factor=4.0)
    for shape in SHAPES:
        assert shape(SMALL, PAW, policy, 50) == shape(SMALL, PAW, PLAIN, 50)
    for bound in BOUNDS:
        with pytest.raises(InputError, match="own_pulls=False"):
            bound(SMALL, PAW, policy, 50)

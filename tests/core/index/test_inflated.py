"""Inflated upper confidence bounds against numbers by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from coopbandits.core import Estimate, InflatedUCB, InputError
from coopbandits.core.index.inflated import inflated_ucb, root_log

from ..fleet import values_of

# Five agents, 20 rounds; n̂ = 16 and 4, ŝ = 4 and −2.
ESTIMATE = Estimate(np.array([20.0, -10.0]), np.array([80.0, 20.0]), time=100.0, num_agents=5.0)


def coop_ucb(
    estimate: Estimate, word: int = 0, *, scale: float, epsilon_c: float | None
) -> NDArray[np.float64]:
    """The index with 2γσ² = scale, and ε_c told, or None for sqrt(ln t)."""
    if epsilon_c is None:
        return values_of(InflatedUCB(2.0), estimate, word, sigma=math.sqrt(scale) / 2.0)
    told = {"epsilon_c:closed": epsilon_c}
    index = InflatedUCB(2.0, "closed")
    return values_of(index, estimate, word, sigma=math.sqrt(scale) / 2.0, global_knowledge=told)


def test_coop_ucb_by_hand() -> None:
    """γ = 2, σ = 0.5, ε_c = 3: scale = 2·2·0.25 = 1."""
    values = coop_ucb(ESTIMATE, scale=1.0, epsilon_c=3.0)
    assert values.tolist() == pytest.approx(
        [
            0.25 + 0.5 * math.sqrt(4 * (16 + 3) / (5 * 16) * math.log(20) / 16),
            -0.5 + 0.5 * math.sqrt(4 * (4 + 3) / (5 * 4) * math.log(20) / 4),
        ],
        rel=1e-14,
    )
    assert values.tolist() == pytest.approx([0.460874, 0.011983], abs=1e-6)


def test_coop_ucb2_by_hand() -> None:
    f = math.sqrt(math.log(20))
    assert root_log(20.0) == pytest.approx(f) == pytest.approx(1.7308183826)
    values = coop_ucb(ESTIMATE, scale=2.02, epsilon_c=None)
    assert values.tolist() == pytest.approx(
        [
            0.25 + math.sqrt(2.02 * (16 + f) / (5 * 16) * math.log(20) / 16),
            -0.5 + math.sqrt(2.02 * (4 + f) / (5 * 4) * math.log(20) / 4),
        ],
        rel=1e-14,
    )


def test_without_inflation_it_is_the_ucb_of_the_rounds() -> None:
    values = coop_ucb(ESTIMATE, scale=3.0, epsilon_c=0.0)
    assert values[0] == pytest.approx(0.25 + math.sqrt(3.0 * math.log(20) / 80))


def test_rounds_are_pulls_per_agent() -> None:
    scratch = [0.0] * InflatedUCB().scratch_size(2)
    InflatedUCB.prepare(ESTIMATE, 0, (1.0, 0.0), scratch)
    agents = ESTIMATE.num_agents
    assert scratch[:2] == [math.log(20.0), agents * math.sqrt(math.log(20.0))]


@pytest.mark.parametrize("time", [2.0, 5.0])
def test_within_the_first_round_there_is_no_bonus(time: float) -> None:
    """ln t is 0 up to t = 1, not negative."""
    estimate = ESTIMATE._replace(time=time)
    assert coop_ucb(estimate, scale=1.0, epsilon_c=3.0).tolist() == [0.25, -0.5]
    assert coop_ucb(estimate, scale=1.0, epsilon_c=None).tolist() == [0.25, -0.5]


def test_the_word_does_not_matter() -> None:
    first, second = (
        coop_ucb(ESTIMATE, word, scale=2.0, epsilon_c=None).tolist() for word in (0, 2**64 - 1)
    )
    assert first == second


@pytest.mark.parametrize("count", [0.0, -0.3, 5e-12])
def test_no_information_is_plus_infinity(count: float) -> None:
    estimate = ESTIMATE._replace(counts=np.array([count, 20.0]))
    values = coop_ucb(estimate, scale=1.0, epsilon_c=3.0)
    assert values[0] == math.inf
    assert math.isfinite(values[1])


def test_leaf() -> None:
    assert inflated_ucb(3.0, 4.0, 1e-12, 16.0, 12.0) == 0.75 + 4.0
    assert inflated_ucb(3.0, 4.0, 1e-12, 16.0, 0.0) == 0.75 + 2.0
    assert inflated_ucb(3.0, 1e-12, 1e-12, 16.0, 0.0) == math.inf


@pytest.mark.parametrize(("form", "near"), [("close", "closed"), ("langren", "landgren")])
def test_unknown_forms_of_epsilon_c_get_the_nearest(form: str, near: str) -> None:
    with pytest.raises(InputError, match=f"epsilon_c.*'{form}'.*'{near}'"):
        InflatedUCB(2.0, form)

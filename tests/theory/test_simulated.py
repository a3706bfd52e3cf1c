"""Simulated regret lies below the bounds wherever they are not vacuous."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits import DDUCB, GaussianBandit, Network, simulate
from coopbandits.theory import (
    as_analysed,
    finite_time_bound,
    is_vacuous,
    sharper_finite_time_bound,
)

PROBLEM = GaussianBandit([1.0] + [0.8] * 16)
PLAIN = as_analysed(DDUCB())
OWN_PULLS = DDUCB(bonus_factor=4.0)
HORIZON = 10_000


@pytest.mark.parametrize(
    ("graph", "plain", "sharper"),
    [
        ("cycle:100", True, False),
        ("cycle:200", True, True),
        ("grid:10x10", False, False),
        ("grid:15x15", False, False),
    ],
)
def test_where_the_bounds_are_vacuous(graph: str, plain: bool, sharper: bool) -> None:
    network = Network.from_spec(graph)
    for function, expected in ((finite_time_bound, plain), (sharper_finite_time_bound, sharper)):
        bound = function(PROBLEM, network, PLAIN, HORIZON)
        assert is_vacuous(bound, PROBLEM, network, HORIZON) is expected


@pytest.mark.covering(1)
@pytest.mark.parametrize("graph", ["cycle:100", "grid:10x10", "grid:15x15"])
def test_simulated_regret_is_below_the_sharper_bound(graph: str) -> None:
    """At every kept round; for own pulls, which the proof leaves out, it holds as well."""
    network = Network.from_spec(graph)
    result = simulate(PROBLEM, network, [PLAIN, OWN_PULLS], HORIZON, runs=4, seed=3)
    rounds = result.regret["round"].values
    bound = sharper_finite_time_bound(PROBLEM, network, PLAIN, rounds)
    mean = result.regret.mean("run").values
    assert rounds[-1] == HORIZON
    assert (mean < bound).all()
    # The plain version pays for its delay, so the bound is no idle one.
    assert np.max(mean[0] / bound) > 0.3

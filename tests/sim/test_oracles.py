"""Regret at the full horizon against an independent simulation of the paper's instance."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits import DDUCB, GaussianBandit, IndependentUCB, Network, Policy, simulate

PROBLEM = GaussianBandit([1.0] + [0.8] * 16)
HORIZON, RUNS = 10_000, 40

# Mean and standard error of 40 runs: on cycle 100, and on the 10 × 10 grid.
ORACLE = {
    "own pulls, B = 4": ((13011, 443), (11587, 166)),
    "own pulls, B = 8": ((31963, 442), (16173, 285)),
    "own pulls, unaccelerated, same C": ((11059, 215), (8067, 122)),
    "plain": ((66454, 1487), (27615, 170)),
    "independent UCBs": ((129576, 175), (129576, 175)),
}


def policies(steps: int) -> dict[str, Policy]:
    return {
        "own pulls, B = 4": DDUCB(),
        "own pulls, B = 8": DDUCB(bonus_factor=4.0),
        "own pulls, unaccelerated, same C": DDUCB(accelerated=False, mixing_rounds=steps),
        "plain": DDUCB(own_pulls=False),
        "independent UCBs": IndependentUCB(),
    }


@pytest.mark.parametrize(
    ("column", "graph", "steps"), [(0, "cycle:100", 164), (1, "grid:10x10", 43)]
)
def test_mean_regret(column: int, graph: str, steps: int) -> None:
    """Within 4 combined standard errors, every policy of the table."""
    network = Network.from_spec(graph)
    assert network.mixing_rounds() == steps
    chosen = policies(steps)
    result = simulate(PROBLEM, network, list(chosen.values()), HORIZON, RUNS, seed=1, rounds=1)
    regret = result.regret.isel(round=-1).values
    errors = regret.std(axis=1, ddof=1) / np.sqrt(RUNS)
    for name, mean, error in zip(chosen, regret.mean(axis=1), errors, strict=True):
        oracle, oracle_error = ORACLE[name][column]
        distance = abs(mean - oracle) / np.hypot(error, oracle_error)
        assert distance <= 4.0, (
            f"{name}: {mean:.0f} ± {error:.0f}, oracle {oracle} ± {oracle_error}"
        )

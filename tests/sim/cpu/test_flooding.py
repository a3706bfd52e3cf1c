"""Flooded pulls on the compiled engine; that they are those of the agents is in `test_engines`."""

from __future__ import annotations

import pytest

from coopbandits import MPUCB, GaussianBandit, Network, UCBNetwork, simulate
from coopbandits.sim.cpu import flooding


def test_runs_whose_rings_do_not_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, network = GaussianBandit([0.5, 1.0, 0.9]), Network.from_spec("grid:7x10")
    policies = [UCBNetwork(), MPUCB(5)]
    expected = simulate(problem, network, policies, 60, runs=5, keep="arms").dataset
    for runs in (1, 2):
        monkeypatch.setattr(flooding, "RING_PULLS", runs * 70 * 6)
        found = simulate(problem, network, policies, 60, runs=5, keep="arms").dataset
        assert found.identical(expected)

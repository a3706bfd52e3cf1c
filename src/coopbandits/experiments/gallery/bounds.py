"""The appendix's comparison of bounds: DDUCB and coop-UCB on cycles with weights 1/2."""

from __future__ import annotations

import math

from coopbandits.core.policies import DDUCB
from coopbandits.network import Network
from coopbandits.network.generators import cycle
from coopbandits.problems import GaussianBandit
from coopbandits.theory import as_analysed, coop_ucb_a, coop_ucb_b, finite_time_bound

NUM_AGENTS = (11, 21, 51, 101, 201, 401)
GAMMA = 2.0
ONE_GAP = GaussianBandit([1.0, 0.0])
"""σ²/Δ and Δ are both 1 here, so their factors can be read off a bound."""


SERIES = (
    "coop-UCB, before Σ Δ (B)",
    "DDUCB, before Σ Δ",
    "coop-UCB, before Σ σ² ln(TN)/Δ (in A)",
    "DDUCB, before Σ σ² ln(TN)/Δ",
)


def bound_factors(agents: int) -> tuple[float, float, float, float]:
    """Return the factors of both bounds on a cycle, in the order of `SERIES`."""
    graph = cycle(agents)
    network = Network(graph, weights=graph / 2)
    policy = as_analysed(DDUCB())
    # A bound is a ln(TN) + b, so two horizons determine a and b.
    early, late = (finite_time_bound(ONE_GAP, network, policy, T) for T in (1, agents))
    growing = (late - early) / math.log(agents)
    growing_coop = coop_ucb_a(ONE_GAP, network, GAMMA, 1) / math.log(agents)
    constant = early - growing * math.log(agents)
    return coop_ucb_b(network, GAMMA), constant, growing_coop, growing

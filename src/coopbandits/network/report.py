"""What a graph implies for a run, before it is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coopbandits.core.errors import InputError
from coopbandits.core.statistic import ArmSums
from coopbandits.network.network import Network

NEARLY_PERIODIC = 0.99
"""Warn if λ is decided by a negative eigenvalue below minus this."""


@dataclass(frozen=True)
class GraphReport:
    """The numbers of a graph that decide how well agents cooperate on it.

    Attributes
    ----------
    description, weights : str
        The graph, and how P was built from it.
    num_agents, num_edges, min_degree, max_degree, diameter : int
        Size and shape.
    diameter_is_exact : bool
        Otherwise the diameter is a lower bound.
    lambda2, spectral_gap : float
        λ and 1 − λ.
    rounds_accelerated, rounds_unaccelerated : int
        Length C of a stage with and without Chebyshev acceleration.
    messages_per_stage, values_per_stage : int
        In the whole network in C rounds: a message each way over every edge and round, 2K values
        in each.
    warnings : tuple of str
        What is likely to go wrong, one sentence each.
    """

    description: str
    weights: str
    num_agents: int
    num_edges: int
    min_degree: int
    max_degree: int
    diameter: int
    diameter_is_exact: bool
    lambda2: float
    spectral_gap: float
    rounds_accelerated: int
    rounds_unaccelerated: int
    messages_per_stage: int
    values_per_stage: int
    warnings: tuple[str, ...]


def describe(
    network: Network, *, num_arms: int = 17, epsilon: float = 1 / 22, horizon: int = 10_000
) -> GraphReport:
    """Return the report on a network.

    Parameters
    ----------
    network : Network
        The network.
    num_arms : int
        K, which sets the size of messages.
    epsilon : float
        ε, how precisely a stage mixes.
    horizon : int
        T, rounds of the run that the warnings are about.
    """
    for name, value in (("num_arms", num_arms), ("horizon", horizon)):
        if value < 1:
            raise InputError(f"{name} is {value}; it must be at least 1")
    rounds = network.mixing_rounds(epsilon, accelerated=True)
    messages = 2 * network.num_edges * rounds
    return GraphReport(
        description=network.description,
        weights=network.weights,
        num_agents=network.num_agents,
        num_edges=network.num_edges,
        min_degree=int(network.degrees.min()),
        max_degree=int(network.degrees.max()),
        diameter=network.diameter,
        diameter_is_exact=network.diameter_is_exact,
        lambda2=network.lambda2,
        spectral_gap=network.spectral_gap,
        rounds_accelerated=rounds,
        rounds_unaccelerated=network.mixing_rounds(epsilon, accelerated=False),
        messages_per_stage=messages,
        values_per_stage=ArmSums().registers(num_arms).size * messages,
        warnings=(*_horizon_warnings(rounds, num_arms, horizon), *_period_warnings(network)),
    )


def _horizon_warnings(rounds: int, num_arms: int, horizon: int) -> Iterator[str]:
    advice = "raise the horizon, add edges, or raise epsilon"
    if rounds > horizon:
        yield (
            f"a stage takes C = {rounds} rounds, more than the horizon of {horizon}, so DDUCB "
            f"would never finish its first stage; {advice}"
        )
    elif num_arms + rounds >= horizon:
        yield (
            f"the first stage ends after K + C = {num_arms} + {rounds} rounds, not before the "
            f"horizon of {horizon}, so DDUCB would never use what other agents learned; {advice}"
        )


def _period_warnings(network: Network) -> Iterator[str]:
    smallest = network.smallest_eigenvalue
    decides = -smallest >= network.lambda2 - 1e-12
    if smallest <= -0.999 or (decides and smallest < -NEARLY_PERIODIC):
        lazy = "the lazy matrix (I + P)/2 as weights"
        cure = lazy if network.weights == "max-degree" else f'weights="max-degree" or {lazy}'
        yield (
            f"the mixing matrix is nearly periodic: its smallest eigenvalue is {smallest:.6f}, so "
            f"values swap back and forth between two sides of the graph; use {cure}"
        )

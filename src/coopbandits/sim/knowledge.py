"""What only somebody who sees the whole network can compute, handed to agents that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import unknown_name
from coopbandits.network import Network
from coopbandits.theory.epsilon_c import epsilon_c

SOURCES: dict[str, Callable[[Network], NDArray[np.float64]]] = {
    "epsilon_c:closed": epsilon_c,
    "epsilon_c:landgren": lambda network: epsilon_c(network, form="landgren"),
}
"""Name → one number per agent."""

LOCAL = frozenset({"num_agents", "lambda_bound"})
"""What a network tells anyway."""


def global_knowledge(network: Network, needs: Iterable[str]) -> list[dict[str, float]]:
    """Return for every agent what it needs beyond its LocalView, by name."""
    known: list[dict[str, float]] = [{} for _ in range(network.num_agents)]
    for need in sorted(set(needs) - LOCAL):
        if need not in SOURCES:
            raise unknown_name("kind of global knowledge", need, SOURCES)
        for own, value in zip(known, SOURCES[need](network), strict=True):
            own[need] = float(value)
    return known

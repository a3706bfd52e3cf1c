"""Global knowledge: numbers that take the whole network to compute, for agents that need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.neighborhood import LEAST_DEGREE
from coopbandits.core.errors import unknown_name
from coopbandits.network import Network
from coopbandits.theory.epsilon_c import epsilon_c

SOURCES: dict[str, Callable[[Network], NDArray[np.float64]]] = {
    "epsilon_c:closed": epsilon_c,
    "epsilon_c:landgren": lambda network: epsilon_c(network, form="landgren"),
    LEAST_DEGREE: lambda network: np.full(network.num_agents, float(network.degrees.min())),
}
"""Name → one number per agent."""

_found: WeakKeyDictionary[Network, dict[str, NDArray[np.float64]]] = WeakKeyDictionary()
"""What has been computed already, once per network."""

LOCAL = frozenset({"num_agents", "lambda_bound", "random_word", "secret"})
"""Needs that take no global knowledge: the driver fills them in."""


def global_knowledge(network: Network, needs: Iterable[str]) -> list[dict[str, float]]:
    """Return the global knowledge of every agent, by name."""
    known: list[dict[str, float]] = [{} for _ in range(network.num_agents)]
    for need in sorted(set(needs) - LOCAL):
        if need not in SOURCES:
            raise unknown_name("kind of global knowledge", need, SOURCES)
        found = _found.setdefault(network, {})
        if need not in found:
            found[need] = SOURCES[need](network)
        for own, value in zip(known, found[need], strict=True):
            own[need] = float(value)
    return known

"""A round in which messages get lost, and numbers to lose them by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from coopbandits.core import CooperativeAgent, Vector
from coopbandits.core.draws import uniforms, words

Lost = NDArray[np.bool_]
"""lost[i, j]: the message from j to i does not arrive."""


def lossy_exchange(agents: Sequence[CooperativeAgent], lost: Lost) -> list[int]:
    """End the round; what is lost is written all the same. Returns the message sizes."""
    sent: list[dict[int, Vector]] = [{} for _ in agents]
    sizes = []
    for sender, agent in enumerate(agents):
        for neighbor in agent.view.neighbor_weights:
            message = agent.outgoing(neighbor)
            sizes.append(0 if message is None else message.size)
            if message is not None and not lost[neighbor, sender]:
                sent[neighbor][sender] = message
    for agent, messages in zip(agents, sent, strict=True):
        agent.receive(messages)
    return sizes


def nothing_lost(size: int) -> Lost:
    return np.zeros((size, size), dtype=bool)


def outages(size: int, rate: float, key: int, *, one_way: bool = False) -> Callable[[int], Lost]:
    """Return what is lost in a round: independently per link, or per message if `one_way`."""

    def lost(number: int) -> Lost:
        counters = np.arange(size * size, dtype=np.uint64) + np.uint64(size * size * number)
        draws = uniforms(words(key, counters)).reshape(size, size)
        if not one_way:
            draws = np.triu(draws, 1) + np.triu(draws, 1).T
        gone: Lost = draws < rate
        return gone

    return lost

"""The links between all agents of a run, for forms that hold all agents in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coopbandits.core.contract import LocalView


class Links:
    """Who hears whom: one entry per directed link, by receiver and then by sender.

    Attributes
    ----------
    receivers, senders : (links,)
        The two ends.
    starts : (N,)
        The first link to every agent.
    degrees : (N,)
        How many neighbours each has.
    """

    def __init__(self, views: Sequence[LocalView]) -> None:
        neighbors = [sorted(view.neighbor_weights) for view in views]
        self.degrees = np.array([len(found) for found in neighbors])
        self.receivers = np.repeat(np.arange(len(views)), self.degrees)
        self.senders = np.array([j for found in neighbors for j in found], dtype=np.int64)
        self.starts = np.cumsum([0, *self.degrees[:-1]])

    def joined(self, how: np.ufunc, values: Any) -> Any:
        """Return what agents make of one row per link, such as the sum of those to each of them."""
        return how.reduceat(values, self.starts, axis=0)

    def within(self, hops: int) -> list[list[int]]:
        """Return who is at most so many hops away from every agent, itself first."""
        around: list[list[int]] = [[] for _ in self.starts]
        for receiver, sender in zip(self.receivers.tolist(), self.senders.tolist(), strict=True):
            around[receiver].append(sender)
        found = []
        for agent in range(len(around)):
            near = {agent: None}  # a dict keeps the order
            edge = [agent]
            for _ in range(hops):
                edge = [j for i in edge for j in around[i] if j not in near]
                near |= dict.fromkeys(edge)
            found.append(list(near))
        return found

"""How many greetings about bandits are worked on: each may take a new agent, and an answer."""

from __future__ import annotations

from collections.abc import Collection

from coopbandits.fleet.protocol.frames import BanditFrame

MOST_GREETINGS = 10
"""So many of one bandit and neighbour are worked on per second, of others the last one later."""

Key = tuple[int, int]
"""The numbers of a bandit, 0 for all that are unknown here, and of a neighbour."""


class Greetings:
    """When greetings came lately, and those that are still to be worked on."""

    def __init__(self) -> None:
        self._counts: dict[Key, tuple[float, int]] = {}  # since when, and how many
        self.late: dict[Key, BanditFrame] = {}

    def is_due(self, key: Key, now: float) -> bool:
        """Return whether to work on a greeting now, and count it if so."""
        since, many = self._counts.get(key, (now, 0))
        if now >= since + 1.0:
            since, many = now, 0
        if many >= MOST_GREETINGS:
            return False
        self._counts[key] = since, many + 1
        self.late.pop(key, None)
        return True

    def down(self, neighbor: int) -> None:
        """Forget what a neighbour said over a link that is down."""
        for key in [key for key in self.late if key[1] == neighbor]:
            del self.late[key]

    def let_go(self, neighbors: Collection[int]) -> None:
        """Forget some neighbours."""
        for key in [key for key in self._counts if key[1] in neighbors]:
            del self._counts[key]

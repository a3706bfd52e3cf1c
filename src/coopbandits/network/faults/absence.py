"""Faults of agents: an agent that does not act in a round neither pulls, sends nor receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_number
from coopbandits.core.draws import uniforms
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.network.faults.kind import Effect, Kind, require_share, require_window
from coopbandits.network.faults.links import Links, Mask, Rounds, chosen, happens, place_keys
from coopbandits.network.faults.outages import within

AWAY = 1
"""The agent does not act in this round."""
FRESH = 2
"""A fresh agent takes its place in this round."""

Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class Sleep(Kind):
    """An agent sleeps in a round with this probability."""

    probability: float
    name: ClassVar[str] = "sleep"
    form: ClassVar[str] = "{probability}"
    touches: ClassVar[str] = "agents"

    def __post_init__(self) -> None:
        """Refuse a probability outside 0 to 1."""
        require_share(self, "probability")

    def begin(self, links: Links, key: int) -> Effect:
        """Return who sleeps in one run."""
        keys = place_keys(key, links.network.num_agents)

        def bits(rounds: Rounds) -> Bits:
            return away_where(happens(keys, rounds, self.probability))

        return bits


@dataclass(frozen=True)
class Speeds(Kind):
    """Agents act only in some rounds, evenly spaced: the fastest up to `ratio` times the slowest.

    Speeds lie between 1/ratio and 1 acts per round, their logarithms uniformly distributed.
    """

    ratio: float
    name: ClassVar[str] = "speeds"
    form: ClassVar[str] = "{ratio}"
    touches: ClassVar[str] = "agents"

    def __post_init__(self) -> None:
        """Refuse a ratio below 1."""
        low, high = float(np.nextafter(1.0, 0.0)), float("inf")
        require_number("ratio of speeds", self.ratio, "a finite number, at least 1", low, high)

    def begin(self, links: Links, key: int) -> Effect:
        """Return who pauses in one run."""
        drawn = uniforms(place_keys(key, 2 * links.network.num_agents))
        speed, phase = self.ratio ** -drawn[::2], drawn[1::2]

        def bits(rounds: Rounds) -> Bits:
            before, after = (np.floor((rounds + k)[:, None] * speed + phase) for k in (0, 1))
            return away_where(before == after)

        return bits


@dataclass(frozen=True)
class Crash(Kind):
    """A share of the agents is away from round `start` until round `stop`, or for good.

    Their state is "kept", as if they had merely paused, or "lost": then fresh agents return.
    """

    share: float
    start: int
    stop: int | None = None
    state: str = "kept"
    name: ClassVar[str] = "crash"
    form: ClassVar[str] = "{share}@{start}[..{stop}][:{state}]"
    touches: ClassVar[str] = "agents"

    def __post_init__(self) -> None:
        """Refuse an impossible share, span of rounds or state."""
        require_share(self, "share")
        require_window(self, self.start, self.stop)
        if self.state not in ("kept", "lost"):
            raise unknown_name("state of crash", str(self.state), ("kept", "lost"))
        if self.state == "lost" and self.stop is None:
            raise InputError(
                f"fault {self.spelling!r} has agents that never return, so their state does not "
                "matter; leave it out, or give the round of return"
            )

    def begin(self, links: Links, key: int) -> Effect:
        """Return who is away in one run."""
        crashed = chosen(place_keys(key, links.network.num_agents), self.share)

        def bits(rounds: Rounds) -> Bits:
            found = away_where(within(rounds, self.start, self.stop)[:, None] & crashed)
            if self.state == "lost":
                found[np.ix_(rounds + 1 == self.stop, crashed)] = FRESH
            return found

        return bits


@dataclass(frozen=True)
class Join(Kind):
    """A share of the agents joins in round `start`; before that they are away."""

    share: float
    start: int
    name: ClassVar[str] = "join"
    form: ClassVar[str] = "{share}@{start}"
    touches: ClassVar[str] = "agents"

    def __post_init__(self) -> None:
        """Refuse an impossible share or round."""
        require_share(self, "share")
        require_window(self, self.start, None)

    def begin(self, links: Links, key: int) -> Effect:
        """Return who has not joined yet in one run."""
        late = chosen(place_keys(key, links.network.num_agents), self.share)
        return lambda rounds: away_where(within(rounds, 1, self.start)[:, None] & late)


def away_where(mask: Mask) -> Bits:
    """Return the bits of agents that are away where the mask is set."""
    return np.where(mask, AWAY, 0).astype(np.uint8)

"""Faults of single messages: lost, lost in bursts, late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.network.faults.kind import Effect, Kind, require_mean_rounds, require_share
from coopbandits.network.faults.links import Links, Mask, Rounds, Spells, draws, happens, place_keys

LONGEST_DELAY = 1000
"""The longest delay allowed: that many rounds of messages are kept."""


@dataclass(frozen=True)
class Loss(Kind):
    """Every message is lost with this probability, independently of the others."""

    probability: float
    name: ClassVar[str] = "loss"
    form: ClassVar[str] = "{probability}"
    touches: ClassVar[str] = "messages"

    def __post_init__(self) -> None:
        """Refuse a probability outside 0 to 1."""
        require_share(self, "probability")

    @property
    def loss_without_rounds(self) -> float:
        """The probability: no message's fate depends on its round."""
        return self.probability

    def begin(self, links: Links, key: int) -> Effect:
        """Return the losses of one run."""
        keys = place_keys(key, links.senders.size)

        def lost(rounds: Rounds) -> Mask:
            return happens(keys, rounds, self.probability)

        return lost


@dataclass(frozen=True)
class Bursts(Kind):
    """Good and bad spells of every directed link, of these mean lengths (Gilbert, Elliott).

    In a good spell every message arrives, in a bad one it is lost with probability `loss`.
    """

    good: float
    bad: float
    loss: float = 1.0
    name: ClassVar[str] = "bursts"
    form: ClassVar[str] = "{good}..{bad}[:{loss}]"
    touches: ClassVar[str] = "messages"

    def __post_init__(self) -> None:
        """Refuse spells shorter than a round, and a probability outside 0 to 1."""
        require_mean_rounds(self, "good")
        require_mean_rounds(self, "bad")
        require_share(self, "loss")

    def begin(self, links: Links, key: int) -> Effect:
        """Return the losses of one run."""
        keys = place_keys(key, 2 * links.senders.size)
        bad = Spells(keys[::2], self.good, self.bad)

        def lost(rounds: Rounds) -> Mask:
            return bad(rounds) & happens(keys[1::2], rounds, self.loss)

        return lost


@dataclass(frozen=True)
class Delay(Kind):
    """Every message is late by 0 … `longest` rounds, uniformly; so some overtake others."""

    longest: int
    name: ClassVar[str] = "delay"
    form: ClassVar[str] = "{longest}"
    touches: ClassVar[str] = "delay"

    def __post_init__(self) -> None:
        """Refuse an impossible number of rounds."""
        require_count("longest of delay", self.longest, least=0)
        if self.longest > LONGEST_DELAY:
            raise InputError(
                f"longest of delay is {self.longest}; it must be at most {LONGEST_DELAY} rounds"
            )

    @property
    def longest_delay(self) -> int:
        """The setting `longest`."""
        return self.longest

    def begin(self, links: Links, key: int) -> Effect:
        """Return the delays of one run."""
        keys = place_keys(key, links.senders.size)

        def late(rounds: Rounds) -> NDArray[Any]:
            return (draws(keys, rounds) * (self.longest + 1)).astype(np.int16)

        return late

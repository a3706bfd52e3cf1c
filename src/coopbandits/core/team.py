"""Teams: all agents of some runs of a policy that has a rule of its own, in arrays.

A team is beside the agents, never instead of them: it plays what they play in rounds in which each
pulls once and every message arrives, and says how much they would have sent. What is rare, such as
the end of a phase, it may leave to the agents themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Arms = NDArray[np.int64]


class Sent(NamedTuple):
    """What every agent sent in a round: messages, and the values in them (agent,)."""

    messages: NDArray[np.int64]
    values: NDArray[np.int64]


class Team(ABC):
    """All agents, of which some may never hear of others; all may play all arms."""

    @abstractmethod
    def choose(self, words: NDArray[np.uint64]) -> Arms:
        """Return the arm of every agent, by one random word each."""

    @abstractmethod
    def learn(self, arms: Arms, rewards: NDArray[np.float64]) -> None:
        """Take in what every agent pulled, and was paid."""

    @abstractmethod
    def exchange(self) -> Sent:
        """Exchange messages and end the round."""

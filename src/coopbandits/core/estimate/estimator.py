"""What all estimators share: a state machine that asks its neighbours until it is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.exchange import check_vectors
from coopbandits.core.aggregate.fields import FieldState, agent_state, layout_of
from coopbandits.core.contract import LocalView, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.state import Stateful


class Estimator(Stateful, ABC):
    """Finds a number that no agent knows, in rounds of one message per neighbour.

    All agents start in the same round, and unless it says otherwise every message must arrive.

    Parameters
    ----------
    view : LocalView
        What the agent may know.
    """

    def __init__(self, view: LocalView) -> None:
        self.view = view
        self.neighbors = sorted(view.neighbor_weights)

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the answer stands; True at all agents in the same round."""

    @abstractmethod
    def outgoing(self, neighbor: int) -> Vector:
        """Return this round's message to a neighbour; changes nothing."""

    @abstractmethod
    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Take in one message from each neighbour and end the round."""

    def check_all(self, messages: Mapping[int, Vector], size: int) -> None:
        """Refuse all but one finite vector of this size from each neighbour."""
        check_complete(self.view, messages)
        check_vectors(messages, size)


def check_complete(view: LocalView, messages: Mapping[int, Vector]) -> None:
    """Refuse a round in which a neighbour was not heard."""
    missing = sorted(set(view.neighbor_weights) - set(messages))
    if missing:
        raise InputError(
            f"messages from {missing} are missing, and an estimate needs all of them; "
            "set num_agents and lambda_bound where messages get lost"
        )


class FieldEstimator(FieldState, Estimator):
    """An estimator whose functions work on fields; `kinds` are these by name."""

    def __init__(self, view: LocalView, kinds: Mapping[str, Any]) -> None:
        Estimator.__init__(self, view)
        self.state = agent_state(layout_of(type(self).__name__, kinds), len(self.neighbors))

    @property
    def owner(self) -> str:
        """Its class."""
        return type(self).__name__

    def letters(self, messages: Mapping[int, Vector]) -> tuple[Vector, NDArray[np.int64]]:
        """Return messages as functions on fields read them: a row per link, and their lengths."""
        lengths = np.array([messages[j].size for j in self.neighbors], dtype=np.int64)
        inbox = np.zeros((lengths.size, lengths.max(initial=0)))
        for link, j in enumerate(self.neighbors):
            inbox[link, : lengths[link]] = messages[j]
        return inbox, lengths

"""What all estimators share: a state machine that asks its neighbours until it is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from coopbandits.core.aggregate.exchange import check_vectors
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
        self.rounds = 0

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
        self.check_complete(messages)
        check_vectors(messages, size)

    def check_complete(self, messages: Mapping[int, Vector]) -> None:
        """Refuse a round in which somebody was not heard."""
        missing = sorted(set(self.neighbors) - set(messages))
        if missing:
            raise InputError(
                f"messages from {missing} are missing, and an estimate needs all of them; "
                "set num_agents and lambda_bound where messages get lost"
            )

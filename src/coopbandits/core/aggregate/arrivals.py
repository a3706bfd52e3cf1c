"""Messages of a round in which some may be missing, and which say what their sender missed.

A message is a vector of the size that the round asks for. Its sender appends one value, a 1, if it
did not hear the receiver in the round before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.agent import Vector
from coopbandits.core.aggregate.exchange import check_messages
from coopbandits.core.errors import InputError


class Arrived(NamedTuple):
    """The messages of a round, one row per neighbour in ascending order.

    Attributes
    ----------
    values : array of shape (neighbours, values)
        What was sent; the own values where nothing arrived.
    heard : array of bool
        Whether a message arrived.
    told : array of bool
        Whether it tells that the own message of the last round was missed.
    """

    values: NDArray[np.float64]
    heard: NDArray[np.bool_]
    told: NDArray[np.bool_]


def read_arrivals(messages: Mapping[int, Vector], neighbors: list[int], own: Vector) -> Arrived:
    """Sort messages by neighbour, or refuse those that this round, sending `own`, cannot use."""
    told = {j for j, message in messages.items() if np.shape(message) == (own.size + 1,)}
    for j in sorted(told):
        if messages[j][-1] != 1.0:
            raise InputError(
                f"message from {j} has one value more than the {own.size} of this round, "
                f"{messages[j][-1]:g}; a 1 there tells of a missed message, otherwise leave it out"
            )
    values = {j: m[: own.size] if j in told else m for j, m in messages.items()}
    check_messages(values, sorted(messages), own.size)
    return Arrived(
        np.array([values.get(j, own) for j in neighbors]).reshape(len(neighbors), own.size),
        np.array([j in messages for j in neighbors], dtype=bool),
        np.array([j in told for j in neighbors], dtype=bool),
    )

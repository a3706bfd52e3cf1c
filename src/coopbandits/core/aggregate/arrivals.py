"""Messages of a round in which some may be missing or late, and which say what their sender missed.

A message is a vector of the size that the round asks for. Over a link on which one has been missed,
messages go on with one value more, a *stamp*: the number of the round, negative if the sender did
not hear the receiver in the round before.

Who has missed a message takes only stamped ones of the present round over that link from then on.
So a late message is never mistaken: its own round has been missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.exchange import all_finite, check_vectors
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError


class Arrived(NamedTuple):
    """The messages of a round, one row per neighbour in ascending order.

    Attributes
    ----------
    values : array of shape (neighbours, values)
        What was sent; the own values where nothing arrived.
    heard : array of bool
        Whether the message of this round arrived.
    stamped : array of bool
        Whether it has a stamp.
    told : array of bool
        Whether it tells that the own message of the last round was missed.
    whole : bool
        Whether all arrived, none of them with a stamp: nothing is, or was, missing.
    """

    values: NDArray[np.float64]
    heard: NDArray[np.bool_]
    stamped: NDArray[np.bool_]
    told: NDArray[np.bool_]
    whole: bool


def read_arrivals(
    messages: Mapping[int, Vector],
    own: Vector,
    number: int,
    neighbors: Sequence[int],
    stamps: Sequence[int],
) -> Arrived:
    """Sort the messages of a round by neighbour, or refuse those that it cannot use.

    Parameters
    ----------
    messages : dict of int to array
        What arrived.
    own : array
        What is sent in this round, without a stamp.
    number : int
        The number of this round, from 1.
    neighbors, stamps : sequences of int
        All neighbours in ascending order, and whether the messages of each must have a stamp.
    """
    if len(messages) == len(neighbors) and not any(stamps):
        rows = [np.asarray(messages[j]) for j in neighbors]
        if [row.shape for row in rows] == [own.shape] * len(rows):
            values = np.array(rows).reshape(len(rows), own.size)
            if all_finite(values.ravel()):
                return Arrived(values, *_whole(len(rows)), True)
    return _read_with_gaps(messages, own, number, dict(zip(neighbors, stamps, strict=True)))


@cache
def _whole(count: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return who was heard, has a stamp and has missed something, where all is well."""
    nobody = np.zeros(count, dtype=bool)
    everybody = ~nobody
    nobody.flags.writeable = everybody.flags.writeable = False  # all agents share it
    return everybody, nobody, nobody


def _read_with_gaps(
    messages: Mapping[int, Vector], own: Vector, number: int, stamps: Mapping[int, int]
) -> Arrived:
    stamped = {
        j: float(message[-1])
        for j, message in messages.items()
        if np.shape(message) == (own.size + 1,) and abs(message[-1]) == number
    }
    # Without a right stamp where there must be one, a message is late, whatever its size.
    values = {
        j: message[: own.size] if j in stamped else message
        for j, message in messages.items()
        if j in stamped or not stamps[j]
    }
    _check(values, messages, own.size)
    rows = np.array([values.get(j, own) for j in stamps]).reshape(len(stamps), own.size)
    return Arrived(
        rows,
        np.array([j in values for j in stamps], dtype=bool),
        np.array([j in stamped for j in stamps], dtype=bool),
        np.array([stamped.get(j, 0.0) < 0.0 for j in stamps], dtype=bool),
        whole=False,
    )


def _check(values: Mapping[int, Vector], messages: Mapping[int, Vector], size: int) -> None:
    for j, message in values.items():
        if np.shape(message) == (size + 1,):
            raise InputError(
                f"message from {j} has the stamp {message[-1]:g} of another round, but none has "
                "been missed; deliver every message in the round it was sent, or not at all"
            )
    check_vectors(values, size)
    for j, message in messages.items():
        if j not in values and (np.ndim(message) != 1 or not all_finite(message)):
            raise InputError(f"message from {j} is not one vector of finite values")

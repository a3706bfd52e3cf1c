"""The events that change an agent, as the journal stores them."""

from __future__ import annotations

import msgspec


class Chose(msgspec.Struct, tag="c", array_like=True, frozen=True):
    """An arm was chosen, and the next ticket opened for it."""

    arm: int
    now: float


class Observed(msgspec.Struct, tag="o", array_like=True, frozen=True):
    """The reward of an open ticket was handed in."""

    number: int
    reward: float


class Expired(msgspec.Struct, tag="x", array_like=True, frozen=True):
    """An open ticket expired."""

    number: int


class Met(msgspec.Struct, tag="m", array_like=True, frozen=True):
    """All neighbours have told their degrees, by neighbour's number."""

    degrees: dict[int, int]


class Spoke(msgspec.Struct, tag="s", array_like=True, frozen=True):
    """The messages of the next round were made; later rewards are not in them."""


class Ended(msgspec.Struct, tag="r", array_like=True, frozen=True):
    """A round ended with these messages, float64 values by the sender's number.

    Where entries are signed, with proofs of those that are new, by their numbers, and the
    certificates behind them.
    """

    messages: dict[int, bytes]
    proofs: dict[int, bytes] = {}
    certificates: list[bytes] = []


Event = Chose | Observed | Expired | Met | Spoke | Ended

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Event).decode

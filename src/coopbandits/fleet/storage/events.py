"""The events that change an agent, as the journal stores them: maps from field names to values."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.storage.records import UNREADABLE, Record, unreadable


class Chose(msgspec.Struct, frozen=True, omit_defaults=True):
    """An arm was chosen, and the next ticket opened for it.

    Where the policy looks at features, with those of the request, float64 values.
    """

    arm: int
    now: float
    context: bytes = b""


class Observed(msgspec.Struct, frozen=True):
    """The reward of an open ticket was handed in."""

    number: int
    reward: float


class Expired(msgspec.Struct, frozen=True):
    """Open tickets expired."""

    numbers: list[int]


class Met(msgspec.Struct, frozen=True):
    """All neighbours have told their degrees, by neighbour's number."""

    degrees: dict[int, int]


class Spoke(msgspec.Struct, frozen=True):
    """The messages of the next round were made; later rewards are not in them."""


class Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """A round ended with these messages, float64 values by the sender's number.

    With flooding also with proofs of entries that are new, by their numbers, and the
    certificates behind them. Where agents forget, with the time in ticks.
    """

    messages: dict[int, bytes]
    proofs: dict[int, bytes] = {}
    certificates: list[bytes] = []
    tick: int = 0


class Declared(msgspec.Struct, frozen=True):
    """A bandit was declared: its name, what its state depends on, and its arms.

    Arms are names by id. Those that are new come behind those of before, also where a neighbour
    told of them and they have no name here; those that are left out are kept. A bandit that is new
    while the agent runs has a nonce for its tickets; at a start the snapshot tells of that.
    """

    name: str
    shared: dict[str, Any]
    arms: dict[int, str]
    nonce: int = 0


class Purged(msgspec.Struct, frozen=True):
    """Arms of a bandit were purged, by id: of what was known of them, the pulls are left."""

    arms: list[int]


class Replaced(msgspec.Struct, frozen=True):
    """Arms of a bandit without name and pulls gave their places to others; new ids by old ones."""

    arms: dict[int, int]


class Relinked(msgspec.Struct, frozen=True):
    """The neighbours are others from now on: their numbers."""

    neighbors: list[int]


class Adopted(msgspec.Struct, frozen=True):
    """The cluster's document, and whom the agent believes since then; see `document.store`."""

    document: bytes


Event = (
    Chose | Observed | Expired | Met | Spoke | Ended | Declared | Purged | Replaced | Relinked
    | Adopted
)  # fmt: skip

KINDS: dict[type[Event], int] = {
    Chose: 16, Observed: 17, Expired: 18, Met: 19, Spoke: 20, Ended: 21, Declared: 22,
    Relinked: 23, Purged: 24, Replaced: 25, Adopted: 32,
}  # fmt: skip
"""The number of each kind of event in a journal; never change one."""

encode = msgspec.msgpack.Encoder().encode
_decoders = {KINDS[kind]: msgspec.msgpack.Decoder(kind).decode for kind in get_args(Event)}


def decode(record: Record) -> Event:
    """Return the event in a record; field names that it does not know are ignored."""
    if record.kind not in _decoders:
        raise InputError(
            f"the journal has a record of kind {record.kind} at byte {record.at}, which this "
            "version does not know; install the version that wrote it, or a later one"
        )
    try:
        event: Event = _decoders[record.kind](record.body)
    except UNREADABLE as error:
        raise unreadable(record.at, error) from error
    return event

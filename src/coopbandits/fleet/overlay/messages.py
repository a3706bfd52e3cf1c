"""The messages of the overlay, and their encoding.

Everything here may come from a liar: texts and lists are bounded, and a body that is not exactly
such a message is rejected. An address in a message is a hint where to call; the certificate of the
agent that answers proves its id.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from coopbandits.fleet.address import LONGEST_ADDRESS
from coopbandits.fleet.identity.names import NODE_ID

MOST_CONTACTS = 8
"""The most contacts in a message: the sender, 3 of its neighbours and 4 others, as in the paper."""

WALK = 6
"""How many links a random walk goes over at most."""

Name = Annotated[str, msgspec.Meta(pattern=f"^(?:{NODE_ID.pattern})$")]
Place = Annotated[str, msgspec.Meta(max_length=LONGEST_ADDRESS)]
Steps = Annotated[int, msgspec.Meta(ge=0, le=WALK)]
Nonce = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class Ask(StrEnum):
    """Why an agent calls another one."""

    JOIN = "join"
    """It has no neighbour; others are to hear of it."""
    AGAIN = "again"
    """It had lost the one that it calls."""
    MORE = "more"
    """It has fewer neighbours than it wants."""


class Contact(msgspec.Struct, frozen=True, array_like=True):
    """An agent's id, and where it may be reached, as `host:port`."""

    name: Name
    address: Place


Contacts = Annotated[list[Contact], msgspec.Meta(max_length=MOST_CONTACTS)]


class ForwardJoin(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A newcomer is looking for neighbours; the message has so many steps left to go."""

    contact: Contact
    steps: Steps


class Shuffle(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Contacts, for whoever is at the end of the walk, who answers with as many of its own."""

    nonce: Nonce
    steps: Steps
    contacts: Contacts


class Sample(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The answer to a shuffle, on its way back."""

    nonce: Nonce
    contacts: Contacts


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The one that was called has no room, but knows others."""

    contacts: Contacts


class Goodbye(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The sender closes this link, because it makes room for another one or because it leaves."""

    leaving: bool


Message = ForwardJoin | Shuffle | Sample | Refused | Goodbye

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Message).decode
"""Return the message in some bytes; raises what `UNREADABLE` in `protocol.frames` lists."""

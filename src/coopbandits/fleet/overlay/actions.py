"""What an overlay wants done: calls, messages, and links that end."""

from __future__ import annotations

from typing import NamedTuple

from coopbandits.fleet.overlay.messages import Ask, Message


class Call(NamedTuple):
    """A wish to call somebody: by name, or whoever answers at an address.

    Others can bring about a `welcome`, the call at the end of a newcomer's walk.
    """

    name: str
    address: str
    ask: Ask
    welcome: bool = False

    @property
    def key(self) -> str:
        """What tells calls apart; an address is no name, since it has a colon."""
        return self.name or self.address


class Send(NamedTuple):
    """A wish to tell a neighbour something."""

    peer: str
    message: Message


class Close(NamedTuple):
    """A wish to close a link, after what was sent over it."""

    peer: str


Action = Call | Send | Close

"""The interface between protocol and network: one ordered byte stream per neighbour.

A transport connects an agent with its neighbours, and keeps trying. It proves that the other end of
a link that is up is the neighbour of that id. A link carries bytes in order, or breaks; a new one
starts from scratch. A transport does not know what the bytes mean.

All methods and events run in one event loop; only `start` and `stop` wait for the network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol

from coopbandits.fleet.address import Address
from coopbandits.fleet.transport.actions import Arrival


class LinkEvents(Protocol):
    """Callbacks of a transport, per link in this order: up, received any number of times, down."""

    def link_up(self, peer: str) -> None:
        """A neighbour can be sent to from now on."""

    def received(self, peer: str, data: bytes) -> None:
        """Some bytes have arrived, split anywhere."""

    def link_down(self, peer: str, reason: str) -> None:
        """The link broke or was closed; what was sent last may not have arrived."""

    def refused(self, who: str, reason: str) -> None:
        """A connection failed: a stranger, a wrong certificate, a neighbour that hung up.

        `who` is an id if one was proved, otherwise an address. If nobody listens at an address,
        that is no refusal.
        """


class Transport(ABC):
    """Links to the neighbours of one agent."""

    def hold(self) -> None:  # noqa: B027  who always tells at once need not know of it
        """From now on, tell what arrives over links when `read` is called, and not before.

        Call it before `start`, and then `read` many times a second.
        """

    def read(self) -> None:  # noqa: B027  most need not
        """Tell what has arrived on links that are up, and which of them are down."""

    @abstractmethod
    async def start(self, events: LinkEvents) -> None:
        """Listen, and dial until stopped; returns once others can connect."""

    @abstractmethod
    def send(self, peer: str, data: bytes) -> bool:
        """Hand bytes to a link that is up.

        Returns False if there is none, or if so many bytes are queued that the link is closed
        instead; `link_down` then follows.
        """

    @abstractmethod
    def drop(self, peer: str, reason: str) -> None:
        """Close a link, which causes `link_down`; it is dialled again after a pause."""

    def move(self, peer: str, address: Address) -> None:  # noqa: B027  not all dial
        """Dial a neighbour at another address from now on; a link that is up stays up."""

    # With `neighbors = "auto"` alone: links to agents that no configuration names.

    def arrival_of(self, peer: str) -> Arrival:
        """Return how a link that is up came up; nothing where links are configured."""
        del peer
        return Arrival()

    def call(
        self, peer: str, address: Address, cause: object, failed: Callable[[str], None]
    ) -> None:
        """Call an agent once: `peer`, or whichever agent answers if that is empty.

        Either `link_up` follows, and `arrival_of` has the cause, or `failed` with a reason.
        """
        raise NotImplementedError

    def look_up(self, places: Iterable[Address], found: Callable[[list[Address]], None]) -> None:
        """Look up the names of seeds, and call `found` with all addresses."""
        raise NotImplementedError

    @abstractmethod
    async def stop(self) -> None:
        """Close everything, and return once nothing is running."""

"""The seam between the protocol and the network: one link per neighbour, made of bytes in order.

A transport connects an agent with its neighbours, and keeps trying. Whoever is at the other end of
a link that is up is the neighbour of that id and nobody else: proving that is the transport's work.
A link carries bytes in order, or breaks; a new one starts afresh. What bytes mean is not its
business.

All methods and all events run in one event loop; no method waits for the network, save for `start`
and `stop`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol


class LinkEvents(Protocol):
    """What a transport tells, in this order per link: up, received any number of times, down."""

    def link_up(self, peer: str) -> None:
        """A neighbour can be sent to from now on."""

    def received(self, peer: str, data: bytes) -> None:
        """Some bytes have arrived, cut anywhere."""

    def link_down(self, peer: str, reason: str) -> None:
        """The link broke or was closed; what was sent last may not have arrived."""

    def refused(self, who: str, reason: str) -> None:
        """A connection came to nothing: a stranger, a wrong certificate, a neighbour that hung up.

        `who` is an id where one was proved, otherwise an address. Silence (nobody listening) is
        no refusal.
        """


class Transport(ABC):
    """Links to the neighbours of one agent."""

    @abstractmethod
    async def start(self, events: LinkEvents) -> None:
        """Listen, and dial until stopped; returns once others can connect."""

    @abstractmethod
    def send(self, peer: str, data: bytes) -> bool:
        """Hand bytes to a link that is up.

        Returns False where there is none, or where so much waits to be sent that the link is closed
        instead; `link_down` then follows.
        """

    @abstractmethod
    def drop(self, peer: str, reason: str) -> None:
        """Close a link, which leads to `link_down`; it is dialled again after a pause."""

    @abstractmethod
    async def stop(self) -> None:
        """Close all, and return once nothing is left running."""

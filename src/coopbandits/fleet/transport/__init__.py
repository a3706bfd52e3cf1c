"""The interface between protocol and network: one ordered byte stream per neighbour.

A transport connects an agent with its neighbours, and keeps trying. It proves that the other end of
a link that is up is the neighbour of that id. A link carries bytes in order, or breaks; a new one
starts from scratch. A transport does not know what the bytes mean.

A node (`fleet.protocol`) does no I/O: each event leaves records in the journal's buffer, and
actions, in order. The shell (`process/shell.py`) writes the records first and then carries out the
actions with a transport, so no peer learns of what a crash could undo.

All methods and events run in one event loop; only `start` and `stop` wait for the network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from coopbandits.fleet.address import Address

# What a node asks for


class SendBytes(NamedTuple):
    """Send bytes over the link to a peer.

    What says nothing that a crash could undo need not wait for the disk, such as a keepalive.
    """

    peer: str
    data: bytes
    waits: bool = True


class CloseLink(NamedTuple):
    """Close the link to a peer, after sending what was queued before."""

    peer: str
    reason: str


class MovePeer(NamedTuple):
    """Dial a peer at another address from now on."""

    peer: str
    address: Address


class DialAgent(NamedTuple):
    """Call an agent once: `peer`, or whichever agent answers if that is empty.

    Either `link_up` follows with the cause, or `call_failed`.
    """

    peer: str
    address: Address
    cause: object


class LookUpSeeds(NamedTuple):
    """Look up the addresses of seeds; `found_seeds` follows."""

    places: tuple[Address, ...]


class Resume(NamedTuple):
    """Call something of this agent's own that has waited for a peer."""

    call: Callable[[], None]


Action = SendBytes | CloseLink | MovePeer | DialAgent | LookUpSeeds | Resume

ITSELF = "it is this agent itself"
"""The reason why a call of the agent's own address fails."""


class Arrival(NamedTuple):
    """How a link came up.

    Attributes
    ----------
    cause : object
        Why the peer was called; None if it has called this agent.
    host : str
        The peer's address, without port.
    names : frozenset of str
        All ids in its certificate, which may have more than the one that it uses.
    """

    cause: object = None
    host: str = ""
    names: frozenset[str] = frozenset()


# What carries it out


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

        `who` is an id if one was proved, otherwise an address. An address that does not answer
        is not reported.
        """


class Transport(ABC):
    """Links to the neighbours of one agent."""

    def hold(self) -> None:  # noqa: B027  a transport without sockets reports at once
        """From now on, report what arrives over links when `read` is called, and not before.

        Call it before `start`, and then `read` many times a second.
        """

    def hurry(self, yes: bool) -> None:  # noqa: B027  nothing to do where nothing is held
        """Report what arrives at once for a while, although links are held; or no longer."""

    def read(self) -> None:  # noqa: B027  nothing to do where nothing is held
        """Report what has arrived on links that are up, and which of them are down."""

    @abstractmethod
    async def start(self, events: LinkEvents) -> None:
        """Listen, and dial until stopped; returns once others can connect."""

    @abstractmethod
    def send(self, peer: str, data: bytes) -> bool:
        """Send bytes over a link that is up.

        Returns False if there is none, or if so many bytes are queued that the link is closed
        instead; `link_down` then follows.
        """

    @abstractmethod
    def drop(self, peer: str, reason: str) -> None:
        """Close a link, which causes `link_down`; it is dialled again after a pause."""

    def move(self, peer: str, address: Address) -> None:  # noqa: B027  not all dial
        """Dial a neighbour at another address from now on; a link that is up stays up."""

    def arrival_of(self, peer: str) -> Arrival:
        """Return how a link that is up came up; here nothing is known."""
        del peer
        return Arrival()

    # With `neighbors = "auto"` alone: links to agents that no configuration names.

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

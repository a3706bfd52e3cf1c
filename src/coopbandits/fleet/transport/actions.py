"""What a node asks for: it does no I/O itself, a shell around it does.

A node is told of events and the time: a link that comes up or goes down, bytes, a tick. Each may
leave records in the journal's buffer and actions, in order. The shell (`process/shell.py`) writes
the records first and then carries out the actions, so nobody is told of what a crash could undo.
"""

from __future__ import annotations

from typing import NamedTuple

from coopbandits.fleet.address import Address


class SendBytes(NamedTuple):
    """Send bytes over the link to a peer.

    What says nothing that a crash could undo need not wait for the disk, as a keepalive.
    """

    peer: str
    data: bytes
    waits: bool = True


class CloseLink(NamedTuple):
    """Close the link to a peer, after what is to be sent before."""

    peer: str
    reason: str


class MovePeer(NamedTuple):
    """Dial a peer at another address from now on."""

    peer: str
    address: Address


class DialAgent(NamedTuple):
    """Call an agent once: `peer`, or whoever answers if that is empty.

    Either `link_up` follows with the cause, or `call_failed`.
    """

    peer: str
    address: Address
    cause: object


class LookUpSeeds(NamedTuple):
    """Look up the addresses of seeds; `found_seeds` follows."""

    places: tuple[Address, ...]


ITSELF = "it is this agent itself"
"""The reason why a call of the agent's own address fails."""

Action = SendBytes | CloseLink | MovePeer | DialAgent | LookUpSeeds


class Arrival(NamedTuple):
    """How a link came up, where agents find each other.

    Attributes
    ----------
    cause : object
        Why the peer was called; None if it has called itself.
    host : str
        The peer's address, without port.
    """

    cause: object = None
    host: str = ""

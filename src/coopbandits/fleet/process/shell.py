"""Connects a node to the disk and the network; the only place where their order is decided.

Every event of a node goes through here. What it leaves in the journal's buffer is written, and only
then is what it asks for carried out: nobody is told of what a crash could undo. With durability
"process" all is written at once; with "power" a batch waits for its sync beside the event loop
(`commit.py`), and so do answers and messages.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from coopbandits.fleet.address import Address
from coopbandits.fleet.document.seal import Signed
from coopbandits.fleet.identity.names import Revoked
from coopbandits.fleet.identity.notary import Notary
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import Stored, UnavailableError
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.transport import (
    Action,
    Arrival,
    CloseLink,
    DialAgent,
    LookUpSeeds,
    MovePeer,
    SendBytes,
    Transport,
)
from coopbandits.fleet.transport.tcp import OpenTransport

MOST_UNSENT = 1000
"""Messages to one peer that may wait for the disk; with more its link is closed."""

log = logging.getLogger(__name__)


class Commit(Protocol):
    """Writes the journal beside the event loop."""

    def wait(self, then: Stored) -> None:
        """Call `then` once all events so far are on disk, or with the reason why not."""


class Shell:
    """Carries out what a node asks for, once the journal has what led to it.

    Parameters
    ----------
    node : Node
        The protocol.
    transport : Transport
        Its links.
    clock : callable
        Seconds since 1970, never going back.
    revoked : Revoked
        The file with those who are no longer believed.
    notary : Notary
        Signs entries; its files may change.

    Attributes
    ----------
    commit : Commit or None
        Writes the journal, where a write has to wait for a sync.
    """

    def __init__(
        self,
        node: Node,
        transport: Transport,
        clock: Callable[[], float],
        revoked: Revoked,
        notary: Notary,
    ) -> None:
        self.node, self.transport, self.clock = node, transport, clock
        self.revoked, self.notary = revoked, notary
        self.journal = node.bandits.journal
        self.commit: Commit | None = None
        self._unsent: deque[tuple[int, Action]] = deque()
        self.settle()

    # Events

    def link_up(self, peer: str) -> None:
        """Note a link; where agents find each other, with how it came up."""
        arrival = Arrival()
        if self.node.members is not None:
            links = cast("OpenTransport", self.transport)
            arrival = Arrival(links.cause_of(peer), links.host_of(peer))
        self.node.link_up(peer, self.clock(), arrival)
        self.settle()

    def received(self, peer: str, data: bytes) -> None:
        """Handle bytes from a peer."""
        self.node.received(peer, data, self.clock())
        self.settle()

    def give_up(self, peer: str, error: Exception) -> None:
        """Close a link whose bytes could not be handled."""
        self.node.give_up(peer, error, self.clock())
        self.settle()

    def link_down(self, peer: str, reason: str) -> None:
        """Note the end of a link; what waits to be sent was meant for it."""
        self._forget(peer)
        self.node.link_down(peer, reason, self.clock())
        self.settle()

    def refused(self, who: str, reason: str) -> None:
        """Count a connection that could not prove to be a peer's."""
        self.node.refused(who, reason, self.clock())

    def tick(self) -> None:
        """End rounds that are due."""
        self.node.tick(self.clock())
        self.settle()

    def beat(self) -> None:
        """Do the upkeep, about once a second: links, files that may have changed, the journal."""
        now = self.clock()
        if self.revoked.refresh():
            self.node.revoke(self.revoked.names, now)
        self.notary.refresh()
        self.node.beat(now)
        bandits = self.node.bandits
        try:
            self.journal.mend(bandits.export)
            self.journal.shorten(bandits.export)
        except DiskError as error:
            self.node.note_trouble(str(error))
        else:
            self.node.note_trouble("")
        self.settle()

    def leave(self) -> None:
        """Say goodbye to all peers."""
        self.node.leave(self.clock())
        self.settle()

    def adopt(self, signed: Signed) -> bool:
        """Take a document that was handed over here; False if it is here already.

        Raises
        ------
        DiskError
            It could not be stored.
        """
        try:
            is_new = self.node.adopt(signed, self.clock())
        finally:
            self.settle()  # a rival is kept too
        if self.commit is None and self.journal.trouble:
            raise DiskError(self.journal.trouble)
        return is_new

    def _call_failed(self, cause: object, reason: str) -> None:
        self.node.call_failed(cause, reason, self.clock())
        self.settle()

    def _found_seeds(self, places: list[Address]) -> None:
        self.node.found_seeds(places, self.clock())
        self.settle()

    # Their order

    def wait(self, then: Stored) -> None:
        """Call `then` once all that happened so far is on disk, or with the reason why not."""
        self.settle()
        if self.commit is not None:
            self.commit.wait(then)
        elif self.journal.stored < self.journal.appended:
            then(unavailable(self.journal.trouble))
        else:
            then(None)

    def settle(self) -> None:
        """Write what was gathered, and carry out what may be told by now."""
        for action in self.node.take_actions():
            self._add(action)
        if self.commit is None:
            self.journal.flush()
            if self.journal.trouble:
                self.node.note_trouble(self.journal.trouble)
        self.flush()

    def _add(self, action: Action) -> None:
        """Queue what tells a peer something; a link with nothing to send is closed at once."""
        if isinstance(action, SendBytes) and action.waits:
            if self._waiting_for(action.peer) >= MOST_UNSENT:
                self._forget(action.peer)
                self._carry_out(CloseLink(action.peer, f"{MOST_UNSENT} messages wait for the disk"))
                return
        elif not isinstance(action, CloseLink) or self._is_cut_off(action.peer):
            self._carry_out(action)
            return
        self._unsent.append((self.journal.appended, action))

    def _waiting_for(self, peer: str) -> int:
        return sum(_is_about(action, peer) for _, action in self._unsent)

    def _is_cut_off(self, peer: str) -> bool:
        """Return whether closing a link need not wait: nothing is to be sent, or can be."""
        if self.journal.trouble:
            self._forget(peer)
        return not self._waiting_for(peer)

    def flush(self) -> None:
        """Carry out what rests on events that are on disk."""
        while self._unsent and self._unsent[0][0] <= self.journal.stored:
            self._carry_out(self._unsent.popleft()[1])

    def _forget(self, peer: str) -> None:
        self._unsent = deque(one for one in self._unsent if not _is_about(one[1], peer))

    def _carry_out(self, action: Action) -> None:
        match action:
            case SendBytes(peer, data, _):
                self.transport.send(peer, data)
            case CloseLink(peer, reason):
                self.transport.drop(peer, reason)
            case MovePeer(peer, address):
                self.transport.move(peer, address)
            case DialAgent(peer, address, cause):
                links = cast("OpenTransport", self.transport)
                links.call(peer, address, cause, lambda why: self._call_failed(cause, why))
            case LookUpSeeds(places):
                cast("OpenTransport", self.transport).look_up(places, self._found_seeds)


def _is_about(action: Action, peer: str) -> bool:
    return isinstance(action, SendBytes | CloseLink) and action.peer == peer


def unavailable(trouble: str) -> UnavailableError:
    """Return why an answer cannot be given."""
    return UnavailableError(f"{trouble}; ask again, a reward counts once")

"""The links of one agent: HELLO and goodbye, who is refused, what is sent.

When a link comes up, both ends send HELLO: who they are, their cluster, configuration, epoch and
incarnation, how many rounds they have completed and how many neighbours they have. A mismatch is
refused in one sentence, sent to the other end as BYE, and counted. Where agents find each other,
whoever has called says HELLO first, and may be told that there is no room.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable

from coopbandits.core.aggregate.entries import AUTHORS
from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.document.spread import Spread
from coopbandits.fleet.overlay.members import Members
from coopbandits.fleet.overlay.messages import Message
from coopbandits.fleet.protocol.chronicle import Chronicle
from coopbandits.fleet.protocol.decoder import Decoder
from coopbandits.fleet.protocol.frames import (
    NO_DOOR,
    Door,
    Hello,
    HelloFrame,
    Stamp,
    encode_bye,
    encode_document,
    encode_hello,
    encode_members,
)
from coopbandits.fleet.protocol.gossip import Exchange
from coopbandits.fleet.protocol.hello import check_hello
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.refusals import Refusals
from coopbandits.fleet.protocol.ruled import Ruled
from coopbandits.fleet.protocol.settings import BANDIT, NodeSettings
from coopbandits.fleet.sparing import SparingLog
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.replica import Replica
from coopbandits.fleet.transport import Transport

LEAVING = "it is leaving"
"""The reason in a BYE that refuses nobody: the agent stops in order."""

MOST_LINK_LINES = 100
"""Lines a minute about links that come and go: a neighbour may dial again and again."""

MOST_SILENT = 16
"""So many who have called, and not said who they are, are waited for."""

NO_ROOM = "there is no room for another neighbour"

log = logging.getLogger(__name__)


class LinkedNode(ABC):
    """A node as far as its links go; `Node` is the whole of it, and says what there is to know."""

    ruled: Ruled

    def __init__(
        self,
        settings: NodeSettings,
        replica: Replica,
        transport: Transport,
        clock: Callable[[], float],
    ) -> None:
        self.settings, self.replica, self.transport = settings, replica, transport
        self.clock = clock
        self.peers = {
            name: Peer(name, number, last_heard=clock())
            for name, number in settings.neighbors.items()
        }
        self.num_arms = len(replica.arms)
        self.chronicle = Chronicle(clock, settings.incarnation)
        self.chronicle.note("started", f"started, after {replica.rounds} rounds")
        self.refusing = Refusals(clock, self.chronicle)
        self._links_log = SparingLog(log, "links that came and went", MOST_LINK_LINES)
        self.door_of: Callable[[str], Door] = lambda _: NO_DOOR
        self.members: Members | None = None
        self._gone: set[int] = set()
        self._told_trouble = ""
        self.gossip = self._make_gossip()
        self.spread = Spread(settings.keeper, self._send_document, self._refuse_document)

    @abstractmethod
    def _make_gossip(self) -> Exchange:
        """Return what is said over the links."""

    # Refusals and trouble

    @property
    def refusals(self) -> Counter[str]:
        """How many frames were refused, by reason."""
        return self.refusing.counts

    @property
    def strangers(self) -> int:
        """How many connections could not prove to be a neighbour's."""
        return self.refusing.strangers

    def _refuse(self, peer: Peer, reason: str, sentence: str) -> None:
        """Count a refused frame of a neighbour."""
        peer.frames["refused"] += 1
        self.refusing.count(peer.name, reason, sentence)
        if reason == "forged" or (reason == "impossible" and not self.settings.robust):
            # An honest neighbour sends no such thing. A synchronous round cannot end without the
            # message; a new link makes the peer resend it.
            self.transport.drop(peer.name, sentence)

    def refused(self, who: str, reason: str) -> None:
        """Count a connection that could not prove to be a neighbour's."""
        if who == self.settings.node:  # among its seeds is its own address
            return
        self.refusing.strangers += 1
        if who in self.peers:
            self.refusing.tell(who, "stranger", reason)
        else:
            self.refusing.tell_stranger(who, reason)

    def _note_trouble(self, error: DiskError) -> None:
        if self._told_trouble != str(error):
            log.error("%s", error)
            self.chronicle.note("trouble", str(error))
        self._told_trouble = str(error)

    @property
    def trouble(self) -> str:
        """Why the journal takes nothing; empty if it does."""
        return self.replica.journal.trouble

    # Links that come up and go down

    def link_up(self, peer: str) -> None:
        """Send HELLO; where agents find each other, whoever has called says it first."""
        now = self.clock()
        if self.members is not None:
            self._admit(self.members, peer, now)
        here = self.peers[peer]
        here.up(Decoder(self.settings.max_message_bytes), now)
        reason = self._bars(peer)
        if reason:
            self._refuse(here, "revoked", reason)
            self._close(here, reason)
            return
        if self.members is None or self.members.has_called(peer):
            self._say_hello(here, now)

    def _admit(self, members: Members, name: str, now: float) -> None:
        """Make room to hear whoever has called; of those who say nothing, the oldest makes room."""
        silent = [peer for peer in self.peers.values() if peer.decoder and not peer.met]
        if len(silent) >= MOST_SILENT:
            self._close(silent[0], "it made room for a newer caller")
        members.link_up(name)
        self.peers[name] = Peer(name, self.settings.signing.number_of(name), last_heard=now)

    def link_down(self, peer: str, reason: str) -> None:
        """Note why there is no link."""
        if self.peers[peer].reason != reason:  # a neighbour that is away is dialled in vain
            self.chronicle.note("link-down", f"link to {peer} is down: {reason}", peer)
        self.peers[peer].down(reason)
        self.spread.lost(peer)
        self._links_log.info(self.clock(), "link to %s is down: %s", peer, reason)
        if self.members is not None:
            self._gone.add(self.peers.pop(peer).number)
            self.members.link_down(peer)

    def _close(self, peer: Peer, reason: str) -> None:
        """Read nothing more from a neighbour; the link goes down soon."""
        peer.met, peer.closing = False, True
        self.transport.drop(peer.name, reason)

    def part_from(self, name: str, reason: str) -> None:
        """Close the link to a neighbour, after what was sent over it."""
        if name in self.peers:
            self._close(self.peers[name], reason)

    def place_of(self, name: str) -> Address | None:
        """Return where a neighbour is that this agent has found itself."""
        return None if self.members is None else self.members.place_of(name)

    def leave(self) -> None:
        """Say goodbye to all neighbours that are linked."""
        if self.members is not None:
            self.members.leave()
            return
        now = self.clock()
        for peer in self.peers.values():
            if peer.met:
                self._send(peer, encode_bye(self._stamp(self.replica.rounds), LEAVING), now)

    def _greet_again(self, reason: str) -> None:
        for peer in self.peers.values():
            if peer.decoder is not None:
                self._close(peer, reason)

    # Greetings

    def _say_hello(self, peer: Peer, now: float) -> None:
        self._send(peer, encode_hello(self._stamp(self.replica.rounds), self._hello(peer)), now)

    def _hello(self, peer: Peer) -> Hello:
        told = self.settings
        memory, entries = self.replica.journal.origin["word"], self.gossip.entries
        more = {"memory": memory}
        if entries is not None:
            more = {"memory": entries.memory, "heard": self.gossip.last_of(peer)}
        more |= self.door_of(peer.name)._asdict() | self.spread.greeting()
        if self.members is not None:
            more |= self.members.greeting(peer.name)
        return Hello(told.node, told.cluster, told.configuration, len(self.peers), **more)

    def _greet(self, peer: Peer, frame: HelloFrame) -> None:
        if peer.met:
            self._refuse(peer, "hello", f"{peer.name} said HELLO a second time")
            return
        try:
            check_hello(self.settings, peer, frame)
            now = self.clock()
            if self.members is not None and not self._take_in(self.members, peer, frame.hello, now):
                return
            peer.meet(frame, now)
            if peer.decoder is not None:
                peer.decoder.expect(
                    Stamp(self.num_arms, self.settings.epoch, 0, peer.incarnation, BANDIT)
                )
            self.gossip.met(peer, frame.hello, frame.stamp.round, now)
            self.spread.met(peer.name, frame.hello.document, frame.hello.document_digest, now)
        except InputError as error:
            self._refuse(peer, "hello", str(error))
            self._send(peer, encode_bye(self._stamp(self.replica.rounds), str(error)), self.clock())
            self._close(peer, str(error))
        except DiskError as error:
            self._note_trouble(error)
            self._close(peer, str(error))
        else:
            self._links_log.info(now, "link to %s is up", peer.name)
            self.chronicle.note("link-up", f"link to {peer.name} is up", peer.name)

    def _take_in(self, members: Members, peer: Peer, hello: Hello, now: float) -> bool:
        """Make somebody a neighbour, or tell it whom to ask instead."""
        number_of = self.settings.signing.number_of
        for name in (self.settings.node, *self.peers):
            if name != peer.name and number_of(name) == peer.number:
                raise InputError(
                    f"the names {peer.name} and {name} have the same number; give one of the two "
                    "another name"
                )
        called = members.has_called(peer.name)
        refusal = members.greeted(peer.name, hello.ask, hello.place)
        if refusal is not None:
            self.tell_members(peer.name, refusal)
            self._close(peer, NO_ROOM)
            return False
        self.gossip.take_in(peer)
        self._gone.discard(peer.number)
        if self.revoked:
            self._disbelieve()  # where there is no neighbour, nothing can be ordered
        if not called:
            self._say_hello(peer, now)
        return True

    def _is_of_link(self, peer: Peer, stamp: Stamp) -> bool:
        """Refuse a frame before HELLO, or of another epoch, bandit, number of arms or start."""
        if not peer.met:
            reason, sentence = "hello", f"{peer.name} sent something before its HELLO"
        elif stamp.epoch != self.settings.epoch:
            reason, sentence = "epoch", f"a message of epoch {stamp.epoch}"
        elif stamp.bandit != BANDIT:
            reason, sentence = "bandit", f"a message about bandit {stamp.bandit}"
        elif stamp.num_arms != self.num_arms:
            reason, sentence = "arms", f"a message about {stamp.num_arms} arms"
        elif stamp.incarnation != peer.incarnation:
            reason, sentence = "replayed", f"a message of incarnation {stamp.incarnation}"
        else:
            return True
        self._refuse(peer, reason, sentence)
        return False

    # Who may have no link

    def revoke(self) -> None:
        """Believe nothing any more of those who are revoked, by the file or the document."""
        self._disbelieve()
        if names := self.revoked:
            self.chronicle.note("revoked", f"no longer believed: {', '.join(sorted(names))}")
        self.close_barred()

    def _disbelieve(self) -> None:
        number_of = self.settings.signing.number_of
        self.gossip.revoke(frozenset(number_of(name) % AUTHORS for name in self.revoked))

    @property
    def revoked(self) -> frozenset[str]:
        """Who is no longer believed."""
        return self.settings.revoked.names | self.ruled.revoked

    def close_barred(self) -> None:
        """Close the links of those who may have none."""
        for peer in self.peers.values():
            reason = self._bars(peer.name)
            if reason and peer.decoder is not None:
                self._close(peer, reason)

    def _bars(self, name: str) -> str:
        """Return why an agent may have no link; empty if it may."""
        if name in self.revoked:
            return f"{name} is revoked"
        return self.ruled.bars(name)

    # Calling the transport

    def _stamp(self, round_: int) -> Stamp:
        return Stamp(self.num_arms, self.settings.epoch, round_, self.settings.incarnation)

    def _send(self, peer: Peer, data: bytes, now: float) -> None:
        peer.last_sent = now
        self.transport.send(peer.name, data)

    def tell_members(self, name: str, message: Message) -> None:
        """Send somebody a message about members."""
        stamp = self._stamp(self.replica.rounds)
        self._send(self.peers[name], encode_members(stamp, message), self.clock())

    def _send_document(self, peer: str, body: bytes) -> None:
        here = self.peers[peer]
        self._send(here, encode_document(self._stamp(self.replica.rounds), body), self.clock())

    def _refuse_document(self, peer: str, reason: str, sentence: str) -> None:
        self._refuse(self.peers[peer], reason, sentence)

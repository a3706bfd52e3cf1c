"""The links of one agent: HELLO and goodbye, what is rejected, what is sent.

When a link comes up, both ends send HELLO: who they are, their cluster, configuration, epoch and
incarnation. A mismatch is rejected in one sentence, sent to the other end as BYE, and counted.
Where agents find each other, the caller says HELLO first, and may be told that there is no room.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from coopbandits.core.aggregate.entries import AUTHORS
from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.document.spread import Spread
from coopbandits.fleet.overlay.members import Members
from coopbandits.fleet.overlay.messages import Message
from coopbandits.fleet.protocol.chronicle import Chronicle, Refusals
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
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.ruled import Ruled
from coopbandits.fleet.protocol.sessions import Links, Sessions, Terms
from coopbandits.fleet.protocol.settings import NodeSettings
from coopbandits.fleet.sparing import SparingLog
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.replica import Bandits, Replica
from coopbandits.fleet.transport.actions import (
    Action,
    Arrival,
    CloseLink,
    DialAgent,
    LookUpSeeds,
    MovePeer,
    SendBytes,
)

LEAVING = "it is leaving"
"""The reason in a BYE that refuses nobody: the agent stops in order."""

MOST_LINK_LINES = 100
"""Lines a minute about links that come and go: a neighbour may dial again and again."""

MOST_SILENT = 16
"""So many who have called, and not said who they are, are waited for."""

NO_ROOM = "there is no room for another neighbour"

log = logging.getLogger(__name__)


class LinkedNode:
    """A node as far as its links go; `Node` is the whole of it, and says what there is to know."""

    ruled: Ruled

    def __init__(
        self,
        settings: NodeSettings,
        bandits: Bandits,
        terms: Callable[[BanditConfig, Replica], Terms],
        now: float,
    ) -> None:
        self.settings, self.bandits, self.now = settings, bandits, now
        self._actions: list[Action] = []
        self._revoked = frozenset[str]()
        self.peers = {
            name: Peer(name, number, last_heard=now) for name, number in settings.neighbors.items()
        }
        self.chronicle = Chronicle(self._time, settings.incarnation)
        self.chronicle.note("started", f"started, after {bandits.rounds} rounds")
        self.refusing = Refusals(self._time, self.chronicle)
        self._links_log = SparingLog(log, "links that came and went", MOST_LINK_LINES)
        self.door_of: Callable[[str], Door] = lambda _: NO_DOOR
        self.members: Members | None = None
        self._gone: set[int] = set()
        self._told_trouble = ""
        links = Links(
            self.peers, self._stamp(), settings.period, self._send_frames, self._refuse,
            self._drop,
        )  # fmt: skip
        self.sessions = Sessions(bandits, terms, links)
        self.spread = Spread(settings.keeper, self._send_document, self._refuse_document)

    def take_actions(self) -> list[Action]:
        """Return what is asked for since the last call, in order."""
        actions, self._actions = self._actions, []
        return actions

    def _time(self) -> float:
        return self.now

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
        if reason == "forged":  # an honest neighbour sends no such thing
            self._drop(peer.name, sentence)

    def refused(self, who: str, reason: str, now: float) -> None:
        """Count a connection that could not prove to be a neighbour's."""
        self.now = now
        if who == self.settings.node:  # among its seeds is its own address
            return
        self.refusing.strangers += 1
        if who in self.peers:
            self.refusing.tell(who, "stranger", reason)
        else:
            self.refusing.tell_stranger(who, reason)

    def note_trouble(self, trouble: str) -> None:
        """Note why the journal cannot be written, or that it can be, once."""
        if trouble and trouble != self._told_trouble:
            log.error("%s", trouble)
            self.chronicle.note("trouble", trouble)
        elif self._told_trouble and not trouble:
            log.info("the journal is written again")
            self.chronicle.note("settled", "the journal is written again")
        self._told_trouble = trouble

    @property
    def trouble(self) -> str:
        """Why the journal takes nothing; empty if it does."""
        return self.bandits.journal.trouble

    # Links that come up and go down

    def link_up(self, peer: str, now: float, arrival: Arrival = Arrival()) -> None:  # noqa: B008  immutable
        """Send HELLO; where agents find each other, whoever has called says it first."""
        self.now = now
        if self.members is not None:
            self._admit(self.members, peer, arrival, now)
        here = self.peers[peer]
        here.up(Decoder(self.settings.max_message_bytes), now)
        reason = self._bars(peer)
        if reason:
            self._refuse(here, "revoked", reason)
            self._close(here, reason)
            return
        if self.members is None or self.members.has_called(peer):
            self._say_hello(here, now)

    def _admit(self, members: Members, name: str, arrival: Arrival, now: float) -> None:
        """Make room to hear whoever has called; of those who say nothing, the oldest makes room."""
        silent = [peer for peer in self.peers.values() if peer.decoder and not peer.met]
        if len(silent) >= MOST_SILENT:
            self._close(silent[0], "it made room for a newer caller")
        members.link_up(name, arrival)
        self.peers[name] = Peer(name, self.settings.number_of(name), last_heard=now)

    def link_down(self, peer: str, reason: str, now: float) -> None:
        """Note why there is no link."""
        self.now = now
        if self.peers[peer].reason != reason:  # a neighbour that is away is dialled in vain
            self.chronicle.note("link-down", f"link to {peer} is down: {reason}", peer)
        self.peers[peer].down(reason)
        self.sessions.down(self.peers[peer], reason)
        self.spread.lost(peer)
        self._links_log.info(self.now, "link to %s is down: %s", peer, reason)
        if self.members is not None:
            self._gone.add(self.peers.pop(peer).number)
            self.members.link_down(peer)

    def _close(self, peer: Peer, reason: str) -> None:
        """Read nothing more from a neighbour; the link goes down soon."""
        peer.met, peer.closing = False, True
        self._drop(peer.name, reason)

    def part_from(self, name: str, reason: str) -> None:
        """Close the link to a neighbour, after what was sent over it."""
        if name in self.peers:
            self._close(self.peers[name], reason)

    def place_of(self, name: str) -> Address | None:
        """Return where a neighbour is that this agent has found itself."""
        return None if self.members is None else self.members.place_of(name)

    def leave(self, now: float) -> None:
        """Say goodbye to all neighbours that are linked."""
        self.now = now
        if self.members is not None:
            self.members.leave()
            return
        for peer in self.peers.values():
            if peer.met:
                self._send(peer, encode_bye(self._stamp(), LEAVING), now)

    # Greetings

    def _say_hello(self, peer: Peer, now: float) -> None:
        self._send(peer, encode_hello(self._stamp(), self._hello(peer)), now)

    def _hello(self, peer: Peer) -> Hello:
        own = self.settings
        more = self.door_of(peer.name)._asdict() | self.spread.greeting()
        if self.members is not None:
            more |= self.members.greeting(peer.name)
        return Hello(own.node, own.cluster, own.configuration, **more)

    def _greet(self, peer: Peer, frame: HelloFrame) -> None:
        if peer.met:
            self._refuse(peer, "hello", f"{peer.name} said HELLO a second time")
            return
        try:
            check_hello(self.settings, peer, frame)
            now = self.now
            if self.members is not None and not self._take_in(self.members, peer, frame.hello, now):
                return
            peer.meet(frame, now)
            self.sessions.met(peer, now)
            self.spread.met(peer.name, frame.hello.document, frame.hello.document_digest, now)
        except InputError as error:
            self._refuse(peer, "hello", str(error))
            self._send(peer, encode_bye(self._stamp(), str(error)), self.now)
            self._close(peer, str(error))
        except DiskError as error:
            self.note_trouble(str(error))
            self._close(peer, str(error))
        else:
            self._links_log.info(now, "link to %s is up", peer.name)
            self.chronicle.note("link-up", f"link to {peer.name} is up", peer.name)

    def _take_in(self, members: Members, peer: Peer, hello: Hello, now: float) -> bool:
        """Make somebody a neighbour, or tell it whom to ask instead."""
        number_of = self.settings.number_of
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
        self.sessions.take_in(peer)
        self._gone.discard(peer.number)
        if self.revoked:
            self._disbelieve()  # where there is no neighbour, nothing can be ordered
        if not called:
            self._say_hello(peer, now)
        return True

    def _is_of_link(self, peer: Peer, stamp: Stamp) -> bool:
        """Refuse a frame before HELLO, or of another epoch or start."""
        if not peer.met:
            reason, sentence = "hello", f"{peer.name} sent something before its HELLO"
        elif stamp.epoch != self.settings.epoch:
            reason, sentence = "epoch", f"a message of epoch {stamp.epoch}"
        elif stamp.incarnation != peer.incarnation:
            reason, sentence = "replayed", f"a message of incarnation {stamp.incarnation}"
        else:
            return True
        self._refuse(peer, reason, sentence)
        return False

    # Who may have no link

    def revoke(self, names: frozenset[str], now: float) -> None:
        """Believe nothing any more of those whom the agent's own list names."""
        self.now, self._revoked = now, names
        self.believe()

    def believe(self) -> None:
        """Believe nothing of those who are revoked, and close their links."""
        self._disbelieve()
        if names := self.revoked:
            self.chronicle.note("revoked", f"no longer believed: {', '.join(sorted(names))}")
        self.close_barred()

    def _disbelieve(self) -> None:
        number_of = self.settings.number_of
        self.sessions.revoke(frozenset(number_of(name) % AUTHORS for name in self.revoked))

    @property
    def revoked(self) -> frozenset[str]:
        """Who is no longer believed."""
        return self._revoked | self.ruled.revoked

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

    def _stamp(self) -> Stamp:
        """Return the stamp of frames about the link, with the rounds of the busiest bandit."""
        return Stamp(0, self.settings.epoch, self.bandits.rounds, self.settings.incarnation)

    def _send_frames(self, peer: Peer, data: bytes, now: float) -> None:
        if data:
            self._send(peer, data, now)

    def _send(self, peer: Peer, data: bytes, now: float) -> None:
        peer.last_sent = now
        self._actions.append(SendBytes(peer.name, data))

    def _drop(self, name: str, reason: str) -> None:
        self._actions.append(CloseLink(name, reason))

    def move(self, name: str, place: Address) -> None:
        """Have a neighbour dialled at another address."""
        self._actions.append(MovePeer(name, place))

    # Finding neighbours

    def call_failed(self, cause: object, reason: str, now: float) -> None:
        """Note that nobody answered a call, or not as expected."""
        self.now = now
        if self.members is not None:
            self.members.call_failed(cause, reason)

    def found_seeds(self, places: list[Address], now: float) -> None:
        """Take note of the addresses of seeds."""
        self.now = now
        if self.members is not None:
            self.members.found(places)

    def dial(self, action: DialAgent | LookUpSeeds) -> None:
        """Ask for a call, or for the addresses of seeds."""
        self._actions.append(action)

    def tell_members(self, name: str, message: Message) -> None:
        """Send somebody a message about members."""
        stamp = self._stamp()
        self._send(self.peers[name], encode_members(stamp, message), self.now)

    def _send_document(self, peer: str, body: bytes) -> None:
        here = self.peers[peer]
        self._send(here, encode_document(self._stamp(), body), self.now)

    def _refuse_document(self, peer: str, reason: str, sentence: str) -> None:
        self._refuse(self.peers[peer], reason, sentence)


def check_hello(settings: NodeSettings, peer: Peer, frame: HelloFrame) -> None:
    """Refuse all but the expected neighbour, of the same cluster, epoch and configuration."""
    hello, stamp = frame.hello, frame.stamp
    for what, theirs, own in (
        ("id", hello.node, peer.name),
        ("cluster", hello.cluster, settings.cluster),
        ("epoch", stamp.epoch, settings.epoch),
        ("configuration", hello.configuration, settings.configuration),
    ):
        if theirs != own:
            raise InputError(
                f"{peer.name} has {what} {short(theirs)}, but {settings.node} expects "
                f"{short(own)}; compare both files with: coopbandits agent --check"
            )
    if stamp.incarnation < peer.incarnation:
        raise InputError(
            f"{peer.name} has incarnation {stamp.incarnation}, but {peer.incarnation} was seen: "
            "an older process still runs, or a clock went back"
        )


def short(value: str | int) -> str:
    """Return a value for a sentence; a digest is cut to its first digits."""
    return repr(value[:12]) if isinstance(value, str) and len(value) == 64 else repr(value)

"""The protocol of one agent: its links, what it reads from peers, and rounds by the clock.

It has no clock, network or disk. It receives events with the time, and returns actions
(`fleet.transport`), so the same code runs on real and on simulated ones. Of one link:

    link_up -> HELLO both ways -> one BANDIT greeting per bandit -> DATA, BEAT, ... -> link_down

HELLO says who the ends are, their cluster, configuration, epoch and incarnation. A mismatch is
rejected in one sentence, sent to the other end as BYE, and counted. With `neighbors = "auto"` the
caller says HELLO first, and may be told that there is no room. A rejected frame changes nothing but
a counter.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from coopbandits.core.aggregate.entries import AUTHORS
from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.document.content import Document
from coopbandits.fleet.document.seal import Signed
from coopbandits.fleet.document.spread import Spread
from coopbandits.fleet.document.store import DocumentStore, DocumentSubscriber
from coopbandits.fleet.identity.notary import Notary
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.overlay.members import Members
from coopbandits.fleet.overlay.messages import Message, Refused
from coopbandits.fleet.protocol.calls import Calls
from coopbandits.fleet.protocol.eventlog import EventLog
from coopbandits.fleet.protocol.frames import (
    NO_ENDPOINT,
    AnswerFrame,
    ApiEndpoint,
    BanditFrame,
    ByeFrame,
    CallFrame,
    DataFrame,
    Decoder,
    DocumentFrame,
    Frame,
    FrameError,
    Hello,
    HelloFrame,
    MembersFrame,
    RoutesFrame,
    Stamp,
    encode_answer,
    encode_beat,
    encode_bye,
    encode_call,
    encode_document,
    encode_hello,
    encode_members,
    encode_routes,
)
from coopbandits.fleet.protocol.gossip import Session, Terms
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.routes import Routes
from coopbandits.fleet.protocol.sessions import Sessions
from coopbandits.fleet.ratelimit import RateLimitedLog
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.eras import Gossiped
from coopbandits.fleet.storage.replica import Bandits
from coopbandits.fleet.transport import (
    Action,
    Arrival,
    CloseLink,
    DialAgent,
    LookUpSeeds,
    MovePeer,
    Resume,
    SendBytes,
)

BEAT_SECONDS = 1.0
"""A keepalive is sent after this long without any other frame."""

SOON = 0.1
"""Links are read at ticks where these are at most this many seconds apart."""

LEAVING = "it is leaving"
"""The reason in the BYE of an agent that stops in order; others reject the link."""

NO_ROOM = "there is no room for another neighbour"

MOST_LINK_LINES = 100
"""Log lines a minute about links that come and go: a neighbour may dial again and again."""

MOST_SILENT = 16
"""Callers that have not said HELLO yet and keep their links; the oldest makes room."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NodeSettings:
    """The settings of one node.

    Attributes
    ----------
    node, cluster, configuration, epoch : str, str, str and int
        Its id, and what all nodes must agree on.
    incarnation : int
        Which start of the process this is; larger than all earlier ones.
    neighbors : dict of str to int
        Numbers of the neighbours, by id.
    period : float
        Seconds between two rounds.
    silence : float
        Seconds without a frame after which a link is dropped.
    max_message_bytes : int
        The longest message accepted.
    signing_interval : float
        Seconds between two signatures, at least.
    number_of : callable
        Returns the number of an agent by its name.
    documents : DocumentStore
        Has the cluster's document.
    notary : Notary
        Signs announcements, and seals calls.
    max_agents : int
        How many agents there may be.
    """

    node: str
    cluster: str
    configuration: str
    epoch: int
    incarnation: int
    neighbors: dict[str, int]
    period: float
    silence: float
    max_message_bytes: int
    signing_interval: float
    number_of: Callable[[str], int]
    documents: DocumentStore
    notary: Notary
    max_agents: int


class DocumentSettings(DocumentSubscriber):
    """What the cluster's document sets for links and pace, in force on one node.

    Agents adopt a document one after the other. So what a node itself does follows the document at
    once, while what it believes of others never becomes less than its own file declares: an agent
    that has not heard of the document yet is not taken for a liar.

    Attributes
    ----------
    revoked : frozenset of str
        Agents that are no longer believed.
    members : frozenset of str
        Agents that may have links; empty for all.
    rounds : float
        Rounds per second.
    rate : float
        Pulls per second, at most; 0 if the document does not set it.
    interval : float
        Seconds between two signatures, at least.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.revoked, self.members = frozenset[str](), frozenset[str]()
        self._period, self._interval = node.settings.period, node.settings.signing_interval
        self.rounds, self.rate, self.interval = 1.0 / self._period, 0.0, self._interval

    def apply(self, document: Document) -> None:
        """Put a document in force."""
        node, names, given = self.node, frozenset(document.members), document.settings
        self.rounds = given.get("rounds_per_second", 1.0 / self._period)
        self.rate = given.get("max_pulls_per_second", 0.0)
        signatures = given.get("signatures_per_second", 1.0 / self._interval)
        self.interval = 1.0 / min(self.rounds, signatures)
        node.period = 1.0 / self.rounds
        for session in node.sessions.by_number.values():
            self.set_pace_of(session)
        if self.revoked != document.revoked:
            self.revoked = document.revoked
            node.apply_revocations()
        if self.members != names:
            self.members = names
            node.close_barred()
        text = f"cluster document version {document.version} is in force"
        node.events.note("document", text)

    def set_pace_of(self, session: Session) -> None:
        """Bring the gossip about one bandit to the pace in force."""
        session.claims.rate = max(session.declared_rate, self.rate)
        session.claims.pace = max(1.0 / self._period, self.rounds)
        if session.entries is not None:
            session.entries.interval = self.interval
            session.entries.book.interval = min(self._interval, self.interval)


class Node:
    """The protocol of one agent: it receives events, and returns actions.

    Every event carries the time, in seconds since 1970 and never going back. What it leads to is in
    the journal's buffer, and in `take_actions`.

    Parameters
    ----------
    settings : NodeSettings
        Its settings.
    bandits : Bandits
        The state of all bandits.
    declared : iterable of BanditConfig
        Their configuration.
    terms : callable
        Returns the validation and signing settings of a bandit.
    now : float
        The time.

    Attributes
    ----------
    peers : dict of str to Peer
        The neighbours by id.
    events : EventLog
        What happened lately.
    refusals : Counter
        How many frames were rejected, by reason.
    period : float
        Seconds between two rounds, by the cluster's document.
    strangers : int
        How many connections could not prove to be a neighbour's.
    endpoint_of : callable
        Returns what a neighbour, given by its id, is told of this agent's API.
    members : Members or None
        Finds neighbours; None where they are listed.
    routes, calls : Routes and Calls
        The way to other agents, and calls of them.
    """

    def __init__(
        self,
        settings: NodeSettings,
        bandits: Bandits,
        declared: Iterable[BanditConfig],
        terms: Callable[[BanditConfig, Gossiped], Terms],
        now: float,
    ) -> None:
        self.settings, self.bandits, self.now = settings, bandits, now
        self.peers = {
            name: Peer(name, number, last_heard=now) for name, number in settings.neighbors.items()
        }
        self.events = EventLog(lambda: self.now, settings.incarnation)
        self.events.note("started", f"started, after {bandits.rounds} rounds")
        self.refusals: Counter[str] = Counter()
        self.strangers = 0
        self.endpoint_of: Callable[[str], ApiEndpoint] = lambda _: NO_ENDPOINT
        self.members: Members | None = None
        self._actions: list[Action] = []
        self._links_log = RateLimitedLog(log, "links that came and went", MOST_LINK_LINES)
        self._revoked = frozenset[str]()  # by the agent's own list
        self._gone: set[int] = set()  # neighbours that no round has ended without yet
        self._trouble = ""
        self.period = settings.period
        self.sessions = Sessions(self, terms)
        self.spread = Spread(settings.documents, self._send_document, self._refuse_document)
        self.routes = Routes(self, settings.notary, settings.max_agents)
        self.calls = Calls(self, self.routes, settings.notary)
        self.in_force = DocumentSettings(self)
        self.apply_revocations()
        settings.documents.subscribe("links", self.in_force)
        self.sessions.take(declared)

    def make_room(self, size: int) -> None:
        """Let neighbours send messages of so many bytes."""
        self.settings = replace(self.settings, max_message_bytes=size)
        for peer in self.peers.values():
            if peer.decoder is not None:
                peer.decoder.max_message_bytes = size

    def take_actions(self) -> list[Action]:
        """Return the actions since the last call, in order."""
        actions, self._actions = self._actions, []
        return actions

    # Called by the clock

    @property
    def next_tick(self) -> float:
        """The time of the next `tick` that has something to do."""
        due = self.sessions.next_tick
        return min(due, self.calls.next_due) if self.calls.pending else due

    @property
    def reads_at_ticks(self) -> bool:
        """Whether nothing that arrives is used before the next tick, and that is soon."""
        return not self.sessions.any_waits and self.settings.period <= SOON

    def tick(self, now: float) -> None:
        """Gossip, if it is due."""
        self.now = now
        if now >= self.sessions.next_tick:
            self.sessions.tick(now, self._gone)
        self.calls.tick(now)

    def beat(self, now: float) -> None:
        """Maintain links and tickets; call it about once a second."""
        self.now = now
        self.sessions.age(now)
        self.sessions.sign_again()
        for peer in self.peers.values():
            if peer.decoder is None:
                continue
            if now - peer.last_heard > self.settings.silence:
                self.drop(peer.name, f"nothing heard for {self.settings.silence:g} s")
            elif now - peer.last_sent >= BEAT_SECONDS and (peer.met or self.members is None):
                # Sent whatever the disk does: with round 0 it says nothing that a crash could undo.
                stamp = Stamp(0, self.settings.epoch, 0, self.settings.incarnation)
                peer.last_sent = now
                self._actions.append(SendBytes(peer.name, encode_beat(stamp), waits=False))
        for session in self.sessions.by_number.values():
            session.count_delivered()
        if self.members is not None:
            self.members.tick()
        self.routes.tick()
        for step in (self.spread.tick, self.bandits.expire):
            try:
                step(now)
            except DiskError as error:
                self.note_trouble(str(error))

    def delivery_check(self) -> Callable[[], bool]:
        """Return a predicate: whether all linked neighbours have received what is known now."""
        is_delivered = self.sessions.delivery_check()
        return lambda: not any(peer.met for peer in self.peers.values()) or is_delivered()

    def is_linked(self) -> bool:
        """Return whether there is a link, or no neighbour to have one with."""
        linked = any(peer.met for peer in self.peers.values())
        return linked or (self.members is None and not self.peers)

    def undelivered(self) -> int:
        """Return how many rewards since the start may be known to no neighbour, at most."""
        sessions = self.sessions.by_number.values()
        return sum(session.replica.observed - session.delivered for session in sessions)

    # Links that come up and go down

    def link_up(self, peer: str, now: float, arrival: Arrival = Arrival()) -> None:  # noqa: B008  immutable
        """Send HELLO; with `neighbors = "auto"` the caller says it first."""
        self.now = now
        if self.members is not None:
            silent = [each for each in self.peers.values() if each.decoder and not each.met]
            if len(silent) >= MOST_SILENT:
                self._close(silent[0], "it made room for a newer caller")
            self.members.link_up(peer, arrival)
            self.peers[peer] = Peer(peer, self.settings.number_of(peer), last_heard=now)
        here = self.peers[peer]
        here.up(Decoder(self.settings.max_message_bytes), now)
        here.certified = arrival.names
        reason = self.bars(peer)
        if reason:
            self.refuse(here, "revoked", reason)
            self._close(here, reason)
        elif self.members is None or self.members.has_called(peer):
            self._say_hello(here)

    def link_down(self, peer: str, reason: str, now: float) -> None:
        """Note why there is no link."""
        self.now, here = now, self.peers[peer]
        if here.reason != reason:  # a neighbour that is away is dialled in vain
            self.events.note("link-down", f"link to {peer} is down: {reason}", peer)
        here.down(reason)
        self.sessions.down(here)
        self.spread.link_down(peer)
        self.routes.link_down(peer)
        self.calls.link_down(peer)
        self._links_log.info(now, LogEvent("link down", peer=peer, reason=reason))
        if self.members is not None:
            self._gone.add(self.peers.pop(peer).number)
            self.members.link_down(peer)

    def refused(self, who: str, reason: str, now: float) -> None:
        """Count a connection that could not prove to be a neighbour's."""
        self.now = now
        if who == self.settings.node:  # its own address is among its seeds
            return
        self.strangers += 1
        if who in self.peers:
            self.events.refused(who, "stranger", reason)
        else:
            self.events.refused_stranger(who, reason)

    def leave(self, now: float) -> None:
        """Say goodbye to all neighbours that are linked."""
        self.now = now
        self.routes.leave()
        if self.members is not None:
            self.members.leave()
            return
        for peer in self.peers.values():
            if peer.met:
                self.send(peer, encode_bye(self._stamp(), LEAVING))

    def give_up(self, peer: str, error: Exception, now: float) -> None:
        """Close a link because of a bug in `received`, which its peer could trigger at will.

        Messages take effect when a round ends, so nothing has: what the bug left behind is about
        this link, and ends with it. The neighbour sends it again over the next one.
        """
        self.now, here = now, self.peers[peer]
        sentence = f"what it sent could not be handled ({type(error).__name__})"
        self.events.refused(peer, "failed", sentence, error)
        self.refuse(here, "failed", sentence)
        self._close(here, sentence)

    # What arrives

    def received(self, peer: str, data: bytes, now: float) -> None:
        """Handle bytes from a neighbour."""
        self.now, here = now, self.peers[peer]
        if here.decoder is None or here.closing:
            return
        if here.met:  # a peer that never says HELLO times out
            here.last_heard = now
            plain = here.decoder.read_plain(data)
            if plain is not None:
                self._read(here, plain)
                return
        try:
            frames = here.decoder.feed(data)
        except FrameError as error:
            self.refuse(here, error.kind, str(error))
            self._close(here, str(error))
            return
        if here.decoder.skipped:
            here.frames["skipped"] += here.decoder.skipped
            here.decoder.skipped = 0
        for frame in frames:
            if not here.closing and here.decoder is not None:
                self._read(here, frame)

    def _read(self, peer: Peer, frame: Frame) -> None:
        peer.frames["received"] += 1
        stamp = frame.stamp
        try:
            if isinstance(frame, DataFrame):
                if self._is_of_link(peer, stamp):
                    self.sessions.heard(peer, frame, self.now)
            elif isinstance(frame, BanditFrame):
                if self._is_of_link(peer, stamp):
                    self.sessions.greeted(peer, frame, self.now)
            elif isinstance(frame, HelloFrame):
                self._greet(peer, frame)
            elif isinstance(frame, ByeFrame) and frame.reason == LEAVING:
                self.events.note("left", f"{peer.name} has left", peer.name)
                self._close(peer, f"{peer.name} has left")
            elif isinstance(frame, ByeFrame):
                self.events.refused(peer.name, "bye", f"it refuses this agent: {frame.reason}")
                self._close(peer, f"{peer.name} said: {frame.reason}")
            elif isinstance(frame, DocumentFrame):
                if peer.met and stamp.incarnation == peer.incarnation:
                    self._hear_document(peer, frame)
            elif isinstance(frame, MembersFrame):
                self._hear_members(peer, frame)
            elif isinstance(frame, CallFrame):
                if self._is_of_link(peer, stamp):
                    self.calls.heard_call(peer, frame.body)
            elif isinstance(frame, AnswerFrame):
                if self._is_of_link(peer, stamp):
                    self.calls.heard_answer(peer, frame.body)
            elif isinstance(frame, RoutesFrame):
                if self._is_of_link(peer, stamp):
                    self.routes.received(peer, frame.body)
            else:  # a beat: `last_heard` is set already
                self._is_of_link(peer, stamp)
        except DiskError as error:
            self.note_trouble(str(error))
            self._close(peer, str(error))

    def _is_of_link(self, peer: Peer, stamp: Stamp) -> bool:
        """Reject a frame before HELLO, or of another epoch or start."""
        if not peer.met:
            reason, sentence = "hello", f"{peer.name} sent something before its HELLO"
        elif stamp.epoch != self.settings.epoch:
            reason, sentence = "epoch", f"a message of epoch {stamp.epoch}"
        elif stamp.incarnation != peer.incarnation:
            reason, sentence = "replayed", f"a message of incarnation {stamp.incarnation}"
        else:
            return True
        self.refuse(peer, reason, sentence)
        return False

    def _hear_document(self, peer: Peer, frame: DocumentFrame) -> None:
        try:
            self.spread.received(peer.name, frame.body, self.now)
        except DiskError as error:  # it comes again, so the link stays
            self.note_trouble(str(error))

    def _hear_members(self, peer: Peer, frame: MembersFrame) -> None:
        if self.members is None:
            self.refuse(peer, "hello", f"{peer.name} has other ways to find its neighbours")
        elif isinstance(frame.message, Refused) and not peer.met:
            self.members.declined(peer.name, frame.message.contacts)
            self._close(peer, NO_ROOM)
        elif self._is_of_link(peer, frame.stamp):
            self.members.heard(peer.name, frame.message)

    # HELLO

    def _say_hello(self, peer: Peer) -> None:
        own = self.settings
        more = self.endpoint_of(peer.name)._asdict() | self.spread.greeting()
        if self.members is not None:
            more |= self.members.greeting(peer.name)
        hello = Hello(own.node, own.cluster, own.configuration, **more)
        self.send(peer, encode_hello(self._stamp(), hello))

    def _greet(self, peer: Peer, frame: HelloFrame) -> None:
        if peer.met:
            self.refuse(peer, "hello", f"{peer.name} said HELLO a second time")
            return
        now, hello = self.now, frame.hello
        try:
            self._check_hello(peer, frame)
            if self.members is not None and not self._admit(self.members, peer, hello):
                return
            peer.meet(frame, now)
            self.sessions.met(peer)
            self.spread.link_up(peer.name, hello.document, hello.document_digest, now)
            self.routes.link_up(peer.name)
        except InputError as error:
            self.refuse(peer, "hello", str(error))
            self.send(peer, encode_bye(self._stamp(), str(error)))
            self._close(peer, str(error))
        else:
            self._links_log.info(now, LogEvent("link up", peer=peer.name))
            self.events.note("link-up", f"link to {peer.name} is up", peer.name)

    def _check_hello(self, peer: Peer, frame: HelloFrame) -> None:
        """Reject all but the expected neighbour, of the same cluster, epoch and configuration."""
        settings, hello, stamp = self.settings, frame.hello, frame.stamp
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
                f"{peer.name} has incarnation {stamp.incarnation}, but {peer.incarnation} was "
                "seen: an older process still runs, or a clock went back"
            )

    def _admit(self, members: Members, peer: Peer, hello: Hello) -> bool:
        """Make a caller a neighbour, or name it others to ask."""
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
            self.send_members(peer.name, refusal)
            self._close(peer, NO_ROOM)
            return False
        self.sessions.add_neighbor(peer)
        self._gone.discard(peer.number)
        if self.revoked:
            self._revoke_authors()  # orders need a neighbour, and this may be the first one
        if not called:
            self._say_hello(peer)
        return True

    # Who may have no link

    @property
    def revoked(self) -> frozenset[str]:
        """Agents that are no longer believed."""
        return self._revoked | self.in_force.revoked

    def revoke(self, names: frozenset[str], now: float) -> None:
        """Revoke the agents in the agent's own list."""
        self.now, self._revoked = now, names
        self.apply_revocations()

    def apply_revocations(self) -> None:
        """Believe nothing of those who are revoked, and close their links."""
        self._revoke_authors()
        if names := self.revoked:
            self.events.note("revoked", f"no longer believed: {', '.join(sorted(names))}")
        self.close_barred()

    def _revoke_authors(self) -> None:
        number_of = self.settings.number_of
        self.sessions.revoke(frozenset(number_of(name) % AUTHORS for name in self.revoked))

    def close_barred(self) -> None:
        """Close the links of agents that may have none, and forget the way to them."""
        self.routes.drop_barred()
        for peer in self.peers.values():
            reason = self.bars(peer.name)
            if reason and peer.decoder is not None:
                self._close(peer, reason)

    def bars(self, name: str) -> str:
        """Return why an agent may have no link; empty if it may."""
        if name in self.revoked:
            return f"{name} is revoked"
        if name in self.peers and (also := self.peers[name].certified & self.revoked):
            return f"{name} has the certificate of {min(also)}, which is revoked"
        if self.in_force.members and name not in self.in_force.members:
            return f"{name} is no member by the cluster's document"
        return ""

    # The cluster's document

    def adopt(self, signed: Signed, now: float) -> bool:
        """Adopt a document that was handed over here, and spread it; False if it is here already.

        Raises
        ------
        InputError
            It cannot be adopted.
        """
        self.now = now
        try:
            return self.settings.documents.adopt(signed, submitted=True)
        finally:
            self.spread.announce(self.now)

    def _send_document(self, peer: str, body: bytes) -> None:
        self.send(self.peers[peer], encode_document(self._stamp(), body))

    def _refuse_document(self, peer: str, reason: str, sentence: str) -> None:
        self.refuse(self.peers[peer], reason, sentence)

    # Finding neighbours: `overlay.members.Host`

    def send_members(self, name: str, message: Message) -> None:
        """Send an agent a message about members."""
        self.send(self.peers[name], encode_members(self._stamp(), message))

    def part_from(self, name: str, reason: str) -> None:
        """Close the link to a neighbour, after what was sent over it."""
        if name in self.peers:
            self._close(self.peers[name], reason)

    def dial(self, action: DialAgent | LookUpSeeds) -> None:
        """Ask for a call, or for the addresses of seeds."""
        self._actions.append(action)

    def call_failed(self, cause: object, reason: str, now: float) -> None:
        """Note a call that was not answered as expected."""
        self.now = now
        if self.members is not None:
            self.members.call_failed(cause, reason)

    def found_seeds(self, places: list[Address], now: float) -> None:
        """Note the addresses of seeds."""
        self.now = now
        if self.members is not None:
            self.members.found(places)

    def place_of(self, name: str) -> Address | None:
        """Return where a neighbour is that this agent has found itself."""
        return None if self.members is None else self.members.place_of(name)

    def move(self, name: str, place: Address) -> None:
        """Have a neighbour dialled at another address."""
        self._actions.append(MovePeer(name, place))

    # Calls of other agents

    def send_routes(self, name: str, body: bytes) -> None:
        """Send a neighbour announcements: they say nothing that a crash could undo."""
        self._send_now(name, encode_routes(self._stamp(), body))

    def send_call(self, name: str, body: bytes) -> None:
        self._send_now(name, encode_call(self._stamp(), body))

    def send_answer(self, name: str, body: bytes, *, waits: bool) -> None:
        """Send an answer; what was done for it may have to be on disk first."""
        data = encode_answer(self._stamp(), body)
        if waits:
            self.send(self.peers[name], data)
        else:
            self._send_now(name, data)

    def _send_now(self, name: str, data: bytes) -> None:
        self.peers[name].last_sent = self.now
        self._actions.append(SendBytes(name, data, waits=False))

    def resume(self, call: Callable[[], None]) -> None:
        """Have something called that has waited for a peer, once this event is over."""
        self._actions.append(Resume(call))

    # Refusals and trouble

    def refuse(self, peer: Peer, reason: str, sentence: str) -> None:
        """Count a rejected frame of a neighbour."""
        peer.frames["refused"] += 1
        self.refusals[reason] += 1
        self.events.refused(peer.name, reason, sentence)
        if reason == "forged":  # an honest neighbour sends no such thing
            self.drop(peer.name, sentence)

    def note_trouble(self, trouble: str) -> None:
        """Note why the journal cannot be written, or that it can be again, once each."""
        if trouble and trouble != self._trouble:
            log.error(LogEvent("the journal cannot be written", reason=trouble))
            self.events.note("trouble", trouble)
        elif self._trouble and not trouble:
            log.info("the journal is writable again")
            self.events.note("settled", "the journal is writable again")
        self._trouble = trouble

    @property
    def trouble(self) -> str:
        """Why the journal cannot be written; empty if it can."""
        return self.bandits.journal.trouble

    # Actions

    def _stamp(self) -> Stamp:
        """Return the stamp of frames about the link, with the rounds of the busiest bandit."""
        return Stamp(0, self.settings.epoch, self.bandits.rounds, self.settings.incarnation)

    def send(self, peer: Peer, data: bytes) -> None:
        """Send bytes to a neighbour that is linked."""
        peer.last_sent = self.now
        self._actions.append(SendBytes(peer.name, data))

    def _close(self, peer: Peer, reason: str) -> None:
        """Read nothing more from a neighbour; the link goes down soon."""
        peer.met, peer.closing = False, True
        self.drop(peer.name, reason)

    def drop(self, name: str, reason: str) -> None:
        """Close the link to a neighbour; what it sent before is still read."""
        self._actions.append(CloseLink(name, reason))


def short(value: str | int) -> str:
    """Return a value for a sentence; a digest is cut to its first digits."""
    return repr(value[:12]) if isinstance(value, str) and len(value) == 64 else repr(value)

"""The protocol of one agent: handshakes with neighbours, rounds of gossip, refusals.

It has no clock, network or disk of its own: the clock is a function, the network a `Transport`, and
the disk belongs to the replica's journal. So the same code runs on real and on simulated ones.

When a link comes up, both ends send HELLO: who they are, their cluster, configuration, epoch and
incarnation, how many rounds they have completed and how many neighbours they have. A mismatch is
refused in one sentence, sent to the other end as BYE, and counted. Then follow DATA frames, one per
round, and BEAT frames as keepalives. A refused frame changes nothing but a counter.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.entries import AUTHORS
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.document.keeper import Keeper
from coopbandits.fleet.document.seal import Signed
from coopbandits.fleet.document.spread import Spread
from coopbandits.fleet.identity.revoked import Revoked
from coopbandits.fleet.overlay.members import Members
from coopbandits.fleet.overlay.messages import Message, Refused
from coopbandits.fleet.protocol.chronicle import Chronicle
from coopbandits.fleet.protocol.decoder import Decoder
from coopbandits.fleet.protocol.entries import Signing
from coopbandits.fleet.protocol.frames import (
    MAX_PLAIN,
    NO_DOOR,
    NO_FIELDS,
    VERSIONS,
    BeatFrame,
    ByeFrame,
    DataFrame,
    DocumentFrame,
    Door,
    Fields,
    Frame,
    FrameError,
    Hello,
    HelloFrame,
    MembersFrame,
    Stamp,
    common_version,
    encode_beat,
    encode_bye,
    encode_data,
    encode_document,
    encode_hello,
    encode_members,
    encode_plain,
    plain_form,
)
from coopbandits.fleet.protocol.gossip import Gossip, RobustGossip, SynchronousGossip, Wire
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.ruled import Ruled
from coopbandits.fleet.sparing import SparingLog
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.replica import Replica
from coopbandits.fleet.transport import Transport

BEAT_SECONDS = 1.0
"""A keepalive is sent after this long without any other frame."""

SOON = 0.1
"""Where ticks are at most so many seconds apart, links are read at ticks."""

BANDIT = 0
"""The number of the one bandit that a cluster has so far."""

LEAVING = "it is leaving"
"""The reason in a BYE that refuses nobody: the agent stops in order."""

MOST_SILENT = 16
"""So many who have called, and not said who they are, are waited for."""

NO_ROOM = "there is no room for another neighbour"

QUIET_SECONDS = 60.0
"""Refusals of one kind are logged at most this often; all of them are counted."""

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
    robust : bool
        Whether rounds end by the clock, or wait for all neighbours.
    claims : Claims
        What neighbours' claims are checked against.
    signing : Signing
        Who signs entries.
    revoked : Revoked
        Who is no longer believed.
    keeper : Keeper
        Has the cluster's document.
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
    robust: bool
    claims: Claims
    signing: Signing
    revoked: Revoked
    keeper: Keeper


class Node:
    """The protocol of one agent, driven by the events of a transport, and by `tick` and `beat`.

    Parameters
    ----------
    settings : NodeSettings
        Its settings.
    replica : Replica
        Its state.
    transport : Transport
        Its links.
    clock : callable
        Seconds since 1970, never going back.

    Attributes
    ----------
    chronicle : Chronicle
        What lately happened.
    door_of : callable
        Returns what a neighbour is told of this agent's API.
    members : Members or None
        Finds neighbours; None where they are listed.
    """

    def __init__(
        self,
        settings: NodeSettings,
        replica: Replica,
        transport: Transport,
        clock: Callable[[], float],
    ) -> None:
        self.settings, self.replica, self.transport, self.clock = (
            settings,
            replica,
            transport,
            clock,
        )
        self.peers = {
            name: Peer(name, number, last_heard=clock())
            for name, number in settings.neighbors.items()
        }
        self.num_arms = len(replica.arms)
        self._form = plain_form(self._stamp(0))
        self.refusals: Counter[str] = Counter()
        self.strangers = 0
        self._told_trouble = ""
        self._logged: dict[tuple[str, str], float] = {}
        self._strangers_log = SparingLog(log, "strangers")
        self.door_of: Callable[[str], Door] = lambda _: NO_DOOR
        self.members: Members | None = None
        self._gone: set[int] = set()
        self.chronicle = Chronicle(clock, settings.incarnation)
        self.chronicle.note("started", f"started, after {replica.rounds} rounds")
        self.gossip = self._make_gossip()
        self.spread = Spread(settings.keeper, self._send_document, self._refuse_document)
        self.ruled = Ruled(self)
        self.revoke()
        settings.keeper.join("links", self.ruled)

    def _make_gossip(self) -> Gossip:
        by_number = {peer.number: peer for peer in self.peers.values()}
        kind = RobustGossip if self.settings.robust else SynchronousGossip
        return kind(
            self.replica,
            by_number,
            self.settings.period,
            self.settings.claims,
            self.settings.signing,
            Wire(self._say, self._refuse, self._greet_again),
        )

    def replica_of(self, number: int) -> Replica:
        """Return the state of a bandit; here there is one."""
        del number
        return self.replica

    def wake(self, number: int) -> None:
        """Tell of a bandit in the next round, which one that is alone does in any case."""

    @property
    def gossips(self) -> Iterable[Gossip]:
        """What is said of every bandit; here there is one."""
        return [self.gossip]

    def set_period(self, seconds: float) -> None:
        """End rounds at another pace from now on."""
        self.gossip.period = seconds

    # Called by the clock

    @property
    def next_tick(self) -> float:
        """The time of the next `tick` that has something to do."""
        return self.gossip.next_tick

    @property
    def reads_at_ticks(self) -> bool:
        """Whether nothing that arrives is used before the next tick, and that is soon."""
        return self.settings.robust and self.settings.period <= SOON

    def tick(self) -> None:
        """Gossip, if it is due."""
        now = self.clock()
        if now < self.gossip.next_tick:
            return
        try:
            self.gossip.tick(now)
            if self._gone:
                self.gossip.let_go(self._gone)
                self._gone.clear()
        except DiskError as error:
            self._note_trouble(error)
            self.gossip.next_tick = now + BEAT_SECONDS

    def beat(self) -> None:
        """Maintain links, tickets and the journal; call it about once a second."""
        now = self.clock()
        if self.settings.revoked.refresh():
            self.revoke()
        for peer in self.peers.values():
            if peer.decoder is None:
                continue
            if now - peer.last_heard > self.settings.silence:
                self.transport.drop(peer.name, f"nothing heard for {self.settings.silence:g} s")
            elif now - peer.last_sent >= BEAT_SECONDS and (peer.met or self.members is None):
                self._send(peer, encode_beat(self._stamp(self.replica.rounds)), now)
        for gossip in self.gossips:
            gossip.note_told()
        if self.members is not None:
            self.members.tick()
        self._spread(partial(self.spread.beat, now))
        try:
            self.replica.maintain(now)
        except DiskError as error:
            self._note_trouble(error)
        else:
            if self._told_trouble:
                log.info("the journal is written again")
                self.chronicle.note("settled", "the journal is written again")
            self._told_trouble = ""

    @property
    def trouble(self) -> str:
        """Why the journal takes nothing; empty if it does."""
        return self.replica.journal.trouble

    def revoke(self) -> None:
        """Believe nothing any more of those who are revoked, by the file or the document."""
        names, number_of = self.revoked, self.settings.signing.number_of
        self.gossip.revoke(frozenset(number_of(name) % AUTHORS for name in names))
        if names:
            self.chronicle.note("revoked", f"no longer believed: {', '.join(sorted(names))}")
        self.close_barred()

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

    def _greet_again(self, reason: str) -> None:
        for peer in self.peers.values():
            if peer.decoder is not None:
                self._close(peer, reason)

    def _note_trouble(self, error: DiskError) -> None:
        if self._told_trouble != str(error):
            log.error("%s", error)
            self.chronicle.note("trouble", str(error))
        self._told_trouble = str(error)

    # Called by the transport

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

    def _say_hello(self, peer: Peer, now: float) -> None:
        self._send(peer, encode_hello(self._stamp(self.replica.rounds), self._hello(peer)), now)

    def _hello(self, peer: Peer) -> Hello:
        told = self.settings
        memory, entries = self.replica.journal.origin["word"], self.gossip.entries
        more = {"memory": memory}
        if entries is not None:
            more = {"memory": entries.memory, "entry": entries.machine.number}
            more |= {"heard": entries.heard(peer)}
        more |= self.door_of(peer.name)._asdict() | self.spread.greeting()
        if self.members is not None:
            more |= self.members.greeting(peer.name)
        return Hello(told.node, told.cluster, told.configuration, len(self.peers), **more)

    def link_down(self, peer: str, reason: str) -> None:
        """Note why there is no link."""
        if self.peers[peer].reason != reason:  # a neighbour that is away is dialled in vain
            self.chronicle.note("link-down", f"link to {peer} is down: {reason}", peer)
        self.peers[peer].down(reason)
        self.spread.lost(peer)
        log.info("link to %s is down: %s", peer, reason)
        if self.members is not None:
            self._gone.add(self.peers.pop(peer).number)
            self.members.link_down(peer)

    def refused(self, who: str, reason: str) -> None:
        """Count a connection that could not prove to be a neighbour's."""
        if who == self.settings.node:  # among its seeds is its own address
            return
        self.strangers += 1
        if who in self.peers:
            self._log_refusal(who, "stranger", reason)
        else:  # of these there can be any number
            self.chronicle.note("refused", f"refused {who}: {reason}", apart=QUIET_SECONDS)
            self._strangers_log.warning(self.clock(), "refused %s: %s", who, reason)

    def give_up(self, peer: str, error: Exception) -> None:
        """Close a link because of a bug in `received`, which others could bring up at will.

        What is said takes effect when a round ends, so nothing has: what the bug left behind is
        about this link, and ends with it. The neighbour says it again over the next one.
        """
        here = self.peers[peer]
        sentence = f"what it sent could not be handled ({type(error).__name__})"
        if self._is_time_to_log(peer, "failed"):
            log.error("refused %s: %s", peer, sentence, exc_info=error)
            self.chronicle.note("refused", f"refused {peer}: {sentence}", peer)
        self._refuse(here, "failed", sentence)
        self._close(here, sentence)

    def received(self, peer: str, data: bytes) -> None:
        """Handle bytes from a neighbour."""
        here = self.peers[peer]
        if here.decoder is None or here.closing:
            return
        if here.met:  # who never says HELLO is given up
            here.last_heard = self.clock()
            plain = here.decoder.read_plain(data)
            if plain is not None:
                here.frames["received"] += 1
                self.gossip.heard(here, *plain, NO_FIELDS, here.last_heard)
                return
        try:
            frames = here.decoder.feed(data)
        except FrameError as error:
            self._refuse(here, error.kind, str(error))
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
        if isinstance(frame, DataFrame):
            stamp = frame.stamp
            if self._is_of_link(peer, stamp):
                self.gossip.heard(peer, stamp.round, frame.values, frame.fields, peer.last_heard)
        elif isinstance(frame, HelloFrame):
            self._greet(peer, frame)
        elif isinstance(frame, ByeFrame) and frame.reason == LEAVING:
            self.chronicle.note("left", f"{peer.name} has left", peer.name)
            self._close(peer, f"{peer.name} has left")
        elif isinstance(frame, ByeFrame):
            self._log_refusal(peer.name, "bye", f"it refuses this agent: {frame.reason}")
            self._close(peer, f"{peer.name} said: {frame.reason}")
        elif isinstance(frame, DocumentFrame):
            if peer.met and frame.stamp.incarnation == peer.incarnation:
                self._spread(partial(self.spread.heard, peer.name, frame.body, self.clock()))
        elif isinstance(frame, MembersFrame):
            self._hear_of_members(peer, frame)
        elif isinstance(frame, BeatFrame):  # `last_heard` is set already
            self._is_of_link(peer, frame.stamp)
        else:
            sentence = f"a greeting about bandit {frame.stamp.bandit}, and there is one only"
            self._refuse(peer, "bandit", sentence)

    def telling(self) -> Callable[[], bool]:
        """Return what says whether linked neighbours, if any, know all that is known by now."""
        are_told = self.gossip.telling()
        return lambda: not any(peer.met for peer in self.peers.values()) or are_told()

    def is_linked(self) -> bool:
        """Return whether there is a link, or nobody to have one with."""
        linked = any(peer.met for peer in self.peers.values())
        return linked or (self.members is None and not self.peers)

    def untold(self) -> int:
        """Return how many rewards since the start no neighbour is known to know of, at most."""
        return sum(gossip.replica.observed - gossip.told for gossip in self.gossips)

    def leave(self) -> None:
        """Say goodbye to all neighbours that are linked."""
        if self.members is not None:
            self.members.leave()
            return
        now = self.clock()
        for peer in self.peers.values():
            if peer.met:
                self._send(peer, encode_bye(self._stamp(self.replica.rounds), LEAVING), now)

    def _close(self, peer: Peer, reason: str) -> None:
        """Read nothing more from a neighbour; the link goes down soon."""
        peer.met, peer.closing = False, True
        self.transport.drop(peer.name, reason)

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
            log.info("link to %s is up", peer.name)
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
        if self.revoked and not self._gone and len(self.peers) == 1:
            self.revoke()  # where there is no neighbour, nothing can be ordered
        if not called:
            self._say_hello(peer, now)
        return True

    def _hear_of_members(self, peer: Peer, frame: MembersFrame) -> None:
        if self.members is None:
            self._refuse(peer, "hello", f"{peer.name} has other ways to find its neighbours")
        elif isinstance(frame.message, Refused) and not peer.met:
            self.members.declined(peer.name, frame.message.contacts)
            self._close(peer, NO_ROOM)
        elif self._is_of_link(peer, frame.stamp):
            self.members.heard(peer.name, frame.message)

    def tell_members(self, name: str, message: Message) -> None:
        """Send somebody a message about members."""
        stamp = self._stamp(self.replica.rounds)
        self._send(self.peers[name], encode_members(stamp, message), self.clock())

    def place_of(self, name: str) -> Address | None:
        """Return where a neighbour is that this agent has found itself."""
        return None if self.members is None else self.members.place_of(name)

    def part_from(self, name: str, reason: str) -> None:
        """Close the link to a neighbour, after what was sent over it."""
        if name in self.peers:
            self._close(self.peers[name], reason)

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

    # The cluster's document

    def adopt(self, signed: Signed) -> bool:
        """Take a document that was handed over here, and spread it; False if it is here already."""
        try:
            return self.settings.keeper.adopt(signed, handed_over=True)
        finally:
            self.spread.tell(self.clock())

    def _spread(self, step: Callable[[], None]) -> None:
        try:
            step()
        except DiskError as error:
            self._note_trouble(error)

    def _send_document(self, peer: str, body: bytes) -> None:
        here = self.peers[peer]
        self._send(here, encode_document(self._stamp(self.replica.rounds), body), self.clock())

    def _refuse_document(self, peer: str, reason: str, sentence: str) -> None:
        self._refuse(self.peers[peer], reason, sentence)

    # Calling the transport

    def _stamp(self, round_: int) -> Stamp:
        return Stamp(self.num_arms, self.settings.epoch, round_, self.settings.incarnation)

    def _send(self, peer: Peer, data: bytes, now: float) -> None:
        peer.last_sent = now
        self.transport.send(peer.name, data)

    def _say(
        self, peer: Peer, round_: int, values: Vector | None, fields: Fields | None, now: float
    ) -> None:
        if values is None or fields is not None or len(values) > MAX_PLAIN:
            data = encode_data(self._stamp(round_), values, fields)
        else:
            data = encode_plain(self._form, round_, values)
        peer.last_sent = now
        self.transport.send(peer.name, data)

    def _refuse(self, peer: Peer, reason: str, sentence: str) -> None:
        peer.frames["refused"] += 1
        self.refusals[reason] += 1
        self._log_refusal(peer.name, reason, sentence)
        if reason == "forged" or (reason == "impossible" and not self.settings.robust):
            # An honest neighbour sends no such thing. A synchronous round cannot end without the
            # message; a new link makes the peer resend it.
            self.transport.drop(peer.name, sentence)

    def _log_refusal(self, who: str, reason: str, sentence: str) -> None:
        if self._is_time_to_log(who, reason):
            log.warning("refused %s: %s", who, sentence)
            self.chronicle.note("refused", f"refused {who}: {sentence}", who)

    def _is_time_to_log(self, who: str, reason: str) -> bool:
        now = self.clock()
        if now - self._logged.get((who, reason), -QUIET_SECONDS) < QUIET_SECONDS:
            return False
        if len(self._logged) > 1000:
            self._logged.clear()
        self._logged[who, reason] = now
        return True


def check_hello(settings: NodeSettings, peer: Peer, frame: HelloFrame) -> None:
    """Refuse all but the expected neighbour, of the same cluster, epoch and configuration."""
    hello, stamp = frame.hello, frame.stamp
    if common_version(hello.versions) is None:
        newer = hello.versions[0] > VERSIONS[1]
        raise InputError(
            f"{peer.name} speaks {told_versions(hello.versions)} of the protocol, but "
            f"{settings.node} {told_versions(VERSIONS)}; upgrade coopbandits on "
            f"{settings.node if newer else peer.name}"
        )
    for what, theirs, own in (
        ("id", hello.node, peer.name),
        ("cluster", hello.cluster, settings.cluster),
        ("epoch", stamp.epoch, settings.epoch),
        ("bandit", stamp.bandit, BANDIT),
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


def told_versions(versions: tuple[int, int]) -> str:
    """Return a range of versions in words."""
    low, high = versions
    return f"version {low}" if low == high else f"versions {low} to {high}"


def short(value: str | int) -> str:
    """Return a value for a sentence; a digest is cut to its first digits."""
    return repr(value[:12]) if isinstance(value, str) and len(value) == 64 else repr(value)

"""The protocol of one agent: rounds of gossip by the clock, and what is read from neighbours.

It has no clock, network or disk of its own: the clock is a function, the network a `Transport`, and
the disk belongs to the replica's journal. So the same code runs on real and on simulated ones.

After HELLO (`links`) follow DATA frames, one per round, and BEAT frames as keepalives. A refused
frame changes nothing but a counter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from coopbandits.core.contract import Vector
from coopbandits.fleet.document.seal import Signed
from coopbandits.fleet.overlay.messages import Refused
from coopbandits.fleet.protocol.frames import (
    MAX_PLAIN,
    NO_FIELDS,
    BeatFrame,
    ByeFrame,
    DataFrame,
    DocumentFrame,
    Fields,
    Frame,
    FrameError,
    HelloFrame,
    MembersFrame,
    encode_beat,
    encode_data,
    encode_plain,
    plain_form,
)
from coopbandits.fleet.protocol.gossip import (
    Exchange,
    Gossip,
    RobustGossip,
    SynchronousGossip,
    Wire,
)
from coopbandits.fleet.protocol.links import LEAVING, NO_ROOM, LinkedNode
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.ruled import Ruled
from coopbandits.fleet.protocol.settings import NodeSettings
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.replica import Replica
from coopbandits.fleet.transport import Transport

BEAT_SECONDS = 1.0
"""A keepalive is sent after this long without any other frame."""

SOON = 0.1
"""Where ticks are at most so many seconds apart, links are read at ticks."""

log = logging.getLogger(__name__)


class Node(LinkedNode):
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
        super().__init__(settings, replica, transport, clock)
        self._form = plain_form(self._stamp(0))
        self.ruled = Ruled(self)
        self.revoke()
        settings.keeper.join("links", self.ruled)

    def _make_gossip(self) -> Exchange:
        by_number = {peer.number: peer for peer in self.peers.values()}
        kind = RobustGossip if self.settings.robust else SynchronousGossip
        self._alone: Gossip = kind(
            self.replica,
            by_number,
            self.settings.period,
            self.settings.claims,
            self.settings.signing,
            Wire(self._say, self._refuse, self._greet_again),
        )
        return self._alone

    def replica_of(self, number: int) -> Replica:
        """Return the state of a bandit; here there is one."""
        del number
        return self.replica

    def wake(self, number: int) -> None:
        """Tell of a bandit in the next round, which one that is alone does in any case."""

    @property
    def gossips(self) -> Iterable[Gossip]:
        """What is said of every bandit; here there is one."""
        return [self._alone]

    def set_period(self, seconds: float) -> None:
        """End rounds at another pace from now on."""
        self._alone.period = seconds

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
            self.gossip.tick(now, self._gone)
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

    # What arrives

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
                self._hear(here, plain[0], plain[1], NO_FIELDS)
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

    def give_up(self, peer: str, error: Exception) -> None:
        """Close a link because of a bug in `received`, which others could bring up at will.

        What is said takes effect when a round ends, so nothing has: what the bug left behind is
        about this link, and ends with it. The neighbour says it again over the next one.
        """
        here = self.peers[peer]
        sentence = f"what it sent could not be handled ({type(error).__name__})"
        self.refusing.tell_failure(peer, sentence, error)
        self._refuse(here, "failed", sentence)
        self._close(here, sentence)

    def _read(self, peer: Peer, frame: Frame) -> None:
        peer.frames["received"] += 1
        if isinstance(frame, DataFrame):
            stamp = frame.stamp
            if self._is_of_link(peer, stamp):
                self._hear(peer, stamp.round, frame.values, frame.fields)
        elif isinstance(frame, HelloFrame):
            self._greet(peer, frame)
        elif isinstance(frame, ByeFrame) and frame.reason == LEAVING:
            self.chronicle.note("left", f"{peer.name} has left", peer.name)
            self._close(peer, f"{peer.name} has left")
        elif isinstance(frame, ByeFrame):
            self.refusing.tell(peer.name, "bye", f"it refuses this agent: {frame.reason}")
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

    def _hear(self, peer: Peer, round_: int, values: Vector | None, fields: Fields) -> None:
        """Handle a message about the one bandit."""
        self._alone.heard(peer, round_, values, fields, peer.last_heard)

    def _hear_of_members(self, peer: Peer, frame: MembersFrame) -> None:
        if self.members is None:
            self._refuse(peer, "hello", f"{peer.name} has other ways to find its neighbours")
        elif isinstance(frame.message, Refused) and not peer.met:
            self.members.declined(peer.name, frame.message.contacts)
            self._close(peer, NO_ROOM)
        elif self._is_of_link(peer, frame.stamp):
            self.members.heard(peer.name, frame.message)

    # What is sent

    def _say(
        self, peer: Peer, round_: int, values: Vector | None, fields: Fields | None, now: float
    ) -> None:
        if values is None or fields is not None or len(values) > MAX_PLAIN:
            data = encode_data(self._stamp(round_), values, fields)
        else:
            data = encode_plain(self._form, round_, values)
        peer.last_sent = now
        self.transport.send(peer.name, data)

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

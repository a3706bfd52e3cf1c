"""The protocol of one agent: rounds of gossip by the clock, and what is read from neighbours.

It has no clock, network or disk: it is told of events with the time, and asks for actions
(`transport/actions.py`). So the same code runs on real and on simulated ones.

After HELLO (`links`) follow DATA frames, one per round, and BEAT frames as keepalives. A refused
frame changes nothing but a counter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.document.seal import Signed
from coopbandits.fleet.overlay.messages import Refused
from coopbandits.fleet.protocol.frames import (
    BanditFrame,
    ByeFrame,
    DataFrame,
    DocumentFrame,
    Frame,
    FrameError,
    HelloFrame,
    MembersFrame,
    Stamp,
    encode_beat,
)
from coopbandits.fleet.protocol.gossip import Gossip
from coopbandits.fleet.protocol.links import LEAVING, NO_ROOM, LinkedNode
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.ruled import Ruled
from coopbandits.fleet.protocol.sessions import Terms
from coopbandits.fleet.protocol.settings import NodeSettings
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.replica import Bandits, Replica
from coopbandits.fleet.transport.actions import SendBytes

BEAT_SECONDS = 1.0
"""A keepalive is sent after this long without any other frame."""

SOON = 0.1
"""Where ticks are at most so many seconds apart, links are read at ticks."""

log = logging.getLogger(__name__)


class Node(LinkedNode):
    """The protocol of one agent: it is told of events, and asks for actions.

    Every event carries the time, in seconds since 1970 and never going back. What it leads to is in
    the journal's buffer, and in `take_actions`.

    Parameters
    ----------
    settings : NodeSettings
        Its settings.
    bandits : Bandits
        The state of all bandits.
    declared : iterable of BanditConfig
        What is known of them.
    terms : callable
        Returns by what messages about a bandit are checked and signed.
    now : float
        The time.

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
        bandits: Bandits,
        declared: Iterable[BanditConfig],
        terms: Callable[[BanditConfig, Replica], Terms],
        now: float,
    ) -> None:
        super().__init__(settings, bandits, terms, now)
        self.ruled = Ruled(self)
        self.believe()
        settings.keeper.join("links", self.ruled)
        self.sessions.begun = self.ruled.adjust
        self.sessions.take(declared)

    def make_room(self, size: int) -> None:
        """Let neighbours send messages of so many bytes."""
        self.settings = replace(self.settings, max_message_bytes=size)
        for peer in self.peers.values():
            if peer.decoder is not None:
                peer.decoder.allow(size)

    @property
    def gossips(self) -> list[Gossip]:
        """The gossip about every bandit."""
        return [session.gossip for session in self.sessions.sessions.values()]

    def set_period(self, seconds: float) -> None:
        """End rounds at another pace from now on."""
        self.sessions.links = self.sessions.links._replace(period=seconds)

    # Called by the clock

    @property
    def next_tick(self) -> float:
        """The time of the next `tick` that has something to do."""
        return self.sessions.next_tick

    @property
    def reads_at_ticks(self) -> bool:
        """Whether nothing that arrives is used before the next tick, and that is soon."""
        return not self.sessions.any_waits and self.settings.period <= SOON

    def tick(self, now: float) -> None:
        """Gossip, if it is due."""
        self.now = now
        if now >= self.sessions.next_tick:
            self.sessions.tick(now, self._gone)

    def beat(self, now: float) -> None:
        """Maintain links and tickets; call it about once a second."""
        self.now = now
        self.sessions.age(now)
        for peer in self.peers.values():
            if peer.decoder is None:
                continue
            if now - peer.last_heard > self.settings.silence:
                self._drop(peer.name, f"nothing heard for {self.settings.silence:g} s")
            elif now - peer.last_sent >= BEAT_SECONDS and (peer.met or self.members is None):
                self._beat_to(peer, now)
        for gossip in self.gossips:
            gossip.note_told()
        if self.members is not None:
            self.members.tick()
        self._spread(partial(self.spread.beat, now))
        try:
            self.bandits.expire(now)
        except DiskError as error:
            self.note_trouble(str(error))

    def _beat_to(self, peer: Peer, now: float) -> None:
        """Send a keepalive, whatever the disk does: it says nothing of rounds."""
        stamp = Stamp(0, self.settings.epoch, 0, self.settings.incarnation)
        peer.last_sent = now
        self._actions.append(SendBytes(peer.name, encode_beat(stamp), waits=False))

    def telling(self) -> Callable[[], bool]:
        """Return what says whether linked neighbours, if any, know all that is known by now."""
        are_told = self.sessions.telling()
        return lambda: not any(peer.met for peer in self.peers.values()) or are_told()

    def is_linked(self) -> bool:
        """Return whether there is a link, or nobody to have one with."""
        linked = any(peer.met for peer in self.peers.values())
        return linked or (self.members is None and not self.peers)

    def untold(self) -> int:
        """Return how many rewards since the start no neighbour is known to know of, at most."""
        return sum(gossip.replica.observed - gossip.told for gossip in self.gossips)

    # What arrives

    def received(self, peer: str, data: bytes, now: float) -> None:
        """Handle bytes from a neighbour."""
        self.now, here = now, self.peers[peer]
        if here.decoder is None or here.closing:
            return
        if here.met:  # who never says HELLO is given up
            here.last_heard = now
            plain = here.decoder.read_plain(data)
            if plain is not None:
                self._read(here, plain)
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

    def give_up(self, peer: str, error: Exception, now: float) -> None:
        """Close a link because of a bug in `received`, which others could bring up at will.

        What is said takes effect when a round ends, so nothing has: what the bug left behind is
        about this link, and ends with it. The neighbour says it again over the next one.
        """
        self.now, here = now, self.peers[peer]
        sentence = f"what it sent could not be handled ({type(error).__name__})"
        self.refusing.tell_failure(peer, sentence, error)
        self._refuse(here, "failed", sentence)
        self._close(here, sentence)

    def _read(self, peer: Peer, frame: Frame) -> None:
        peer.frames["received"] += 1
        if isinstance(frame, DataFrame):
            if self._is_of_link(peer, frame.stamp):
                self._gossip(peer, partial(self.sessions.heard, peer, frame, peer.last_heard))
        elif isinstance(frame, BanditFrame):
            if self._is_of_link(peer, frame.stamp):
                self._gossip(peer, partial(self.sessions.greeted, peer, frame, peer.last_heard))
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
                self._spread(partial(self.spread.heard, peer.name, frame.body, self.now))
        elif isinstance(frame, MembersFrame):
            self._hear_of_members(peer, frame)
        else:  # a beat: `last_heard` is set already
            self._is_of_link(peer, frame.stamp)

    def _gossip(self, peer: Peer, step: Callable[[], None]) -> None:
        try:
            step()
        except DiskError as error:
            self.note_trouble(str(error))
            self._close(peer, str(error))

    def _hear_of_members(self, peer: Peer, frame: MembersFrame) -> None:
        if self.members is None:
            self._refuse(peer, "hello", f"{peer.name} has other ways to find its neighbours")
        elif isinstance(frame.message, Refused) and not peer.met:
            self.members.declined(peer.name, frame.message.contacts)
            self._close(peer, NO_ROOM)
        elif self._is_of_link(peer, frame.stamp):
            self.members.heard(peer.name, frame.message)

    # The cluster's document

    def adopt(self, signed: Signed, now: float) -> bool:
        """Take a document that was handed over here, and spread it; False if it is here already."""
        self.now = now
        try:
            return self.settings.keeper.adopt(signed, handed_over=True)
        finally:
            self.spread.tell(self.now)

    def _spread(self, step: Callable[[], None]) -> None:
        try:
            step()
        except DiskError as error:
            self.note_trouble(str(error))

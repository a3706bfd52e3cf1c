"""The protocol of an agent with several bandits: one set of links, and a talk about each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

from coopbandits.core.contract import Vector
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.protocol.frames import BanditFrame, DataFrame, Fields, Frame, Stamp
from coopbandits.fleet.protocol.gossip import Exchange, Gossip
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.settings import BANDIT, NodeSettings
from coopbandits.fleet.protocol.talks import Links, Talks, Terms
from coopbandits.fleet.storage.bandits import Bandits
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.replica import Replica
from coopbandits.fleet.transport import Transport

OF_BANDITS = BanditFrame, DataFrame


class ManyNode(Node):
    """As `Node`; what its frames are about is said in them.

    Parameters
    ----------
    settings : NodeSettings
        Its settings; claims and signing are each bandit's own.
    bandits : Bandits
        The state of all bandits.
    declared : iterable of BanditConfig
        What is known of them.
    terms : callable
        Returns by what messages about a bandit are checked and signed.
    transport, clock
        As for `Node`.
    """

    def __init__(
        self,
        settings: NodeSettings,
        bandits: Bandits,
        declared: Iterable[BanditConfig],
        terms: Callable[[BanditConfig, Replica], Terms],
        transport: Transport,
        clock: Callable[[], float],
    ) -> None:
        self.bandits, self._terms = bandits, terms
        super().__init__(settings, cast("Any", bandits), transport, clock)
        self.talks.begun = self.ruled.adjust
        self.talks.take(declared)

    def _make_gossip(self) -> Exchange:
        told = self.settings
        stamp = Stamp(0, told.epoch, 0, told.incarnation)
        links = Links(self.peers, stamp, told.period, self._send_frames, self._refuse)
        self.talks = Talks(self.bandits, self._terms, links)
        return self.talks

    @property
    def gossips(self) -> Iterable[Gossip]:
        """What is said of every bandit."""
        return [talk.gossip for talk in self.talks.talks.values()]

    def set_period(self, seconds: float) -> None:
        """End rounds at another pace from now on."""
        self.talks.links = self.talks.links._replace(period=seconds)

    def _send_frames(self, peer: Peer, data: bytes, now: float) -> None:
        if data:
            self._send(peer, data, now)

    def replica_of(self, number: int) -> Replica:
        """Return the state of a bandit."""
        return self.bandits.replicas[number]

    def make_room(self, size: int) -> None:
        """Let neighbours send messages of so many bytes."""
        self.settings = replace(self.settings, max_message_bytes=size)
        for peer in self.peers.values():
            if peer.decoder is not None:
                peer.decoder.allow(size)

    def wake(self, number: int) -> None:
        """Tell of a bandit in the next round."""
        self.talks.wake(number)

    def beat(self) -> None:
        """Maintain links, tickets and the journal."""
        self.talks.age(self.clock())
        super().beat()

    def link_down(self, peer: str, reason: str) -> None:
        """Note why there is no link."""
        here = self.peers[peer]
        super().link_down(peer, reason)
        self.talks.down(here, reason)

    def _read(self, peer: Peer, frame: Frame) -> None:
        if isinstance(frame, OF_BANDITS) and peer.met:
            peer.frames["received"] += 1
            if self._is_of_talks(peer, frame.stamp):
                try:
                    if isinstance(frame, DataFrame):
                        self.talks.heard(peer, frame, peer.last_heard)
                    else:
                        self.talks.greeted(peer, frame, peer.last_heard)
                except DiskError as error:
                    self._note_trouble(error)
                    self._close(peer, str(error))
        else:
            super()._read(peer, frame)

    def _hear(self, peer: Peer, round_: int, values: Vector | None, fields: Fields) -> None:
        """Refuse a message that does not say which bandit it is about."""
        del round_, values, fields
        self._refuse(peer, "bandit", f"a message about bandit {BANDIT}")

    def _is_of_talks(self, peer: Peer, stamp: Stamp) -> bool:
        """Refuse a frame of another epoch or start."""
        if stamp.epoch == self.settings.epoch and stamp.incarnation == peer.incarnation:
            return True
        plain = Stamp(self.num_arms, stamp.epoch, stamp.round, stamp.incarnation)
        return self._is_of_link(peer, plain)

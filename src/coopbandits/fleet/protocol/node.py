"""One agent among its neighbours: greets them, believes them as far as it should, and gossips.

Without a clock, a network or a disk of its own: the clock is a function, the network a `Transport`,
the disk that of the books' journal. So the same code runs on real and on simulated ones.

Over a link that came up both ends say HELLO: who they are, which cluster, configuration, epoch and
incarnation, how many rounds they have ended and how many neighbours they have. What does not fit
together is refused with a sentence, told to the other end as BYE, and counted. After that come DATA
frames, one per round, and BEAT frames where there is nothing to say for long. A frame that is
refused changes nothing but a counter.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from coopbandits.core.agent import Vector
from coopbandits.core.aggregate.exchange import all_finite
from coopbandits.core.errors import InputError
from coopbandits.fleet.protocol.frames import (
    BeatFrame,
    ByeFrame,
    DataFrame,
    Decoder,
    Frame,
    FrameError,
    Hello,
    HelloFrame,
    Stamp,
    encode_beat,
    encode_bye,
    encode_data,
    encode_hello,
)
from coopbandits.fleet.protocol.gossip import Gossip, RobustGossip, SynchronousGossip
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.plausibility import Guard
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.replica import Books
from coopbandits.fleet.transport import Transport

BEAT_SECONDS = 1.0
"""After so long without anything to say, a sign of life is sent."""

QUIET_SECONDS = 60.0
"""Refusals of the same kind are logged so often, and counted always."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Charter:
    """What a node is told.

    Attributes
    ----------
    node, cluster, configuration, epoch : str, str, str and int
        Who it is, and what all must agree on.
    incarnation : int
        Which start of the process this is; larger than all before.
    neighbors : dict of str to int
        Numbers of the neighbours, by id.
    period : float
        Seconds between two rounds.
    silence : float
        Seconds after which a link that says nothing is given up.
    max_message_bytes : int
        The longest message that is taken.
    guard : Guard or None
        Checks claims of neighbours; None for a synchronous policy.
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
    guard: Guard | None


class Node:
    """The protocol of one agent, driven by the events of a transport, and by `tick` and `beat`.

    Parameters
    ----------
    charter : Charter
        What it is told.
    books : Books
        What it remembers.
    transport : Transport
        How it reaches others.
    clock : callable
        The time in seconds since 1970, which never goes back.
    """

    def __init__(
        self, charter: Charter, books: Books, transport: Transport, clock: Callable[[], float]
    ) -> None:
        self.charter, self.books, self.transport, self.clock = charter, books, transport, clock
        self.peers = {
            name: Peer(name, number, last_heard=clock())
            for name, number in charter.neighbors.items()
        }
        self.num_arms = books.agent.view.num_arms
        self.refusals: Counter[str] = Counter()
        self.strangers = 0
        self.trouble = ""  # what keeps the disk from taking more
        self._logged: dict[tuple[str, str], float] = {}
        self.gossip = self._make_gossip()

    def _make_gossip(self) -> Gossip:
        by_number = {peer.number: peer for peer in self.peers.values()}
        given = self.books, by_number, self.charter.period, self._say, self._refuse
        if self.charter.guard is None:
            return SynchronousGossip(*given)
        return RobustGossip(*given, self.charter.guard)

    # By the clock

    @property
    def next_tick(self) -> float:
        """When `tick` has something to do."""
        return self.gossip.next_tick

    def tick(self) -> None:
        """Gossip, if it is time to."""
        now = self.clock()
        if now < self.gossip.next_tick:
            return
        try:
            self.gossip.tick(now)
        except DiskError as error:
            self._note_trouble(error)
            self.gossip.next_tick = now + BEAT_SECONDS
        else:
            self.trouble = ""

    def beat(self) -> None:
        """Look after links, tickets and the journal; about once a second."""
        now = self.clock()
        for peer in self.peers.values():
            if peer.decoder is None:
                continue
            if now - peer.last_heard > self.charter.silence:
                self.transport.drop(peer.name, f"nothing heard for {self.charter.silence:g} s")
            elif now - peer.last_sent >= BEAT_SECONDS:
                self._send(peer, encode_beat(self._stamp(self.books.rounds)), now)
        try:
            self.books.expire(now)
            if self.books.journal.is_long:
                self.books.compact()
        except DiskError as error:
            self._note_trouble(error)

    def _note_trouble(self, error: DiskError) -> None:
        if not self.trouble:
            log.error("%s", error)
        self.trouble = str(error)

    # By the transport

    def link_up(self, peer: str) -> None:
        """Greet a neighbour."""
        here, now = self.peers[peer], self.clock()
        here.up(Decoder(self.charter.max_message_bytes), now)
        hello = Hello(
            self.charter.node, self.charter.cluster, self.charter.configuration, len(self.peers)
        )
        self._send(here, encode_hello(self._stamp(self.books.rounds), hello), now)

    def link_down(self, peer: str, reason: str) -> None:
        """Do without a neighbour."""
        self.peers[peer].down(reason)
        log.info("link to %s is down: %s", peer, reason)

    def refused(self, who: str, reason: str) -> None:
        """Count somebody who could not prove to be a neighbour."""
        self.strangers += 1
        self._log_refusal(who, "stranger", reason)

    def received(self, peer: str, data: bytes) -> None:
        """Read what a neighbour sent."""
        here = self.peers[peer]
        if here.decoder is None:
            return
        here.last_heard = self.clock()
        try:
            frames = here.decoder.feed(data)
        except FrameError as error:
            self._refuse(here, error.kind, str(error))
            self.transport.drop(peer, str(error))
            return
        for frame in frames:
            if here.decoder is not None:
                self._read(here, frame)

    def _read(self, peer: Peer, frame: Frame) -> None:
        peer.frames["received"] += 1
        if isinstance(frame, DataFrame):
            if self._is_sound(peer, frame):
                self.gossip.heard(peer, frame.stamp.round, frame.values, peer.last_heard)
        elif isinstance(frame, HelloFrame):
            self._greet(peer, frame)
        elif isinstance(frame, ByeFrame):
            self._log_refusal(peer.name, "bye", f"it refuses this agent: {frame.reason}")
            self.transport.drop(peer.name, f"{peer.name} said: {frame.reason}")
        else:
            assert isinstance(frame, BeatFrame)  # noqa: S101  a sign of life is heard by now

    def _greet(self, peer: Peer, frame: HelloFrame) -> None:
        try:
            check_hello(self.charter, peer, frame)
            peer.met, peer.incarnation = True, frame.stamp.incarnation
            self.gossip.met(peer, frame.hello.degree, frame.stamp.round)
        except InputError as error:
            peer.met = False
            self._refuse(peer, "hello", str(error))
            self._send(peer, encode_bye(self._stamp(self.books.rounds), str(error)), self.clock())
            self.transport.drop(peer.name, str(error))
        except DiskError as error:
            self._note_trouble(error)
            self.transport.drop(peer.name, str(error))
        else:
            log.info("link to %s is up", peer.name)

    def _is_sound(self, peer: Peer, frame: DataFrame) -> bool:
        """Refuse what is not of this epoch, these arms, this link, or not made of numbers.

        Numbers of a common round are looked at when it ends, since it cannot do without them.
        """
        stamp, values = frame.stamp, frame.values
        if not peer.met:
            reason, sentence = "hello", f"{peer.name} sent a message before its HELLO"
        elif stamp.epoch != self.charter.epoch:
            reason, sentence = "epoch", f"a message of epoch {stamp.epoch}"
        elif stamp.num_arms != self.num_arms:
            reason, sentence = "arms", f"a message about {stamp.num_arms} arms"
        elif stamp.incarnation != peer.incarnation:
            reason, sentence = "replayed", f"a message of incarnation {stamp.incarnation}"
        elif self.charter.guard and values is not None and not all_finite(values):
            reason, sentence = "not finite", "a message with values that are not finite"
        else:
            return True
        self._refuse(peer, reason, sentence)
        return False

    # To the transport

    def _stamp(self, round_: int) -> Stamp:
        return Stamp(self.num_arms, self.charter.epoch, round_, self.charter.incarnation)

    def _send(self, peer: Peer, data: bytes, now: float) -> None:
        peer.last_sent = now
        self.transport.send(peer.name, data)

    def _say(self, peer: Peer, round_: int, values: Vector | None, how: str) -> None:
        peer.frames[how] += 1
        self._send(peer, encode_data(self._stamp(round_), values), self.clock())

    def _refuse(self, peer: Peer, reason: str, sentence: str) -> None:
        peer.frames["refused"] += 1
        self.refusals[reason] += 1
        self._log_refusal(peer.name, reason, sentence)
        if reason == "impossible" and self.charter.guard is None:
            self.transport.drop(peer.name, sentence)  # the round needs it: let it be sent again

    def _log_refusal(self, who: str, reason: str, sentence: str) -> None:
        now = self.clock()
        if now - self._logged.get((who, reason), -QUIET_SECONDS) >= QUIET_SECONDS:
            if len(self._logged) > 1000:
                self._logged.clear()
            self._logged[who, reason] = now
            log.warning("refused %s: %s", who, sentence)


def check_hello(charter: Charter, peer: Peer, frame: HelloFrame) -> None:
    """Refuse all but the neighbour that should be there, of the same cluster and configuration."""
    hello, stamp = frame.hello, frame.stamp
    for what, theirs, own in (
        ("id", hello.node, peer.name),
        ("cluster", hello.cluster, charter.cluster),
        ("epoch", stamp.epoch, charter.epoch),
        ("configuration", hello.configuration, charter.configuration),
    ):
        if theirs != own:
            raise InputError(
                f"{peer.name} has {what} {short(theirs)}, but {charter.node} expects {short(own)}; "
                "compare both files with: coopbandits agent --check"
            )
    if stamp.incarnation < peer.incarnation:
        raise InputError(
            f"{peer.name} has incarnation {stamp.incarnation}, but {peer.incarnation} was seen: "
            "an older process still runs, or a clock went back"
        )


def short(value: str | int) -> str:
    """Return a value as it stands in a sentence; of a digest its first digits."""
    return repr(value[:12]) if isinstance(value, str) and len(value) == 64 else repr(value)

"""Gossip about one bandit: a session with all neighbours, in one of two modes.

After HELLO both ends greet about every bandit that they have: name, a digest of its settings, the
ids of its arms, and which memory and messages they have. They exchange messages about a bandit that
both have under one number, name and digest. When rounds end depends on the policy:

*Robust*: a round ends by the clock, with the newest message of each neighbour that sent one; then
every connected neighbour gets a message. Nobody waits. A lost message only delays news. A flood
without news sends nothing, ends no round and writes nothing.

*Synchronous*: round r + 1 ends once the messages of round r + 1 of all neighbours have arrived.
When a link comes up, each agent tells how many rounds it has completed and is resent what it may
have missed; messages of the last rounds are kept for that. Neighbours are at most one round apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.claims import PartlyImpossibleError
from coopbandits.core.aggregate.entries import HEADER, Told
from coopbandits.core.aggregate.messages import all_finite
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.protocol.arms import PeerArms, pack_arms, unpack_arms
from coopbandits.fleet.protocol.entries import EntryExchange, ForgedError, Signing
from coopbandits.fleet.protocol.frames import (
    MAX_PLAIN,
    BanditFrame,
    DataFrame,
    Fields,
    Greeting,
    Stamp,
    encode_data,
    encode_greeting,
    encode_plain,
    plain_form,
)
from coopbandits.fleet.protocol.peers import Peer, SessionPeer
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.eras import OWN_ERRORS, Gossiped
from coopbandits.fleet.storage.replica import KEPT_ROUNDS, Replica

if TYPE_CHECKING:
    from coopbandits.fleet.protocol.sessions import Sessions

NOTHING: dict[int, Vector | None] = {}


class HalfDoneError(Exception):
    """A bug came up while the agent's state was changing, which may be half changed now."""


class Terms(NamedTuple):
    """Validation and signing settings of one bandit.

    Attributes
    ----------
    claims : Claims
        Plausibility checks on messages.
    signing : Signing or None
        How entries are signed; None for a policy whose messages are not made of entries.
    """

    claims: Claims
    signing: Signing | None


class Session(ABC):
    """Gossip about one bandit with all neighbours.

    Parameters
    ----------
    bandit : BanditConfig
        Its configuration.
    replica : Gossiped
        The agent's state, or its base.
    terms : Terms
        Validation and signing settings.
    sessions : Sessions
        Sends messages, rejects them and closes links.

    Attributes
    ----------
    peers : dict of int to SessionPeer
        The neighbours, by number.
    arms : list of int
        The replica's arms; a session with others takes its place when they change.
    declared_rate : float
        The most pulls per second that the bandit's own configuration allows; the cluster's document
        may allow more.
    entries : EntryExchange or None
        Signs, checks and passes on entries, where messages are made of these.
    idle : bool
        Whether nothing is left to do until a message, a greeting or a reward comes.
    next_tick : float
        When `tick` is due, for rounds that do not end by the clock of all sessions.
    delivered : int
        How many of the rewards counted since the start are known to have reached a neighbour.
    greets_again : bool
        Whether all neighbours are to be greeted again.
    spared : dict of int to float
        Until when undeclared arms keep their places.
    """

    def __init__(
        self, bandit: BanditConfig, replica: Gossiped, terms: Terms, sessions: Sessions
    ) -> None:
        self.bandit, self.replica, self.sessions = bandit, replica, sessions
        self.claims, self.declared_rate = terms.claims, terms.claims.rate
        self.node = sessions.node
        own = self.node.settings
        self.stamp = Stamp(len(replica.arms), own.epoch, 0, own.incarnation, bandit.number)
        self.arms = list(replica.arms)
        self.peers = {number: SessionPeer(peer) for number, peer in sessions.peers.items()}
        self.arms_of: dict[int, PeerArms] = {}
        self.greetings: dict[int, BanditFrame] = {}  # the last of each neighbour
        self.spared: dict[int, float] = {}
        self.entries: EntryExchange | None = None
        self.greets_again = self.idle = False
        self.next_tick = math.inf
        self.delivered = 0
        self._delivering = 0, 0  # by which message `delivered` grows, and to what
        self._form = plain_form(self.stamp)

    def inherit(self, before: Session) -> None:
        """Continue the session about the same bandit with other arms."""
        self.delivered = before.delivered
        self.spared = {arm: end for arm, end in before.spared.items() if arm in self.arms}

    # Greetings

    def greeting(self, link: Peer, *, ask: bool) -> bytes:
        """Return what a neighbour is sent about this bandit before anything else."""
        memory, heard = self.replica.journal.origin["word"], (0, 0, 0)
        if self.entries is not None:
            peer = self.peers[link.number]
            memory = self.entries.memory
            if peer.heard_start:
                heard = peer.memory, peer.heard_start, self._heard_up_to(peer)
        bandit, arms = self.bandit, pack_arms(self.replica.arms)
        greeting = Greeting(
            bandit.name,
            bandit.digest,
            arms,
            memory,
            heard,
            len(self.peers),
            ask,
            bandit.era or UNSET,
            bandit.policy[:255],
        )
        return encode_greeting(self._stamp(self.replica.rounds), greeting)

    def met(self, link: Peer, frame: BanditFrame) -> None:
        """Begin to gossip with a neighbour that has greeted.

        Raises
        ------
        InputError
            Its rounds or its degree do not fit.
        """
        peer, stamp = self.peers[link.number], self.stamp
        arms = self.arms_of[link.number] = PeerArms(self.replica, unpack_arms(frame.greeting.arms))
        peer.reset(link)
        if link.decoder is not None:
            link.decoder.expect(
                Stamp(len(arms.ids), stamp.epoch, 0, link.incarnation, stamp.bandit)
            )
        self._met(peer, frame.greeting, frame.stamp.round)
        peer.met = True
        self.greetings[link.number] = frame

    @abstractmethod
    def _met(self, peer: SessionPeer, greeting: Greeting, rounds: int) -> None:
        """Handle a neighbour's greeting, and the rounds it has completed."""

    def _heard_up_to(self, peer: SessionPeer) -> int:
        """Return the last message of a neighbour up to which nothing is missing, 0 for none."""
        del peer
        return 0  # where none is acknowledged

    def down(self, link: Peer) -> None:
        """Note that a link is down; a caller that was never admitted has no session."""
        self.greetings.pop(link.number, None)
        if link.number in self.peers:
            self.peers[link.number].met = False

    # Neighbours that come and go

    def add_neighbor(self, link: Peer) -> None:
        self.replica.relink({*self.peers, link.number})
        self.peers[link.number] = SessionPeer(link)

    def remove_neighbors(self, numbers: Collection[int]) -> None:
        """Remove neighbours that have gone, right after the end of a round.

        By then no message of theirs is waiting, and none was made for the next round, which might
        be sent to others now.
        """
        self.replica.relink(self.peers.keys() - numbers)
        for number in numbers:
            self.peers.pop(number, None)
            self._forget(number)
            self.arms_of.pop(number, None)

    def _forget(self, number: int) -> None:  # noqa: B027  most keep nothing
        """Drop what is kept for, or of, a neighbour that has gone."""

    def sign_again(self) -> bool:
        """Return whether to end a round because the own entry needs another signature."""
        return False

    def revoke(self, authors: frozenset[int]) -> None:  # noqa: B027  most have no authors
        """Stop believing some authors, where messages have authors."""

    # Messages

    def heard(self, link: Peer, frame: DataFrame, now: float) -> list[int]:
        """Handle a neighbour's message.

        Returns the arms of whose pulls it tells and that have no place here; these are left out.
        """
        peer, arms = self.peers[link.number], self.arms_of.get(link.number)
        if arms is None or not peer.met:
            link.frames["stale"] += 1  # it was sent before the last greeting
            return []
        if frame.stamp.num_arms != len(arms.ids):
            sentence = f"a message about {frame.stamp.num_arms} arms of {len(arms.ids)}"
            self.node.refuse(link, "arms", sentence)
            return []
        return self._heard(peer, arms, frame, now)

    @abstractmethod
    def _heard(self, peer: SessionPeer, arms: PeerArms, frame: DataFrame, now: float) -> list[int]:
        """Handle a message of a neighbour with which this session has begun."""

    def _possible(
        self, peer: SessionPeer, values: Vector, now: float
    ) -> tuple[Vector | None, bool]:
        """Reject a message, or a part of it, that claims what cannot have happened.

        Returns what is left of it, and whether the rest may be believed later.
        """
        try:
            self.replica.agent.check_claims(values, self.claims, now)
        except PartlyImpossibleError as error:
            self._impossible(peer, str(error))
            return error.rest, error.passes
        except OWN_ERRORS as error:  # an InputError is one of them
            self._impossible(peer, str(error) or type(error).__name__)
            return None, False
        return values, False

    def _impossible(self, peer: SessionPeer, sentence: str) -> None:
        self.node.refuse(peer.link, "impossible", sentence)

    def _send(
        self, peer: SessionPeer, round_: int, values: Vector | None, fields: Fields | None = None
    ) -> None:
        if values is None or fields is not None or len(values) > MAX_PLAIN:
            data = encode_data(self._stamp(round_), values, fields)
        else:
            data = encode_plain(self._form, round_, values)
        self.sessions.queue(peer.name, data)

    def _stamp(self, round_: int) -> Stamp:
        stamp = self.stamp
        return Stamp(stamp.num_arms, stamp.epoch, round_, stamp.incarnation, stamp.bandit)

    # Rounds

    @abstractmethod
    def tick(self, now: float, gone: Collection[int] = ()) -> None:
        """Do what is due; remove neighbours that have `gone`."""

    def has_aged(self, now: float) -> bool:
        """Return whether time has passed since the last round by which pulls count less."""
        del now
        return False

    def _end_round(
        self,
        inbox: dict[int, Vector],
        proofs: Mapping[int, bytes] = MappingProxyType({}),
        certificates: Sequence[bytes] = (),
        *,
        tick: int = 0,
    ) -> bool:
        """Try to end a round; if the agent rejects messages, remove them and return False."""
        try:
            self.replica.end_round(inbox, proofs, certificates, tick=tick)
        except InputError as error:
            for j in self.replica.refused(inbox):
                del inbox[j]
                self._impossible(self.peers[j], str(error))
            return False
        except DiskError:
            raise
        except Exception as error:
            raise HalfDoneError("a round could not be ended") from error
        return True

    # What neighbours are known to have

    def delivery_check(self) -> Callable[[], bool]:
        """Return a predicate: whether all linked neighbours have been sent what is known now."""
        since = self.replica.rounds
        return lambda: self._is_delivered(since)

    def _is_delivered(self, since: int) -> bool:
        return self.replica.rounds >= since + 2

    def count_delivered(self) -> None:
        """Update `delivered`; called now and then."""
        message, rewards = self._delivering
        if rewards > self.delivered and self._has_arrived(message):
            self.delivered = rewards
        if rewards == self.delivered:
            self._delivering = self.replica.rounds + 2, self.replica.observed

    def _has_arrived(self, message: int) -> bool:
        """Return whether a round's message has arrived: without acknowledgements, a round later."""
        linked = any(peer.met for peer in self.peers.values())
        return linked and self.replica.rounds > message


class RobustSession(Session):
    """Rounds by the clock; floods end them only while there is news, or an answer is due."""

    def __init__(
        self, bandit: BanditConfig, replica: Gossiped, terms: Terms, sessions: Sessions
    ) -> None:
        super().__init__(bandit, replica, terms, sessions)
        self._can_widen = bandit.can_widen
        self._owed: set[int] = set()  # neighbours to answer
        self.inbox: dict[int, Vector] = {}
        self._aged = self.claims.ticks(0.0)  # when the last round ended, by the clock
        if terms.signing is not None:
            self.entries = EntryExchange(
                replica, bandit.number, self.claims, self.peers, terms.signing
            )
            self.inbox = self.entries.begin()

    def inherit(self, before: Session) -> None:
        super().inherit(before)
        if self.entries is not None and before.entries is not None:
            self.entries.inherit(before.entries)

    def _met(self, peer: SessionPeer, greeting: Greeting, rounds: int) -> None:
        """Expect messages of later rounds than this one.

        The neighbour is answered in any case: it waits for that before it tells of new pulls.
        """
        peer.heard_round = rounds
        if self.entries is not None:
            pending = self.entries.met(peer, greeting, self.inbox.get(peer.number))
            if pending is not None:
                self.inbox[peer.number] = pending
        self._owed.add(peer.number)
        self.idle = False

    def _heard_up_to(self, peer: SessionPeer) -> int:
        if self.entries is None or not peer.heard_start:  # not heard since this start
            return 0
        return int(self.entries.last_heard(peer, self.inbox.get(peer.number)))

    def _heard(self, peer: SessionPeer, arms: PeerArms, frame: DataFrame, now: float) -> list[int]:
        """Keep the newest message, as far as its claims are possible; answer it if it is news.

        An answer is not news, so it is not answered.
        """
        values, fields, unplaced = frame.values, frame.fields, list[int]()
        if values is not None and self._can_widen and (arms.twin or fields.remainders):
            unplaced = arms.pulled(values, arms.foreign)
            if unplaced:
                rest = arms.without_foreign(values, fields)
                if rest is None:
                    peer.frames["stale"] += 1  # it comes again
                    return unplaced
                values, fields = rest
                values[0] = self._heard_whole(peer)
            values, fields = arms.in_own_order(values, fields)
        entries = self.entries
        if values is not None and values.size > HEADER:
            self._owed.add(peer.number)
        self.idle = False
        if values is not None:
            # A machine of entries reads a short message at once, if all of it is finite.
            told = None if entries is None else entries.machine.quickly(values)
            if told is None and not all_finite(values):
                text = "a message with values that are not finite"
                self.node.refuse(peer.link, "not finite", text)
                return unplaced
        if frame.stamp.round <= peer.heard_round:
            text = f"a message of round {frame.stamp.round} came again, or too late"
            self.node.refuse(peer.link, "replayed", text)
            return unplaced
        if values is None:
            return unplaced
        if entries is None:
            taken = self._possible(peer, values, now)[0]
        else:
            if peer.former and values.size >= HEADER:
                values = peer.answered(values, entries.machine.arrived_at(peer.number))
            if values.size == HEADER:  # without entries there is nothing to doubt
                peer.acked, taken = int(max(0.0, values.item(1))), values
            else:
                taken = self._believed(entries, peer, values, told, fields, now)
        if taken is not None:
            peer.heard_round, peer.heard_start = frame.stamp.round, peer.incarnation
            peer.has_sent = True
            self.inbox[peer.number] = taken
        return unplaced

    def _heard_whole(self, peer: SessionPeer) -> int:
        """Return the last message of a neighbour's present start up to which nothing is missing."""
        return self._heard_up_to(peer) if peer.heard_start == peer.incarnation else 0

    def _believed(
        self,
        entries: EntryExchange,
        peer: SessionPeer,
        values: Vector,
        told: list[Told] | None,
        fields: Fields,
        now: float,
    ) -> Vector | None:
        try:
            checked = entries.check(peer, values, told, fields, now)
        except ForgedError as error:
            self.node.refuse(peer.link, "forged", str(error))
            return None
        except InputError as error:
            self.node.refuse(peer.link, "impossible", str(error))
            return None
        if checked.refused:
            self.node.refuse(peer.link, "revoked", checked.refused)
        taken, later = self._possible(peer, checked.values, now)
        if taken is None:
            return None
        peer.acked = int(max(0.0, taken.item(1)))
        if later or checked.later:  # without an acknowledgement it is sent again
            taken = taken.copy()
            taken[0] = self._heard_whole(peer)
        return taken

    def tick(self, now: float, gone: Collection[int] = ()) -> None:
        """End the round, send what is news, and see whether that is all."""
        entries, replica, inbox = self.entries, self.replica, self.inbox
        self.idle, has_sent_all = entries is not None, True
        proofs: Mapping[int, bytes] = {}
        certificates: Sequence[bytes] = ()
        if entries is not None:
            proofs, certificates = entries.book.fresh(replica)
            if entries.orders.rows:
                inbox = entries.with_orders(inbox)
        tick = self._aged = self.claims.ticks(now)
        if not self._end_round(inbox, proofs, certificates, tick=tick):
            replica.end_round(inbox, proofs, certificates, tick=tick)
        self.inbox = {}  # not before it is written: where the disk fails, the round ends later
        if gone:
            self.remove_neighbors(gone)
        if entries is not None:
            if entries.settle():
                self.greets_again = True  # it counts under another number now
            has_sent_all = entries.publish(now)
        linked = [peer for peer in self.peers.values() if peer.met]
        for peer in linked:
            values, fields = replica.agent.outgoing(peer.number), None
            is_news = True
            if entries is not None:
                if values is not None:
                    values, fields = entries.outgoing(peer, values)
                is_news = values is not None and values.size > HEADER
            if is_news or peer.number in self._owed:
                peer.frames["sent"] += 1
                self._send(peer, replica.rounds, values, fields)
                self._owed.discard(peer.number)
            if is_news:
                self.idle = False  # until its arrival is known
        if self.idle and linked:
            self.idle = has_sent_all

    def has_aged(self, now: float) -> bool:
        return self.claims.ticks(now) > self._aged

    def sign_again(self) -> bool:
        if self.entries is None or not self.entries.is_stale:
            return False
        self.idle = False
        return True

    def revoke(self, authors: frozenset[int]) -> None:
        if self.entries is not None:
            self.entries.revoke(authors, self.inbox)
        self.idle = False

    def _forget(self, number: int) -> None:
        """Drop messages that have not taken effect; orders go to the next neighbour's message."""
        self.inbox.pop(number, None)
        if self.entries is not None:
            self.entries.remove_neighbor(number)

    # Where messages have authors, neighbours acknowledge them

    def _is_delivered(self, since: int) -> bool:
        if self.entries is None:
            return super()._is_delivered(since)
        return self.entries.is_delivered

    def count_delivered(self) -> None:
        if self.entries is None:
            super().count_delivered()
        elif any(
            peer.acked >= self.entries.published_at for peer in self.peers.values() if peer.met
        ):
            self.delivered = self.entries.published_of


class SynchronousSession(Session):
    """Rounds that all neighbours end together."""

    replica: Replica

    def __init__(
        self, bandit: BanditConfig, replica: Replica, terms: Terms, sessions: Sessions
    ) -> None:
        super().__init__(bandit, replica, terms, sessions)
        self.spoke_at = -math.inf
        self.degrees: dict[int, int] = {}
        self.inboxes: dict[int, dict[int, Vector | None]] = {}
        waits = replica.spoken or (self.peers and not replica.degrees)
        self.next_tick = math.inf if waits else -math.inf  # wait for the neighbours first

    def _impossible(self, peer: SessionPeer, sentence: str) -> None:
        """Drop the link: the round cannot end without the message, and a new link resends it."""
        super()._impossible(peer, sentence)
        self.node.drop(peer.name, sentence)

    def _met(self, peer: SessionPeer, greeting: Greeting, rounds: int) -> None:
        """Resend what the neighbour may have missed; reject one too many rounds apart."""
        degree = greeting.degree
        known = self.replica.degrees.get(peer.number, degree)
        if known != degree:
            raise InputError(
                f"{peer.name} has {degree} neighbours now and had {known} when this epoch "
                "began; with a synchronous policy they change with a new epoch only"
            )
        behind = self.replica.rounds - rounds
        if abs(behind) >= KEPT_ROUNDS:
            raise InputError(
                f"{peer.name} has ended {rounds} rounds, and this agent {self.replica.rounds}: "
                "one of them has lost its memory; begin a new epoch, or restore its journal"
            )
        self.degrees[peer.number] = degree
        if not self.replica.degrees and len(self.degrees) == len(self.peers):
            try:
                self.replica.meet(self.degrees)
            except DiskError:
                raise
            except Exception as error:
                raise HalfDoneError("the first round could not be begun") from error
            self.next_tick = -math.inf
        for round_ in sorted(self.replica.sent):
            if round_ > rounds:
                peer.frames["resent"] += 1
                self._send(peer, round_, self.replica.sent[round_][peer.number])

    def _heard(self, peer: SessionPeer, arms: PeerArms, frame: DataFrame, now: float) -> list[int]:
        """Keep a message of this round or the next; the last missing one ends the round.

        Whether values are finite is checked when the round ends: it cannot end without them.
        """
        del arms  # the same as here
        values, round_, this = frame.values, frame.stamp.round, self.replica.rounds + 1
        if round_ < this:
            peer.frames["stale"] += 1
            return []
        if round_ > this + 1:
            text = f"a message of round {round_} came in round {this}"
            self.node.refuse(peer.link, "replayed", text)
            return []
        inbox = self.inboxes.setdefault(round_, {})
        if peer.number in inbox:
            peer.frames["duplicate"] += 1
        elif values is None or self._possible(peer, values, now)[0] is not None:
            peer.heard_round = round_
            peer.waited = max(0.0, now - self.spoke_at) if self.replica.spoken else 0.0
            inbox[peer.number] = values
            if len(inbox) == len(self.peers):
                self._end_if_complete(now)
        return []

    def tick(self, now: float, gone: Collection[int] = ()) -> None:
        """Send this round's messages; neighbours never change."""
        del gone
        messages = self.replica.speak()
        self.next_tick = math.inf
        for j, values in messages.items():
            peer = self.peers[j]
            if peer.met:
                peer.frames["sent"] += 1
                self._send(peer, self.replica.rounds + 1, values)
        self.spoke_at = now
        self._end_if_complete(now)

    def _end_if_complete(self, now: float) -> None:
        inbox = self.inboxes.get(self.replica.rounds + 1, NOTHING)
        if not self.replica.spoken or len(inbox) < len(self.peers):
            return
        messages = {j: values for j, values in inbox.items() if values is not None}
        if self._end_round(messages):
            self.inboxes.pop(self.replica.rounds, None)
            self.next_tick = max(now, self.spoke_at + self.node.period)
            return
        # Make room for the rejected ones to be sent again: their links are dropped.
        for j in [j for j, values in inbox.items() if values is not None and j not in messages]:
            del inbox[j]

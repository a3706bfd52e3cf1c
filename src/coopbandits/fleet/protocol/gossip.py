"""When rounds end and what is sent: two modes, one of which the policy needs.

*Robust*: a round ends by the clock, with the newest message of each neighbour that sent one; then
every connected neighbour gets a message. Nobody waits. A lost message only delays news.

*Synchronous*: round r + 1 ends once the messages of round r + 1 of all neighbours have arrived.
When a link comes up, each agent tells how many rounds it has completed and is resent what it may
have missed; messages of the last rounds are kept for that. Neighbours are at most one round apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.claims import PartlyImpossibleError
from coopbandits.core.aggregate.entries import HEADER, Attributed
from coopbandits.core.aggregate.messages import all_finite
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.notary import Signing
from coopbandits.fleet.protocol.entries import EntryExchange
from coopbandits.fleet.protocol.frames import Fields, Greeting
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.proofs import ForgedError
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.replica import KEPT_ROUNDS, OWN_ERRORS, Replica

Say = Callable[[Peer, int, Vector | None, Fields | None], None]
"""Sends a neighbour the values of a round, and fields beside them."""

Refuse = Callable[[Peer, str, str], None]
"""Counts a refused frame of a neighbour; takes the reason as a keyword and as a sentence."""


NOTHING: dict[int, Vector | None] = {}


class HalfDoneError(Exception):
    """A bug came up while the agent's state was changing, which may be half changed now."""


class Wire(NamedTuple):
    """What gossip asks of the protocol around it."""

    say: Say
    refuse: Refuse
    greet_again: Callable[[], None]
    """Greets all neighbours about this bandit again."""
    drop: Callable[[str, str], None]
    """Drops the link to a neighbour, for a reason."""


class Gossip(ABC):
    """One agent's part in the gossip about one bandit.

    Parameters
    ----------
    replica : Replica
        The agent's state.
    peers : dict of int to Peer
        The neighbours by number.
    period : float
        Seconds between two rounds.
    claims : Claims
        What neighbours' claims are checked against.
    signing : Signing
        Who signs, where messages have authors.
    wire : Wire
        Sends and refuses messages.

    Attributes
    ----------
    told : int
        Of the rewards counted since the start, how many a neighbour has.
    """

    def __init__(
        self,
        replica: Replica,
        peers: dict[int, Peer],
        period: float,
        claims: Claims,
        signing: Signing,
        wire: Wire,
    ) -> None:
        self.replica, self.peers, self.period, self.claims = replica, peers, period, claims
        self.declared_rate = claims.rate  # of pulls; that of the cluster's document may be higher
        self.signing = signing
        self.entries: EntryExchange | None = None
        self.say, self.refuse, self.greet_again, self.drop = wire
        self.idle = False  # whether nothing is left to do until something is heard, met or observed
        self.next_tick = math.inf  # of rounds that do not end by the clock
        self.told = 0  # of the rewards counted since the start, how many a neighbour has
        self._telling = 0, 0  # by which message it will have more, and how many

    @abstractmethod
    def met(self, peer: Peer, greeting: Greeting, rounds: int) -> None:
        """Handle a neighbour's greeting, and the rounds it has completed."""

    def last_of(self, peer: Peer) -> tuple[int, int, int]:
        """Return which message of a neighbour was heard last: its memory, start and number."""
        del peer
        return 0, 0, 0  # where none is acknowledged

    def heard_whole(self, peer: Peer) -> int:
        """Return the last message of a neighbour's present start up to which nothing is missing."""
        return self.last_of(peer)[2] if peer.heard_start == peer.incarnation else 0

    @abstractmethod
    def heard(
        self, peer: Peer, round_: int, values: Vector | None, fields: Fields, now: float
    ) -> None:
        """Handle a neighbour's message of a round: None if it has nothing to say."""

    def take_in(self, peer: Peer) -> None:
        """Go on with one more neighbour."""
        self.replica.relink({*self.peers, peer.number})
        self.peers[peer.number] = peer

    def let_go(self, numbers: Collection[int]) -> None:
        """Go on without some neighbours, right after the end of a round.

        By then nothing of theirs is waiting, and nothing was told of the next round, which might
        be told to others now.
        """
        self.replica.relink(self.peers.keys() - numbers)
        for number in numbers:
            self.peers.pop(number, None)
            self.forget(number)

    def forget(self, number: int) -> None:  # noqa: B027  most keep nothing
        """Drop what is kept for, or of, somebody who is no neighbour any more."""

    def revoke(self, authors: frozenset[int]) -> None:  # noqa: B027  most have no authors
        """Believe nothing of some authors any more, where messages have authors."""

    @abstractmethod
    def tick(self, now: float, gone: Collection[int] = ()) -> None:
        """Do what is due; let go of neighbours that have `gone`."""

    def has_aged(self, now: float) -> bool:
        """Return whether time has passed since the last round by which pulls count less."""
        del now
        return False

    def go_on_from(self, before: Gossip) -> None:
        """Take over what is known of this life; it was begun anew with other arms."""
        self.told = before.told

    def telling(self) -> Callable[[], bool]:
        """Return what says whether linked neighbours were told all that is known by now."""
        since = self.replica.rounds
        return lambda: self.is_told(since)

    def is_told(self, since: int) -> bool:
        """Return whether linked neighbours were told all that was known after a round."""
        return self.replica.rounds >= since + 2

    def note_told(self) -> None:
        """Note how many rewards somebody else knows of; called now and then."""
        message, rewards = self._telling
        if rewards > self.told and self._has_arrived(message):
            self.told = rewards
        if rewards == self.told:
            self._telling = self.replica.rounds + 2, self.replica.observed

    def _has_arrived(self, message: int) -> bool:
        """Return whether a neighbour has what was told in a round; without answers, in the next."""
        linked = any(peer.met for peer in self.peers.values())
        return linked and self.replica.rounds > message

    def _possible(self, peer: Peer, values: Vector, now: float) -> tuple[Vector | None, bool]:
        """Refuse a message, or a part of it, that tells of what cannot have happened.

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

    def _impossible(self, peer: Peer, sentence: str) -> None:
        self.refuse(peer, "impossible", sentence)

    def _end_round(
        self,
        inbox: dict[int, Vector],
        proofs: Mapping[int, bytes] = MappingProxyType({}),
        certificates: Sequence[bytes] = (),
        *,
        tick: int = 0,
    ) -> bool:
        """Try to end a round; if the agent refuses messages, remove them and return False."""
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


class RobustGossip(Gossip):
    """Rounds by the clock; floods end them only while there is news, or an answer is due."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._owed: set[int] = set()  # whom to answer
        self.inbox: dict[int, Vector] = {}
        self._aged = self.claims.ticks(0.0)  # when the last round ended, by the clock
        if isinstance(getattr(self.replica.agent, "machine", None), Attributed):
            self.entries = EntryExchange(self.replica, self.claims, self.peers, self.signing)
            self.inbox = self.entries.begin()

    def met(self, peer: Peer, greeting: Greeting, rounds: int) -> None:
        """Expect messages of later rounds than this one.

        Something is sent in any case: a neighbour waits for it before it tells of new pulls.
        """
        peer.heard_round = rounds
        if self.entries is not None:
            pending = self.entries.met(peer, greeting, self.inbox.get(peer.number))
            if pending is not None:
                self.inbox[peer.number] = pending
        self._owed.add(peer.number)
        self.idle = False

    def last_of(self, peer: Peer) -> tuple[int, int, int]:
        """Return the same; it may not have taken effect yet."""
        known = peer.number in self.peers and peer.heard_start != 0  # since this start
        if self.entries is None or not known:
            return 0, 0, 0
        number = self.entries.last_heard(peer, self.inbox.get(peer.number))
        return peer.memory, peer.heard_start, int(number)

    def heard(
        self, peer: Peer, round_: int, values: Vector | None, fields: Fields, now: float
    ) -> None:
        """Keep the newest message, as far as what it claims is possible.

        News is answered, and an answer is not.
        """
        if values is not None and values.size > HEADER:
            self._owed.add(peer.number)
        self.idle = False
        if values is not None and not self._is_finite(values):
            self.refuse(peer, "not finite", "a message with values that are not finite")
            return
        if round_ <= peer.heard_round:
            self.refuse(peer, "replayed", f"a message of round {round_} came again, or too late")
            return
        if values is None:
            return
        if peer.former and self.entries is not None:
            values = peer.answered(values, self.entries.machine.arrived_at(peer.number))
        if self.entries is not None and values.size == HEADER:
            peer.acked = int(max(0.0, values.item(1)))  # without entries there is nothing to doubt
        else:
            taken = self._believed(peer, values, fields, now)
            if taken is None:
                return
            values = taken
        peer.heard_round, peer.heard_start = round_, peer.incarnation
        peer.has_told = True
        self.inbox[peer.number] = values

    def _is_finite(self, values: Vector) -> bool:
        if self.entries is not None and self.entries.machine.quickly(values) is not None:
            return True
        return all_finite(values)

    def _believed(self, peer: Peer, values: Vector, fields: Fields, now: float) -> Vector | None:
        """Return what is believed of a message."""
        if self.entries is None:
            return self._possible(peer, values, now)[0]
        try:
            sifted = self.entries.sift(peer, values, fields, now)
        except ForgedError as error:
            self.refuse(peer, "forged", str(error))
            return None
        except InputError as error:
            self.refuse(peer, "impossible", str(error))
            return None
        if sifted.refused:
            self.refuse(peer, "revoked", sifted.refused)
        taken, later = self._possible(peer, sifted.values, now)
        if taken is None:
            return None
        peer.acked = int(max(0.0, taken.item(1)))
        if later or sifted.later:  # without an acknowledgement it is sent again
            taken = taken.copy()
            taken[0] = self.heard_whole(peer)
        return taken

    def tick(self, now: float, gone: Collection[int] = ()) -> None:
        """End the round, send what is news, and see whether that is all."""
        self.idle = self.entries is not None
        entries, replica, inbox = self.entries, self.replica, self.inbox
        proofs: tuple[Any, ...] = ()
        if entries is not None:
            proofs = entries.book.fresh(replica)
            inbox = entries.with_orders(inbox) if entries.orders else inbox
        tick = self._aged = self.claims.ticks(now)
        if not self._end_round(inbox, *proofs, tick=tick):
            replica.end_round(inbox, *proofs, tick=tick)
        self.inbox = {}  # not before it is written: where the disk fails, the round ends later
        if gone:
            self.let_go(gone)
        if entries is not None:
            if entries.settle():
                self.greet_again()  # it counts under another number now
            entries.publish(now)
        for j, peer in self.peers.items():
            if peer.met:
                self._tell(peer, *self._message(j, peer))
        if self.idle and entries is not None and any(p.met for p in self.peers.values()):
            self.idle = entries.has_told_all

    def _message(self, j: int, peer: Peer) -> tuple[Vector | None, Fields | None]:
        values = self.replica.agent.outgoing(j)
        if self.entries is None or values is None:
            return values, None
        return self.entries.outgoing(peer, values)

    def _tell(self, peer: Peer, values: Vector | None, fields: Fields | None) -> None:
        is_news = self.entries is None or (values is not None and values.size > HEADER)
        if is_news or peer.number in self._owed:
            peer.frames["sent"] += 1
            self.say(peer, self.replica.rounds, values, fields)
            self._owed.discard(peer.number)
        if is_news:
            self.idle = False  # until its arrival is known

    def is_told(self, since: int) -> bool:
        """Return the same; where messages have authors, neighbours acknowledge them."""
        return super().is_told(since) if self.entries is None else self.entries.is_told

    def note_told(self) -> None:
        """Note the same; what is signed was counted before."""
        entries = self.entries
        if entries is None:
            super().note_told()
        elif self._has_arrived(entries.published_at):
            self.told = entries.published_of

    def _has_arrived(self, message: int) -> bool:
        """Return the same; where messages have authors, neighbours acknowledge them."""
        if self.entries is None:
            return super()._has_arrived(message)
        return any(peer.acked >= message for peer in self.peers.values() if peer.met)

    def revoke(self, authors: frozenset[int]) -> None:
        """Believe nothing of some authors any more."""
        if self.entries is not None:
            self.entries.revoke(authors, self.inbox)
        self.idle = False

    def has_aged(self, now: float) -> bool:
        """Return whether time has passed since the last round by which pulls count less."""
        return self.claims.ticks(now) > self._aged

    def forget(self, number: int) -> None:
        """Drop what it said and has not taken effect; orders are given by the next neighbour."""
        self.inbox.pop(number, None)
        if self.entries is not None:
            self.entries.let_go(number)

    def go_on_from(self, before: Gossip) -> None:
        """Take over what is known of this life; it was begun anew with other arms."""
        super().go_on_from(before)
        if self.entries is not None and before.entries is not None:
            self.entries.go_on_from(before.entries)


class SynchronousGossip(Gossip):
    """Rounds that all neighbours end together."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.spoke_at = -math.inf
        self.degrees: dict[int, int] = {}
        self.inboxes: dict[int, dict[int, Vector | None]] = {}
        waits = self.replica.spoken or (self.peers and not self.replica.degrees)
        self.next_tick = math.inf if waits else -math.inf  # wait for the neighbours first

    def _impossible(self, peer: Peer, sentence: str) -> None:
        """Drop the link: the round cannot end without the message, and a new link resends it."""
        super()._impossible(peer, sentence)
        self.drop(peer.name, sentence)

    def met(self, peer: Peer, greeting: Greeting, rounds: int) -> None:
        """Resend what the neighbour may have missed; refuse one too many rounds apart."""
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
            self._begin()
        for round_ in sorted(self.replica.sent):
            if round_ > rounds:
                peer.frames["resent"] += 1
                self.say(peer, round_, self.replica.sent[round_][peer.number], None)

    def _begin(self) -> None:
        try:
            self.replica.meet(self.degrees)
        except DiskError:
            raise
        except Exception as error:
            raise HalfDoneError("the first round could not be begun") from error
        self.next_tick = -math.inf

    def heard(
        self, peer: Peer, round_: int, values: Vector | None, fields: Fields, now: float
    ) -> None:
        """Keep a message of this round or the next; the last missing one ends the round.

        Whether values are finite is checked when the round ends: it cannot end without them.
        """
        del fields
        this = self.replica.rounds + 1
        if round_ < this:
            peer.frames["stale"] += 1
            return
        if round_ > this + 1:
            self.refuse(peer, "replayed", f"a message of round {round_} came in round {this}")
            return
        inbox = self.inboxes.setdefault(round_, {})
        if peer.number in inbox:
            peer.frames["duplicate"] += 1
        elif values is None or self._possible(peer, values, now)[0] is not None:
            peer.heard_round = round_
            peer.waited = max(0.0, now - self.spoke_at) if self.replica.spoken else 0.0
            inbox[peer.number] = values
            if len(inbox) == len(self.peers):
                self._end_if_complete(now)

    def tick(self, now: float, gone: Collection[int] = ()) -> None:
        """Send this round's messages; neighbours are the same for ever."""
        del gone
        messages = self.replica.speak()
        self.next_tick = math.inf
        for j, values in messages.items():
            peer = self.peers[j]
            if peer.met:
                peer.frames["sent"] += 1
                self.say(peer, self.replica.rounds + 1, values, None)
        self.spoke_at = now
        self._end_if_complete(now)

    def _end_if_complete(self, now: float) -> None:
        inbox = self.inboxes.get(self.replica.rounds + 1, NOTHING)
        if not self.replica.spoken or len(inbox) < len(self.peers):
            return
        said = {j: values for j, values in inbox.items() if values is not None}
        if not self._end_round(said):
            self._forget_refused(inbox, said)
            return
        self.inboxes.pop(self.replica.rounds, None)
        self.next_tick = max(now, self.spoke_at + self.period)

    def _forget_refused(self, inbox: dict[int, Vector | None], kept: dict[int, Vector]) -> None:
        """Make room for messages to be sent again; refusing one has dropped its link."""
        for j in [j for j, values in inbox.items() if values is not None and j not in kept]:
            del inbox[j]

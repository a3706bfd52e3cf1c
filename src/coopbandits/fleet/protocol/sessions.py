"""Gossip about all bandits over one set of links: a session for each.

After HELLO both ends greet about every bandit that they have: name, a digest of its settings, the
ids of its arms, and which memory and messages it has. They exchange messages about a bandit that
both have under one number, name and digest; about others nothing is sent. An arm that only the
neighbour has is added here without a name, so that what is heard of it can be passed on
(`arms`); it is not chosen. Where an agent has new arms, it greets again and asks for an answer.
Policies whose arms cannot change need the same arms in the same order on all agents.

All that is sent in one round goes to a neighbour at once. A flood without news sends nothing, ends
no round and writes nothing. Sessions of synchronous policies end their rounds when all messages
have arrived, all others by the clock.

Greetings about one bandit are worked on a few times a second: each may take a new agent, and an
answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from coopbandits.core.aggregate import Claims
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.identity.notary import Signing
from coopbandits.fleet.protocol.arms import (
    MOST_LISTED,
    MOST_UNNAMED,
    Order,
    Strange,
    idle_arms,
    in_own_order,
    order_of,
    pack_arms,
    room_for,
    unpack_arms,
)
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
from coopbandits.fleet.protocol.gossip import Gossip, RobustGossip, SynchronousGossip, Wire
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.storage.purging import PURGED
from coopbandits.fleet.storage.records import Declared
from coopbandits.fleet.storage.replica import Bandits, Replica

RETRY_SECONDS = 1.0
"""Between two looks at a journal that cannot be written."""

PLACE_SECONDS = 10.0
"""Arms of which one neighbour tells pulls get places once in so many seconds, and keep them for as
long without pulls, which are told again then. Each time all neighbours are greeted anew, and own
pulls held back for up to `entries.PATIENCE`."""


class Terms(NamedTuple):
    """By what one bandit's messages are checked and signed."""

    claims: Claims
    signing: Signing


class Links(NamedTuple):
    """What sessions ask of the protocol around them.

    Attributes
    ----------
    peers : mapping
        The neighbours by id.
    stamp : Stamp
        Epoch and incarnation of this agent.
    period : float
        Seconds between two rounds.
    send : callable
        Sends bytes to a neighbour.
    refuse : callable
        Counts something refused, by a keyword and a sentence.
    drop : callable
        Drops the link to a neighbour, for a reason.
    """

    peers: Mapping[str, Peer]
    stamp: Stamp
    period: float
    send: Callable[[Peer, bytes, float], None]
    refuse: Callable[[Peer, str, str], None]
    drop: Callable[[str, str], None]


class Session:
    """What is said of one bandit."""

    def __init__(
        self,
        bandit: BanditConfig,
        replica: Replica,
        terms: Terms,
        links: Links,
        neighbors: Iterable[Peer],
        say: Say,
    ) -> None:
        self.bandit, self.replica, self.links = bandit, replica, links
        shared = links.stamp
        self.stamp = Stamp(len(replica.arms), shared.epoch, 0, shared.incarnation, bandit.number)
        self.form = plain_form(self.stamp)
        self.arms = list(replica.arms)
        self.orders: dict[int, Order] = {}
        self.strange: dict[int, Strange] = {}
        self.greetings: dict[int, BanditFrame] = {}  # the last of each neighbour
        self.spared: dict[int, float] = {}  # until when arms keep their places
        self.peers = {peer.number: _peer_of(peer) for peer in neighbors}
        self._say = say
        kind = SynchronousGossip if bandit.is_synchronous else RobustGossip
        self.gossip: Gossip = kind(
            replica, self.peers, links.period, terms.claims, terms.signing,
            Wire(self._tell, links.refuse, self._greet_again, links.drop),
        )  # fmt: skip
        self.greets_again = False

    def _tell(self, peer: Peer, round_: int, values: Vector | None, fields: Fields | None) -> None:
        if values is None or fields is not None or len(values) > MAX_PLAIN:
            self._say(peer.name, encode_data(self._stamp(round_), values, fields))
        else:
            self._say(peer.name, encode_plain(self.form, round_, values))

    def _stamp(self, round_: int) -> Stamp:
        stamp = self.stamp
        return Stamp(stamp.num_arms, stamp.epoch, round_, stamp.incarnation, stamp.bandit)

    def _greet_again(self) -> None:
        self.greets_again = True

    def greeting(self, peer: Peer, *, ask: bool) -> bytes:
        """Return what a neighbour is told of this bandit before anything else."""
        entries, word = self.gossip.entries, self.replica.journal.origin["word"]
        told = (word, (0, 0, 0))
        if entries is not None:
            told = (entries.memory, self.gossip.last_of(self.peers[peer.number]))
        bandit, arms = self.bandit, pack_arms(self.replica.arms)
        greeting = Greeting(bandit.name, bandit.digest, arms, *told, len(self.peers), ask)
        return encode_greeting(self._stamp(self.replica.rounds), greeting)

    def met(self, link: Peer, frame: BanditFrame, now: float) -> None:
        """Session to a neighbour from now on."""
        peer = self.peers[link.number]
        order = order_of(self.replica, unpack_arms(frame.greeting.arms))
        self.orders[link.number] = order
        if self.bandit.can_widen:
            self.strange[link.number] = Strange(self.replica, order)
        peer.down("")
        if link.decoder is not None:
            peer.up(link.decoder, now)
            stamp = self.stamp
            link.decoder.expect(
                Stamp(len(order.arms), stamp.epoch, 0, link.incarnation, stamp.bandit)
            )
        peer.incarnation = link.incarnation
        self.gossip.met(peer, frame.greeting, frame.stamp.round)
        peer.met = True
        self.greetings[link.number] = frame

    def heard(self, link: Peer, frame: DataFrame, now: float) -> list[int]:
        """Hand a message to the gossip, its arms in the own order.

        Returns the arms of which it tells pulls for which there is no place; these are left out.
        """
        peer, order, values = self.peers[link.number], self.orders.get(link.number), frame.values
        if order is None or not peer.met:
            link.frames["stale"] += 1  # it was said before the last greeting
            return []
        if frame.stamp.num_arms != len(order.arms):
            sentence = f"a message about {frame.stamp.num_arms} arms of {len(order.arms)}"
            self.links.refuse(link, "arms", sentence)
            return []
        fields, homeless = frame.fields, []
        strange = self.strange.get(link.number)
        if values is not None and strange is not None:
            homeless = strange.pulled(values, strange.arms)
            if homeless:
                left = strange.left(values, fields)
                if left is None:
                    link.frames["stale"] += 1  # it comes again
                    return homeless
                values, fields = left
                values[0] = self.gossip.heard_whole(peer)
            values, fields = in_own_order(self.replica, order, values, fields)
        self.gossip.heard(peer, frame.stamp.round, values, fields, now)
        return homeless

    def let_go(self, numbers: Collection[int]) -> None:
        """Go on without some neighbours."""
        self.gossip.let_go(numbers)
        for number in numbers:
            self.orders.pop(number, None)
            self.strange.pop(number, None)

    def down(self, link: Peer, reason: str) -> None:
        """Note that a link went down; whoever only asked for one was never talked to."""
        self.greetings.pop(link.number, None)
        if link.number in self.peers:
            self.peers[link.number].down(reason)


def _peer_of(link: Peer) -> Peer:
    return Peer(link.name, link.number, link.last_heard, frames=link.frames)


Say = Callable[[str, bytes], None]


class Sessions:
    """The sessions of one agent, by the number of the bandit.

    Parameters
    ----------
    bandits : Bandits
        The state of all.
    terms : callable
        Returns by what the messages of a bandit are checked.
    links : Links
        The neighbours.
    """

    def __init__(
        self, bandits: Bandits, terms: Callable[[BanditConfig, Replica], Terms], links: Links
    ) -> None:
        self.bandits, self.terms, self.links = bandits, terms, links
        self._next_round = self._not_before = -math.inf
        self.sessions: dict[int, Session] = {}
        self._waiting: dict[int, Gossip] = {}  # of synchronous bandits
        self.awake: dict[int, Session] = {}
        self._revoked: frozenset[int] = frozenset()
        self.begun: Callable[[Gossip], None] = lambda _: None
        self._unsent: dict[str, list[bytes]] = {}
        self.peers = {peer.number: peer for peer in links.peers.values()}
        self._greetings = Greetings()
        self._next_places: dict[tuple[int, int], float] = {}

    # Declarations

    def take(self, declared: Iterable[BanditConfig]) -> None:
        """Have a session about each of these bandits, with the arms that its replica has."""
        for bandit in declared:
            session = self.sessions.get(bandit.number)
            replica = self.bandits.replicas[bandit.number]
            if session is not None and session.arms == list(replica.arms):
                session.bandit, gossip = bandit, session.gossip
                # Never less while it runs: neighbours may not have heard of a lower rate yet.
                rate = max(gossip.declared_rate, bandit.most_pulls)
                gossip.declared_rate = rate
                self.begun(gossip)
                continue
            self._begin(bandit, replica)

    def _begin(self, bandit: BanditConfig, replica: Replica) -> Session:
        replica.relink(self.peers)
        terms = self.terms(bandit, replica)
        session = Session(bandit, replica, terms, self.links, self.peers.values(), self._say)
        if bandit.number in self.sessions:
            before = self.sessions[bandit.number]
            session.gossip.go_on_from(before.gossip)
            session.spared = {arm: end for arm, end in before.spared.items() if arm in replica.arms}
        self.begun(session.gossip)
        session.gossip.revoke(self._revoked)
        self.sessions[bandit.number] = session
        if bandit.is_synchronous:
            self._waiting[bandit.number] = session.gossip
        self.wake(bandit.number)
        self._greet(session, ask=True)
        return session

    def _greet(self, session: Session, *, ask: bool) -> None:
        for peer in self.links.peers.values():
            if peer.met:
                self.links.send(peer, session.greeting(peer, ask=ask), peer.last_heard)

    # Links

    def take_in(self, peer: Peer) -> None:
        """Go on with one more neighbour."""
        for session in self.sessions.values():
            session.gossip.take_in(_peer_of(peer))
        self.peers[peer.number] = peer

    def let_go(self, numbers: Collection[int]) -> None:
        """Go on without some neighbours."""
        for session in self.sessions.values():
            session.let_go(numbers)
        for number in numbers:
            self.peers.pop(number, None)
        self._greetings.let_go(numbers)
        for key in [key for key in self._next_places if key[1] in numbers]:
            del self._next_places[key]

    def met(self, peer: Peer, now: float) -> None:
        """Greet about all bandits, once HELLO was said."""
        greetings = [session.greeting(peer, ask=False) for session in self.sessions.values()]
        self.links.send(peer, b"".join(greetings), now)

    def down(self, peer: Peer, reason: str) -> None:
        """Note that a link went down."""
        for session in self.sessions.values():
            session.down(peer, reason)
        self._greetings.down(peer.number)

    def greeted(self, link: Peer, frame: BanditFrame, now: float) -> None:
        """Compare what a neighbour has; talk about it where both have the same."""
        number, greeting = frame.stamp.bandit, frame.greeting
        session = self.sessions.get(number)
        if session is not None and self._is_again(link, session, frame):
            return
        if not self._is_due(link, frame, now):
            return
        try:
            if session is None:
                self._require_free(link, number, greeting)
                return
            self._require_same(link, session, greeting)
            session = self._with_arms(link, session, unpack_arms(greeting.arms))
            session.met(link, frame, now)
        except InputError as error:
            self.links.refuse(link, "bandit", str(error))
            if session is not None:
                session.down(link, str(error))
            return
        self.wake(number)
        if greeting.ask:
            self.links.send(link, session.greeting(link, ask=False), now)
        self._flush(now)

    def _is_again(self, link: Peer, session: Session, frame: BanditFrame) -> bool:
        """Return whether a greeting is the last one, and no other came since."""
        key = session.bandit.number, link.number
        return key not in self._greetings.late and session.greetings.get(link.number) == frame

    def _is_due(self, link: Peer, frame: BanditFrame, now: float) -> bool:
        """Return whether to work on a greeting; of too many, the last is kept for later."""
        greetings, is_known = self._greetings, frame.stamp.bandit in self.sessions
        key = frame.stamp.bandit if is_known else 0, link.number
        if greetings.is_due(key, now):
            return True
        if greetings.late.get(key, frame) is not frame or not is_known:
            self.links.refuse(link, "bandit", f"more than {MOST_GREETINGS} greetings in a second")
        if is_known:
            greetings.late[key] = frame
        return False

    def _require_free(self, link: Peer, number: int, greeting: Greeting) -> None:
        """Say where a name stands for another number here; what is not known here is no mistake."""
        for session in self.sessions.values():
            if session.bandit.name == greeting.name:
                raise InputError(
                    f"{link.name} has bandit {greeting.name} under the number {number}, and here "
                    f"it has {session.bandit.number}; state one number for it on all nodes"
                )

    def _require_same(self, link: Peer, session: Session, greeting: Greeting) -> None:
        bandit = session.bandit
        if greeting.name != bandit.name:
            raise InputError(
                f"{link.name} has bandit {bandit.number} under the name {greeting.name!r}, and "
                f"here it is {bandit.name!r}; give each its own number"
            )
        if greeting.digest != bandit.digest:
            raise InputError(
                f"{link.name} has other settings of bandit {bandit.name}; compare its policy, "
                "rewards, half_life and features on both nodes"
            )
        if not bandit.can_widen and unpack_arms(greeting.arms) != list(session.replica.arms):
            raise InputError(
                f"{link.name} has other arms of bandit {bandit.name}, or another order; with "
                f"policy {bandit.policy} they must be the same on all nodes"
            )

    def _with_arms(self, link: Peer, session: Session, theirs: list[int]) -> Session:
        """Return the session with places for some arms that only a neighbour has."""
        replica = session.replica
        if len(set(theirs)) < len(theirs):
            raise InputError(f"{link.name} has an arm of {session.bandit.name} twice")
        known = {*replica.arms, *replica.purged, PURGED}
        fresh = [arm for arm in theirs if arm not in known]
        taken = fresh[: room_for(replica, MOST_LISTED)]
        if (len(taken) < len(fresh) or PURGED in theirs) and PURGED not in replica.arms:
            taken.append(PURGED)
        return self._add(session, taken) if taken else session

    def _add(self, session: Session, arms: Iterable[int]) -> Session:
        known = session.replica.declared
        session.replica.declare(Declared(known.name, known.shared, dict.fromkeys(arms, "")))
        return self._begin(session.bandit, session.replica)

    def _make_room(
        self, link: Peer, session: Session, arms: list[int], values: Vector, now: float
    ) -> None:
        """Give places to arms of whose pulls a message tells; where none is free, of such without.

        Where it tells of more than there are places for, all of it is left out, and it is of no use
        to take these from each other.
        """
        number, replica = session.bandit.number, self.bandits.replicas[session.bandit.number]
        if now < self._next_places.get((number, link.number), now):
            return  # it comes again
        self._next_places[number, link.number] = now + PLACE_SECONDS
        taken = arms[: room_for(replica, MOST_UNNAMED)]
        if taken:
            session.spared |= dict.fromkeys(taken, now + PLACE_SECONDS)
            self._add(session, taken)
            return
        idle, strange = idle_arms(replica), session.strange[link.number]
        kept = {arm for arm, end in session.spared.items() if now < end}
        kept |= set(strange.pulled(values, [arm for arm in idle if arm in strange.order.arms]))
        others = dict(zip([arm for arm in idle if arm not in kept], arms, strict=False))
        if others:
            replica.replace(others)
            session.spared |= dict.fromkeys(others.values(), now + PLACE_SECONDS)
            self._begin(session.bandit, replica)
        else:
            told = f"pulls of {len(arms)} arms of {session.bandit.name} that nobody declared here"
            self.links.refuse(link, "arms", f"{told}, and there is no place for more")

    def heard(self, link: Peer, frame: DataFrame, now: float) -> None:
        """Hand a message to the session that it belongs to."""
        session = self.sessions.get(frame.stamp.bandit)
        if session is None:
            self.links.refuse(link, "bandit", f"a message about bandit {frame.stamp.bandit}")
            return
        if (frame.stamp.bandit, link.number) in self._greetings.late:
            link.frames["stale"] += 1  # its arms are those of a greeting that is not read yet
            return
        self.wake(frame.stamp.bandit)
        homeless = session.heard(link, frame, now)
        if homeless and frame.values is not None:
            self._make_room(link, session, homeless, frame.values, now)

    def revoke(self, authors: frozenset[int]) -> None:
        """Believe nothing of some authors any more."""
        self._revoked = authors
        for number, session in self.sessions.items():
            session.gossip.revoke(authors)
            self.wake(number)

    # Rounds

    def wake(self, number: int) -> None:
        """Look at a bandit when rounds end next: there is something to do."""
        if number in self.sessions and number not in self._waiting:
            self.awake[number] = self.sessions[number]

    def age(self, now: float) -> None:
        """Wake those by whose clock pulls count less by now."""
        for number, session in self.sessions.items():
            if session.gossip.has_aged(now):
                self.wake(number)

    def telling(self) -> Callable[[], bool]:
        """Return what says whether linked neighbours were told all that is known by now."""
        told = {number: session.gossip.telling() for number, session in self.sessions.items()}
        return lambda: all(
            are() for number, are in told.items() if number in self.awake or number in self._waiting
        )

    @property
    def any_waits(self) -> bool:
        """Whether a bandit's rounds wait for all neighbours."""
        return bool(self._waiting)

    @property
    def next_tick(self) -> float:
        """The time of the next `tick` that has something to do."""
        due = min((gossip.next_tick for gossip in self._waiting.values()), default=math.inf)
        return max(self._not_before, min(self._next_round, due))

    def tick(self, now: float, gone: set[int]) -> None:
        """End the rounds of all bandits with news, and send what is new.

        Neighbours that have `gone` are let go of where rounds end by the clock, and taken out.
        While the journal cannot be written, rounds wait, and all that was heard stays.
        """
        if self.bandits.journal.trouble:
            self._not_before = now + RETRY_SECONDS
            return
        for (_, peer), frame in list(self._greetings.late.items()):
            self.greeted(self.peers[peer], frame, now)
        if now >= self._next_round:
            period = self.links.period
            self._next_round = max(self._next_round + period, now + 0.5 * period)
            self._end_rounds(now, gone)
        for gossip in self._waiting.values():
            if gossip.next_tick <= now:
                gossip.tick(now)
        self._flush(now)

    def _end_rounds(self, now: float, gone: set[int]) -> None:
        for session in list(self.awake.values()):
            session.gossip.tick(now, gone)
        if gone:
            self.let_go(gone)  # of the others nothing is waiting
            gone.clear()
        for number, session in list(self.awake.items()):
            if session.greets_again:
                session.greets_again = False
                self._greet(session, ask=True)
            elif session.gossip.idle:
                del self.awake[number]

    def _say(self, peer: str, data: bytes) -> None:
        self._unsent.setdefault(peer, []).append(data)

    def _flush(self, now: float) -> None:
        """Send what was said, to each neighbour at once."""
        unsent, self._unsent = self._unsent, {}
        for name, frames in unsent.items():
            self.links.send(self.links.peers[name], b"".join(frames), now)


MOST_GREETINGS = 10
"""So many of one bandit and neighbour are worked on per second, of others the last one later."""

Key = tuple[int, int]
"""The numbers of a bandit, 0 for all that are unknown here, and of a neighbour."""


class Greetings:
    """When greetings came lately, and those that are still to be worked on."""

    def __init__(self) -> None:
        self._counts: dict[Key, tuple[float, int]] = {}  # since when, and how many
        self.late: dict[Key, BanditFrame] = {}

    def is_due(self, key: Key, now: float) -> bool:
        """Return whether to work on a greeting now, and count it if so."""
        since, many = self._counts.get(key, (now, 0))
        if now >= since + 1.0:
            since, many = now, 0
        if many >= MOST_GREETINGS:
            return False
        self._counts[key] = since, many + 1
        self.late.pop(key, None)
        return True

    def down(self, neighbor: int) -> None:
        """Forget what a neighbour said over a link that is down."""
        for key in [key for key in self.late if key[1] == neighbor]:
            del self.late[key]

    def let_go(self, neighbors: Collection[int]) -> None:
        """Forget some neighbours."""
        for key in [key for key in self._counts if key[1] in neighbors]:
            del self._counts[key]

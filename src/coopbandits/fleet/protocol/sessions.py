"""Gossip about all bandits over one set of links: a session for each.

What is sent in one round goes to a neighbour at once. Sessions of synchronous policies end their
rounds when all messages have arrived (`gossip`), all others by the clock.

Greetings say which arms an agent has. An arm that only the neighbour has is added here without a
name, so that what is heard of it can be passed on (`arms`). Where an agent has new arms, it greets
again and asks for an answer. Policies whose arms cannot change need the same arms in the same order
on all agents. Each greeting may take a new agent and an answer, so only a few a second are handled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.config.bandits import DEFAULT_POLICIES, BanditConfig
from coopbandits.fleet.protocol.arms import (
    MOST_LISTED,
    MOST_UNNAMED,
    idle_arms,
    room_for,
    unpack_arms,
)
from coopbandits.fleet.protocol.entries import EntryExchange
from coopbandits.fleet.protocol.frames import BASE, BanditFrame, DataFrame, Greeting
from coopbandits.fleet.protocol.gossip import RobustSession, Session, SynchronousSession, Terms
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.storage.eras import Gossiped
from coopbandits.fleet.storage.purging import PURGED
from coopbandits.fleet.storage.records import Declared
from coopbandits.fleet.storage.replica import Replica

if TYPE_CHECKING:
    from coopbandits.fleet.protocol.node import Node

RETRY_SECONDS = 1.0
"""Between two attempts to end rounds while the journal cannot be written."""

PLACE_SECONDS = 10.0
"""Arms of which one neighbour tells pulls get places once in as many seconds, and keep them for as
long without pulls, which are told again then. Each time all neighbours are greeted again, and own
pulls held back for up to `entries.PATIENCE`."""

MOST_GREETINGS = 10
"""Greetings handled per second, bandit and neighbour; of the rest only the latest is kept."""

Key = tuple[int, int]
"""The numbers of a bandit, 0 for all that are unknown here, and of a neighbour."""


class Sessions:
    """The sessions of one agent.

    Parameters
    ----------
    node : Node
        Has the links.
    terms : callable
        Returns the validation and signing settings of a bandit.

    Attributes
    ----------
    by_number : dict of int to Session
        The sessions by the number of the bandit, and of bases by `BASE` more.
    peers : dict of int to Peer
        The neighbours by number.
    awake : dict of int to Session
        Those whose rounds end by the clock and that have something to do.
    followed : callable
        Called with a bandit that has taken over the fleet's policy.
    """

    def __init__(self, node: Node, terms: Callable[[BanditConfig, Gossiped], Terms]) -> None:
        self.node, self.bandits, self.terms = node, node.bandits, terms
        self.by_number: dict[int, Session] = {}
        self.peers = {peer.number: peer for peer in node.peers.values()}
        self.awake: dict[int, Session] = {}
        self.followed: Callable[[BanditConfig], None] = lambda _: None
        self._waiting: dict[int, Session] = {}  # of synchronous bandits
        self._next_round = self._not_before = -math.inf
        self._revoked: frozenset[int] = frozenset()
        self._unsent: dict[str, list[bytes]] = {}
        self._next_places: dict[Key, float] = {}
        self._greeted: dict[Key, tuple[float, int]] = {}  # since when, and how often
        self.late: dict[Key, BanditFrame] = {}  # greetings that came too often

    @property
    def of_bandits(self) -> list[Session]:
        """The sessions about bandits, without those about their bases."""
        return [session for number, session in self.by_number.items() if number < BASE]

    # Declarations

    def take(self, declared: Iterable[BanditConfig]) -> None:
        """Have a session about each of these bandits, with the arms that its replica has."""
        for bandit in declared:
            replica, session = (
                self.bandits.replicas[bandit.number],
                self.by_number.get(bandit.number),
            )
            is_over = session is not None and session.bandit.era != bandit.era
            before = self._end_era(bandit.number) if is_over else None
            if replica.base is not None:
                self._take(replace(bandit, number=bandit.number + BASE), replica.base)
            self._take(bandit, replica)
            if is_over and (entries := self._exchange(bandit.number)) is not None:
                entries.enter_era(before, replica.carried)

    def _take(self, bandit: BanditConfig, replica: Gossiped) -> None:
        session = self.by_number.get(bandit.number)
        if session is None or session.arms != list(replica.arms):
            self._begin(bandit, replica)
            return
        session.bandit = bandit
        # Never less while it runs: neighbours may not have heard of a lower rate yet.
        session.declared_rate = max(session.declared_rate, bandit.most_pulls)
        self.node.in_force.set_pace_of(session)

    def _end_era(self, bandit: int) -> EntryExchange | None:
        """End gossip of an era that is over; return what it knew of entries, if there were any."""
        entries, numbers = self._exchange(bandit), (bandit, bandit + BASE)
        for number in numbers:
            self.by_number.pop(number, None)
            self.awake.pop(number, None)
        for key in [key for key in self.late if key[0] in numbers]:
            del self.late[key]
        return entries

    def _exchange(self, bandit: int) -> EntryExchange | None:
        """Return what exchanges the entries of a bandit, or of its base."""
        session = self.by_number.get(bandit + BASE) or self.by_number[bandit]
        return session.entries

    def _begin(self, bandit: BanditConfig, replica: Gossiped) -> Session:
        replica.relink(self.peers)
        terms: Terms = self.terms(bandit, replica)
        session: Session
        if bandit.is_synchronous:
            whole = self.bandits.replicas[bandit.number]  # which has no base
            session = SynchronousSession(bandit, whole, terms, self)
        else:
            session = RobustSession(bandit, replica, terms, self)
        if bandit.number in self.by_number:
            session.inherit(self.by_number[bandit.number])
        self.node.in_force.set_pace_of(session)
        session.revoke(self._revoked)
        self.by_number[bandit.number] = session
        if bandit.is_synchronous:
            self._waiting[bandit.number] = session
        self.wake(bandit.number)
        self._greet(session)
        return session

    def _greet(self, session: Session) -> None:
        """Greet all neighbours about a bandit, and ask for an answer."""
        for peer in self.node.peers.values():
            if peer.met:
                self.node.send(peer, session.greeting(peer, ask=True))

    # Links

    def add_neighbor(self, peer: Peer) -> None:
        for session in self.by_number.values():
            session.add_neighbor(peer)
        self.peers[peer.number] = peer

    def _remove_neighbors(self, numbers: Collection[int]) -> None:
        for session in self.by_number.values():
            session.remove_neighbors(numbers)
        for number in numbers:
            self.peers.pop(number, None)
        for table in (self._greeted, self._next_places):
            for key in [key for key in table if key[1] in numbers]:
                del table[key]

    def met(self, peer: Peer) -> None:
        """Greet about all bandits, once HELLO was said."""
        greetings = [session.greeting(peer, ask=False) for session in self.by_number.values()]
        if greetings:
            self.node.send(peer, b"".join(greetings))

    def down(self, peer: Peer) -> None:
        """Note that a link went down."""
        for session in self.by_number.values():
            session.down(peer)
        for key in [key for key in self.late if key[1] == peer.number]:
            del self.late[key]

    # Greetings

    def greeted(self, link: Peer, frame: BanditFrame, now: float) -> None:
        """Compare what a neighbour has; begin to gossip about it where both have the same."""
        number, greeting = frame.stamp.bandit, frame.greeting
        session = self.by_number.get(number)
        if (
            session is not None
            and session.greetings.get(link.number) == frame
            and (number, link.number) not in self.late
        ):
            return  # the last one came again
        if session is None and number - BASE in self.by_number:
            return  # of an era with a base, in which this agent is not
        if not self._is_due(link, frame, now):
            return
        try:
            if session is None:
                self._require_free(link, number, greeting)
                return
            if (greeting.era or 0) != session.bandit.era:
                session.down(link)  # until the later one of both knows what the other does
                return
            session = self._as_the_fleet(session, greeting)
            self._require_same(link, session, greeting)
            session = self._with_arms(link, session, unpack_arms(greeting.arms))
            session.met(link, frame)
        except InputError as error:
            self.node.refuse(link, "bandit", str(error))
            if session is not None:
                session.down(link)
            return
        self.wake(number)
        if greeting.ask:
            self.node.send(link, session.greeting(link, ask=False))
        self._flush()

    def _is_due(self, link: Peer, frame: BanditFrame, now: float) -> bool:
        """Return whether to handle a greeting; of too many, the last is kept for later."""
        is_known = frame.stamp.bandit in self.by_number
        key = frame.stamp.bandit if is_known else 0, link.number
        since, many = self._greeted.get(key, (now, 0))
        if now >= since + 1.0:
            since, many = now, 0
        if many < MOST_GREETINGS:
            self._greeted[key] = since, many + 1
            self.late.pop(key, None)
            return True
        if self.late.get(key, frame) is not frame or not is_known:
            self.node.refuse(link, "bandit", f"more than {MOST_GREETINGS} greetings in a second")
        if is_known:
            self.late[key] = frame
        return False

    def _require_free(self, link: Peer, number: int, greeting: Greeting) -> None:
        """Reject a name that has another number here; a bandit that is unknown here is ignored."""
        for session in self.by_number.values():
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
                f"{link.name} has other settings of bandit {bandit.name}: policy "
                f"{greeting.policy!r} there, {bandit.policy!r} here; compare its policy, rewards, "
                "half_life and features on both nodes"
            )
        if not bandit.can_widen and unpack_arms(greeting.arms) != list(session.replica.arms):
            raise InputError(
                f"{link.name} has other arms of bandit {bandit.name}, or another order; with "
                f"policy {bandit.policy} they must be the same on all nodes"
            )

    def _as_the_fleet(self, session: Session, greeting: Greeting) -> Session:
        """Return the session, about the fleet's policy where this agent is new and states none.

        Without a policy in its file an agent takes the one that `max_agents` implies, which a fleet
        that has grown need not have. A neighbour that has another default is believed only before
        the first choice: a liar must not change the policy of those that have learned.
        """
        bandit, replica = session.bandit, session.replica
        if (
            not bandit.is_implied
            or bandit.era
            or greeting.digest == bandit.digest
            or greeting.policy not in DEFAULT_POLICIES
            or not isinstance(replica, Replica)
            or replica.own_choices.any()
        ):
            return session
        found = replace(bandit, policy=greeting.policy)
        if found.digest != greeting.digest:
            return session
        self.bandits.follow(bandit.number, found.shared)
        self._begin(found, replica)
        self.followed(found)
        return self.by_number[bandit.number]

    # Arms that only neighbours have

    def _with_arms(self, link: Peer, session: Session, theirs: list[int]) -> Session:
        """Return the session, extended with places for arms that only the neighbour knows."""
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
        return self._begin_again(session)

    def _begin_again(self, session: Session) -> Session:
        """Begin again with other arms, about a bandit and about its base."""
        number = session.bandit.number
        for each in (number % BASE, number % BASE + BASE):
            if each != number and each in self.by_number:
                self._begin(self.by_number[each].bandit, self.by_number[each].replica)
        return self._begin(session.bandit, session.replica)

    def _place(
        self, link: Peer, session: Session, arms: list[int], values: Vector, now: float
    ) -> None:
        """Give places to arms of whose pulls a message tells; where none is free, of idle arms.

        Where it tells of more arms than there are places, all of it is left out, and there is no
        use in taking places from each other.
        """
        number, replica = session.bandit.number, session.replica
        if now < self._next_places.get((number, link.number), now):
            return  # it comes again
        self._next_places[number, link.number] = now + PLACE_SECONDS
        taken = arms[: room_for(replica, MOST_UNNAMED)]
        if taken:
            session.spared |= dict.fromkeys(taken, now + PLACE_SECONDS)
            self._add(session, taken)
            return
        idle, theirs = idle_arms(replica), session.arms_of[link.number]
        kept = {arm for arm, end in session.spared.items() if now < end}
        kept |= set(theirs.pulled(values, [arm for arm in idle if arm in theirs.ids]))
        others = dict(zip([arm for arm in idle if arm not in kept], arms, strict=False))
        if others:
            replica.replace(others)
            session.spared |= dict.fromkeys(others.values(), now + PLACE_SECONDS)
            self._begin_again(session)
        else:
            told = f"pulls of {len(arms)} arms of {session.bandit.name} that nobody declared here"
            self.node.refuse(link, "arms", f"{told}, and there is no place for more")

    # Messages

    def heard(self, link: Peer, frame: DataFrame, now: float) -> None:
        """Handle a neighbour's message about one bandit."""
        number = frame.stamp.bandit
        session = self.by_number.get(number)
        if session is None and number - BASE in self.by_number:
            link.frames["stale"] += 1  # of an era in which this agent had a base
            return
        if session is None:
            self.node.refuse(link, "bandit", f"a message about bandit {number}")
            return
        if (number, link.number) in self.late:
            link.frames["stale"] += 1  # its arms are those of a greeting that is not read yet
            return
        self.wake(number)
        unplaced = session.heard(link, frame, now)
        if unplaced and frame.values is not None:
            self._place(link, session, unplaced, frame.values, now)

    def revoke(self, authors: frozenset[int]) -> None:
        """Stop believing some authors."""
        self._revoked = authors
        for number, session in self.by_number.items():
            session.revoke(authors)
            self.wake(number)

    # Rounds

    def sign_again(self) -> None:
        """Sign entries again after the agent's certificate was renewed."""
        for number, session in self.by_number.items():
            if session.sign_again():
                self.wake(number)

    def wake(self, number: int) -> None:
        """Look at a bandit when rounds end next: there is something to do."""
        if number in self.by_number and number not in self._waiting:
            self.awake[number] = self.by_number[number]

    def age(self, now: float) -> None:
        """Wake bandits whose pulls count less by now."""
        for number, session in self.by_number.items():
            if session.has_aged(now):
                self.wake(number)

    def delivery_check(self) -> Callable[[], bool]:
        """Return a predicate: whether all linked neighbours have received what is known now."""
        checks = {number: session.delivery_check() for number, session in self.by_number.items()}
        return lambda: all(
            is_delivered()
            for number, is_delivered in checks.items()
            if number in self.awake or number in self._waiting
        )

    @property
    def any_waits(self) -> bool:
        """Whether a bandit's rounds wait for all neighbours."""
        return bool(self._waiting)

    @property
    def next_tick(self) -> float:
        """The time of the next `tick` that has something to do."""
        due = self._next_round
        for session in self._waiting.values():
            due = min(due, session.next_tick)
        return max(self._not_before, due)

    def tick(self, now: float, gone: set[int]) -> None:
        """End the rounds of all bandits with news, and send what is new.

        Neighbours that have `gone` are removed when rounds end by the clock, and then from `gone`.
        While the journal cannot be written, rounds wait, and all that was heard stays.
        """
        if self.bandits.journal.trouble:
            self._not_before = now + RETRY_SECONDS
            return
        for (_, peer), frame in list(self.late.items()):
            self.greeted(self.peers[peer], frame, now)
        if now >= self._next_round:
            period = self.node.period
            self._next_round = max(self._next_round + period, now + 0.5 * period)
            self._end_rounds(now, gone)
        for session in self._waiting.values():
            if session.next_tick <= now:
                session.tick(now)
        self._flush()

    def _end_rounds(self, now: float, gone: set[int]) -> None:
        # A bandit and its base have the same neighbours: those that go are removed from both once
        # the rounds of both have ended.
        for number, session in sorted(self.awake.items(), key=lambda each: each[0] < BASE):
            session.tick(now, gone if number < BASE else ())
        if gone:
            self._remove_neighbors(gone)  # of the other bandits: no message of theirs is waiting
            gone.clear()
        for number, session in list(self.awake.items()):
            if session.greets_again:
                session.greets_again = False
                self._greet(session)
            elif session.idle:
                del self.awake[number]

    def queue(self, peer: str, data: bytes) -> None:
        """Send bytes to a neighbour with all else that goes there now."""
        self._unsent.setdefault(peer, []).append(data)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, {}
        for name, frames in unsent.items():
            self.node.send(self.node.peers[name], b"".join(frames))

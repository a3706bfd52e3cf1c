"""When rounds end, and what is said in them: two ways, of which the policy needs one.

*Robust*: a round ends when its time has come, with whatever arrived, the newest message of each
neighbour; then every neighbour that is there gets a message. Nobody waits for anybody; a message
that is lost is only news that come later.

*Synchronous*: round r + 1 ends when the messages of round r + 1 of all neighbours are there. Each
agent tells the rounds it has ended when a link comes up, and gets again what it may have missed;
messages of the last rounds are kept for that. Between neighbours rounds differ by one at most.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

from coopbandits.core.agent import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.plausibility import Guard
from coopbandits.fleet.storage.replica import KEPT, Books

Say = Callable[[Peer, int, Vector | None, str], None]
"""Sends (to a neighbour, of a round, these values) and counts it as "sent" or "resent"."""

Refuse = Callable[[Peer, str, str], None]
"""Counts a refused frame (of a neighbour, for a reason in a word, in a sentence)."""


class Gossip(ABC):
    """How one agent takes part.

    Parameters
    ----------
    books : Books
        The agent, and all that is remembered.
    peers : dict of int to Peer
        The neighbours by number.
    period : float
        Seconds between two rounds.
    say, refuse : callable
        How to send, and how to refuse.
    """

    def __init__(
        self, books: Books, peers: dict[int, Peer], period: float, say: Say, refuse: Refuse
    ) -> None:
        self.books, self.peers, self.period = books, peers, period
        self.say, self.refuse = say, refuse
        self.next_tick = -math.inf

    @abstractmethod
    def met(self, peer: Peer, degree: int, rounds: int) -> None:
        """Take note that a neighbour is there, with so many neighbours and rounds behind it."""

    @abstractmethod
    def heard(self, peer: Peer, round_: int, values: Vector | None, now: float) -> None:
        """Take in a neighbour's message of a round."""

    @abstractmethod
    def tick(self, now: float) -> None:
        """Do what is due at `next_tick`."""

    def _end_round(self, inbox: dict[int, Vector]) -> bool:
        """End a round without the messages that the agent refuses, if there are any."""
        try:
            self.books.end_round(inbox)
        except InputError as error:
            for j in self.books.refused(inbox):
                del inbox[j]
                self.refuse(self.peers[j], "impossible", str(error))
            return False
        return True


class RobustGossip(Gossip):
    """Rounds by the clock.

    Parameters
    ----------
    guard : Guard
        Checks what neighbours claim.
    """

    def __init__(
        self,
        books: Books,
        peers: dict[int, Peer],
        period: float,
        say: Say,
        refuse: Refuse,
        guard: Guard,
    ) -> None:
        super().__init__(books, peers, period, say, refuse)
        self.guard = guard
        self.inbox: dict[int, Vector] = {}

    def met(self, peer: Peer, degree: int, rounds: int) -> None:
        """Expect messages of rounds to come."""
        del degree  # a robust policy goes by who is there
        peer.heard_round = rounds

    def heard(self, peer: Peer, round_: int, values: Vector | None, now: float) -> None:
        """Keep the newest message, if it can be true."""
        if round_ <= peer.heard_round:
            self.refuse(peer, "replayed", f"a message of round {round_} came again, or too late")
            return
        if values is None:
            return
        try:
            self.guard.check(self.books.agent.aggregation, values, now)
        except InputError as error:
            self.refuse(peer, "impossible", str(error))
            return
        peer.heard_round = round_
        self.inbox[peer.number] = values

    def tick(self, now: float) -> None:
        """End the round, and say what is new."""
        self.next_tick = max(self.next_tick + self.period, now + 0.5 * self.period)
        inbox, self.inbox = self.inbox, {}
        if not self._end_round(inbox):
            self.books.end_round(inbox)
        for j, peer in self.peers.items():
            if peer.met:
                self.say(peer, self.books.rounds, self.books.agent.outgoing(j), "sent")


class SynchronousGossip(Gossip):
    """Rounds that all neighbours end together."""

    def __init__(
        self, books: Books, peers: dict[int, Peer], period: float, say: Say, refuse: Refuse
    ) -> None:
        super().__init__(books, peers, period, say, refuse)
        self.spoke_at = -math.inf
        self.degrees: dict[int, int] = {}
        self.inboxes: dict[int, dict[int, Vector | None]] = {}
        if books.spoken or (peers and not books.degrees):
            self.next_tick = math.inf  # until the neighbours are heard

    def met(self, peer: Peer, degree: int, rounds: int) -> None:
        """Send again what the neighbour may not have, or refuse one that cannot follow."""
        known = self.books.degrees.get(peer.number, degree)
        if known != degree:
            raise InputError(
                f"{peer.name} has {degree} neighbours now and had {known} when this epoch "
                "began; with a synchronous policy they change with a new epoch only"
            )
        behind = self.books.rounds - rounds
        if abs(behind) >= KEPT:
            raise InputError(
                f"{peer.name} has ended {rounds} rounds, and this agent {self.books.rounds}: "
                "one of them has lost its memory; begin a new epoch, or restore its journal"
            )
        self.degrees[peer.number] = degree
        if not self.books.degrees and len(self.degrees) == len(self.peers):
            self.books.meet(self.degrees)
            self.next_tick = -math.inf
        for round_ in sorted(self.books.sent):
            if round_ > rounds:
                self.say(peer, round_, self.books.sent[round_][peer.number], "resent")

    def heard(self, peer: Peer, round_: int, values: Vector | None, now: float) -> None:
        """Keep a message of this round or the next; the last one ends the round."""
        this = self.books.rounds + 1
        if round_ < this:
            peer.frames["stale"] += 1
        elif round_ > this + 1:
            self.refuse(peer, "replayed", f"a message of round {round_} came in round {this}")
        elif peer.number in self.inboxes.get(round_, {}):
            peer.frames["duplicate"] += 1
        else:
            peer.heard_round = round_
            peer.waited = max(0.0, now - self.spoke_at) if self.books.spoken else 0.0
            self.inboxes.setdefault(round_, {})[peer.number] = values
            self._end_if_complete(now)

    def tick(self, now: float) -> None:
        """Say what this round's messages are."""
        self.next_tick = math.inf
        for j, values in self.books.speak().items():
            if self.peers[j].met:
                self.say(self.peers[j], self.books.rounds + 1, values, "sent")
        self.spoke_at = now
        self._end_if_complete(now)

    def _end_if_complete(self, now: float) -> None:
        inbox = self.inboxes.get(self.books.rounds + 1, {})
        if not self.books.spoken or len(inbox) < len(self.peers):
            return
        said = {j: values for j, values in inbox.items() if values is not None}
        if not self._end_round(said):
            self._ask_again(inbox, said)
            return
        self.inboxes.pop(self.books.rounds, None)
        self.next_tick = max(now, self.spoke_at + self.period)

    def _ask_again(self, inbox: dict[int, Vector | None], kept: dict[int, Vector]) -> None:
        for j in [j for j, values in inbox.items() if values is not None and j not in kept]:
            del inbox[j]

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
from collections.abc import Callable
from typing import Any

from coopbandits.core.aggregate import Claims
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.protocol.frames import DataFrame
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.storage.replica import KEPT_ROUNDS, OWN_ERRORS, Replica

Say = Callable[[Peer, int, Vector | None, str], None]
"""Sends a neighbour the values of a round, counted as "sent" or "resent"."""

Refuse = Callable[[Peer, str, str], None]
"""Counts a refused frame of a neighbour; takes the reason as a keyword and as a sentence."""


class Gossip(ABC):
    """One agent's part in the gossip.

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
    say, refuse : callable
        Send a message, refuse one.
    """

    def __init__(
        self,
        replica: Replica,
        peers: dict[int, Peer],
        period: float,
        claims: Claims,
        say: Say,
        refuse: Refuse,
    ) -> None:
        self.replica, self.peers, self.period, self.claims = replica, peers, period, claims
        self.say, self.refuse = say, refuse
        self.next_tick = -math.inf

    @abstractmethod
    def met(self, peer: Peer, degree: int, rounds: int) -> None:
        """Handle a neighbour's HELLO: its degree and the rounds it has completed."""

    @abstractmethod
    def heard(self, peer: Peer, frame: DataFrame, now: float) -> None:
        """Handle a neighbour's message of a round."""

    @abstractmethod
    def tick(self, now: float) -> None:
        """Do what is due at `next_tick`."""

    def _is_possible(self, peer: Peer, values: Vector, now: float) -> bool:
        """Refuse a message that tells of what cannot have happened."""
        try:
            self.replica.agent.check_claims(values, self.claims, now)
        except OWN_ERRORS as error:  # an InputError is one of them
            self.refuse(peer, "impossible", str(error) or type(error).__name__)
            return False
        return True

    def _end_round(self, inbox: dict[int, Vector]) -> bool:
        """Try to end a round; if the agent refuses messages, remove them and return False."""
        try:
            self.replica.end_round(inbox)
        except InputError as error:
            for j in self.replica.refused(inbox):
                del inbox[j]
                self.refuse(self.peers[j], "impossible", str(error))
            return False
        return True


class RobustGossip(Gossip):
    """Rounds by the clock."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.inbox: dict[int, Vector] = {}

    def met(self, peer: Peer, degree: int, rounds: int) -> None:
        """Expect messages of later rounds than this one."""
        del degree  # only synchronous policies weigh neighbours by degree
        peer.heard_round = rounds

    def heard(self, peer: Peer, frame: DataFrame, now: float) -> None:
        """Keep the newest message, if what it claims is possible."""
        round_, values = frame.stamp.round, frame.values
        if round_ <= peer.heard_round:
            self.refuse(peer, "replayed", f"a message of round {round_} came again, or too late")
            return
        if values is not None and self._is_possible(peer, values, now):
            peer.heard_round = round_
            self.inbox[peer.number] = values

    def tick(self, now: float) -> None:
        """End the round, and send messages of the next."""
        self.next_tick = max(self.next_tick + self.period, now + 0.5 * self.period)
        inbox, self.inbox = self.inbox, {}
        if not self._end_round(inbox):
            self.replica.end_round(inbox)
        for j, peer in self.peers.items():
            if peer.met:
                self.say(peer, self.replica.rounds, self.replica.agent.outgoing(j), "sent")


class SynchronousGossip(Gossip):
    """Rounds that all neighbours end together."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.spoke_at = -math.inf
        self.degrees: dict[int, int] = {}
        self.inboxes: dict[int, dict[int, Vector | None]] = {}
        if self.replica.spoken or (self.peers and not self.replica.degrees):
            self.next_tick = math.inf  # wait for the neighbours first

    def met(self, peer: Peer, degree: int, rounds: int) -> None:
        """Resend what the neighbour may have missed; refuse one too many rounds apart."""
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
            self.replica.meet(self.degrees)
            self.next_tick = -math.inf
        for round_ in sorted(self.replica.sent):
            if round_ > rounds:
                self.say(peer, round_, self.replica.sent[round_][peer.number], "resent")

    def heard(self, peer: Peer, frame: DataFrame, now: float) -> None:
        """Keep a message of this round or the next; the last missing one ends the round."""
        round_, values = frame.stamp.round, frame.values
        this = self.replica.rounds + 1
        if round_ < this:
            peer.frames["stale"] += 1
        elif round_ > this + 1:
            self.refuse(peer, "replayed", f"a message of round {round_} came in round {this}")
        elif peer.number in self.inboxes.get(round_, {}):
            peer.frames["duplicate"] += 1
        elif values is None or self._is_possible(peer, values, now):
            peer.heard_round = round_
            peer.waited = max(0.0, now - self.spoke_at) if self.replica.spoken else 0.0
            self.inboxes.setdefault(round_, {})[peer.number] = values
            self._end_if_complete(now)

    def tick(self, now: float) -> None:
        """Send this round's messages."""
        self.next_tick = math.inf
        for j, values in self.replica.speak().items():
            if self.peers[j].met:
                self.say(self.peers[j], self.replica.rounds + 1, values, "sent")
        self.spoke_at = now
        self._end_if_complete(now)

    def _end_if_complete(self, now: float) -> None:
        inbox = self.inboxes.get(self.replica.rounds + 1, {})
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

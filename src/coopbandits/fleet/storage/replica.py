"""The books of one agent: its state, changed by journalled events alone.

Every change is an event that is on disk before it takes effect, so before anybody is told of it;
only the end of a common round waits for the next event. To open the books is to do all events
again. They know of no clock, network or random source: time and random words are arguments, the
disk is the journal's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from coopbandits.core.agent import CooperativeAgent, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import RewardScale
from coopbandits.fleet.storage import events
from coopbandits.fleet.storage.events import Chose, Ended, Event, Expired, Met, Observed, Spoke
from coopbandits.fleet.storage.journal import NOTHING, Journal
from coopbandits.fleet.storage.tickets import Settled, Tickets

KEPT = 3
"""Rounds whose messages are kept, in case that a neighbour needs them again."""

MakeAgent = Callable[[Sequence[int], Mapping[int, int]], CooperativeAgent]
"""From the neighbours' numbers, and their numbers of neighbours where known, to a fresh agent."""


class Books:
    """An agent, its tickets and its own totals, with a journal behind them.

    Parameters
    ----------
    journal : Journal
        What happened so far; new events are appended.
    make_agent : callable
        Makes the agent.
    neighbors : sequence of int
        The neighbours' numbers, now; the journal may know others.
    tickets : Tickets
        An empty table of tickets.
    scale : RewardScale
        How rewards become what the agent sees.
    now : float
        The time.

    Attributes
    ----------
    incarnation : int
        Which opening of the books this is: larger than all before, also than those of books that
        were lost, as long as clocks go on.
    rounds : int
        Rounds that have ended.
    spoken : bool
        Whether the messages of the next round have been made.
    sent : dict of int to dict
        Messages of the last rounds, by round and neighbour.
    """

    def __init__(
        self,
        journal: Journal,
        make_agent: MakeAgent,
        neighbors: Sequence[int],
        tickets: Tickets,
        scale: RewardScale,
        now: float,
    ) -> None:
        self.journal, self.make_agent, self.tickets = journal, make_agent, tickets
        self.scale, self.incarnation = scale, int(now)
        self.neighbors = sorted(neighbors)
        self.degrees: dict[int, int] = {}
        self.agent = make_agent(self.neighbors, self.degrees)
        arms = self.agent.view.num_arms
        self.own_counts = np.zeros(arms, dtype=np.int64)
        self.own_sums = np.zeros(arms)
        self.rounds, self.spoken = 0, False
        self.sent: dict[int, dict[int, Vector | None]] = {}
        self._shares: dict[int, Vector] = {}
        self._before: State | None = None  # the agent's state when it spoke, once it has changed
        self._since: list[tuple[int, float]] = []  # what it has observed from then on
        self._open(now)

    def _open(self, now: float) -> None:
        if self.journal.snapshot != NOTHING:
            self._restore(msgspec.msgpack.decode(self.journal.snapshot, strict=False))
        for event in self.journal.events:
            self._do(events.decode(event), again=True)
        if self.agent.view.neighbor_weights.keys() != set(self.neighbors):
            self._relink()
        self.tickets.curb(now)
        self.compact()

    # What happens

    def choose(self, word: int, allowed: Sequence[int] | None, now: float) -> tuple[int, int]:
        """Choose an arm; return a ticket's number and the arm."""
        self.tickets.check_room(now)
        arm = self.agent.choose(word, allowed)
        self.agent.abandon(arm)  # it is open once that is on disk
        self._log(Chose(arm, now))
        return self.tickets.next_number - 1, arm

    def observe(self, number: int, reward: float) -> tuple[int, bool]:
        """Take in the reward of a ticket; return its arm, and whether it was known already."""
        self.scale.unit(reward)  # refuses what is outside of the range
        found = self.tickets.look_up(number, reward)
        if not isinstance(found, Settled):
            self._log(Observed(number, reward))
        return found.arm, isinstance(found, Settled)

    def expire(self, now: float) -> int:
        """Give up tickets that are over; return how many."""
        due = self.tickets.due(now)
        for number in due:
            self._log(Expired(number))
        return len(due)

    def meet(self, degrees: Mapping[int, int]) -> None:
        """Learn how many neighbours each neighbour has, before the first round."""
        self._log(Met(dict(degrees)))

    def speak(self) -> dict[int, Vector | None]:
        """Make the messages of the next round; what is observed now comes after them."""
        self._log(Spoke())
        return self.sent[self.rounds + 1]

    def end_round(self, messages: Mapping[int, Vector]) -> None:
        """End a round with what arrived; a message that the agent refuses changes nothing.

        Where all end it together, it is on disk with the next event: no message depends on it
        before the agent speaks again, and those of a round that is forgotten are sent again.
        """
        ended = events.encode(Ended({j: message.tobytes() for j, message in messages.items()}))
        if self.spoken:
            self._end_round(messages)
            self.journal.hold(ended)
        else:
            self.journal.append(ended)
            self._end_round(messages)

    def outgoing(self) -> dict[int, Vector | None]:
        """Return what the agent has to say now, by neighbour."""
        return {j: self.agent.outgoing(j) for j in self.agent.view.neighbor_weights}

    def shares(self) -> dict[int, Vector]:
        """Return the agent's share of all rewards and pulls, by round.

        After each of the last rounds where agents end them together, otherwise now.
        """
        return self._shares or {self.rounds: self.agent.aggregation.share()}

    def refused(self, messages: Mapping[int, Vector]) -> list[int]:
        """Return those whose messages the agent would refuse; all where none is alone to blame."""
        bad = []
        for j, message in messages.items():
            probe = self.make_agent(self.neighbors, self.degrees)
            probe.restore_state(self._before or self.agent.export_state())
            try:
                probe.receive({j: message})
            except InputError:
                bad.append(j)
        return bad or list(messages)

    def compact(self) -> None:
        """Put a snapshot in the place of all events."""
        self.journal.compact(msgspec.msgpack.encode(self._export()))

    # How it takes effect

    def _log(self, event: Event) -> None:
        self.journal.append(events.encode(event))
        self._do(event)

    def _do(self, event: Event, *, again: bool = False) -> None:
        match event:  # the most frequent ones first
            case Ended(messages):
                try:
                    self._end_round({j: np.frombuffer(m) for j, m in messages.items()})
                except InputError:
                    if not again:
                        raise
            case Spoke():
                self._speak()
            case Chose(arm, now):
                self.tickets.add(arm, now)
                self.agent.open_pulls[arm] += 1
            case Observed(number, reward):
                self._observe(self.tickets.settle(number, reward), reward)
            case Expired(number):
                self.agent.abandon(self.tickets.open.pop(number).arm)
            case Met(degrees):
                self._meet(degrees)

    def _meet(self, degrees: dict[int, int]) -> None:
        fresh = self.make_agent(list(self.agent.view.neighbor_weights), degrees)
        fresh.restore_state(fresh.reweighted(self.agent.export_state()))
        self.agent, self.degrees = fresh, degrees

    def _observe(self, arm: int, reward: float) -> None:
        self.own_counts[arm] += 1
        self.own_sums[arm] += reward
        seen = self.scale.unit(reward)
        if self.spoken:
            self._before = self._before or self.agent.export_state()
            self._since.append((arm, seen))
        self.agent.observe(arm, seen)

    def _speak(self) -> None:
        self.spoken = True
        self.sent[self.rounds + 1] = self.outgoing()
        self.sent.pop(self.rounds + 1 - KEPT, None)

    def _end_round(self, messages: Mapping[int, Vector]) -> None:
        if self._before is None:
            self.agent.receive(messages)
        else:
            self._receive_late(self._before, messages)
        self.rounds += 1
        if self.spoken:
            self.spoken, self._before, self._since = False, None, []
            self._shares[self.rounds] = self.agent.aggregation.share()
            self._shares.pop(self.rounds - 2 * KEPT, None)

    def _receive_late(self, before: State, messages: Mapping[int, Vector]) -> None:
        """End the round of the agent as it was when it spoke, then observe what came since.

        Neighbours mix what they were sent. Who mixes more than that would count it twice.
        """
        present, open_pulls = self.agent.export_state(), self.agent.open_pulls
        self.agent.restore_state(before)
        try:
            self.agent.receive(messages)
        except InputError:
            self.agent.restore_state(present)
            raise
        for arm, reward in self._since:
            self.agent.observe(arm, reward)
        self.agent.open_pulls = open_pulls

    # Snapshots

    def _relink(self) -> None:
        """Go on with other neighbours than those that the journal knows."""
        fresh = self.make_agent(self.neighbors, self.degrees)
        old = list(self.agent.view.neighbor_weights)
        fresh.restore_state(fresh.relinked(self.agent.export_state(), old))
        self.agent = fresh

    def _export(self) -> dict[str, Any]:
        return {
            "incarnation": self.incarnation,
            "neighbors": sorted(self.agent.view.neighbor_weights),
            "degrees": self.degrees,
            "agent": self.agent.export_state(),
            "tickets": self.tickets.export_state(),
            "own_counts": self.own_counts.tolist(),
            "own_sums": self.own_sums.tolist(),
            "rounds": self.rounds,
            "spoken": self.spoken,
            "sent": {
                r: {j: None if m is None else m.tobytes() for j, m in messages.items()}
                for r, messages in self.sent.items()
            },
            "before": self._before,
            "since": self._since,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.incarnation = max(self.incarnation, state["incarnation"] + 1)
        self.degrees = state["degrees"]
        self.agent = self.make_agent(state["neighbors"], self.degrees)
        self.agent.restore_state(state["agent"])
        self.tickets.restore_state(state["tickets"])
        self.own_counts = np.array(state["own_counts"], dtype=np.int64)
        self.own_sums = np.array(state["own_sums"], dtype=np.float64)
        self.rounds, self.spoken = state["rounds"], state["spoken"]
        self.sent = {
            r: {j: None if m is None else np.frombuffer(m) for j, m in messages.items()}
            for r, messages in state["sent"].items()
        }
        self._before = state["before"]
        self._since = [(arm, reward) for arm, reward in state["since"]]

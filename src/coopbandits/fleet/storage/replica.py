"""The state of one agent as a replica of its journal: events are the only way to change it.

The journal gathers an event, and it takes effect at once. The shell tells nobody before it is on
disk, so a crash undoes nothing that somebody knows of. The one exception is the end of a
synchronous round, which is written with the next event. Opening replays all events. A replica has
no clock, network or random source: time and random words are arguments, and the disk belongs to the
journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from coopbandits.core.aggregate.aggregation import moved_pulls
from coopbandits.core.contract import (
    ContextFleetAgent,
    FleetAgent,
    PartedAgent,
    ReopenedAgent,
    Share,
    State,
    TimedAgent,
    Vector,
)
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.errors import InputError
from coopbandits.core.spelling import one_line
from coopbandits.fleet.config import RewardScale
from coopbandits.fleet.storage.events import (
    Chose,
    Declared,
    Ended,
    Event,
    Expired,
    Met,
    Observed,
    Purged,
    Relinked,
    Replaced,
    Spoke,
)
from coopbandits.fleet.storage.journal import Chapter, Journal
from coopbandits.fleet.storage.purging import fold, proofs_without
from coopbandits.fleet.storage.tickets import Settled, Tickets

KEPT_ROUNDS = 3
"""Messages of so many rounds are kept, in case a neighbour needs them again."""

MakeAgent = Callable[[Sequence[int], Mapping[int, int], int], FleetAgent]
"""Makes a fresh agent from its neighbours' numbers, where known their degrees, and K."""


class Replica:
    """An agent, its tickets and its own totals, with a journal behind them.

    Parameters
    ----------
    chapter : Chapter
        What happened so far; new events are appended.
    make_agent : callable
        Makes the agent.
    neighbors : sequence of int
        Numbers of the current neighbours; those in the journal may differ.
    tickets : Tickets
        An empty table of tickets.
    scale : RewardScale
        Maps rewards to what the agent sees.
    now : float
        The time.
    nonce : int
        A new random word, for the tickets of this start and for the agent.
    declared : Declared
        What the bandit is, with the arms that a new journal begins with.

    Attributes
    ----------
    incarnation : int
        Which opening of the replica this is. It exceeds all earlier ones, even those of a journal
        that was lost, as long as the clock does not go back.
    rounds : int
        Rounds completed.
    spoken : bool
        Whether the messages of the next round have been made.
    observed : int
        Rewards counted since the start.
    own_choices, own_counts, own_sums : arrays
        Choices handed out here, rewards handed in, and their sums, by arm.
    sent : dict of int to dict
        Messages of the last rounds, by round and neighbour.
    proofs, certificates : dict of int to bytes, and list of bytes
        What proves entries that others have signed, by their numbers.
    purged : set of int
        Ids of arms that are no more, and never will be again.
    """

    def __init__(
        self,
        chapter: Chapter,
        make_agent: MakeAgent,
        neighbors: Sequence[int],
        tickets: Tickets,
        scale: RewardScale,
        now: float,
        nonce: int,
        declared: Declared,
    ) -> None:
        self.chapter, self.make_agent, self.tickets = chapter, make_agent, tickets
        self.declared = declared
        self.arms = arms = dict(declared.arms)
        self.purged: set[int] = set()
        self.scale, self.incarnation = scale, int(now)
        self.neighbors = sorted(neighbors)
        self.degrees: dict[int, int] = {}
        self.agent = self._fresh_agent(self.neighbors)
        self.own_choices = np.zeros(len(arms), dtype=np.int64)
        self.own_counts = np.zeros(len(arms), dtype=np.int64)
        self.own_sums = np.zeros(len(arms))
        self.rounds, self.spoken, self.observed = 0, False, 0
        self.sent: dict[int, dict[int, Vector | None]] = {}
        self.proofs: dict[int, bytes] = {}
        self.certificates: list[bytes] = []
        self._shares: dict[int, Share] = {}
        self._spoken_state: State | None = None  # the agent when it spoke, if it changed since
        # Rewards that came after it spoke: arm, reward, and the context where there is one.
        self._observed_since: list[tuple[Any, ...]] = []
        self._open(now, nonce)

    def _open(self, now: float, nonce: int) -> None:
        present = self.neighbors
        try:
            if self.chapter.snapshot:
                self._restore(self.chapter.snapshot)
            for event in self.chapter.events:
                self._apply(event, replaying=True)
        except InputError:
            raise
        except (AttributeError, *OWN_ERRORS) as error:
            raise InputError(
                f"the journal cannot be replayed: {one_line(error)}; install the version that "
                "wrote it, or a later one"
            ) from error
        if isinstance(self.agent, ReopenedAgent):
            # Messages may reveal this word, and the names of tickets must not follow from it.
            word = blake2b(nonce.to_bytes(8, "little"), digest_size=8).digest()
            # Before others take the neighbours' places: it asks these.
            self.agent.reopened(int.from_bytes(word, "little"))
        self._relink(present)
        self.tickets.cap_lifetimes(now)
        self.tickets.begin(nonce)

    def _fresh_agent(self, neighbors: Sequence[int]) -> FleetAgent:
        return self.make_agent(neighbors, self.degrees, len(self.arms))

    @property
    def journal(self) -> Journal:
        """The journal of the agent, of which the chapter is a part."""
        return self.chapter.journal

    @property
    def seeing(self) -> ContextFleetAgent:
        """The agent, where its policy looks at features."""
        return cast("ContextFleetAgent", self.agent)

    # Events: the journal gathers each, then it is applied

    def choose(
        self, word: int, allowed: Sequence[int] | None, now: float, context: Vector | None = None
    ) -> tuple[int, int]:
        """Choose an arm; return a ticket's number and the arm."""
        self.tickets.check_room(now)
        arm = self.advise(word, allowed, context)
        self._log(Chose(arm, now, b"" if context is None else context.tobytes()))
        return self.tickets.next_number - 1, arm

    def advise(
        self, word: int, allowed: Sequence[int] | None, context: Vector | None = None
    ) -> int:
        """Return the arm that would be chosen; nothing changes."""
        if context is not None:
            return self.seeing.would_choose(word, allowed, context)
        arm = self.agent.choose(word, allowed)
        self.agent.abandon(arm)
        return arm

    def observe(self, number: int, reward: float) -> tuple[int, bool]:
        """Count the reward of a ticket; return its arm, and whether it was counted before."""
        self.scale.unit(reward)  # refuses rewards outside the range
        found = self.tickets.look_up(number, reward)
        if not isinstance(found, Settled):
            self._log(Observed(number, reward))
        return found.arm, isinstance(found, Settled)

    def expire(self, now: float) -> int:
        """Close tickets past their lifetime; return how many."""
        due = self.tickets.due(now)
        if due:
            self._log(Expired(due))
        return len(due)

    def meet(self, degrees: Mapping[int, int]) -> None:
        """Record the neighbours' degrees, before the first round."""
        self._log(Met(dict(degrees)))

    def relink(self, neighbors: Iterable[int]) -> None:
        """Go on with other neighbours; what is known of those that stay is kept.

        Some may come at any time. They go between the end of a round and the next messages.
        """
        wanted = sorted(neighbors)
        if wanted != self.neighbors:
            self._log(Relinked(wanted))

    def speak(self) -> dict[int, Vector | None]:
        """Make the messages of the next round; rewards observed from now on are not in them."""
        self.chapter.append(Spoke())
        self._speak()
        return self.sent[self.rounds + 1]

    def end_round(
        self,
        messages: Mapping[int, Vector],
        proofs: Mapping[int, bytes] = MappingProxyType({}),
        certificates: Sequence[bytes] = (),
        *,
        tick: int = 0,
    ) -> None:
        """End a round with the messages that arrived; if the agent refuses one, nothing changes.

        `tick` is the time, where agents forget by it.

        A synchronous round is written together with the next event, which saves a write. That is
        safe: no message depends on it before the agent speaks again, and if a crash loses it, the
        neighbours send their messages of that round again.
        """
        said = {j: message.tobytes() for j, message in messages.items()}
        proven = proofs or certificates
        more = proven or tick
        ended = Ended(said, dict(proofs), list(certificates), tick) if more else Ended(said)
        if self.spoken:
            self._end_round(messages, tick)
            self.chapter.hold(ended)
        else:
            self.chapter.append(ended)
            self._end_round(messages, tick)
        if proven:
            self._keep(proofs, certificates)

    def _keep(self, proofs: Mapping[int, bytes], certificates: Sequence[bytes]) -> None:
        self.proofs |= proofs
        self.certificates += certificates

    def shares(self) -> dict[int, Share]:
        """Return the agent's share of all rewards and pulls, by round; none if it does not tell.

        With synchronous rounds those after each of the last rounds, otherwise the current one.
        """
        return self._shares or self._present_share()

    def _present_share(self) -> dict[int, Share]:
        found: dict[int, Share] = {}
        self._add_share(found)
        return found

    def _add_share(self, shares: dict[int, Share]) -> None:
        try:
            shares[self.rounds] = self.agent.share()
        except InputError:  # some aggregations of one's own do not tell
            return

    def refused(self, messages: Mapping[int, Vector]) -> list[int]:
        """Return the senders whose messages the agent refuses; all if no single one is to blame."""
        bad = []
        for j, message in messages.items():
            probe = self._fresh_agent(self.neighbors)
            probe.restore_state(self._spoken_state or self.agent.export_state())
            try:
                receive(probe, {j: message}, 0)
            except InputError:
                bad.append(j)
        return bad or list(messages)

    @property
    def open_tickets(self) -> int:
        """How many rewards are waited for."""
        return len(self.tickets.open)

    @property
    def rewards(self) -> int:
        """How many rewards were handed in here."""
        return int(self.own_counts.sum())

    # Effects of events

    def _log(self, event: Event) -> None:
        self.chapter.append(event)
        self._apply(event)

    def _apply(self, event: Event, *, replaying: bool = False) -> None:
        match event:  # most frequent first
            case Ended(messages, proofs, certificates, tick):
                try:
                    self._end_round({j: np.frombuffer(m) for j, m in messages.items()}, tick)
                except InputError:
                    if not replaying:  # refused then as now
                        raise
                else:
                    self._keep(proofs, certificates)
            case Spoke():
                self._speak()
            case Chose(arm, now, context):
                self.tickets.add(arm, now, context)
                self.own_choices[arm] += 1
                if context:
                    self.seeing.open(arm, np.frombuffer(context))
                else:
                    self.agent.open_pulls[arm] += 1
            case Observed(number, reward):
                self._observe(*self.tickets.settle(number, reward), reward)
            case Expired(numbers):
                self._close(numbers)
            case Met(degrees):
                self._meet(degrees)
            case Relinked(neighbors):
                self._relink(neighbors)
            case Declared():
                self._declare(event)
            case Purged(arms):
                self._purge(set(arms))
            case Replaced(arms):
                self.arms = {arms.get(arm, arm): name for arm, name in self.arms.items()}

    def _close(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            arm, context = self.tickets.close(number)
            if context:
                self.seeing.abandon(arm, np.frombuffer(context))
            else:
                self.agent.abandon(arm)

    def _meet(self, degrees: dict[int, int]) -> None:
        self.degrees = degrees
        fresh = self._fresh_agent(list(self.agent.view.neighbor_weights))
        fresh.restore_state(fresh.reweighted(self.agent.export_state()))
        self.agent = fresh

    def declare(self, declared: Declared, *, write: bool = True) -> None:
        """Take a declaration; arms that are new come behind those of before.

        It need not be written where a snapshot follows before anybody is told of anything.
        """
        if write:
            self._log(declared)
        else:
            self._apply(declared)

    def replace(self, arms: Mapping[int, int]) -> None:
        """Give places of arms that have neither name nor pulls to others; new ids by old ones."""
        self._log(Replaced(dict(arms)))

    def purge(self, arms: Iterable[int], *, write: bool = True) -> None:
        """Keep of some arms how many pulls there were, and close their tickets; for ever."""
        fresh = sorted(set(arms) - self.purged)
        if fresh and write:
            self._log(Purged(fresh))
        elif fresh:
            self._apply(Purged(fresh))

    def _declare(self, declared: Declared) -> None:
        self.declared = declared
        if declared.nonce:
            self.tickets.begin(declared.nonce)
        known = range(len(self.arms))
        added = declared.arms.keys() - self.arms.keys()
        self.arms |= {arm: name or self.arms.get(arm, "") for arm, name in declared.arms.items()}
        if added:
            self._rearrange(known)

    def _purge(self, arms: set[int]) -> None:
        self.purged |= arms
        gone = {at for at, arm in enumerate(self.arms) if arm in arms}
        waiting = [number for number, each in self.tickets.open.items() if each.arm in gone]
        self._close(waiting)
        self.proofs = proofs_without(arms, self.agent, list(self.arms), self.proofs)
        self.arms, places = fold(self.arms, arms)
        self.tickets.move(places)
        self._rearrange(places)

    def _rearrange(self, places: Sequence[int]) -> None:
        """Go on with the arms that there are now, of which `places` were known before."""
        before = cast("CooperativeAgent", self.agent)  # arms of others stay what they are
        agent = cast("CooperativeAgent", self._fresh_agent(list(before.view.neighbor_weights)))
        agent.restore_state(agent.rearranged(before.export_state(), before, places))
        self.agent = agent
        for name in ("own_choices", "own_counts", "own_sums"):
            setattr(self, name, moved_pulls(getattr(self, name), len(self.arms), places))

    def _observe(self, arm: int, context: bytes, reward: float) -> None:
        self.observed += 1
        self.own_counts[arm] += 1
        self.own_sums[arm] += reward
        seen = self.scale.unit(reward)
        if self.spoken:
            self._spoken_state = self._spoken_state or self.agent.export_state()
            self._observed_since.append((arm, seen, *filter(None, [context])))
        tell(self.agent, arm, seen, context)

    def _speak(self) -> None:
        self.spoken = True
        agent = self.agent
        self.sent[self.rounds + 1] = {j: agent.outgoing(j) for j in agent.view.neighbor_weights}
        self.sent.pop(self.rounds + 1 - KEPT_ROUNDS, None)

    def _end_round(self, messages: Mapping[int, Vector], tick: int) -> None:
        if self._spoken_state is None:
            receive(self.agent, messages, tick)
        else:
            receive_as_spoken(self.agent, self._spoken_state, messages, self._observed_since)
        self.rounds += 1
        if self.spoken:
            self.spoken, self._spoken_state, self._observed_since = False, None, []
            self._add_share(self._shares)
            self._shares.pop(self.rounds - 2 * KEPT_ROUNDS, None)

    # Snapshots

    def _relink(self, neighbors: list[int]) -> None:
        """Continue with other neighbours, if they are."""
        self.neighbors = neighbors
        old = list(self.agent.view.neighbor_weights)
        if set(old) != set(neighbors):
            gone = set(old) - set(neighbors)
            if gone and isinstance(self.agent, PartedAgent):
                self.agent.parted(gone)
            fresh = self._fresh_agent(neighbors)
            fresh.restore_state(fresh.relinked(self.agent.export_state(), old))
            self.agent = fresh

    def export(self) -> dict[str, Any]:
        """Return all that is remembered, for a snapshot."""
        declared = self.declared
        return {
            "incarnation": self.incarnation,
            "neighbors": sorted(self.agent.view.neighbor_weights),
            "degrees": self.degrees,
            "agent": self.agent.export_state(),
            "tickets": self.tickets.export_state(),
            "own_choices": self.own_choices.tolist(),
            "own_counts": self.own_counts.tolist(),
            "own_sums": self.own_sums.tolist(),
            "rounds": self.rounds,
            "spoken": self.spoken,
            "sent": {
                r: {j: None if m is None else m.tobytes() for j, m in messages.items()}
                for r, messages in self.sent.items()
            },
            "before": self._spoken_state,
            "since": self._observed_since,
            "proofs": self.proofs,
            "certificates": self.certificates,
            "declared": {"name": declared.name, "shared": declared.shared, "arms": self.arms},
            "purged": sorted(self.purged),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.incarnation = max(self.incarnation, state["incarnation"] + 1)
        self.degrees = state["degrees"]
        self.declared = Declared(**state["declared"])
        self.arms = dict(self.declared.arms)
        self.purged = set(state["purged"])
        self.agent = self._fresh_agent(state["neighbors"])
        self.agent.restore_state(state["agent"])
        self.tickets.restore_state(state["tickets"])
        self.own_counts = np.array(state["own_counts"], dtype=np.int64)
        self.own_choices = np.array(state["own_choices"], dtype=np.int64)
        self.own_sums = np.array(state["own_sums"], dtype=np.float64)
        self.rounds, self.spoken = state["rounds"], state["spoken"]
        self.sent = {
            r: {j: None if m is None else np.frombuffer(m) for j, m in messages.items()}
            for r, messages in state["sent"].items()
        }
        self.proofs, self.certificates = state["proofs"], state["certificates"]
        self._spoken_state = state["before"]
        self._observed_since = [tuple(told) for told in state["since"]]


OWN_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)
"""What code that does not check its arguments raises."""


def tell(agent: FleetAgent, arm: int, seen: float, context: bytes = b"") -> None:
    """Tell an agent the reward of a pull, with the features of the request where there are any."""
    if context:
        cast("ContextFleetAgent", agent).observe(arm, seen, np.frombuffer(context))
    else:
        agent.observe(arm, seen)


def receive(agent: FleetAgent, messages: Mapping[int, Vector], tick: int) -> None:
    """Hand messages to an agent; one of somebody's own may trip over what a neighbour sends."""
    if agent.view.told_time:
        cast("TimedAgent", agent).pass_time(tick)
    try:
        agent.receive(messages)
    except InputError:
        raise
    except OWN_ERRORS as error:
        raise InputError(f"the agent cannot read a message: {one_line(error)}") from error


def receive_as_spoken(
    agent: FleetAgent,
    spoken_state: State,
    messages: Mapping[int, Vector],
    since: Iterable[tuple[Any, ...]],
) -> None:
    """End the round from the state in which the agent spoke, then observe what came since.

    Neighbours mix the values they were sent. Mixing newer rewards into the same round here would
    count them twice.
    """
    present, open_pulls = agent.export_state(), agent.open_pulls
    open_features = getattr(agent, "open_features", None)
    agent.restore_state(spoken_state)
    try:
        receive(agent, messages, 0)  # a synchronous policy is not told the time
    except InputError:
        agent.restore_state(present)
        raise
    for pull in since:
        tell(agent, *pull)
    agent.open_pulls = open_pulls
    if open_features is not None:
        cast("ContextFleetAgent", agent).open_features = open_features

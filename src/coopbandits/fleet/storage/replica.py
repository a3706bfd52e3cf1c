"""The state of one agent as a replica of its journal, which events alone can change.

`Replica` is the state of one bandit: its agent, tickets and own totals. `Bandits` are all replicas
of an agent, in one journal.

**Events.** A replica appends an event to the journal, which gathers it, and applies it at once.
Opening a replica applies all events again, through the same function. The shell acknowledges
nothing before the event is on disk, so a crash undoes nothing that was visible outside. A replica
has no clock, network or random source: time and random words are arguments.

**The one exception** is the end of a synchronous round, which is written with the next event and
saves a write. No message depends on it before the agent speaks again, and if a crash loses it, the
neighbours send their messages of that round again.

**Synchronous rounds.** Once the messages of a round have been made (`spoken`), the agent's part in
that round is fixed: neighbours mix the values that they were sent. Rewards observed later must not
be mixed into the same round, or they would count twice. So at the end of the round the agent goes
back to the state in which it spoke, mixes, and then observes again what came since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
from msgspec import structs

from coopbandits.core.aggregate.aggregation import moved_pulls
from coopbandits.core.aggregate.entries import Attributed
from coopbandits.core.contract import (
    ContextFleetAgent,
    FleetAgent,
    PartedAgent,
    ReopenedAgent,
    Share,
    State,
    Vector,
)
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.errors import InputError
from coopbandits.core.spelling import one_line
from coopbandits.fleet.config import RewardScale
from coopbandits.fleet.storage.eras import (
    OWN_ERRORS,
    Base,
    Live,
    MakeAgent,
    Makers,
    empty_base,
    enter,
    live_pulls,
    made_of_parts,
    moved_live,
    receive,
    rejected,
    reopen,
)
from coopbandits.fleet.storage.journal import BanditJournal, Journal
from coopbandits.fleet.storage.purging import fold, proofs_without
from coopbandits.fleet.storage.records import (
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
from coopbandits.fleet.storage.tickets import Settled, Tickets
from coopbandits.fleet.storage.units import Units

KEPT_ROUNDS = 3
"""Number of rounds whose messages are kept, in case a neighbour needs them again."""

MakeMakers = Callable[[Mapping[str, Any]], Makers]
"""Returns how agents are made that go by the shared settings of a declaration."""


class Replica:
    """One bandit of an agent: its state, and the events that change it.

    Parameters
    ----------
    log : BanditJournal
        The events so far; new ones are appended.
    make : callable
        Returns how agents are made under some settings.
    neighbors : sequence of int
        Numbers of the current neighbours, which may differ from those in the journal.
    tickets : Tickets
        An empty table of tickets.
    scale : RewardScale
        Maps rewards to the agent's scale.
    now : float
        The time.
    nonce : int
        A new random word, for the tickets of this start and for the agent.
    declared : Declared
        The bandit's declaration, with the arms that a new journal begins with.

    Attributes
    ----------
    incarnation : int
        Number of this opening. It exceeds all earlier ones, even those of a journal that was lost,
        unless the clock was set back.
    rounds : int
        Rounds completed.
    spoken : bool
        Whether the messages of the next round have been made.
    observed : int
        Rewards counted since the start.
    own_choices, own_counts, own_sums : arrays
        This agent's own choices, rewards and reward sums, by arm.
    sent : dict of int to dict
        Messages of the last rounds, by round and neighbour.
    proofs, certificates : dict of int to bytes, and list of bytes
        Proofs of entries that others have signed, by their numbers, and the certificates.
    arms : dict of int to str
        Names by id, in the order of the agent's arms; empty for those known from neighbours alone.
    purged : set of int
        Ids of purged arms, which can never be declared again.
    units : Units
        The arms that users or sessions were given.
    base : Base or None
        Pulls from before the present era, where the agent holds no entries itself.
    pulls_in_base : int
        How many of the rewards counted here are among these.
    carried : Live or None
        What the live part of the last era had when this process started.
    """

    def __init__(
        self,
        log: BanditJournal,
        make: MakeMakers,
        neighbors: Sequence[int],
        tickets: Tickets,
        scale: RewardScale,
        now: float,
        nonce: int,
        declared: Declared,
    ) -> None:
        self.journal, self.number = log.journal, log.number
        self.make, self.tickets = make, tickets
        self.units = Units()
        self.declared, self.makers = declared, make(declared.shared)
        self.base: Base | None = None
        self.pulls_in_base = 0
        self.carried: Live | None = None
        self._live_at_start: Live | None = None
        self.arms = arms = dict(declared.arms)
        self.purged: set[int] = set()
        self.scale, self.incarnation = scale, int(now)
        self.neighbors = sorted(neighbors)
        self.degrees: dict[int, int] = {}
        self.agent = self._fresh_agent(self.neighbors)
        self.base = empty_base(self)
        self._play(self.agent)
        self.own_choices = np.zeros(len(arms), dtype=np.int64)
        self.own_counts = np.zeros(len(arms), dtype=np.int64)
        self.own_sums = np.zeros(len(arms))
        self.rounds, self.spoken, self.observed = 0, False, 0
        self.sent: dict[int, dict[int, Vector | None]] = {}
        self.proofs: dict[int, bytes] = {}
        self.certificates: list[bytes] = []
        self._shares: dict[int, Share] = {}
        self._spoken_state: State | None = None  # when it spoke, if it has changed since
        # Rewards observed since it spoke: arm, reward, and the context if there is one.
        self._observed_since: list[tuple[Any, ...]] = []
        self._open(log, now, nonce)

    def _open(self, log: BanditJournal, now: float, nonce: int) -> None:
        configured = self.neighbors
        try:
            if log.snapshot:
                self._restore(log.snapshot)
            for event in log.events:
                self._apply(event, replaying=True)
        except InputError:
            raise
        except (AttributeError, *OWN_ERRORS) as error:
            raise InputError(
                f"cannot replay the journal: {one_line(error)}; install the version that wrote "
                "it, or a later one"
            ) from error
        if isinstance(self.agent, ReopenedAgent):
            # Messages may reveal this word, so tickets' names must not be computable from it.
            word = blake2b(nonce.to_bytes(8, "little"), digest_size=8).digest()
            # Before the neighbours change: it queries those that it had.
            self.agent.reopened(int.from_bytes(word, "little"))
        self._relink(configured)
        self.tickets.cap_lifetimes(now)
        self.tickets.begin(nonce)
        self._live_at_start = live_pulls(self)

    def _fresh_agent(self, neighbors: Sequence[int]) -> FleetAgent:
        return self.makers.agent(neighbors, self.degrees, len(self.arms))

    def _play(self, agent: FleetAgent) -> None:
        """Continue with another agent, on top of the same base."""
        self.agent = agent
        if self.base is not None:
            made_of_parts(agent).base = self.base.agent.machine

    @property
    def make_agent(self) -> MakeAgent:
        return self.makers.agent

    @property
    def holders(self) -> list[tuple[FleetAgent, MakeAgent]]:
        """The agents that hold pulls, and how each is made."""
        found: list[tuple[FleetAgent, MakeAgent]] = [(self.agent, self.makers.agent)]
        return found if self.base is None else [*found, (self.base.agent, self.makers.base)]

    @property
    def era(self) -> int:
        """Number of the present era."""
        found: int = self.declared.shared.get("era", 0)
        return found

    @property
    def context_agent(self) -> ContextFleetAgent:
        """The agent of a bandit with features."""
        return cast("ContextFleetAgent", self.agent)

    # Requests: each appends an event and applies it

    def choose(
        self,
        word: int,
        allowed: Sequence[int] | None,
        now: float,
        context: Vector | None = None,
        unit: bytes = b"",
        call: bytes = b"",
    ) -> tuple[int, int]:
        """Choose an arm; return a ticket's number and the arm.

        At the limit of open tickets the oldest one is abandoned for the new one, and more than one
        after a restart with a lower limit. A unit is given the arm, and a forwarded call its
        ticket.
        """
        tickets = self.tickets
        excess = max(0, len(tickets.open) + 1 - tickets.limit)
        if context is None:
            arm = self.agent.would_choose(word, allowed)
            self._record(Chose(arm, now, abandoned=excess, unit=unit, call=call))
        else:
            arm = self.context_agent.would_choose(word, allowed, context)
            self._record(Chose(arm, now, context.tobytes(), excess, unit, call))
        return tickets.next_number - 1, arm

    def advise(
        self, word: int, allowed: Sequence[int] | None, context: Vector | None = None
    ) -> int:
        """Return the arm that would be chosen; nothing changes."""
        if context is None:
            return self.agent.would_choose(word, allowed)
        return self.context_agent.would_choose(word, allowed, context)

    def observe(self, number: int, reward: float) -> tuple[int, bool]:
        """Count the reward of a ticket; return its arm, and whether it was a duplicate."""
        self.scale.unit(reward)  # rejects rewards outside the range
        found = self.tickets.look_up(number, reward)
        if not isinstance(found, Settled):
            self._record(Observed(number, reward))
        return found.arm, isinstance(found, Settled)

    def expire(self, now: float) -> int:
        """Close tickets past their lifetime; return how many."""
        due = self.tickets.due(now)
        if due:
            self._record(Expired(due))
        return len(due)

    def meet(self, degrees: Mapping[int, int]) -> None:
        """Record the neighbours' degrees, before the first round."""
        self._record(Met(dict(degrees)))

    def relink(self, neighbors: Iterable[int]) -> None:
        """Continue with other neighbours; what is known of those that stay is kept.

        Neighbours may be added at any time, and removed between the end of a round and the next
        messages.
        """
        wanted = sorted(neighbors)
        if wanted != self.neighbors:
            self._record(Relinked(wanted))

    def speak(self) -> dict[int, Vector | None]:
        """Return the messages of the next round; rewards observed later are not in them."""
        self.journal.append(Spoke(), self.number)
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
        """End a round with the messages that arrived; if the agent rejects one, nothing changes.

        `tick` is the time, where agents forget by it.
        """
        said = {j: message.tobytes() for j, message in messages.items()}
        more = proofs or certificates or tick
        ended = Ended(said, dict(proofs), list(certificates), tick) if more else Ended(said)
        if self.spoken:
            self._end_round(messages, tick)
            self.journal.hold(ended, self.number)
        else:
            self.journal.append(ended, self.number)
            self._end_round(messages, tick)
        self.proofs |= proofs
        self.certificates += certificates

    def end_base_round(
        self,
        messages: Mapping[int, Vector],
        proofs: Mapping[int, bytes],
        certificates: Sequence[bytes],
        tick: int,
    ) -> None:
        """End a round of the base; if its agent rejects a message, nothing changes."""
        assert self.base is not None  # noqa: S101  asked by the base itself
        said = {j: message.tobytes() for j, message in messages.items()}
        ended = Ended(said, dict(proofs), list(certificates), tick, base=True)
        self.journal.append(ended, self.number)
        self.base.hear(messages, tick)
        self.proofs |= proofs
        self.certificates += certificates

    def shares(self) -> dict[int, Share]:
        """Return the agent's share of all rewards and pulls, by round; empty if it has none.

        With synchronous rounds these are the shares after each of the last rounds, otherwise the
        present one.
        """
        return self._shares or self._present_share()

    def _present_share(self) -> dict[int, Share]:
        try:
            return {self.rounds: self.agent.share()}
        except InputError:  # a custom aggregation may not define it
            return {}

    def refused(self, messages: Mapping[int, Vector]) -> list[int]:
        """Return the senders whose messages the agent rejects; all if it accepts each by itself."""
        state = self._spoken_state or self.agent.export_state()
        return rejected(self.agent, state, self.make_agent, self.degrees, messages)

    @property
    def open_tickets(self) -> int:
        return len(self.tickets.open)

    @property
    def expired_tickets(self) -> int:
        """Number of tickets closed without a reward, but for abandoned ones."""
        tickets = self.tickets
        return tickets.next_number - 1 - self.rewards - len(tickets.open) - tickets.num_abandoned

    @property
    def rewards(self) -> int:
        """Number of rewards submitted to this agent."""
        return int(self.own_counts.sum())

    # Effects of events

    def _record(self, event: Event) -> None:
        self.journal.append(event, self.number)
        self._apply(event)

    def _apply(self, event: Event, *, replaying: bool = False) -> None:
        match event:  # most frequent first
            case Ended(messages, proofs, certificates, tick, of_base):
                heard = {j: np.frombuffer(m) for j, m in messages.items()}
                try:
                    if of_base:
                        cast("Base", self.base).hear(heard, tick)
                    else:
                        self._end_round(heard, tick)
                except InputError:
                    if not replaying:  # it was rejected at the time, too
                        raise
                else:
                    self.proofs |= proofs
                    self.certificates += certificates
            case Spoke():
                self._speak()
            case Chose(arm, now, context, abandoned, unit, call):
                if abandoned:
                    self._forgo(self.tickets.abandon(abandoned))
                number = self.tickets.add(arm, now, context)
                if unit:
                    self.units.give(unit, list(self.arms)[arm], now)
                if call:
                    self.units.serve(call, number, list(self.arms)[arm])
                self.own_choices[arm] += 1
                if context:
                    self.context_agent.open(arm, np.frombuffer(context))
                else:
                    self.agent.open_pulls[arm] += 1
            case Observed(number, reward):
                self._observe(*self.tickets.settle(number, reward), reward)
            case Expired(numbers):
                self._forgo(map(self.tickets.close, numbers))
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

    def _forgo(self, closed: Iterable[tuple[int, bytes]]) -> None:
        """Expect no more rewards for closed tickets, of these arms and contexts."""
        for arm, context in closed:
            if context:
                self.context_agent.abandon(arm, np.frombuffer(context))
            else:
                self.agent.abandon(arm)

    def _meet(self, degrees: dict[int, int]) -> None:
        self.degrees = degrees
        fresh = self._fresh_agent(list(self.agent.view.neighbor_weights))
        fresh.restore_state(fresh.reweighted(self.agent.export_state()))
        self._play(fresh)

    def declare(self, declared: Declared, *, write: bool = True) -> None:
        """Apply a declaration; new arms are appended to the previous ones.

        It need not be written if a snapshot follows before anything is acknowledged.
        """
        if write:
            self._record(declared)
        else:
            self._apply(declared)

    def replace(self, arms: Mapping[int, int]) -> None:
        """Replace arms that have neither name nor pulls by others; new ids by old ones."""
        self._record(Replaced(dict(arms)))

    def purge(self, arms: Iterable[int], *, write: bool = True) -> None:
        """Forget all but the number of pulls of some arms for ever, and close their tickets."""
        fresh = sorted(set(arms) - self.purged)
        if fresh and write:
            self._record(Purged(fresh))
        elif fresh:
            self._apply(Purged(fresh))

    def _declare(self, declared: Declared) -> None:
        before, self.declared = self.declared.shared, declared
        if declared.nonce:
            self.tickets.begin(declared.nonce)
        if before.get("era") != declared.shared.get("era"):
            self._enter_era(declared)
        elif before.get("policy") != declared.shared.get("policy"):
            self._follow(declared)
        known = range(len(self.arms))
        added = declared.arms.keys() - self.arms.keys()
        self.arms |= {arm: name or self.arms.get(arm, "") for arm, name in declared.arms.items()}
        if added:
            self._rearrange(known)

    def _follow(self, declared: Declared) -> None:
        """Begin with the policy of the fleet in the first era, before the first choice.

        What was heard is dropped: the fleet tells it again, and would count it a second time.
        """
        self.makers, self.proofs, self.certificates = self.make(declared.shared), {}, []
        agent = self._fresh_agent(list(self.agent.view.neighbor_weights))
        reopen(agent, declared.nonce)
        self._play(agent)

    def _enter_era(self, declared: Declared) -> None:
        """Begin with another aggregation, and keep all own pulls in the base."""
        self.makers = self.make(declared.shared)
        base = self.base
        self.carried, self._live_at_start = self._live_at_start, None
        agent, holder = enter(self, self.makers, declared.nonce)
        self.base = None
        if holder is not None:
            rounds = self.rounds if base is None else base.rounds
            self.base, self.pulls_in_base = Base(self, holder, rounds), self.rewards
        self._play(agent)

    def _purge(self, arms: set[int]) -> None:
        self.purged |= arms
        self.units.forget(arms)
        gone = {at for at, arm in enumerate(self.arms) if arm in arms}
        numbers = [number for number, each in self.tickets.open.items() if each.arm in gone]
        self._forgo(map(self.tickets.close, numbers))
        holder = made_of_parts(self.agent) if self.base is None else self.base.agent
        machine = holder.machine
        if isinstance(machine, Attributed):  # otherwise there are no entries, and no proofs
            self.proofs = proofs_without(
                arms, machine.registers, machine.entry, list(self.arms), self.proofs
            )
        self.arms, places = fold(self.arms, arms)
        self.tickets.move(places)
        self._rearrange(places)

    def _rearrange(self, places: Sequence[int]) -> None:
        """Continue with `self.arms`; arm k of the previous ones is at `places[k]`."""
        if self.base is not None:
            self.base.agent = self._rearranged(self.base.agent, self.makers.base, places)
        before = made_of_parts(self.agent)
        agent = self._rearranged(before, self.makers.agent, places)
        here, there = agent.machine.registers, before.machine.registers
        self._live_at_start = moved_live(self._live_at_start, here, there, places)
        self.carried = moved_live(self.carried, here, there, places)
        self._play(agent)
        for name in ("own_choices", "own_counts", "own_sums"):
            setattr(self, name, moved_pulls(getattr(self, name), len(self.arms), places))

    def _rearranged(
        self, before: CooperativeAgent, make: MakeAgent, places: Sequence[int]
    ) -> CooperativeAgent:
        neighbors = list(before.view.neighbor_weights)
        agent = made_of_parts(make(neighbors, self.degrees, len(self.arms)))
        agent.restore_state(agent.rearranged(before.export_state(), before, places))
        return agent

    def _observe(self, arm: int, context: bytes, reward: float) -> None:
        self.observed += 1
        self.own_counts[arm] += 1
        self.own_sums[arm] += reward
        seen = self.scale.unit(reward)
        if self.spoken:
            self._spoken_state = self._spoken_state or self.agent.export_state()
            self._observed_since.append((arm, seen, *filter(None, [context])))
        if context:
            self.context_agent.observe(arm, seen, np.frombuffer(context))
        else:
            self.agent.observe(arm, seen)

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
            self._shares |= self._present_share()
            self._shares.pop(self.rounds - 2 * KEPT_ROUNDS, None)

    def _relink(self, neighbors: list[int]) -> None:
        self.neighbors = neighbors
        old = list(self.agent.view.neighbor_weights)
        if set(old) != set(neighbors):
            gone = set(old) - set(neighbors)
            if gone and isinstance(self.agent, PartedAgent):
                self.agent.parted(gone)
            fresh = self._fresh_agent(neighbors)
            fresh.restore_state(fresh.relinked(self.agent.export_state(), old))
            if self.base is not None:
                holder = made_of_parts(self.makers.base(neighbors, self.degrees, len(self.arms)))
                holder.restore_state(holder.relinked(self.base.agent.export_state(), old))
                self.base.agent = holder
            self._play(fresh)

    # Snapshots

    def export(self) -> dict[str, Any]:
        """Return the whole state, for a snapshot."""
        declared = self.declared
        base = {} if self.base is None else {"base": self.base.export()}
        return base | {
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
            **self.units.export_state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.incarnation = max(self.incarnation, state["incarnation"] + 1)
        self.degrees = state["degrees"]
        self.declared = Declared(**state["declared"])
        self.arms = dict(self.declared.arms)
        self.purged = set(state["purged"])
        self.units.restore_state(state)
        agent = self._fresh_agent(state["neighbors"])
        agent.restore_state(state["agent"])
        if (base := state.get("base")) is not None:
            self.pulls_in_base = base["pulls"]
            holder = self.makers.base(state["neighbors"], self.degrees, len(self.arms))
            holder.restore_state(base["agent"])
            self.base = Base(self, made_of_parts(holder), base["rounds"])
        self._play(agent)
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
        self._observed_since = [tuple(pull) for pull in state["since"]]


def receive_as_spoken(
    agent: FleetAgent,
    spoken_state: State,
    messages: Mapping[int, Vector],
    since: Iterable[tuple[Any, ...]],
) -> None:
    """End the round from the state in which the agent spoke, then observe what came since."""
    present, open_pulls = agent.export_state(), agent.open_pulls
    open_features = getattr(agent, "open_features", None)
    agent.restore_state(spoken_state)
    try:
        receive(agent, messages, 0)  # synchronous policies do not forget by time
    except InputError:
        agent.restore_state(present)
        raise
    for arm, seen, *context in since:
        agent.observe(arm, seen, *map(np.frombuffer, context))
    agent.open_pulls = open_pulls
    if open_features is not None:
        cast("ContextFleetAgent", agent).open_features = open_features


# All bandits of an agent

MakeReplica = Callable[[BanditJournal, Declared, int], Replica]
"""Makes the replica of a bandit from its journal, its declaration, and a nonce for its tickets."""


class Declaration(NamedTuple):
    """The declaration of one bandit: its number, content, and the ids of purged arms."""

    number: int
    declared: Declared
    purged: Collection[int] = ()


class Bandits:
    """The replicas of one agent, by number.

    Their events share one journal, by the bandit's number, and one snapshot. The journal itself
    says what its bandits are (`Declared`), so that those no longer declared are kept and resume
    where they were once they are declared again.

    Parameters
    ----------
    journal : Journal
        The events so far.
    make : callable
        Makes a replica.
    words : callable
        Returns 64 random bits.

    Attributes
    ----------
    active : dict of int to set of int
        Ids of the arms declared last, by the number of the bandit; empty for a retired bandit.
        Replicas also know arms that have been left out since.
    """

    def __init__(self, journal: Journal, make: MakeReplica, words: Callable[[], int]) -> None:
        self.journal, self._make, self._words = journal, make, words
        kept: dict[int, Any] = journal.snapshot.get("bandits", {})
        self.active: dict[int, set[int]] = {}
        self.replicas: dict[int, Replica] = {}
        for number in sorted(kept.keys() | journal.events.keys()):
            state, events = kept.get(number), journal.events.get(number, [])
            log = BanditJournal(journal, number, state or {}, events)
            self.replicas[number] = make(log, _first_declared(log), words())
            self.active[number] = _active(log)
        self.incarnation = max((each.incarnation for each in self.replicas.values()), default=0)
        for replica in self.replicas.values():
            replica.incarnation = self.incarnation

    @property
    def rounds(self) -> int:
        """Rounds completed by the bandit that has completed most."""
        return max((each.rounds for each in self.replicas.values()), default=0)

    @property
    def open_tickets(self) -> int:
        return sum(each.open_tickets for each in self.replicas.values())

    @property
    def rewards(self) -> int:
        """Number of rewards submitted to this agent."""
        return sum(each.rewards for each in self.replicas.values())

    def declare(self, declarations: Iterable[Declaration], *, write: bool = True) -> None:
        """Apply declarations of bandits; those that change nothing are not written.

        Raises
        ------
        DiskError
            The journal cannot be written, and no declaration was applied.
        """
        for number, declared, purged in declarations:
            replica = self.replicas.get(number)
            if replica is None:
                # The nonce of a new bandit's tickets is in the event itself: a crash may follow
                # before the first snapshot.
                declared = structs.replace(declared, nonce=self._words() or 1)
            elif declared.shared.get("era", 0) != replica.era:
                # The same event may take effect a second time, in a journal that lost the first.
                declared = structs.replace(declared, nonce=self._words() or 1)
            is_news = replica is None or self._is_news(declared, number, replica)
            if write:
                if is_news:
                    self.journal.append(declared, number)
                if fresh := set(purged) - (set() if replica is None else replica.purged):
                    self.journal.append(Purged(sorted(fresh)), number)
            if replica is None:
                log = BanditJournal(self.journal, number, {}, [declared])
                replica = self.replicas[number] = self._make(log, declared, declared.nonce)
                replica.incarnation = max(replica.incarnation, self.incarnation)
            elif is_news:
                replica.declare(declared, write=False)
            self.active[number] = set(declared.arms)
            replica.purge(purged, write=False)

    def _is_news(self, declared: Declared, number: int, replica: Replica) -> bool:
        known = replica.declared
        return (
            self.active[number] != declared.arms.keys()
            or (known.name, known.shared) != (declared.name, declared.shared)
            or any(replica.arms.get(arm) != name for arm, name in declared.arms.items() if name)
            or not declared.arms.keys() <= replica.arms.keys()
        )

    def follow(self, number: int, shared: Mapping[str, Any]) -> None:
        """Have a bandit without choices go by the fleet's settings."""
        replica, word = self.replicas[number], self._words() or 1
        known = replica.declared
        replica.declare(Declared(known.name, dict(shared), dict(known.arms), word))

    def expire(self, now: float) -> int:
        """Close tickets past their lifetime; return how many."""
        return sum(replica.expire(now) for replica in self.replicas.values())

    def compact(self) -> None:
        """Replace all events by a snapshot, beside the event loop if there is a rewriter."""
        self.journal.rewrite(self.export)

    def export(self) -> dict[str, Any]:
        """Return the whole state, for a snapshot."""
        states = {
            number: each.export() | {"active": sorted(self.active[number])}
            for number, each in self.replicas.items()
        }
        return {"bandits": states}


def _first_declared(log: BanditJournal) -> Declared:
    """Return the declaration that a replica begins with; later ones are among its events."""
    if log.snapshot:
        return Declared(**log.snapshot["declared"])
    if not isinstance(log.events[0], Declared):
        raise InputError(
            f"the journal has events of bandit {log.number} but no declaration of it; restore the "
            "folder from a backup, or move it away to start without memory"
        )
    return log.events[0]


def _active(log: BanditJournal) -> set[int]:
    """Return the arms that were declared last."""
    for event in reversed(log.events):
        # Declarations with an unnamed arm are not the operator's: a neighbour knows that arm.
        if isinstance(event, Declared) and all(event.arms.values()):
            return set(event.arms)
    return set(log.snapshot["active"]) if log.snapshot else set()

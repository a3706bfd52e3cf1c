"""Eras: what a bandit keeps of its pulls when it changes its policy.

A bandit's state is a *base* and a *live* part. The base is a flood of signed entries, one per
author: all pulls of that author up to the moment at which it entered the present era. The live part
is the aggregation of the era's policy, which began empty in this era. What is read is the sum of
both (`CooperativeAgent.base`).

An agent enters an era by a declaration with a higher `era`. In that one event it adds its own live
totals to its own base entry, which it alone can sign, drops the live part and begins another. So
each pull is in exactly one place: in its author's base entry, or in the live part of the era in
which its author is. Neighbours exchange neither while they are in different eras. Nothing depends
on agents entering an era together, and what cannot be attributed to an author does not outlive the
era in which it was said.

A flooding policy needs no second place: its entries already are all pulls of their authors. There
the live part is the base, and goes on with the same entries and proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from coopbandits.core.aggregate import FloodedTotals
from coopbandits.core.aggregate.entries import Attributed
from coopbandits.core.contract import FleetAgent, ReopenedAgent, State, TimedAgent, Vector
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Policy, combine
from coopbandits.core.spelling import one_line
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.records import Declared

if TYPE_CHECKING:
    from coopbandits.core.aggregate.fields import FieldMachine
    from coopbandits.core.aggregate.flooded_totals import FloodedTotalsMachine
    from coopbandits.core.statistic import Registers
    from coopbandits.fleet.storage.replica import Replica

MakeAgent = Callable[[Sequence[int], Mapping[int, int], int], FleetAgent]
"""Makes a fresh agent from its neighbours' numbers, their degrees as far as known, and K."""


class Makers(NamedTuple):
    """How agents of one policy are made: those that play, and those that hold the base."""

    agent: MakeAgent
    base: MakeAgent


def base_policy(policy: Policy) -> Policy:
    """Return the flooding policy whose entries hold the pulls of a policy's earlier eras."""
    assert policy.parts is not None  # noqa: S101  others cannot change: `eligibility.carry_problem`
    discount = getattr(policy.parts.aggregation, "discount", 1.0)
    return combine(FloodedTotals(discount=discount), policy.parts.index)


def made_of_parts(agent: FleetAgent) -> CooperativeAgent:
    """Narrow the agent of a bandit whose arms or policy may change: it is always made of parts."""
    if not isinstance(agent, CooperativeAgent):
        raise TypeError(
            f"the arms and the policy of {type(agent).__name__} cannot change; it is not made of "
            "parts"
        )
    return agent


# Entering an era


class Live(NamedTuple):
    """Own pulls in the live part of a bandit: as registers, as they count at a clock, and as many.

    Where older pulls count less, registers do not tell how many there were.
    """

    totals: Vector
    clock: int
    pulls: float


def live_pulls(replica: Replica) -> Live | None:
    """Return the own pulls in the live part; None where its agent holds entries, or keeps none."""
    machine = getattr(replica.agent, "machine", None)
    spec = getattr(machine, "spec", None)
    if machine is None or isinstance(machine, Attributed) or not getattr(spec, "keeps_own", False):
        return None
    totals, clock = machine.own_totals()
    return Live(totals, clock, float(replica.rewards - replica.pulls_in_base))


def moved_live(
    live: Live | None, here: Registers, there: Registers, places: Sequence[int]
) -> Live | None:
    """Return the same with other arms: arm k there is `places[k]`."""
    return live and live._replace(totals=here.moved(live.totals, there, places))


def enter(
    replica: Replica, makers: Makers, word: int
) -> tuple[CooperativeAgent, CooperativeAgent | None]:
    """Return the agent that plays in another era, and the one that holds its base if it needs one.

    `word` is random.
    """
    before, base = made_of_parts(replica.agent), replica.base
    neighbors, num_arms = list(before.view.neighbor_weights), before.view.num_arms
    after = made_of_parts(makers.agent(neighbors, replica.degrees, num_arms))
    holder = after
    if not isinstance(after.machine, Attributed):
        holder = made_of_parts(makers.base(neighbors, replica.degrees, num_arms))
    flood = cast("FloodedTotalsMachine", holder.machine)
    if base is not None:
        source = base.agent.machine
    else:
        source = before.machine if isinstance(before.machine, Attributed) else flood
    rounds = replica.rounds if base is None or holder is after else base.rounds
    flood.restore_state(flood.taken_over(source.export_state(), rounds))
    live = live_pulls(replica)
    if live is not None:
        flood.carry(live.totals, live.pulls, live.clock)
    if live is not None or holder is not after:  # pulls may come before the first round ends
        played = cast("FieldMachine", after.machine)
        played.state.me.clock = max(played.state.me.clock, flood.state.me.clock)
    after.open_pulls = before.open_pulls
    if after.buffer is not None:
        after.open_features = before.open_features
    reopen(after, word)
    if holder is after:
        return after, None
    after.base = flood
    return after, holder


def reopen(agent: FleetAgent, word: int) -> None:
    """Have an agent begin with a random word, so that it repeats nothing of a former life."""
    if isinstance(agent, ReopenedAgent):
        digest = blake2b(word.to_bytes(8, "little"), digest_size=8, person=b"era").digest()
        agent.reopened(int.from_bytes(digest, "little"))


class Base:
    """The base of a bandit: a state that gossip changes like that of a bandit.

    Parameters
    ----------
    replica : Replica
        The bandit's state.
    agent : CooperativeAgent
        Holds the entries.
    rounds : int
        Rounds completed.
    """

    def __init__(self, replica: Replica, agent: CooperativeAgent, rounds: int) -> None:
        self.replica, self.rounds = replica, rounds
        self.agent: CooperativeAgent = agent
        self.observed = 0  # pulls are the live part's

    def export(self) -> dict[str, Any]:
        return {
            "agent": self.agent.export_state(),
            "rounds": self.rounds,
            "pulls": self.replica.pulls_in_base,
        }

    def hear(self, messages: Mapping[int, Vector], tick: int) -> None:
        """End a round, without writing it."""
        receive(self.agent, messages, tick)
        self.rounds += 1

    # As of a replica

    @property
    def proofs(self) -> dict[int, bytes]:
        return self.replica.proofs

    @property
    def certificates(self) -> list[bytes]:
        return self.replica.certificates

    @certificates.setter
    def certificates(self, certificates: list[bytes]) -> None:
        self.replica.certificates = certificates

    @property
    def arms(self) -> dict[int, str]:
        return self.replica.arms

    @property
    def purged(self) -> set[int]:
        return self.replica.purged

    @property
    def declared(self) -> Declared:
        return self.replica.declared

    @property
    def degrees(self) -> dict[int, int]:
        return self.replica.degrees

    @property
    def incarnation(self) -> int:
        return self.replica.incarnation

    @property
    def journal(self) -> Journal:
        return self.replica.journal

    @property
    def make_agent(self) -> MakeAgent:
        return self.replica.makers.base

    @property
    def holders(self) -> list[tuple[FleetAgent, MakeAgent]]:
        return self.replica.holders

    def end_round(
        self,
        messages: Mapping[int, Vector],
        proofs: Mapping[int, bytes] = MappingProxyType({}),
        certificates: Sequence[bytes] = (),
        *,
        tick: int = 0,
    ) -> None:
        """End a round with the messages that arrived."""
        self.replica.end_base_round(messages, proofs, certificates, tick)

    def refused(self, messages: Mapping[int, Vector]) -> list[int]:
        """Return the senders whose messages the agent rejects; all if it accepts each by itself."""
        state = self.agent.export_state()
        return rejected(self.agent, state, self.make_agent, self.degrees, messages)

    def relink(self, neighbors: Iterable[int]) -> None:
        self.replica.relink(neighbors)

    def declare(self, declared: Declared, *, write: bool = True) -> None:
        self.replica.declare(declared, write=write)

    def replace(self, arms: Mapping[int, int]) -> None:
        self.replica.replace(arms)


def empty_base(replica: Replica) -> Base | None:
    """Return the base of a bandit that is new here; None in the first era, or for a flood."""
    if not replica.era or isinstance(getattr(replica.agent, "machine", None), Attributed):
        return None
    made = replica.makers.base(replica.neighbors, replica.degrees, len(replica.arms))
    return Base(replica, made_of_parts(made), 0)


class Gossiped(Protocol):
    """What gossip about entries asks of a state: that of a bandit, or that of its base."""

    certificates: list[bytes]
    rounds: int

    @property
    def agent(self) -> FleetAgent: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def proofs(self) -> dict[int, bytes]: ...
    @property
    def degrees(self) -> dict[int, int]: ...
    @property
    def arms(self) -> dict[int, str]: ...
    @property
    def purged(self) -> set[int]: ...
    @property
    def declared(self) -> Declared: ...
    @property
    def observed(self) -> int: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def make_agent(self) -> MakeAgent: ...
    @property
    def holders(self) -> list[tuple[FleetAgent, MakeAgent]]: ...
    def end_round(
        self,
        messages: Mapping[int, Vector],
        proofs: Mapping[int, bytes] = MappingProxyType({}),
        certificates: Sequence[bytes] = (),
        *,
        tick: int = 0,
    ) -> None: ...
    def refused(self, messages: Mapping[int, Vector]) -> list[int]: ...
    def relink(self, neighbors: Iterable[int]) -> None: ...
    def declare(self, declared: Declared, *, write: bool = True) -> None: ...
    def replace(self, arms: Mapping[int, int]) -> None: ...


# Messages that an agent may reject

OWN_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)
"""What custom code that does not check its arguments raises."""


def receive(agent: FleetAgent, messages: Mapping[int, Vector], tick: int) -> None:
    """Have an agent receive messages; InputError covers failures of custom agents as well."""
    if agent.view.told_time:
        cast("TimedAgent", agent).pass_time(tick)
    try:
        agent.receive(messages)
    except InputError:
        raise
    except OWN_ERRORS as error:
        raise InputError(f"the agent cannot read a message: {one_line(error)}") from error


def rejected(
    agent: FleetAgent,
    state: State,
    make: MakeAgent,
    degrees: Mapping[int, int],
    messages: Mapping[int, Vector],
) -> list[int]:
    """Return the senders of messages that an agent rejects; all if it accepts each by itself."""
    bad = []
    for j, message in messages.items():
        probe = make(list(agent.view.neighbor_weights), degrees, agent.view.num_arms)
        probe.restore_state(state)
        try:
            receive(probe, {j: message}, 0)
        except InputError:
            bad.append(j)
    return bad or list(messages)

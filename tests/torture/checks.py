"""What must hold after every event, and once a second."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coopbandits.core.aggregate.aggregation import MIXED, OWN
from coopbandits.core.aggregate.claims import MAX_NUMBERS
from coopbandits.core.aggregate.tree_sums import CERTAIN
from coopbandits.fleet.protocol.arms import MOST_UNNAMED
from coopbandits.fleet.protocol.node import MOST_SILENT
from coopbandits.fleet.storage.replica import KEPT_ROUNDS
from tests.torture.application import LIFETIME, LIMITS, Account, ViolationError
from tests.torture.bandits import OPTIONS
from tests.torture.open_wiring import DEGREE
from tests.torture.recovery import EXACT, Recovery
from tests.torture.schedule import (
    EPOCH,
    MAX_AGENTS,
    MAX_PULLS_PER_SECOND,
    ROUNDS_PER_SECOND,
    SECOND,
)

if TYPE_CHECKING:
    from coopbandits.fleet.storage.replica import Replica
    from tests.torture.actor import Actor
    from tests.torture.process import Entry, Process
    from tests.torture.stage import Stage

MOST_BYTES = 8 << 20
"""A journal with all that is kept beside it; so much is never written in one run."""

COUNTING = 1.25 * CERTAIN / ROUNDS_PER_SECOND
"""Seconds for which minima that contradict a count of agents may keep it from being believed."""


class Checks:
    """Looks at a stage; whatever is wrong is a ViolationError."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.done = stage, False
        traits = stage.bandit.traits
        self.exact = traits.exact and traits.shares == OWN
        self.mixed = traits.shares == MIXED
        self.grows, self.forgets = traits.grows, traits.forgets
        self.outlives = traits.outlives
        # Without an author nothing is ever taken out again: neither lies nor what others have lost.
        self.authorless = traits.outlives and not traits.grows
        if stage.schedule.eras:  # some of them have another policy: what holds for all of them
            self.outlives = self.authorless = True
            self.grows = False
        there = len(stage.actors) + (stage.liar is not None)
        self.most_agents = there if self.grows else MAX_AGENTS
        self.lost_most = 0.0
        self.told: dict[tuple[int, Entry], float] = {}
        self.unwell = "nothing was looked at yet"
        self._recovery = Recovery(self)

    # After every event

    def after(self, actor: Actor) -> None:
        """Look at an agent that has just done something."""
        process = actor.process
        assert process is not None
        self.own(actor, process)
        self.stage.operator.check(actor)
        if not self.stage.robust:
            self._rounds(actor, process.replica.rounds)

    def own(self, actor: Actor, process: Process) -> None:
        """Compare own totals with what was acknowledged."""
        actor.app.account.check(*process.own_totals(), actor.name)

    def _rounds(self, actor: Actor, rounds: int) -> None:
        for j in actor.neighbors:
            other = self.stage.actors[j].process
            if other is not None and abs(other.replica.rounds - rounds) > 1:
                raise ViolationError(
                    f"{actor.name} has ended {rounds} rounds and its neighbour n{j} "
                    f"{other.replica.rounds}; they must differ by at most one"
                )

    def heard(self, actor: Actor, peer: str, generation: int) -> None:
        """Check that no older message took the place of a newer one of the same link."""
        process = actor.process
        link = None if process is None else process.node.peers.get(peer)
        if process is None or link is None or not self.stage.robust:
            return
        for bandit, session in process.sessions.items():
            found = session.peers.get(link.number)
            if found is None or not found.met:
                continue
            now = actor.life, generation, found.heard_round
            before = actor.heard.get((peer, bandit), now)
            if before[:2] == now[:2] and now[2] < before[2]:
                raise ViolationError(
                    f"{actor.name} took a message of round {now[2]} from {peer} after {before[2]}"
                )
            actor.heard[peer, bandit] = now

    def started(self, actor: Actor) -> None:
        """Look at an agent that has just read its journal."""
        process = actor.process
        assert process is not None
        if actor.uncertain:
            self._settle_uncertain(actor, process)
        self.own(actor, process)
        self.stage.visits.elsewhere.started(actor)

    def _settle_uncertain(self, actor: Actor, process: Process) -> None:
        """Take over what a loss of power left of what nobody had promised to keep."""
        account = actor.app.account
        counts, sums = process.own_totals()
        most = sum(account.counts) + len(account.doubt)
        if sum(counts) > most:
            raise ViolationError(
                f"{actor.name} counts {sum(counts)} rewards after a loss of power, of {most}"
            )
        self.lost_most += most - sum(counts)
        self._note_told(actor)
        actor.app.give_up()
        actor.app.go_on(Account(counts=counts, sums=sums))
        actor.uncertain = False

    def lost(self, actor: Actor) -> None:
        """Note what others know of a memory that is lost: so much stays, and no more can."""
        account = actor.app.account
        self.lost_most += sum(account.counts) + len(account.doubt)
        self._note_told(actor)

    def _note_told(self, actor: Actor) -> None:
        actor.document = 0
        self.told = {key: told for key, told in self.told.items() if key[0] != actor.index}
        for other in self.stage.actors:
            if other is not actor and other.process is not None:
                for entry, version in other.process.held().items():
                    if other.process.author_of(entry) == actor.index:
                        self.told[other.index, entry] = version

    def rolled_back(self, actor: Actor) -> None:
        """Note how much others may know of what an older copy does not have."""
        self.lost(actor)

    def unavailable(self, actor: Actor) -> None:
        """Refuse that an agent cannot store anything long after its disk was repaired."""
        if self.stage.time > actor.broken_until + 3 * SECOND:
            assert actor.process is not None
            raise ViolationError(
                f"{actor.name} answers nothing, although its disk is fine: "
                f"{actor.process.node.trouble}"
            )

    # About once a second

    def beat(self, actor: Actor) -> None:
        """Look at sizes and beliefs."""
        process = actor.process
        if process is None:
            return
        self._sizes(actor, process)
        for replica in process.replicas.values():
            self._replica_sizes(actor, process, replica)
            if self.stage.robust:
                self._beliefs(actor, process, replica)
        if self.stage.liar is not None:
            self._boasts(actor, process, self.stage.liar.index)

    def _sizes(self, actor: Actor, process: Process) -> None:
        node, auto = process.node, self.stage.schedule.auto
        bandits = len(process.replicas)
        proofs = Counter(
            process.author_of((bandit, number))
            for bandit, replica in process.replicas.items()
            for number in replica.proofs
        )
        sizes = {
            "bytes on disk": (actor.files.size, MOST_BYTES),
            "files": (len(actor.files.names), 12),
            "open files": (len(actor.files.handles), 4),
            "neighbours": (
                len(node.peers), DEGREE + 2 + MOST_SILENT if auto else len(actor.neighbors) + 1
            ),
            "entries": (len(process.held()), bandits * (MAX_AGENTS + MAX_NUMBERS)),
            "proofs of one author": (max(proofs.values(), default=0), bandits * MAX_NUMBERS),
            "reasons for refusals": (len(node.refusals), 20),
        }  # fmt: skip
        self._require(actor, sizes)

    def _replica_sizes(self, actor: Actor, process: Process, replica: Replica) -> None:
        tickets = replica.tickets
        oldest = max((ticket.expires for ticket in tickets.open.values()), default=0.0)
        sizes = {
            "open tickets": (len(tickets.open), max(LIMITS)),
            "rewards remembered": (len(tickets.settled), max(LIMITS)),
            "abandoned tickets remembered": (len(tickets.abandoned), tickets.limit),
            "rounds of messages": (len(replica.sent), KEPT_ROUNDS),
            "arms": (len(replica.arms), len(OPTIONS) + MOST_UNNAMED),
            "seconds left for a ticket": (int(oldest - process.clock()), int(LIFETIME)),
        }
        self._require(actor, sizes)
        waiting = Counter(ticket.arm for ticket in tickets.open.values())
        opened = replica.agent.open_pulls.tolist()
        if opened != [waiting[arm] for arm in range(len(opened))]:
            raise ViolationError(
                f"{actor.name} has {opened} open pulls by arm, but open tickets of {dict(waiting)}"
            )
        if replica.expired_tickets < 0:
            raise ViolationError(f"{actor.name} has {replica.expired_tickets} expired tickets")

    @staticmethod
    def _require(actor: Actor, sizes: dict[str, tuple[int, int]]) -> None:
        for what, (size, most) in sizes.items():
            if size > most:
                raise ViolationError(f"{actor.name} has {size} {what}; there may be {most}")

    def _beliefs(self, actor: Actor, process: Process, replica: Replica) -> None:
        found = replica.agent.estimate()
        seconds = process.clock() - EPOCH
        agents = self.most_agents if self.authorless else found.num_agents
        most = agents * MAX_PULLS_PER_SECOND * (seconds + 120.0)
        counts, sums = found.counts.tolist(), found.sums.tolist()
        if not 1.0 <= found.num_agents <= self.most_agents:
            raise ViolationError(f"{actor.name} believes in {found.num_agents:g} agents")
        for arm, (count, total) in enumerate(zip(counts, sums, strict=True)):
            if not (-EXACT <= count <= most and -EXACT <= total <= count + EXACT * (1 + count)):
                raise ViolationError(
                    f"{actor.name} believes in {count:g} pulls of arm {arm}, {total:g} in sum"
                )

    def _boasts(self, actor: Actor, process: Process, liar: int) -> None:
        most = MAX_PULLS_PER_SECOND * (process.clock() - EPOCH + 120.0)
        pulls = Counter[int]()
        for entry, told in process.held().items():
            if process.author_of(entry) == liar:
                pulls[entry[0]] += int(told)
        for bandit, found in pulls.items():
            if found > most:
                raise ViolationError(
                    f"{actor.name} believes in {found} pulls of a liar, of bandit {bandit}; it can "
                    f"have made {most:g}"
                )

    # After healing

    def settle(self) -> None:
        """Note whether all is well; what is not may still become so."""
        self.unwell = self._recovery.unwell()
        if not self.unwell:
            self.done = True
            self.stage.trace.note(self.stage.time, "well")

    def overdue(self, seconds: float) -> None:
        """Give up waiting, so many seconds later than all must be well."""
        if not self._recovery.contradicted or seconds > COUNTING:
            raise ViolationError(f"long after everything healed, {self.unwell}")

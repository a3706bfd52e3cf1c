"""What must hold after every event, and once everything has healed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.aggregate.aggregation import MIXED, OWN
from coopbandits.core.aggregate.claims import MAX_NUMBERS
from coopbandits.core.aggregate.ticks import DISCOUNT
from coopbandits.core.contract import Vector
from coopbandits.fleet.protocol.links import MOST_SILENT
from coopbandits.fleet.protocol.talks import MOST_UNNAMED
from coopbandits.fleet.storage.replica import KEPT_ROUNDS
from coopbandits.testing.torture.application import LIFETIME, MOST_TICKETS, Account, ViolationError
from coopbandits.testing.torture.bandits import OPTIONS
from coopbandits.testing.torture.open_wiring import DEGREE
from coopbandits.testing.torture.schedule import (
    ARMS,
    EPOCH,
    MAX_AGENTS,
    MAX_PULLS_PER_SECOND,
    SECOND,
)

if TYPE_CHECKING:
    from coopbandits.fleet.storage.replica import Replica
    from coopbandits.testing.torture.actor import Actor
    from coopbandits.testing.torture.process import Entry, Process
    from coopbandits.testing.torture.stage import Stage

EXACT = 1e-9
AGREE = 1e-3
"""Agents that mix have the same means, to this."""
MOST_BYTES = 8 << 20
"""A journal with all that is kept beside it; so much is never written in one run."""
ENOUGH = 200
"""With so many pulls known, choices are of the best arm nearly always."""


class Checks:
    """Looks at a stage; whatever is wrong is a ViolationError."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.done = stage, False
        traits = stage.cluster.traits
        self.exact = traits.exact and traits.shares == OWN
        self.mixed = traits.shares == MIXED
        self.grows, self.forgets = traits.grows, traits.forgets
        self.outlives = traits.outlives
        # Without an author nothing is ever taken out again: neither lies nor what others have lost.
        self.unsigned = traits.outlives and not traits.grows
        # A liar is one agent, and one more if it takes a number of version 0.1.
        there = len(stage.actors) + 2 * (stage.liar is not None)
        self.most_agents = there if self.grows else MAX_AGENTS
        self.lost_most = 0.0
        self.told: dict[tuple[int, Entry], float] = {}
        self.unwell = "nothing was looked at yet"
        self._rounds_at_healing: int | None = None

    # After every event

    def after(self, actor: Actor) -> None:
        """Look at an agent that has just done something."""
        process = actor.process
        assert process is not None  # noqa: S101  it lives
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
        """Look at whether an older message took the place of a newer one of the same link."""
        process = actor.process
        found = None if process is None else process.node.peers.get(peer)
        if found is None or not self.stage.robust:
            return
        now = actor.life, generation, found.heard_round
        before = actor.heard.get(peer, now)
        if before[:2] == now[:2] and now[2] < before[2] and found.met:
            raise ViolationError(
                f"{actor.name} took a message of round {now[2]} from {peer} after {before[2]}"
            )
        actor.heard[peer] = now

    def started(self, actor: Actor) -> None:
        """Look at an agent that has just read its journal."""
        process = actor.process
        assert process is not None  # noqa: S101  it lives
        if actor.uncertain:
            self._settle_uncertain(actor, process)
        self.own(actor, process)

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
        actor.app.account = Account(counts=counts, sums=sums)
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
            assert actor.process is not None  # noqa: S101  it lives
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
            "open tickets": (len(tickets.open), MOST_TICKETS),
            "rewards remembered": (len(tickets.settled), MOST_TICKETS),
            "rounds of messages": (len(replica.sent), KEPT_ROUNDS),
            "arms": (len(replica.arms), len(OPTIONS) + MOST_UNNAMED),
            "seconds left for a ticket": (int(oldest - process.clock()), int(LIFETIME)),
        }
        self._require(actor, sizes)

    @staticmethod
    def _require(actor: Actor, sizes: dict[str, tuple[int, int]]) -> None:
        for what, (size, most) in sizes.items():
            if size > most:
                raise ViolationError(f"{actor.name} has {size} {what}; there may be {most}")

    def _beliefs(self, actor: Actor, process: Process, replica: Replica) -> None:
        found = replica.agent.estimate()
        seconds = process.clock() - EPOCH
        agents = self.most_agents if self.unsigned else found.num_agents
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
        self.unwell = self._unwell()
        if not self.unwell:
            self.done = True
            self.stage.trace.note(self.stage.time, "well")

    def overdue(self) -> None:
        """Give up waiting."""
        raise ViolationError(f"long after everything healed, {self.unwell}")

    def _unwell(self) -> str:
        stage = self.stage
        for actor in stage.actors:
            process = actor.process
            if process is None:
                return f"{actor.name} does not run"
            if process.node.trouble:
                return f"{actor.name} is in trouble: {process.node.trouble}"
            for name, peer in process.node.peers.items():
                if not (peer.met or stage.schedule.auto) and int(name[1:]) < len(stage.actors):
                    return f"{actor.name} has no link to {name}: {peer.reason}"
        if missing := self._beyond_reach():
            return f"n0 is not connected with {', '.join(sorted(missing))}"
        if self.mixed:
            found = self._mass()
        elif self.exact:
            found = self._totals()
        else:
            found = self._means()
        return found or stage.operator.unwell() or self._best_arm()

    def _beyond_reach(self) -> set[str]:
        """Return the agents to which no way leads from the first, over links that both ends use."""
        left = {
            process.config.id: {name for name, peer in process.node.peers.items() if peer.met}
            for process in self._processes()
        }
        front = [self.stage.actors[0].name]
        while front:
            here = front.pop()
            near = left.pop(here, set())
            front += [there for there in near if here in left.get(there, ())]
        return set(left)

    def _processes(self) -> list[Process]:
        return [actor.process for actor in self.stage.actors if actor.process is not None]

    def _own_total(self) -> Vector | None:
        """Return what all have counted themselves; None if that is not certain."""
        if self.forgets:
            latest, total = self._latest(), np.zeros(2 * len(OPTIONS))
            for actor in self.stage.actors:
                own = actor.app.account.discounted(latest)
                if own is None:
                    return None
                total += own
            return total
        own_totals = [process.own_totals() for process in self._processes()]
        counts, sums = (np.sum(each, axis=0) for each in zip(*own_totals, strict=True))
        return np.concatenate([sums, counts.astype(np.float64)])

    def _latest(self) -> list[int]:
        """Return the latest of all clocks, by option."""
        found = self._processes()
        return [max(each.tick_of(at) for each in found) for at in range(len(OPTIONS))]

    def _known(self, process: Process) -> Vector:
        """Return what an agent knows, as it counts at the latest of all clocks."""
        known = process.known()
        if self.forgets:
            late = [latest - process.tick_of(at) for at, latest in enumerate(self._latest())]
            known *= np.tile(DISCOUNT ** np.array(late, dtype=np.float64), 2)
        return known

    def _totals(self) -> str:
        """Compare what each agent knows with everybody's own totals."""
        own = self._own_total()
        processes = self._processes()
        known = [self._known(process) for process in processes]
        if self.unsigned and self.stage.liar is not None:
            return ""  # a lie stays; the shift is bounded
        for actor, found in zip(self.stage.actors, known, strict=True):
            if self.unsigned and self.lost_most:
                if own is not None and not self._lies_between(found, own):
                    return f"{actor.name} knows {found.tolist()}, and all have {own.tolist()}"
            elif not np.allclose(found, known[0], rtol=EXACT, atol=EXACT):
                return f"{actor.name} knows {found.tolist()} and n0 {known[0].tolist()}"
        for actor, process in zip(self.stage.actors, processes, strict=True):
            counted = process.replica.agent.estimate().num_agents
            if counted != len(processes):
                return f"{actor.name} counts {counted:g} agents, and there are {len(processes)}"
        held = processes[0].held()
        for (holder, entry), version in self.told.items():
            if held.get(entry, 0.0) < version:
                return f"n0 knows less of {entry[1]:.0f} than n{holder}, {version:g} pulls"
        if own is None:
            return ""
        if not self.outlives or not self.lost_most:
            fits = np.allclose(known[0], own, rtol=EXACT, atol=EXACT)
        else:
            fits = self._lies_between(known[0], own)
        return "" if fits else f"all know {known[0].tolist()}, and have {own.tolist()} themselves"

    def _lies_between(self, known: Vector, own: Vector) -> bool:
        """Return whether an agent knows of everybody's own pulls, and at most of those lost."""
        pulls, least = float(known[len(OPTIONS) :].sum()), float(own[len(OPTIONS) :].sum())
        return least - EXACT <= pulls <= least + self.lost_most + EXACT

    def _means(self) -> str:
        """Compare what mixing agents know: the same means, each within what an arm pays."""
        known = [self._known(process) for process in self._processes()]
        first = _means(known[0])
        for actor, found in zip(self.stage.actors, known, strict=True):
            if not np.allclose(_means(found), first, rtol=AGREE, atol=AGREE, equal_nan=True):
                return f"{actor.name} has means {_means(found).tolist()} and n0 {first.tolist()}"
        if self.stage.liar is not None:  # mixing cannot undo a lie; the shift is bounded
            return ""
        for mean, low in zip(first.tolist(), (0.75, 0.25, 0.0), strict=True):
            if not np.isnan(mean) and not low - AGREE <= mean <= low + 0.25 + AGREE:
                return f"all believe in means of {first.tolist()}"
        return ""

    def _mass(self) -> str:
        """Compare the shares after one round with everything acknowledged; rounds go on."""
        replicas = [process.replica for process in self._processes()]
        last = min(replica.rounds for replica in replicas)
        if self._rounds_at_healing is None:
            self._rounds_at_healing = last
        if last < self._rounds_at_healing + 5:
            return f"rounds do not go on: {[replica.rounds for replica in replicas]}"
        shares = [replica.shares().get(last) for replica in replicas]
        if any(share is None for share in shares):
            return "shares of one round are not there"
        told = np.sum([np.concatenate(share) for share in shares if share is not None], axis=0)
        own = self._own_total()
        own = own if own is None else np.concatenate(_of_main(own))
        if own is None or np.allclose(told, own, rtol=EXACT, atol=EXACT):
            return ""
        return f"shares add up to {told.tolist()}, and acknowledged were {own.tolist()}"

    def _best_arm(self) -> str:
        for actor, process in zip(self.stage.actors, self._processes(), strict=True):
            found = self._known(process)
            means, pulls = _means(found), _of_main(found)[1]
            undone = self.exact and not self.unsigned  # lies are, once the liar is gone
            if pulls.sum() < ENOUGH or (self.stage.liar is not None and not undone):
                continue
            if np.nanargmax(means) != 0:
                return f"{actor.name} takes {ARMS[int(np.nanargmax(means))]} for the best arm"
            among = range(len(ARMS)) if process.many else None
            chosen = [process.replica.advise(word << 40 | 12345, among) for word in range(1, 10)]
            if chosen.count(0) < 5:
                return f"{actor.name} chooses {[ARMS[arm] for arm in chosen]}"
        return ""


def _of_main(known: Vector) -> tuple[Vector, Vector]:
    """Return sums and pulls of the arms that the first bandit always has."""
    return known[: len(ARMS)], known[len(OPTIONS) :][: len(ARMS)]


def _means(known: Vector) -> Vector:
    """Return the mean of every such arm; nan where next to nothing is known."""
    sums, counts = _of_main(known)
    means: Vector = np.where(counts > 0.5, sums / np.maximum(counts, 0.5), np.nan)
    return means

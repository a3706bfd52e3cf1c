"""What must hold once everything has healed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from coopbandits.core.aggregate.forgetting import DISCOUNT
from coopbandits.core.aggregate.tree_sums import FEWEST
from coopbandits.core.choice import with_open_pulls
from coopbandits.core.contract import Estimate, Vector
from tests.torture.bandits import OPTIONS
from tests.torture.schedule import ARMS

if TYPE_CHECKING:
    from coopbandits.core.cooperative import CooperativeAgent
    from tests.torture.checks import Checks
    from tests.torture.process import Process

EXACT = 1e-9
AGREE = 1e-3
"""Agents that mix have the same means, to this."""
ENOUGH = 200
"""With so many pulls known, choices are of the best arm nearly always."""


class Recovery:
    """Looks at a stage that has healed; `checks` knows what was lost before."""

    def __init__(self, checks: Checks) -> None:
        self.checks, self.stage = checks, checks.stage
        self._rounds_at_healing: int | None = None
        self.contradicted = False  # all was well, but minima kept a count from being believed

    def unwell(self) -> str:
        """Return what is not well yet; empty if all is."""
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
        if self.checks.mixed:
            found = self._mass()
        elif self.checks.exact:
            found = self._totals()
        else:
            found = self._means()
        return found or stage.operator.unwell() or self._best_arm() or self._miscount()

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
        if self.checks.forgets:
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
        if self.checks.forgets:
            late = [latest - process.tick_of(at) for at, latest in enumerate(self._latest())]
            known *= np.tile(DISCOUNT ** np.array(late, dtype=np.float64), 2)
        return known

    def _totals(self) -> str:
        """Compare what each agent knows with everybody's own totals."""
        own = self._own_total()
        processes = self._processes()
        known = [self._known(process) for process in processes]
        if self.checks.authorless and self.stage.liar is not None:
            return ""  # a lie stays; the shift is bounded
        for actor, found in zip(self.stage.actors, known, strict=True):
            if self.checks.authorless and self.checks.lost_most:
                if own is not None and not self._lies_between(found, own):
                    return f"{actor.name} knows {found.tolist()}, and all have {own.tolist()}"
            elif not np.allclose(found, known[0], rtol=EXACT, atol=EXACT):
                return f"{actor.name} knows {found.tolist()} and n0 {known[0].tolist()}"
        held = processes[0].held()
        for (holder, entry), version in self.checks.told.items():
            if held.get(entry, 0.0) < version:
                return f"n0 knows less of {entry[1]:.0f} than n{holder}, {version:g} pulls"
        if own is None:
            return ""
        if not self.checks.outlives or not self.checks.lost_most:
            fits = np.allclose(known[0], own, rtol=EXACT, atol=EXACT)
        else:
            fits = self._lies_between(known[0], own)
        return "" if fits else f"all know {known[0].tolist()}, and have {own.tolist()} themselves"

    def _miscount(self) -> str:
        """Compare how many agents each one counts with how many there are."""
        processes, lied = self._processes(), self.checks.authorless and self.stage.liar is not None
        for actor, process in zip(self.stage.actors, processes, strict=True):
            counted = process.replica.agent.estimate().num_agents
            if self.checks.exact and not lied and counted != len(processes):
                if not self.checks.grows and FEWEST * counted > len(processes):
                    self.contradicted = True
                return f"{actor.name} counts {counted:g} agents, and there are {len(processes)}"
        return ""

    def _lies_between(self, known: Vector, own: Vector) -> bool:
        """Return whether an agent knows of everybody's own pulls, and at most of those lost."""
        pulls, least = float(known[len(OPTIONS) :].sum()), float(own[len(OPTIONS) :].sum())
        return least - EXACT <= pulls <= least + self.checks.lost_most + EXACT

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
            undone = (
                self.checks.exact and not self.checks.authorless
            )  # lies are, once the liar is gone
            if pulls.sum() < ENOUGH or (self.stage.liar is not None and not undone):
                continue
            if np.nanargmax(means) != 0:
                return f"{actor.name} takes {ARMS[int(np.nanargmax(means))]} for the best arm"
            among = range(len(ARMS))
            chosen = [process.replica.advise(word << 40 | 12345, among) for word in range(1, 10)]
            agent = cast("CooperativeAgent", process.replica.agent)
            seen = with_open_pulls(agent.estimate(), agent.open_pulls)
            if not is_sensible(chosen, seen, random=agent.index.random):
                return f"{actor.name} chooses {[ARMS[arm] for arm in chosen]}"
        return ""


def is_sensible(chosen: Sequence[int], seen: Estimate, *, random: bool) -> bool:
    """Return whether choices with several words are as an index promises where arm 0 is best.

    One that draws finds the best arm mostly. Without drawing all words give the same arm, which may
    be another for as long as less is known of it: a bonus falls with the pulls and rises with the
    mean, so it is never an arm of a smaller mean and more pulls.
    """
    if random:
        return chosen.count(0) >= 5
    arm = chosen[0]
    best, mean = (float(seen.sums[k] / max(float(seen.counts[k]), 0.5)) for k in (0, arm))
    explained = mean >= best or bool(seen.counts[arm] <= seen.counts[0])
    return set(chosen) == {arm} and explained


def _of_main(known: Vector) -> tuple[Vector, Vector]:
    """Return sums and pulls of the arms that the first bandit always has."""
    return known[: len(ARMS)], known[len(OPTIONS) :][: len(ARMS)]


def _means(known: Vector) -> Vector:
    """Return the mean of every such arm; nan where next to nothing is known."""
    sums, counts = _of_main(known)
    means: Vector = np.where(counts > 0.5, sums / np.maximum(counts, 0.5), np.nan)
    return means

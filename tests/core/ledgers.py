"""A rough world in which every pull is an arm of its own, so that each can be followed for ever."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import networkx as nx
import numpy as np

from coopbandits.core.aggregate import LedgerSums, ledger_sums, spanning_tree
from coopbandits.core.contract import State, Vector

from .fleet import machine, one_view, through_json
from .rough import CALM, Rough, Schedule


@contextmanager
def in_a_hurry(undercut: int = -5) -> Iterator[None]:
    """Let roots come, collect and go within a few rounds; recovery need not reach far either.

    With −5 a root is given up after some 4 to 9 rounds without a beat in which others were heard.
    """
    with (
        patch.multiple(ledger_sums, YOUNG=2, LEVELS=6),
        patch.multiple(spanning_tree, UNDERCUT=undercut, STANDING=8),
    ):
        yield


@dataclass(frozen=True)
class Apart(Schedule):
    """A schedule in which some agents have no link up until some round."""

    until: dict[int, int] = field(default_factory=dict)

    def delay(self, now: int, sender: int, receiver: int) -> int | None:
        if now < max(self.until.get(sender, 0), self.until.get(receiver, 0)):
            return None
        return super().delay(now, sender, receiver)


class Followed(Rough[Any]):
    """Pull number n of agent i is one of arm n·N + i, for up to `rounds` rounds."""

    def __init__(self, graph: nx.Graph[Any], rounds: int, spec: LedgerSums | None = None) -> None:
        super().__init__(partial(machine, spec or LedgerSums()), graph)
        self.views = [replace(view, num_arms=rounds * len(graph)) for view in self.views]
        self.agents = [self.make(view) for view in self.views]
        self.tenures: dict[tuple[int, int], Vector] = {}  # what each has collected, by its root
        self.kept = np.zeros(len(graph))  # pulls in every agent's ledger
        self.openings = 0

    def pull(self) -> None:
        """Everybody pulls an arm that nobody pulls again."""
        for i, agent in enumerate(self.agents):
            agent.observe(self.now * len(self.agents) + i, 1.0)

    def step(self, schedule: Schedule = CALM) -> None:
        """Play on, and look at everything."""
        super().step(schedule)
        for i, agent in enumerate(self.agents):
            if agent.tenure:
                self.tenures[i, agent.tenure] = agent.collected.copy()
        self.assert_no_pull_is_entered_twice()
        self.assert_ledgers_grow()

    def forget(self, agent: int) -> None:
        """Replace an agent by one that knows nothing but the round, as `simulate` does."""
        self.agents[agent], self.kept[agent] = self.make(self.views[agent]), 0.0
        for _ in range(self.now):
            self.agents[agent].receive({})

    def reopen(self, agent: int, state: State) -> None:
        """Let an agent go on from a state, over new links.

        States are those after `pull`: as in a fleet, messages tell of nothing that comes later.
        """
        self.agents[agent], self.kept[agent] = self.make(self.views[agent]), 0.0
        self.agents[agent].restore_state(through_json(state))
        self.openings += 1
        self.agents[agent].reopened(self.openings)
        self.on_their_way = [item for item in self.on_their_way if agent not in item[1:3]]

    def counts(self, mass: Vector) -> Vector:
        """Return how often every pull is in some mass."""
        counts: Vector = self.agents[0].registers.share(mass[:-2]).counts
        return counts

    def assert_no_pull_is_entered_twice(self) -> None:
        for i, agent in enumerate(self.agents):
            counts = self.counts(agent.ledger)
            assert set(counts.tolist()) <= {0.0, 1.0}, f"twice in the ledger of {i}, {self.now}"
            assert agent.ledger[-2] <= agent.ledger[-1]  # an agent counts with its first pull
            known, certain = self.counts(agent.ledger + agent.meanwhile), self.counts(agent.certain)
            assert known.max(initial=0.0) <= 1.0, f"twice in the ledger and since of {i}"
            assert certain.max(initial=0.0) <= 1.0, f"twice in what is certain to {i}"

    def assert_ledgers_grow(self) -> None:
        kept = np.array([self.counts(agent.ledger).sum() for agent in self.agents])
        assert (kept >= self.kept).all()
        self.kept = kept

    def assert_every_pull_is_somewhere(self) -> None:
        """Held, on its way, or collected in one tenure: each exactly once, while memories last."""
        mass = np.zeros_like(self.agents[0].held)
        for agent in self.agents:
            mass = mass + agent.held + agent.doubted
        mass = mass + sum(self.tenures.values(), start=np.zeros_like(mass))
        for i, agent in enumerate(self.agents):
            for j, at in agent.places.items():
                other = self.agents[j]
                mass = mass + agent.sent[at] - other.taken[other.places[i]]
        done = self.now * len(self.agents)
        assert self.counts(mass)[:done].tolist() == [1.0] * done
        assert mass[-2:].tolist() == [len(self.agents), done]


class Wandering(Followed):
    """Agents that end rounds one after the other, as in a fleet, and whose links come and go.

    An agent that has lost a link lets go of the neighbour later, right after it has told others.
    """

    def __init__(self, graph: nx.Graph[Any], rounds: int) -> None:
        super().__init__(graph, rounds)
        self.up = {frozenset(link) for link in graph.edges}
        self.all = set(self.up)
        self.inboxes: list[dict[int, Vector]] = [{} for _ in self.agents]
        self.gone: list[set[int]] = [set() for _ in self.agents]

    def step(self, schedule: Schedule = CALM) -> None:
        """Let everybody end a round and tell; links break and come back in between."""
        for i in range(len(self.agents)):
            for link in sorted(map(sorted, self.all)):
                often = schedule.spell * len(self.agents)
                if often and schedule.chance(5, *link, i, self.now) < 1.0 / often:
                    self._turn(*link)
            agent = self.agents[i]
            agent.receive(dict(sorted(self.inboxes[i].items())))
            self.inboxes[i] = {}
            for j in agent.places:
                told = agent.outgoing(j)
                lost = schedule.chance(2, i, j, self.now) < schedule.loss
                if {i, j} in self.up and i in self.agents[j].places and not lost:
                    self.inboxes[j][i] = told
            if schedule.chance(6, i, self.now) < 0.5:
                self._relink(i, agent.places.keys() - self.gone[i])
                self.gone[i] = set()
            if agent.tenure:
                self.tenures[i, agent.tenure] = agent.collected.copy()
        self.now += 1
        self.assert_no_pull_is_entered_twice()
        self.assert_ledgers_grow()

    def settle(self) -> None:
        """Let all links be up."""
        for link in self.all - self.up:
            self._turn(*link)

    def _turn(self, i: int, j: int) -> None:
        self.up ^= {frozenset((i, j))}
        for here, there in ((i, j), (j, i)):
            if {i, j} not in self.up:
                self.gone[here].add(there)
            else:
                self.gone[here].discard(there)
                self._relink(here, self.agents[here].places.keys() | {there})

    def _relink(self, i: int, neighbors: Collection[int]) -> None:
        before, own = self.agents[i], sorted(neighbors)
        if own == sorted(before.places):
            return
        weights = dict.fromkeys(own, 0.5 / max(1, len(own)))
        fresh = self.make(replace(self.views[i], neighbor_weights=weights))
        state = through_json(before.export_state())
        fresh.restore_state(fresh.relinked(state, sorted(before.places), own))
        self.agents[i] = fresh
        self.inboxes[i] = {j: told for j, told in self.inboxes[i].items() if j in own}


def handed(mine: Any, neighbor: int) -> float:
    told = mine.outgoing(neighbor)
    return float(told[mine.own.size - 1])


def root_says(mine: Any, beat: int, heard: float = 0.0, **more: float) -> Vector:
    """A message of neighbour 2, which is the root and has the mark 1/4."""
    alone, mass = [0.0, 0.0, 1.0, 0.0], [0.0, more.get("handed", 0.0), 1.0, more.get("handed", 0.0)]
    ledger = [0.0, more.get("pulls", 0.0), 1.0, more.get("pulls", 0.0)]
    header = [more.get("lineage", 0.0), beat + more.get("mark", 0.25), heard]
    root = more.get("root", mine.tag / 2)
    return np.array([*mass, *ledger, *header, *alone, root, float(beat), 0.0, 1.0])


def handing() -> Any:
    """A machine whose next message hands one pull to neighbour 2."""
    mine = machine(LedgerSums(), one_view(num_arms=1))
    mine.receive({2: root_says(mine, 1)})
    for beat in (2, 3):
        mine.receive({2: root_says(mine, beat, heard=beat - 1 + float(mine.marks[1]))})
    mine.observe(0, 1.0)
    return mine


def relinked(mine: Any, neighbors: list[int]) -> Any:
    """Return the machine with other neighbours."""
    weights = dict.fromkeys(neighbors, 0.25)
    moved = machine(LedgerSums(), one_view(num_arms=1, neighbor_weights=weights))
    state = through_json(mine.export_state())
    moved.restore_state(moved.relinked(state, sorted(mine.places), neighbors))
    return moved

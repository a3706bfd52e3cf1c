"""A fleet of machines, some of whose nodes say what they like; each message is checked first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import InputError, LocalView, Machine, Vector
from coopbandits.core.aggregate import Claims

from .fleet import gossip_matrix, views

Kind = TypeVar("Kind", bound=Machine)
NUM_ARMS, RATE, PACE, MAX_AGENTS = 2, 40.0, 20.0, 12

GRAPHS: dict[str, nx.Graph[Any]] = {
    "ring": nx.cycle_graph(8),
    "random": nx.random_regular_graph(3, 8, seed=5),
}
"""Node 0 lies; the others stay connected without it."""

BOTH_GRAPHS = ["ring", pytest.param("random", marks=pytest.mark.slow)]
"""For tests that take long while lines are counted: one of the two is enough for that."""

Lie = Callable[[int, "Den[Any]"], Vector | None]
"""What a liar tells one of its neighbours in this round."""


class Den(Generic[Kind]):
    """Machines that know nothing of each other's honesty. A round takes 1/20 s."""

    def __init__(
        self,
        make: Callable[[LocalView], Kind],
        graph: nx.Graph[Any],
        liars: Sequence[int] = (0,),
        clocks: Sequence[float] = (),
        *,
        checked: bool = True,
    ) -> None:
        told = views(gossip_matrix(graph), NUM_ARMS)
        self.views = [replace(view, max_agents=MAX_AGENTS, common_round=False) for view in told]
        self.agents = [make(view) for view in self.views]
        self.claims = [Claims(True, RATE, 0.0, MAX_AGENTS, PACE) for _ in self.agents]
        self.clocks = clocks or [0.0] * len(self.agents)
        self.liars, self.lie, self.rounds = tuple(liars), None, 0
        self.checked = checked  # or not, where an aggregation runs in no fleet
        self.paid = np.zeros(2 * NUM_ARMS)
        self.refused: list[tuple[int, int]] = []  # sender, receiver

    lie: Lie | None
    """None once the liars have gone."""

    @property
    def honest(self) -> list[Kind]:
        return [agent for i, agent in enumerate(self.agents) if i not in self.liars]

    def now(self, agent: int = 1) -> float:
        return self.rounds / PACE + self.clocks[agent]

    def most_pulls(self) -> float:
        return self.claims[0].most_pulls(self.now())

    def pull(self) -> None:
        """Every honest agent pulls once; arm 1 always pays, arm 0 never."""
        for i, agent in enumerate(self.agents):
            if i not in self.liars:
                arm = (self.rounds + i) % NUM_ARMS
                agent.observe(arm, float(arm))
                self.paid[[arm, NUM_ARMS + arm]] += float(arm), 1.0

    def step(self) -> None:
        """Exchange messages; those that cannot be true are dropped."""
        inboxes: list[dict[int, Vector]] = [{} for _ in self.agents]
        for i, view in enumerate(self.views):
            for j in view.neighbor_weights:
                message = self._say(i, j)
                if message is None or j in self.liars:
                    continue
                if self.checked and not self._believes(j, message):
                    self.refused.append((i, j))
                else:
                    inboxes[j][i] = message
        for i, (agent, inbox) in enumerate(zip(self.agents, inboxes, strict=True)):
            if i not in self.liars:
                agent.receive(inbox)
        self.rounds += 1

    def run(self, rounds: int, *, pull: bool = True) -> None:
        for _ in range(rounds):
            if pull:
                self.pull()
            self.step()

    def _believes(self, receiver: int, message: Vector) -> bool:
        try:
            self.agents[receiver].check_claims(message, self.claims[receiver], self.now(receiver))
        except InputError:
            return False
        return True

    def _say(self, sender: int, receiver: int) -> Vector | None:
        if sender not in self.liars:
            return self.agents[sender].outgoing(receiver)
        return None if self.lie is None else self.lie(sender, self)

"""DisLinUCB and FedLinUCB: a server that is told of pulls when these have taught enough.

Wang, Hu, Chen and Wang, "Distributed bandit learning: near-optimal regret with efficient
communication", ICLR 2020; with another rule He, Wang, Min and Gu, "A simple and provably efficient
algorithm for asynchronous federated contextual linear bandits", NeurIPS 2022.

What linear bandits with a server do, as baselines: their rules when to talk are about determinants
of what was added up, so the statistic is that of linear models. Every upload and every download is
a message of all registers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.central import (
    TURN,
    CentralAggregation,
    ServingController,
    ServingMemory,
)
from coopbandits.core.aggregate.fields import AGENTS, Sizes, whole
from coopbandits.core.checks import require_positive
from coopbandits.core.errors import InputError
from coopbandits.core.index.linear import cholesky

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView, Vector
    from coopbandits.core.index import Index
    from coopbandits.core.statistic import Registers


@dataclass(frozen=True)
class ServerTotals(CentralAggregation):
    r"""Totals of a server, which agents fetch now and then; one of two rules says when.

    Parameters
    ----------
    threshold : float, optional
        D of DisLinUCB (Wang, Hu, Chen, Wang 2020): *all* agents upload and download at the end of a
        round in which some agent's Δn ln(det(λI + A)/det(λI + A − ΔA)) reaches D, Δ being what it
        has not told. The paper takes D = T ln(NT)/(dN). Agents use what they have not told.
    growth : float, optional
        α of FedLinUCB (He, Wang, Min, Gu 2022): an agent *alone* uploads and downloads when
        det(λI + A + ΔA) > (1 + α) det(λI + A), A being its last download, and acts on that alone.
        The paper takes α = 1/N².

    Notes
    -----
    *Differs from the papers*: messages are exchanged when a round is over, as everywhere here, and
    carry the upper triangle of A, d(d + 3)/2 + 1 values, where the papers count d² + d.
    """

    threshold: float | None = None
    growth: float | None = None
    name: ClassVar[str] = "server-totals"

    def __post_init__(self) -> None:
        if (self.threshold is None) == (self.growth is None):
            raise InputError(
                f"server-totals has threshold {self.threshold} and growth {self.growth}; give "
                "exactly one of them, such as server-totals:growth=0.01"
            )
        for name in ("threshold", "growth"):
            if getattr(self, name) is not None:
                require_positive(name, getattr(self, name))

    def memory(self, index: Index) -> ServerMemory:
        if not index.statistic.takes_context:
            raise InputError(
                f"server-totals adds up linear models, and {index.spelling} plays on none; combine "
                "it with lin-ucb or lin-ts"
            )
        return ServerMemory(self.threshold, self.growth, index)

    def make(self, index: Index, registers: Registers, sigma: float) -> ServingController:
        return ServingController(self.memory(index), index, registers, sigma)


@dataclass(frozen=True)
class ServerMemory(ServingMemory):
    """The server's totals, and of every agent what it has fetched and what it has not told.

    Every agent may upload and download in a round: two lines.
    """

    threshold: float | None
    growth: float | None
    index: Index
    name: ClassVar[str] = "server-memory"
    lines: ClassVar[int] = 2

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        agents, width = sizes.agents, sizes.width
        per_model = width // sizes.groups if sizes.groups else width  # d(d + 3)/2 + 1
        size = (math.isqrt(8 * per_model + 1) - 3) // 2
        return {
            "totals": width,
            "fetched": (agents, width),
            "untold": (agents, width),
            "known": width,  # room for the sum of the two
            "volumes": agents,  # ln det(λI + A) of what each has fetched
            "is_here": whole(agents),  # 1 once it has pulled
            "factor": (size, size),
            "count_at": whole(sizes.groups),
            "ridge": float,
            "limit": float,  # of the rule
            "together": int,  # 1: all talk at once
            **TURN,
        }

    def start(self, s: Any, view: LocalView) -> None:
        """Take λ from the index, and what an empty model is like."""
        s.me.ridge = self.index.numbers(view)[0]
        s.me.together = int(self.growth is None)
        s.me.limit = self.threshold if self.growth is None else math.log1p(self.growth)
        s.volumes[:] = volume(s, s.totals)

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        s.is_here[s.me.agent] = 1
        rows.add(s.untold[s.me.agent], pull)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Let agents talk for whom it is time: uploads come before downloads."""
        agents, width, some_due = s.is_here.size, s.totals.size, False
        for agent in range(agents):
            due = s.is_here[agent] == 1 and is_due(s, agent)
            lengths[agent] = width if due else 0
            some_due = some_due or due
        for agent in range(agents):
            if s.me.together == 1 and some_due and s.is_here[agent] == 1:
                lengths[agent] = width
            lengths[agents + agent] = lengths[agent]
            if lengths[agent] > 0:
                rows.add(s.totals, s.untold[agent])
                rows.fill(s.untold[agent], 0.0)
        if some_due:
            now = volume(s, s.totals)
            for agent in range(agents):
                if lengths[agent] > 0:
                    rows.copy(s.fetched[agent], s.totals)
                    s.volumes[agent] = now

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write what the agent acts on: with a threshold also what it has not told."""
        rows.copy(totals, s.fetched[s.me.agent])
        if s.me.together == 1:
            rows.add(totals, s.untold[s.me.agent])
        about[AGENTS] = 1.0


def is_due(s: Any, agent: int) -> bool:
    """Return whether an agent has learned enough to talk."""
    pulls = 0.0
    for model in range(s.count_at.size):
        pulls += s.untold[agent, s.count_at[model]]
    if pulls == 0.0:
        return False
    rows.add_up(s.known, s.fetched[agent], s.untold[agent])
    gained = volume(s, s.known) - s.volumes[agent]
    return bool(pulls * gained >= s.me.limit if s.me.together == 1 else gained > s.me.limit)


def volume(s: Any, values: Any) -> float:
    """Return ln det(λI + A), added up over the models."""
    size, total = s.factor.shape[0], 0.0
    for model in range(s.count_at.size):
        at = model * (values.size // s.count_at.size) + size
        for i in range(size):
            for j in range(i, size):
                s.factor[j, i] = values[at] + (s.me.ridge if i == j else 0.0)
                at += 1
        cholesky(s.factor, size, s.me.ridge)
        for i in range(size):
            total += 2.0 * math.log(s.factor[i, i])
    return total

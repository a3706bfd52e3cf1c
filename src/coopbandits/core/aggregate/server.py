"""A server that agents tell of their pulls only when these have taught them enough.

What linear bandits with a server do, as baselines: their rules when to talk are about determinants
of what was added up, so the statistic is that of linear models. Every upload and every download is
a message of all registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from coopbandits.core.aggregate.central import CentralAggregation, Controller, central_view
from coopbandits.core.checks import require_positive
from coopbandits.core.choice import choose_arm
from coopbandits.core.errors import InputError
from coopbandits.core.statistic.linear import in_context

if TYPE_CHECKING:
    from coopbandits.core.contract import Context, Vector
    from coopbandits.core.index import Index
    from coopbandits.core.statistic import Registers
    from coopbandits.core.statistic.linear import LinearRegisters


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
        """Take one of the two."""
        if (self.threshold is None) == (self.growth is None):
            raise InputError(
                f"server-totals has threshold {self.threshold} and growth {self.growth}; give "
                "exactly one of them, such as server-totals:growth=0.01"
            )
        for name in ("threshold", "growth"):
            if getattr(self, name) is not None:
                require_positive(name, getattr(self, name))

    def make(self, index: Index, registers: Registers, sigma: float) -> ServerController:
        """Return the server and its agents."""
        if not registers.num_features:
            raise InputError(
                f"server-totals adds up linear models, and {index.spelling} plays on none; combine "
                "it with lin-ucb or lin-ts"
            )
        return ServerController(self, index, registers, sigma)


class ServerController(Controller):
    """What the server knows, and what every agent has fetched and not told."""

    def __init__(
        self, spec: ServerTotals, index: Index, registers: Registers, sigma: float
    ) -> None:
        super().__init__(index, registers, sigma, delay=-1)
        self.spec, self.linear = spec, cast("LinearRegisters", registers)
        self.ridge = index.numbers(central_view(registers.num_arms, sigma))[0]
        self.fetched: dict[int, Vector] = {}
        self.untold: dict[int, Vector] = {}
        self.agent = 0

    def turn(self, agent: int) -> None:
        """Let an agent choose and observe next."""
        self.agent = agent
        if agent not in self.fetched:
            self.fetched[agent], self.untold[agent] = self.linear.zeros(), self.linear.zeros()

    def choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Context | None = None
    ) -> int:
        """Return the arm of the agent whose turn it is, on what it knows."""
        known = self.fetched[self.agent]
        if self.spec.growth is None:
            known = known + self.untold[self.agent]
        time = max(2.0, float(self.linear.version(known)))
        estimate = self.linear.read(known, time=time, num_agents=1.0)
        estimate = in_context(estimate, cast("Context", context))
        return choose_arm(self.index, self.numbers, estimate, word, allowed)

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Take in one reward of that agent."""
        self.linear.record(self.untold[self.agent], arm, reward, context)

    def end_round(self) -> Sequence[Vector]:
        """Exchange what the rule says; return the uploads, then the downloads."""
        due = [agent for agent in self.fetched if self._is_due(agent)]
        if due and self.spec.growth is None:
            due = list(self.fetched)
        uploads = [self.untold[agent] for agent in due]
        for agent, upload in zip(due, uploads, strict=True):
            self.totals[:] = self.totals + upload
            self.untold[agent] = self.linear.zeros()
        for agent in due:
            self.fetched[agent] = self.totals.copy()
        return [*uploads, *(self.fetched[agent] for agent in due)]

    def _is_due(self, agent: int) -> bool:
        fetched, untold = self.fetched[agent], self.untold[agent]
        pulls = float(self.linear.version(untold))
        if not pulls:
            return False
        before = self.linear.log_det(fetched, self.ridge)
        gained = self.linear.log_det(fetched + untold, self.ridge) - before
        if self.spec.growth is not None:
            return gained > math.log1p(self.spec.growth)
        return pulls * gained >= cast("float", self.spec.threshold)

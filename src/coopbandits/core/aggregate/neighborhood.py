"""Pulls told to the neighbours: every agent counts its own pulls and those of its neighbours.

A message is the list of pulls since the last round, two values (arm, reward) each. What a
neighbour pulls in one round is known in the next; what others pull is never known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import Aggregation, Machine, MessageSize
from coopbandits.core.aggregate.exchange import check_arms, read_items
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, State, Vector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coopbandits.core.statistic import Registers


@dataclass(frozen=True)
class NeighborhoodSums(Aggregation):
    """Own pulls and those of the neighbours.

    Notes
    -----
    Knows who its neighbours are. Sends 2 values, arm and reward, to each of them for every pull.
    """

    name: ClassVar[str] = "neighborhood-sums"

    def make(self, view: LocalView, registers: Registers) -> NeighborhoodSumsMachine:
        """Return the machine of one agent."""
        del view
        return NeighborhoodSumsMachine(registers)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size for one pull a round."""
        del registers, max_agents
        return MessageSize(2, 2, "with one pull a round")


class NeighborhoodSumsMachine(Machine):
    """Totals of the closed neighbourhood.

    Notes
    -----
    The time is the number of own pulls, as one agent's without communication. A lost message is
    lost for good, one delivered again counts again, and what is observed between sending and
    receiving is told to nobody.
    """

    fields = ("totals", "num_pulls", "news")
    tables = ("news",)

    def __init__(self, registers: Registers) -> None:
        self.registers = registers
        self.totals = registers.zeros()
        self.num_pulls = 0
        self.news = np.empty((0, 2))  # own pulls of this round: arm, reward

    def estimate(self) -> Estimate:
        """Return the totals of the closed neighbourhood."""
        time = max(2.0, float(self.num_pulls))
        return self.registers.read(self.totals, time=time, num_agents=1.0)

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull, and put it down for the neighbours."""
        self.registers.add(self.totals, arm, reward)
        self.num_pulls += 1
        self.news = np.vstack([self.news, [arm, reward]])

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return the own pulls of this round, or None if there are none."""
        del neighbor  # all get the same
        return self.news.flatten() if self.news.size else None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Add what the neighbours pulled."""
        num_arms = self.registers.num_arms
        heard = [read_items(message, 2, num_arms, j) for j, message in messages.items()]
        for arm, reward in (item for items in heard for item in items.tolist()):
            self.registers.add(self.totals, int(arm), reward)
        self.news = np.empty((0, 2))
        self.registers.age(self.totals)

    def check_state(self, values: State) -> None:
        """Refuse pulls of arms that do not exist."""
        require_count("state field num_pulls", values["num_pulls"], least=len(values["news"]))
        check_arms(values["news"][:, 0], self.registers.num_arms, "state field news")
